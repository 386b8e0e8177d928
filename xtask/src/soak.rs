//! The server under load for a long time: the program `reliability/soak.py`.

use crate::build_program;
use crate::python::program;
use crate::steps::{Failed, cargo, root, run};

/// `cargo xtask soak --minutes N [--release]`.
pub(crate) fn soak(arguments: &[&str]) -> Result<(), Failed> {
    let (minutes, is_release) = match arguments {
        ["--minutes", minutes] => (minutes, false),
        ["--minutes", minutes, "--release"] | ["--release", "--minutes", minutes] => (minutes, true),
        _ => return Err(Failed("soak: the options are --minutes NUMBER and --release".to_owned())),
    };
    if !minutes.parse::<f64>().is_ok_and(|minutes| minutes.is_finite() && minutes > 0.0) {
        return Err(Failed(format!("soak: --minutes {minutes} is not a positive number")));
    }
    let nuq = if is_release {
        cargo(&["build", "--release", "--package", "nuq-cli", "--features", "parquet"])?;
        program("release")
    } else {
        build_program()?
    };
    run("python3", &["reliability/soak.py", "--nuq", &nuq, "--minutes", minutes], &[], &root())
}
