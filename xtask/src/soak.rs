//! The server under load for a long time: the program `reliability/soak.py`.

use crate::build_program;
use crate::python::program;
use crate::steps::{Failed, cargo, root, run};

/// The shortest run that `reliability/soak.py` accepts, in minutes.
const SHORTEST: f64 = 0.5;

/// `cargo xtask soak --minutes N [--release]`.
pub(crate) fn soak(arguments: &[&str]) -> Result<(), Failed> {
    let (minutes, is_release) = options(arguments)?;
    let nuq = if is_release {
        cargo(&["build", "--release", "--package", "nuq-cli", "--features", "parquet"])?;
        program("release")
    } else {
        build_program()?
    };
    run("python3", &["reliability/soak.py", "--nuq", &nuq, "--minutes", minutes], &[], &root())
}

/// The number of minutes, and whether the program is built with optimizations.
fn options<'a>(arguments: &[&'a str]) -> Result<(&'a str, bool), Failed> {
    let (minutes, is_release) = match *arguments {
        ["--minutes", minutes] => (minutes, false),
        ["--minutes", minutes, "--release"] | ["--release", "--minutes", minutes] => (minutes, true),
        _ => return Err(Failed("soak: the options are --minutes NUMBER and --release".to_owned())),
    };
    if !minutes.parse::<f64>().is_ok_and(|number| number.is_finite() && number >= SHORTEST) {
        return Err(Failed(format!(
            "soak: --minutes is {minutes}: it must be a number of at least {SHORTEST}"
        )));
    }
    Ok((minutes, is_release))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_runs_are_refused_before_the_build() {
        assert_eq!(options(&["--minutes", "0.5"]).ok(), Some(("0.5", false)));
        assert_eq!(options(&["--release", "--minutes", "60"]).ok(), Some(("60", true)));
        for minutes in ["0.2", "0", "-1", "NaN", "inf", "ten"] {
            let error = options(&["--minutes", minutes]).err().unwrap().0;
            assert_eq!(error, format!("soak: --minutes is {minutes}: it must be a number of at least 0.5"));
        }
        assert!(options(&["--minutes"]).is_err());
    }
}
