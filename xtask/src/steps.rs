//! Runs cargo and other programs. Each command is printed before it runs, except in `runs` and `has`, which only test whether a program
//! can be used.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The description of a failed step.
pub(crate) struct Failed(pub(crate) String);

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask is in a folder of the workspace root")
        .to_owned()
}

fn command(arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).envs(variables.iter().copied()).current_dir(root()).stdin(Stdio::null());
    command
}

/// Runs `cargo` with arguments in the root of the workspace.
pub(crate) fn cargo(arguments: &[&str]) -> Result<(), Failed> {
    cargo_with(arguments, &[])
}

/// Runs `cargo` with arguments and environment variables.
pub(crate) fn cargo_with(arguments: &[&str], variables: &[(&str, &str)]) -> Result<(), Failed> {
    let name = format!("cargo {}", arguments.join(" "));
    eprintln!("xtask: {name}");
    match command(arguments, variables).status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Failed(name)),
    }
}

/// Runs `cargo` with arguments and returns its standard output.
pub(crate) fn cargo_output(arguments: &[&str]) -> Result<String, Failed> {
    let name = format!("cargo {}", arguments.join(" "));
    eprintln!("xtask: {name}");
    match command(arguments, &[]).stderr(Stdio::inherit()).output() {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        _ => Err(Failed(name)),
    }
}

/// Runs a program with arguments and environment variables in a folder.
pub(crate) fn run(
    program: &str,
    arguments: &[&str],
    variables: &[(&str, &str)],
    folder: &Path,
) -> Result<(), Failed> {
    let name = format!("{program} {}", arguments.join(" "));
    eprintln!("xtask: {name}");
    let mut command = Command::new(program);
    command.args(arguments).envs(variables.iter().copied()).current_dir(folder).stdin(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Failed(name)),
    }
}

/// Runs a program in a folder and returns its standard output.
pub(crate) fn output(program: &str, arguments: &[&str], folder: &Path) -> Result<String, Failed> {
    let name = format!("{program} {}", arguments.join(" "));
    eprintln!("xtask: {name}");
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).stderr(Stdio::inherit());
    match command.output() {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        _ => Err(Failed(name)),
    }
}

/// Whether a program can be started and succeeds.
pub(crate) fn runs(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Whether a cargo subcommand is installed.
pub(crate) fn has(subcommand: &str) -> bool {
    let mut command = command(&[subcommand, "--version"], &[]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Whether a check that needs Linux can run on `system`, the name of the operating system. If not, prints that it is skipped.
pub(crate) fn is_linux(system: &str, what: &str) -> bool {
    let is_linux = system == "linux";
    if !is_linux {
        skip(what, "run it on Linux");
    }
    is_linux
}

/// Prints that a check is skipped, and how to enable it.
pub(crate) fn skip(what: &str, remedy: &str) {
    eprintln!("xtask: skipped: {what} ({remedy})");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_that_need_linux_are_skipped_on_other_systems() {
        assert!(is_linux("linux", "faults"));
        assert!(!is_linux("macos", "faults") && !is_linux("windows", "faults"));
    }
}
