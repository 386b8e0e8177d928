//! Runs the programs of the folder `reliability/faults`, which inject faults of the operating system.

use std::env::consts::OS;

use crate::build_program;
use crate::python::{Environment, text};
use crate::steps::{Failed, is_linux, root, run, runs};

/// `cargo xtask faults [PART] [--quick]`: makes system calls of the commands and of the service fail, one after the other, and tests full disks,
/// little memory, shortened files and clocks. `PART` is the beginning of the name of a part of these tests
/// (`reliability/faults/__main__.py`), such as `serve`. The numbers of the run are written to `target/reliability/faults.json`; those of a
/// quick run are only printed. On other systems than Linux, a notice is printed and nothing is run.
pub(crate) fn faults(arguments: &[&str]) -> Result<(), Failed> {
    let is_quick = arguments.contains(&"--quick");
    let rest: Vec<&str> = arguments.iter().copied().filter(|word| *word != "--quick").collect();
    let part = match rest[..] {
        [] => None,
        [part] if !part.starts_with('-') => Some(part),
        _ => {
            return Err(Failed(
                "faults: the arguments are the beginning of the name of a part, and --quick".to_owned(),
            ));
        }
    };
    if !is_linux(OS, "faults") {
        return Ok(());
    }
    let python = ["python3", "python"].into_iter().find(|name| runs(name, &["--version"]));
    let Some(python) = python else {
        return Err(Failed("faults: Python 3.10 or newer and a C compiler are required".to_owned()));
    };
    let nuq = build_program()?;
    // The parts of the Python package use the one that `cargo xtask test python` has installed.
    let installed = text(&Environment::named("python").python);
    let mut words = vec!["reliability/faults", &nuq];
    if runs(&installed, &["--version"]) {
        words.extend(["--python", &installed]);
    }
    if let Some(part) = part {
        words.extend(["--only", part]);
    }
    if is_quick {
        words.push("--quick");
    }
    run(python, &words, &[], &root())
}
