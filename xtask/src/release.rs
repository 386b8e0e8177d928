//! `cargo xtask release`: builds the files of a release, installs them in clean environments and runs the examples of the README with them
//! (`xtask/scripts/tour.py`).
//!
//! The wheel is built from the unpacked source distribution, which shows that the source distribution is complete. Paths of this
//! machine are replaced in the compiled code, because its bytes should not depend on the folder of the build (docs/releasing.md).

use std::fs;
use std::path::{Path, PathBuf};

use crate::python::{Environment, check_wheel_size, only_file, target, text};
use crate::steps::{Failed, output, root, run, runs, skip};

/// Oldest Linux on which the wheel runs: a system with glibc 2.17, which is also the oldest glibc that Rust supports.
const COMPATIBILITY: &str = "manylinux_2_17";

/// The profile of all builds, in Cargo.toml.
const PROFILE: &str = "dist";

/// Interpreters of Python with which the wheel is tested, if they are on `PATH`.
const INTERPRETERS: [&str; 5] = ["python3.10", "python3.11", "python3.12", "python3.13", "python3.14"];

/// Packages that build a release. On Linux, zig is the C compiler and linker: it links for an old glibc and for musl.
const TOOLS: &[&str] = if cfg!(target_os = "linux") {
    &["maturin>=1.9,<2", "ziglang", "cargo-zigbuild"]
} else {
    &["maturin>=1.9,<2"]
};

/// Builds and tests a release in `target/dist`. If `other` is given, the checksums are compared with this file.
pub(crate) fn release(other: Option<&str>) -> Result<(), Failed> {
    let compared = other.map(copy_checksums).transpose()?;
    let Some(tools) = Environment::fresh("release-tools", TOOLS)? else {
        return Err(Failed("release: no Python environment".to_owned()));
    };
    let release = Release::new(tools)?;
    release.script("crates.py", &[])?;
    release.write_changes()?;
    let source = release.source_distribution()?;
    let wheel = release.wheel(&source)?;
    let binary = release.binary(&source)?;
    let components = release.file(&format!("sbom-{}.cdx.json", release.host));
    release.script("sbom.py", &[&release.host, &text(&components)])?;
    let paths = machine_paths(&release.build);
    let paths = std::iter::once(text(&release.files)).chain(paths).collect::<Vec<_>>();
    release.script("paths.py", &paths.iter().map(String::as_str).collect::<Vec<_>>())?;
    release.test_wheel(&wheel)?;
    if let Some(binary) = &binary {
        release.tour(&release.tools, binary, &[])?;
    }
    let files = text(&release.files);
    release.script("checksums.py", &[&[files.as_str()][..], compared.as_deref().as_slice()].concat())
}

/// Copies the checksums of another build, because the file may be in the folder that this build empties. Returns the path of the copy.
fn copy_checksums(path: &str) -> Result<String, Failed> {
    let copy = target().join("compared-SHA256SUMS");
    fs::copy(path, &copy).map_err(|e| Failed(format!("{path}: {e}")))?;
    Ok(text(&copy))
}

struct Release {
    /// The environment of the build tools.
    tools: Environment,
    /// The folder of the finished files.
    files: PathBuf,
    /// The folder of sources and compiled files.
    build: PathBuf,
    /// The platform of the compiler, such as `x86_64-unknown-linux-gnu`.
    host: String,
    /// Environment variables of all builds.
    variables: Vec<(&'static str, String)>,
}

impl Release {
    /// Empties the folders `files` and `build`. The compiled files are removed too, because all sources have the time of the commit, so
    /// cargo would not notice that a source has changed since an earlier build.
    fn new(tools: Environment) -> Result<Self, Failed> {
        let (files, build) = (target().join("dist"), target().join("dist-build"));
        for folder in [&files, &build] {
            if folder.exists() {
                fs::remove_dir_all(folder).map_err(|e| Failed(format!("{}: {e}", folder.display())))?;
            }
            fs::create_dir_all(folder).map_err(|e| Failed(format!("{}: {e}", folder.display())))?;
        }
        let host = output("rustc", &["-vV"], &root())?;
        let host = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default().to_owned();
        let time = output("git", &["log", "-1", "--format=%ct"], &root())?.trim().to_owned();
        // `cargo zigbuild` and zig are in the environment of the tools, so its folder is added to PATH.
        let programs = tools.python.parent().expect("the interpreter is in a folder").to_owned();
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(std::iter::once(programs).chain(std::env::split_paths(&inherited)));
        let path = path.map_err(|e| Failed(format!("PATH: {e}")))?.to_string_lossy().into_owned();
        let variables =
            [reproducible_flags(&build), vec![("SOURCE_DATE_EPOCH", time), ("PATH", path)]].concat();
        Ok(Self { tools, files, build, host, variables })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.files.join(name)
    }

