//! Tests and benchmarks of the Python package, installed from a wheel in a new virtual environment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::steps::{Failed, cargo, output, root, run, runs, skip};

/// Packages that the tests need. Tests with PyTorch are skipped unless it is installed, because it is a large download.
const PACKAGES: [&str; 13] = [
    "maturin>=1.9,<2",
    "numpy",
    "pytest",
    "pytest-xdist",
    "scikit-learn",
    "pandas",
    "polars",
    "pyarrow",
    "fsspec",
    "joblib",
    "matplotlib",
    "tqdm",
    "mypy",
];

/// Packages of the engines of `cargo xtask test cluster`: Ray, Spark and vector databases.
const ENGINES: [&str; 7] =
    ["ray[data]", "pyspark", "pgserver", "psycopg[binary]", "lancedb", "qdrant-client", "faiss-cpu"];

/// Packages of `cargo xtask test ecosystem` in addition to [`PACKAGES`]: MLflow, the libraries of the migration guide, the programs that
/// build the guide, and the libraries with architectures of guarded networks.
const ECOSYSTEM: [&str; 13] = [
    "mlflow-skinny>=3",
    "pyod",
    "cleanlab",
    "mapie>=1,<2",
    "pytorch-ood>=0.4",
    "mkdocs-material>=9.5,<10",
    "mkdocstrings[python]>=0.27",
    "torchvision",
    "timm",
    "transformers",
    "sentence-transformers",
    "onnx",
    "onnxruntime",
];

/// A statement that imports the modules of [`ECOSYSTEM`]. It must succeed, because tests of a missing module would be skipped.
const ECOSYSTEM_MODULES: &str = "import mlflow, pyod, cleanlab, mapie, pytorch_ood, mkdocs, torch, torchvision, timm, transformers, \
                                 sentence_transformers, onnx, onnxruntime";

/// The tests of `cargo xtask test ecosystem`, and the pages of the guide that need its packages.
const ECOSYSTEM_TESTS: [&str; 12] = [
    "tests/test_mlflow.py",
    "tests/test_outliers.py",
    "tests/test_tables.py",
    "tests/test_plot.py",
    "tests/test_migrations.py",
    "tests/test_site.py",
    "tests/test_torch_guard.py",
    "tests/test_docs.py::test_snippets[outputs.md]",
    "tests/test_docs.py::test_snippets[plots.md]",
    "tests/test_docs.py::test_snippets[migrating-from-others.md]",
    "tests/test_docs.py::test_snippets[pytorch.md]",
    "tests/test_docs.py::test_snippets[onnx.md]",
];

/// Tests of the code that reads and keeps memory of Python, and of shared models. `cargo xtask sanitize address` runs them.
const SANITIZED_TESTS: [&str; 10] = [
    "tests/test_input.py",
    "tests/test_training_data.py",
    "tests/test_update.py",
    "tests/test_persistence.py",
    "tests/test_result.py",
    "tests/test_sample_weight.py",
    "tests/test_sets.py",
    "tests/test_sharded.py",
    "tests/test_threads.py",
    "tests/test_stress.py",
];

/// The Debian package with the Java runtime that Spark needs.
const JAVA: &str = "openjdk-17-jre-headless";

/// Seconds after which a test that starts engines has failed.
const TEST_SECONDS: &str = "240";
/// Seconds after which a run of such tests has failed.
const RUN_SECONDS: &str = "900";

/// Largest size of the wheel of a release, in bytes.
const MAX_WHEEL_BYTES: u64 = 15_000_000;

/// Builds the wheel, installs it into a new environment and runs the tests of `bindings/python` there, and those of the figure that
/// `reliability` draws.
pub(crate) fn test() -> Result<(), Failed> {
    let Some(environment) = Environment::fresh("python", &PACKAGES)? else { return Ok(()) };
    // The other tests have the same profile, so compiled dependencies are shared.
    environment.install_wheel("dev")?;
    // One process per processor. A process whose tests are done takes tests of another.
    environment.pytest(&["--numprocesses", "auto", "--dist", "worksteal"])?;
    environment.pytest(&["../../reliability"])
}

