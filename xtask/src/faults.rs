//! Faults of the operating system: the programs of the folder `reliability/faults`.

use crate::PARQUET;
use crate::python::{target, text};
use crate::steps::{Failed, cargo, root, run, runs};

/// `cargo xtask faults [COMMAND] [--quick]`: fails system calls of the commands and of the service, one after the other. The numbers of the
/// run are written to `target/reliability/faults.json`; those of a quick run are only printed.
pub(crate) fn faults(arguments: &[&str]) -> Result<(), Failed> {
    let is_quick = arguments.contains(&"--quick");
    let rest: Vec<&str> = arguments.iter().copied().filter(|word| *word != "--quick").collect();
    let command = match rest[..] {
        [] => None,
        [command] if !command.starts_with('-') => Some(command),
        _ => {
            return Err(Failed(
                "faults: the arguments are the beginning of the name of a command, and --quick".to_owned(),
            ));
        }
    };
    let python = ["python3", "python"].into_iter().find(|name| runs(name, &["--version"]));
    let Some(python) = python.filter(|_| cfg!(target_os = "linux")) else {
        return Err(Failed("faults: Linux, Python 3.10 or newer and a C compiler are required".to_owned()));
    };
    // The packages and features of `cargo xtask test`, so that nothing is compiled again.
    cargo(&[&["build", "--workspace", "--bin", "nuq"][..], &PARQUET].concat())?;
    let nuq = text(&target().join("debug/nuq"));
    let out = text(&root().join("target/reliability/faults.json"));
    let mut words = vec!["reliability/faults", &nuq];
    if let Some(command) = command {
        words.extend(["--only", command]);
    }
    let written = ["--out", &out];
    words.extend(if is_quick { &["--quick"][..] } else { &written });
    run(python, &words, &[], &root())
}
