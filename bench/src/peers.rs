//! Other libraries (peers) from PyPI, in a virtual environment.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A Python interpreter with installed packages.
pub(crate) struct Python {
    program: PathBuf,
    /// The processor whose kernels OpenBLAS uses; `None` for the processor that it detects.
    blas_core: Option<&'static str>,
}

/// The folder of benchmark files, `target/bench` of the workspace.
pub(crate) fn folder() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench");
    std::fs::create_dir_all(&folder).map_err(|e| format!("cannot create {}: {e}", folder.display()))?;
    folder.canonicalize().map_err(|e| e.to_string())
}

impl Python {
    /// Creates the environment on the first call and installs missing packages. If the environment variable `NUQ_BENCH_PYTHON` is
    /// set, it names a Python that has all packages.
    pub(crate) fn with(packages: &[&str]) -> Result<Self, String> {
        if let Some(program) = std::env::var_os("NUQ_BENCH_PYTHON") {
            return Ok(Self { program: program.into(), blas_core: None });
        }
        let venv = folder()?.join("venv");
        let program = venv.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
        if !program.exists() {
            run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        }
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        run(Command::new(&program).args(install).args(packages))?;
        Ok(Self { program, blas_core: None })
    }

    /// Chooses the kernels of OpenBLAS with which a script is fastest, and returns their name. The script prints its time.
    ///
    /// The OpenBLAS in the packages of a peer can be older than the processor. It then uses kernels for SSE3, which need four times as
    /// long as those for AVX-512, and the comparison with the peer would depend on the age of the processor.
    pub(crate) fn choose_blas_core(&mut self, script: &str) -> Result<&'static str, String> {
        let mut fastest = f64::INFINITY;
        let mut chosen = None;
        for core in [None].into_iter().chain(supported_blas_cores().into_iter().map(Some)) {
            self.blas_core = core;
            let printed = self.script(script, &[])?;
            let seconds: f64 = printed.trim().parse().map_err(|_| format!("no time in {printed:?}"))?;
            // The detected kernels are kept if others are not clearly faster.
            if seconds < 0.95 * fastest {
                (fastest, chosen) = (seconds, core);
            }
        }
        self.blas_core = chosen;
        Ok(chosen.unwrap_or("detected"))
    }

    /// Runs a script with as many threads as the thread pool of this program has, and returns its standard output.
    pub(crate) fn script(&self, script: &str, arguments: &[&str]) -> Result<String, String> {
        let threads = rayon::current_num_threads().to_string();
        let mut command = Command::new(&self.program);
        command.args(["-c", script]).args(arguments);
        command.env("OMP_NUM_THREADS", &threads).env("OPENBLAS_NUM_THREADS", &threads);
        if let Some(core) = self.blas_core {
            command.env("OPENBLAS_CORETYPE", core);
        }
        run(&mut command)
    }
}

/// Names of kernels of OpenBLAS that this processor can run.
fn supported_blas_cores() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        let haswell = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let skylake = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512cd");
        let supported = [("Haswell", haswell), ("SkylakeX", skylake)];
        supported.into_iter().filter(|(_, is_supported)| *is_supported).map(|(name, _)| name).collect()
    }
    #[cfg(not(target_arch = "x86_64"))]
    vec![]
}

/// Runs a command and returns its standard output. An error contains its standard error.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|e| format!("cannot run {name}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Writes values as a raw little-endian file for `numpy.fromfile`.
pub(crate) fn write_raw(name: &str, values: &[f32]) -> Result<PathBuf, String> {
    let path = folder()?.join(name);
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    std::fs::write(&path, bytes).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    Ok(path)
}

/// Reads a raw little-endian file.
pub(crate) fn read_raw(path: &Path) -> Result<Vec<f32>, String> {
    let bytes = std::fs::read(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    Ok(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
}