/// The command that runs [`SANITIZED_TESTS`] with an extension module that is compiled with a sanitizer; `None`, with a notice, without Python.
/// `build` are the variables of the build, and `runtime` is the library of the sanitizer, which is loaded before the interpreter.
pub(crate) fn sanitized_tests(
    platform: &str,
    build: &[(&str, &str)],
    runtime: &str,
) -> Result<Option<Command>, Failed> {
    let Some(environment) = Environment::fresh("python-sanitize", &PACKAGES)? else { return Ok(None) };
    // The library of the sanitizer is not part of the wheel, so `auditwheel` would reject it.
    environment.install_wheel_with("dev", &["--target", platform, "--auditwheel", "skip"], build)?;
    let mut command = Command::new(&environment.python);
    command.args(["-m", "pytest"]).args(SANITIZED_TESTS).current_dir(bindings());
    command.envs(environment.test_variables()?).env("LD_PRELOAD", runtime);
    Ok(Some(command))
}

/// Runs the tests that need PyTorch, including the tests of the laboratory's exports, in the environment of [`test`].
pub(crate) fn test_torch() -> Result<(), Failed> {
    let Some(environment) = Environment::extended("tests with PyTorch", &["torch", "transformers"]) else {
        return Ok(());
    };
    environment.pytest(&[
        "tests/test_torch.py",
        "tests/test_device.py",
        "tests/test_input.py",
        "../../lab/python",
    ])
}

/// Runs the tests of MLflow, of the libraries in the migration guide, of the guide as a site, and of guarded networks, in the environment
/// of [`test`]. Networks have random weights, so only the packages are downloaded.
pub(crate) fn test_ecosystem() -> Result<(), Failed> {
    let Some(environment) = Environment::extended("tests with other libraries", &ECOSYSTEM) else {
        return Ok(());
    };
    run(&text(&environment.python), &["-c", ECOSYSTEM_MODULES], &[], &root())?;
    environment.pytest(&ECOSYSTEM_TESTS)
}

/// Runs the tests that need Ray, Spark or a vector database, and the examples of `docs/scale-out.md`, in an environment of their own.
pub(crate) fn test_cluster() -> Result<(), Failed> {
    let packages = [&["maturin>=1.9,<2", "numpy", "pytest>=9", "pandas", "pyarrow"][..], &ENGINES].concat();
    let Some(environment) = Environment::fresh("python-cluster", &packages)? else { return Ok(()) };
    environment.install_wheel("dev")?;
    environment.pytest_engines(&["tests/test_stores.py"])?;
    environment.pytest_engines(&["tests/test_ray.py"])?;
    if !has_java() {
        skip(
            "Spark and the examples of docs/scale-out.md",
            "install Java 17 or newer, for example the package openjdk-17-jre-headless of Debian",
        );
        return Ok(());
    }
    environment.pytest_engines(&["tests/test_spark.py"])?;
    // A process of its own: relative paths in Spark refer to the folder in which its Java process was started.
    environment.pytest_engines(&["tests/test_docs.py::test_snippets[scale-out.md]"])
}

/// Whether Java is installed. If it is not, `apt-get` installs it if this works without input of the user.
fn has_java() -> bool {
    let is_installed = || runs("java", &["-version"]);
    let install = ["install", "-qq", "-y", "--no-install-recommends", JAVA];
    is_installed() || (runs("apt-get", &["update", "-qq"]) && runs("apt-get", &install) && is_installed())
}

/// Checks `nuq serve` with clients of the Open Inference Protocol from PyPI, and with the configuration of `examples/serving`.
pub(crate) fn test_serve_clients() -> Result<(), Failed> {
    let packages = ["numpy", "pyyaml", "tritonclient[http]", "open-inference-openapi"];
    let Some(environment) = Environment::fresh("serve-clients", &packages)? else { return Ok(()) };
    let binary = program("debug");
    let script = |name: &str| {
        let path = format!("crates/nuq-server/tests/{name}");
        run(&text(&environment.python), &[&path, &binary], &[], &root())
    };
    script("examples.py")?;
    script("clients.py")
}

/// Times fit and predict from Python and from Rust, both built for release.
pub(crate) fn bench() -> Result<String, Failed> {
    cargo(&["build", "--quiet", "--release", "--package", "nuq-bench", "--features", "peers"])?;
    let Some(environment) = Environment::fresh("python-bench", &["maturin>=1.9,<2", "numpy"])? else {
        return Err(Failed("bench/python.py: no Python environment".to_owned()));
    };
    environment.install_wheel("release")?;
    let rust = text(&target().join("release").join(format!("nuq-bench{}", std::env::consts::EXE_SUFFIX)));
    output(&text(&environment.python), &["bench/python.py", &rust], &root())
}