    fn run(&self, program: &str, arguments: &[&str], folder: &Path) -> Result<(), Failed> {
        let variables: Vec<_> = self.variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        run(program, arguments, &variables, folder)
    }

    /// Runs a Python module of the tools.
    fn tool(&self, module: &str, arguments: &[&str], folder: &Path) -> Result<(), Failed> {
        self.run(&text(&self.tools.python), &[&["-m", module][..], arguments].concat(), folder)
    }

    /// Runs a script of `xtask/scripts`.
    fn script(&self, name: &str, arguments: &[&str]) -> Result<(), Failed> {
        let script = text(&root().join("xtask/scripts").join(name));
        self.run(&text(&self.tools.python), &[&[script.as_str()][..], arguments].concat(), &root())
    }

    /// Writes the section of the changelog about this version to `CHANGES.md`.
    fn write_changes(&self) -> Result<(), Failed> {
        let changelog = read(&root().join("CHANGELOG.md"))?;
        let version = workspace_version(&read(&root().join("Cargo.toml"))?);
        let changes = section(&changelog, &version).or_else(|| {
            skip(
                &format!("section {version} of CHANGELOG.md"),
                "it does not exist: the section Unreleased is used",
            );
            section(&changelog, "Unreleased")
        });
        let changes = changes.ok_or_else(|| {
            Failed(format!("CHANGELOG.md has no text in the sections {version} and Unreleased"))
        })?;
        let path = self.file("CHANGES.md");
        fs::write(&path, changes).map_err(|e| Failed(format!("{}: {e}", path.display())))
    }

    /// Writes the source distribution and unpacks it. Returns the folder with the sources.
    fn source_distribution(&self) -> Result<PathBuf, Failed> {
        self.tool("maturin", &["sdist", "--out", &text(&self.files)], &root().join("bindings/python"))?;
        let archive = find(&self.files, ".tar.gz")?;
        let sources = self.build.join("source");
        fs::create_dir_all(&sources).map_err(|e| Failed(format!("{}: {e}", sources.display())))?;
        self.tool("tarfile", &["--extract", &text(&archive), &text(&sources)], &root())?;
        only_file(&sources)
    }

    fn wheel(&self, source: &Path) -> Result<PathBuf, Failed> {
        let build = [
            "build",
            "--quiet",
            "--profile",
            PROFILE,
            "--compression-level",
            "9",
            "--out",
            &text(&self.files),
        ];
        let linux = ["--zig", "--compatibility", COMPATIBILITY];
        let platform = if cfg!(target_os = "linux") { &linux[..] } else { &[] };
        self.tool("maturin", &[&build[..], platform].concat(), source)?;
        let wheel = find(&self.files, ".whl")?;
        check_wheel_size(&wheel)?;
        Ok(wheel)
    }

    /// Builds the program `nuq`: on Linux without shared libraries, on other systems with the defaults of cargo. `None`, with a notice, if
    /// the standard library of the platform is missing and cannot be installed.
    fn binary(&self, source: &Path) -> Result<Option<PathBuf>, Failed> {
        let platform = self.host.replace("-linux-gnu", "-linux-musl");
        if platform != self.host && !runs("rustup", &["target", "add", &platform]) {
            skip("the static binary", &format!("rustup target add {platform}"));
            return Ok(None);
        }
        let command = if cfg!(target_os = "linux") { "zigbuild" } else { "build" };
        let package = ["--profile", PROFILE, "--package", "nuq-cli", "--features", "parquet"];
        let options = ["--target", &platform];
        self.run("cargo", &[&[command][..], &package, &options].concat(), source)?;
        let suffix = std::env::consts::EXE_SUFFIX;
        let version = workspace_version(&read(&root().join("Cargo.toml"))?);
        let built = self.build.join("target").join(&platform).join(PROFILE).join(format!("nuq{suffix}"));
        let file = self.file(&format!("nuq-{version}-{platform}{suffix}"));
        fs::copy(&built, &file).map_err(|e| Failed(format!("{}: {e}", built.display())))?;
        Ok(Some(file))
    }

