//! The Python package as its users get it: a wheel, in a fresh environment, with its tests beside it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::steps::{Failed, root, run, runs, skip};

/// What the tests need; those of PyTorch, tqdm and Arrow are skipped unless they are installed.
const PACKAGES: [&str; 7] =
    ["maturin>=1.9,<2", "numpy", "pytest", "scikit-learn", "pandas", "joblib", "mypy"];

/// The largest wheel, in bytes.
const LARGEST: u64 = 10_000_000;

/// Builds the wheel, installs it into a fresh environment and runs the tests of `bindings/python` there.
pub(crate) fn test() -> Result<(), Failed> {
    let Some(python) = ["python3", "python"].into_iter().find(|name| runs(name, &["-m", "venv", "-h"]))
    else {
        skip("the Python package", "install Python 3.10 or newer, with its module venv");
        return Ok(());
    };
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let folder = target.join("python");
    let (environment, wheels) = (folder.join("venv"), folder.join("wheels"));
    run(python, &["-m", "venv", "--clear", &text(&environment)], &[], &root())?;
    let python = text(&environment.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" }));
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    if run(&python, &[&pip[..], &PACKAGES].concat(), &[], &root()).is_err() {
        skip(
            "the Python package",
            "its tests need numpy, scikit-learn and others, which pip could not install",
        );
        return Ok(());
    }

    // The profile that everything else was just compiled with, so that little is left to compile.
    if wheels.exists() {
        fs::remove_dir_all(&wheels).map_err(|e| Failed(format!("{}: {e}", wheels.display())))?;
    }
    let bindings = root().join("bindings/python");
    let build = ["-m", "maturin", "build", "--quiet", "--profile", "dev", "--interpreter", &python];
    run(&python, &[&build[..], &["--out", &text(&wheels)]].concat(), &[], &bindings)?;
    let wheel = only_file(&wheels)?;
    let size = fs::metadata(&wheel).map_or(0, |file| file.len());
    if size > LARGEST {
        return Err(Failed(format!("{} has {size} bytes, more than {LARGEST}", wheel.display())));
    }
    run(&python, &[&pip[..], &["--no-deps", &text(&wheel)]].concat(), &[], &root())?;

    let binary = text(&target.join("debug").join(format!("nuq{}", std::env::consts::EXE_SUFFIX)));
    run(&python, &["-m", "pytest"], &[("NUQ_BINARY", &binary)], &bindings)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The file of a folder that has one.
fn only_file(folder: &Path) -> Result<PathBuf, Failed> {
    let files = fs::read_dir(folder).map_err(|e| Failed(format!("{}: {e}", folder.display())))?;
    let found = files.filter_map(|file| file.ok().map(|file| file.path())).next();
    found.ok_or_else(|| Failed(format!("{} is empty", folder.display())))
}