/// Compares prediction sets and intervals with MAPIE.
pub(crate) fn bench_sets() -> Result<String, Failed> {
    let packages = ["maturin>=1.9,<2", "numpy", "scikit-learn", "mapie>=1,<2"];
    let Some(environment) = Environment::fresh("python-sets", &packages)? else {
        return Err(Failed("bench/sets.py: no Python environment".to_owned()));
    };
    environment.install_wheel("release")?;
    output(&text(&environment.python), &["bench/sets.py"], &root())
}

/// Times a forward pass of a ResNet-50 with and without a guard.
pub(crate) fn bench_guard() -> Result<String, Failed> {
    let packages = ["maturin>=1.9,<2", "numpy", "torch", "torchvision"];
    let Some(environment) = Environment::fresh("python-guard", &packages)? else {
        return Err(Failed("bench/guard.py: no Python environment".to_owned()));
    };
    environment.install_wheel("release")?;
    output(&text(&environment.python), &["bench/guard.py"], &root())
}

/// Requests per second and latencies of `nuq serve`, compared with the Python package behind FastAPI and uvicorn. With the part
/// `memory`, the memory of `nuq serve` during a million requests instead.
pub(crate) fn bench_serve(part: &[&str]) -> Result<String, Failed> {
    build_release()?;
    let packages = ["maturin>=1.9,<2", "numpy", "fastapi", "uvicorn[standard]"];
    let Some(environment) = Environment::fresh("python-serve", &packages)? else {
        return Err(Failed("bench/serve.py: no Python environment".to_owned()));
    };
    environment.install_wheel("release")?;
    let binary =
        |name: &str| text(&target().join("release").join(format!("{name}{}", std::env::consts::EXE_SUFFIX)));
    let (nuq, load) = (binary("nuq"), binary("nuq-bench"));
    output(&text(&environment.python), &[&["bench/serve.py", &nuq, &load][..], part].concat(), &root())
}

/// Times of scoring a parquet file with `rows` rows by Ray, by Spark and by the command line.
pub(crate) fn bench_cluster(rows: &[&str]) -> Result<String, Failed> {
    build_release()?;
    let packages = ["maturin>=1.9,<2", "numpy", "pandas", "pyarrow", "ray[data]", "pyspark"];
    let Some(environment) = Environment::fresh("python-cluster-bench", &packages)? else {
        return Err(Failed("bench/cluster.py: no Python environment".to_owned()));
    };
    environment.install_wheel("release")?;
    if !has_java() {
        skip("the benchmark of Spark", "install Java 17 or newer");
    }
    let binary = program("release");
    output(&text(&environment.python), &[&["bench/cluster.py", &binary][..], rows].concat(), &root())
}

/// Builds the command line and the load generator with the same features for all benchmarks, so that they are compiled once.
fn build_release() -> Result<(), Failed> {
    let packages = ["--package", "nuq-cli", "--package", "nuq-bench", "--features", "nuq-cli/parquet"];
    cargo(&[&["build", "--quiet", "--release"][..], &packages].concat())
}

/// Simulates searches that are split over shards, and writes the tables of `docs/scale-out.md`.
pub(crate) fn write_shards() -> Result<(), Failed> {
    let Some(environment) = Environment::fresh("python-shards", &["maturin>=1.9,<2", "numpy"])? else {
        return Err(Failed("bench/shards.py: no Python environment".to_owned()));
    };
    environment.install_wheel("release")?;
    run(&text(&environment.python), &["bench/shards.py", "write"], &[], &root())
}

/// The target folder of cargo.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The path of the command line in the folder of a profile.
pub(crate) fn program(folder: &str) -> String {
    text(&target().join(folder).join(format!("nuq{}", std::env::consts::EXE_SUFFIX)))
}

/// A virtual environment under the target folder.
pub(crate) struct Environment {
    folder: PathBuf,
    /// The interpreter.
    pub(crate) python: PathBuf,
}

impl Environment {
    /// The environment of this name, which may not exist.
    pub(crate) fn named(name: &str) -> Self {
        let folder = target().join(name);
        let python =
            folder.join("venv").join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
        Self { folder, python }
    }

    /// The environment of [`test`] with further packages; `None`, with a notice, if it does not exist or they cannot be installed. The
    /// environment is shared, because PyTorch takes gigabytes and should be installed only once.
    fn extended(what: &str, packages: &[&str]) -> Option<Self> {
        let environment = Self::named("python");
        if !environment.python.exists() {
            skip(what, "run `cargo xtask test python` first: it creates the environment");
            return None;
        }
        if environment.pip(packages).is_err() {
            skip(what, &format!("pip could not install {}", packages.join(", ")));
            return None;
        }
        Some(environment)
    }

