//! Kills of the commands at random moments: the program `reliability/kills.py`.

use std::env::consts::OS;

use crate::build_program;
use crate::python::{Environment, text};
use crate::steps::{Failed, is_linux, root, run, runs};

const COMMANDS: [&str; 7] = ["fit", "shards", "score", "calibrate", "save", "guard", "serve"];

/// Number of kills of each command if the option `--kills` is not given.
const DEFAULT_KILLS: &str = "500";

/// `cargo xtask kills [COMMAND] [--kills N]`. On other systems than Linux, a notice is printed and nothing is run.
pub(crate) fn kills(arguments: &[&str]) -> Result<(), Failed> {
    let (command, kills) = options(arguments)?;
    if !is_linux(OS, "kills") {
        return Ok(());
    }
    let nuq = build_program()?;
    // `save` and `guard` use the package that `cargo xtask test python` has installed, if there is one.
    let installed = text(&Environment::named("python").python);
    let mut words = vec!["reliability/kills.py", "--nuq", &nuq, "--kills", kills];
    if runs(&installed, &["--version"]) {
        words.extend(["--python", &installed]);
    }
    words.extend(command);
    run("python3", &words, &[], &root())
}

/// The command, if one is named, and the number of kills.
fn options<'a>(arguments: &[&'a str]) -> Result<(Option<&'a str>, &'a str), Failed> {
    let (command, rest) = match arguments {
        [command, rest @ ..] if !command.starts_with("--") => (Some(*command), rest),
        rest => (None, rest),
    };
    if command.is_some_and(|command| !COMMANDS.contains(&command)) {
        return Err(Failed(format!("kills: the commands are {}", COMMANDS.join(", "))));
    }
    match rest {
        [] => Ok((command, DEFAULT_KILLS)),
        ["--kills", kills] if kills.parse::<u32>().is_ok_and(|kills| kills > 0) => Ok((command, kills)),
        _ => Err(Failed("kills: the option is --kills NUMBER".to_owned())),
    }
}
