//! The server under load for a long time: the program `reliability/soak.py`.

use crate::python::{target, text};
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
    // Without --release, the packages and features of `cargo xtask test`, so that nothing is compiled again.
    let mut build = vec!["build", "--workspace", "--bin", "nuq", "--features", "nuq-cli/parquet"];
    if is_release {
        build.push("--release");
    }
    cargo(&build)?;
    let folder = target().join(if is_release { "release" } else { "debug" });
    let nuq = text(&folder.join(format!("nuq{}", std::env::consts::EXE_SUFFIX)));
    run("python3", &["reliability/soak.py", "--nuq", &nuq, "--minutes", minutes], &[], &root())
}