    /// Creates an environment with these packages; `None`, with a notice, if that is not possible.
    pub(crate) fn fresh(name: &str, packages: &[&str]) -> Result<Option<Self>, Failed> {
        let Some(python) = ["python3", "python"].into_iter().find(|name| runs(name, &["-m", "venv", "-h"]))
        else {
            skip("steps in a Python environment", "install Python 3.10 or newer with the module venv");
            return Ok(None);
        };
        Self::fresh_with(python, name, packages)
    }

    /// Creates an environment of an interpreter with these packages; `None`, with a notice, if they cannot be installed.
    pub(crate) fn fresh_with(python: &str, name: &str, packages: &[&str]) -> Result<Option<Self>, Failed> {
        let environment = Self::named(name);
        run(python, &["-m", "venv", "--clear", &text(&environment.folder.join("venv"))], &[], &root())?;
        if environment.pip(packages).is_err() {
            skip("steps in a Python environment", "pip could not install its packages");
            return Ok(None);
        }
        Ok(Some(environment))
    }

    fn pip(&self, packages: &[&str]) -> Result<(), Failed> {
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        run(&text(&self.python), &[&pip[..], packages].concat(), &[], &root())
    }

    /// Builds the wheel with a profile and installs it.
    fn install_wheel(&self, profile: &str) -> Result<(), Failed> {
        self.install_wheel_with(profile, &[], &[])
    }

    /// Builds the wheel with a profile, further arguments of maturin and environment variables, and installs it.
    fn install_wheel_with(
        &self,
        profile: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<(), Failed> {
        let wheels = self.folder.join("wheels");
        if wheels.exists() {
            fs::remove_dir_all(&wheels).map_err(|e| Failed(format!("{}: {e}", wheels.display())))?;
        }
        let python = text(&self.python);
        let build = ["-m", "maturin", "build", "--quiet", "--profile", profile, "--interpreter", &python];
        let out = text(&wheels);
        let arguments = [&build[..], &["--out", &out], arguments].concat();
        run(&python, &arguments, variables, &bindings())?;
        let wheel = only_file(&wheels)?;
        self.pip(&["--no-deps", &text(&wheel)])
    }

    /// Runs tests. The environment variable `NUQ_BINARY` names the command line that cargo built, and `NUQ_WHEEL` the wheel.
    fn pytest(&self, tests: &[&str]) -> Result<(), Failed> {
        self.python_tests(&[&["-m", "pytest"][..], tests].concat())
    }

    /// Runs tests that start engines, with a limited time. A test that exceeds its limit ends the run and prints the stack of each thread.
    /// At the end, all processes that the tests have started are ended.
    fn pytest_engines(&self, tests: &[&str]) -> Result<(), Failed> {
        let (python, per_test) = (text(&self.python), format!("faulthandler_timeout={TEST_SECONDS}"));
        let limits = ["-o", &per_test, "-o", "faulthandler_exit_on_timeout=true"];
        let bounded = ["tests/bounded.py", RUN_SECONDS, &python, "-m", "pytest", "--durations=5"];
        self.python_tests(&[&bounded[..], &limits, tests].concat())
    }

    fn python_tests(&self, arguments: &[&str]) -> Result<(), Failed> {
        let variables = self.test_variables()?;
        let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
        run(&text(&self.python), arguments, &variables, &bindings())
    }

    /// The environment variables that the tests read.
    fn test_variables(&self) -> Result<[(&'static str, String); 2], Failed> {
        let wheel = text(&only_file(&self.folder.join("wheels"))?);
        Ok([("NUQ_BINARY", program("debug")), ("NUQ_WHEEL", wheel)])
    }
}

fn bindings() -> PathBuf {
    root().join("bindings/python")
}

pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Rejects a wheel that is too large.
pub(crate) fn check_wheel_size(wheel: &Path) -> Result<(), Failed> {
    let size = fs::metadata(wheel).map_or(0, |file| file.len());
    if size > MAX_WHEEL_BYTES {
        return Err(Failed(format!("{} has {size} bytes, more than {MAX_WHEEL_BYTES}", wheel.display())));
    }
    Ok(())
}

/// The only file or folder of a folder.
pub(crate) fn only_file(folder: &Path) -> Result<PathBuf, Failed> {
    let files = fs::read_dir(folder).map_err(|e| Failed(format!("{}: {e}", folder.display())))?;
    let file = files.filter_map(|file| file.ok().map(|file| file.path())).next();
    file.ok_or_else(|| Failed(format!("{} is empty", folder.display())))
}