    /// Installs the wheel in a new environment of each interpreter that exists, and runs the tour there.
    fn test_wheel(&self, wheel: &Path) -> Result<(), Failed> {
        let wheel = text(wheel);
        let found: Vec<&str> = INTERPRETERS.into_iter().filter(|name| runs(name, &["-c", ""])).collect();
        let environments = if found.is_empty() {
            vec![Environment::fresh("dist-build/python", &[&wheel])?]
        } else {
            let fresh = |name: &&str| Environment::fresh_with(name, &format!("dist-build/{name}"), &[&wheel]);
            found.iter().map(fresh).collect::<Result<_, _>>()?
        };
        for environment in environments {
            let environment = environment.ok_or_else(|| Failed(format!("pip install {wheel}")))?;
            let programs = environment.python.parent().expect("the interpreter is in a folder");
            let program = programs.join(format!("nuq{}", std::env::consts::EXE_SUFFIX));
            self.tour(&environment, &program, &["--python"])?;
        }
        Ok(())
    }

    fn tour(&self, environment: &Environment, program: &Path, options: &[&str]) -> Result<(), Failed> {
        let (script, program) = (text(&root().join("xtask/scripts/tour.py")), text(program));
        let arguments = [&[script.as_str(), &program][..], options].concat();
        run(&text(&environment.python), &arguments, &[], &root())
    }
}

/// Paths of this machine that compiled code would contain: the folder of the build and the folder of cargo's downloads.
fn machine_paths(build: &Path) -> Vec<String> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    std::iter::once(text(build)).chain(home.as_deref().map(text)).collect()
}

/// Variables that replace the paths of this machine in compiled code.
fn reproducible_flags(build: &Path) -> Vec<(&'static str, String)> {
    let paths: Vec<_> = machine_paths(build).into_iter().zip(["/build", "/cargo"]).collect();
    let flags = |option: &str| {
        let flags = paths.iter().map(|(path, name)| format!("{option}={path}={name}"));
        flags.collect::<Vec<_>>().join(" ")
    };
    let mut variables =
        vec![("RUSTFLAGS", flags("--remap-path-prefix")), ("CARGO_TARGET_DIR", text(&build.join("target")))];
    if !cfg!(windows) {
        variables.push(("CFLAGS", flags("-ffile-prefix-map")));
    }
    variables
}

/// The version of the crates, from the text of Cargo.toml.
fn workspace_version(manifest: &str) -> String {
    let package = manifest.split("[workspace.package]").nth(1).unwrap_or_default();
    let version = package.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    version.unwrap_or_default().to_owned()
}

/// The text of a section of the changelog, without its heading.
fn section(changelog: &str, name: &str) -> Option<String> {
    let is_start =
        |line: &&str| line.strip_prefix("## ").is_some_and(|title| title.split(' ').next() == Some(name));
    let lines = changelog.lines().skip_while(|line| !is_start(line));
    let lines: Vec<&str> = lines.skip(1).take_while(|line| !line.starts_with("## ")).collect();
    let text = lines.join("\n").trim().to_owned();
    (!text.is_empty()).then(|| text + "\n")
}

fn read(path: &Path) -> Result<String, Failed> {
    fs::read_to_string(path).map_err(|e| Failed(format!("{}: {e}", path.display())))
}

/// The file in a folder whose name ends with `end`.
fn find(folder: &Path, end: &str) -> Result<PathBuf, Failed> {
    let files = fs::read_dir(folder).map_err(|e| Failed(format!("{}: {e}", folder.display())))?;
    let mut files = files.filter_map(|file| file.ok().map(|file| file.path()));
    let found = files.find(|path| path.to_string_lossy().ends_with(end));
    found.ok_or_else(|| Failed(format!("{} has no file *{end}", folder.display())))
}

#[cfg(test)]
mod tests {
    use super::{section, workspace_version};

    #[test]
    fn a_section_of_the_changelog_ends_at_the_next_heading() {
        let text = "# Changelog\n\n## Unreleased\n\n## 0.2.0 (2026-01-02)\n\n### Added\n\n- A.\n\n## 0.1.0\n\n- B.\n";
        assert_eq!(section(text, "0.2.0").as_deref(), Some("### Added\n\n- A.\n"));
        assert_eq!(section(text, "0.1.0").as_deref(), Some("- B.\n"));
        assert_eq!(section(text, "Unreleased"), None);
        assert_eq!(section(text, "0.1"), None);
    }

    #[test]
    fn the_version_is_read_from_the_workspace_package() {
        let manifest =
            "[workspace]\nversion = \"9\"\n[workspace.package]\nedition = \"2024\"\nversion = \"1.2.3\"\n";
        assert_eq!(workspace_version(manifest), "1.2.3");
    }
}
