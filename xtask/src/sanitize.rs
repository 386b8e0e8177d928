//! `cargo xtask sanitize`: the tests of unsafe code and of shared memory with the sanitizers of the compiler.
//!
//! The stable compiler has the sanitizers behind flags that `RUSTC_BOOTSTRAP` allows. If the source of the standard library is installed
//! (`rustup component add rust-src`), the standard library is compiled with the sanitizer too. The thread sanitizer requires this:
//! otherwise it does not see the synchronization by `Once` and locks of the standard library, and reports races that do not exist.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::reliability::{Line, record};
use crate::steps::{Failed, output, root};

/// The platform of the option `--target` of cargo. Without this option, build scripts would be compiled with the sanitizer too.
const PLATFORM: &str = env!("NUQ_PLATFORM");

/// A sanitizer of the compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sanitizer {
    Address,
    Thread,
}

impl Sanitizer {
    const ALL: [Self; 2] = [Self::Address, Self::Thread];

    fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Thread => "thread",
        }
    }

    /// The variable with the options of the sanitizer at run time, and its value.
    fn options(self) -> Option<(&'static str, &'static str)> {
        match self {
            // Leaks are no errors: values that live as long as the process are never freed.
            Self::Address => Some(("ASAN_OPTIONS", "detect_leaks=0")),
            Self::Thread => None,
        }
    }
}

/// Tests of one package.
struct Suite {
    package: &'static str,
    /// Parts of the names of tests that cannot run with any sanitizer.
    skip: &'static [&'static str],
    /// Parts of the names of tests that cannot run with the thread sanitizer.
    skip_thread: &'static [&'static str],
}

const SUITES: [Suite; 2] = [
    // Kernels for vector instructions, exact search, graphs, shards.
    Suite { package: "nuq-neighbors", skip: &[], skip_thread: &[] },
    // The container format of model files, mapped arrays, locks, atomic writes.
    Suite {
        package: "nuq-io",
        skip: &[],
        // The thread sanitizer does not support a fork of a process with several threads.
        skip_thread: &["fork::"],
    },
];

/// `cargo xtask sanitize [address | thread]`.
pub(crate) fn sanitize(arguments: &[&str]) -> Result<(), Failed> {
    let selected: Vec<Sanitizer> = match arguments {
        [] => Sanitizer::ALL.to_vec(),
        [name] => Sanitizer::ALL.into_iter().filter(|sanitizer| sanitizer.name() == *name).collect(),
        _ => vec![],
    };
    if selected.is_empty() {
        return Err(Failed("sanitize: the sanitizers are address and thread".to_owned()));
    }
    if !PLATFORM.contains("linux") && !PLATFORM.contains("darwin") {
        return Err(Failed(format!("sanitize: {PLATFORM} has no sanitizers; use Linux or macOS")));
    }
    for sanitizer in selected {
        for suite in &SUITES {
            suite.run(sanitizer)?;
        }
    }
    Ok(())
}

/// Whether the source of the standard library is installed.
fn has_library_source() -> Result<bool, Failed> {
    let sysroot = output("rustc", &["--print", "sysroot"], &root())?;
    Ok(Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library").exists())
}

impl Suite {
    fn run(&self, sanitizer: Sanitizer) -> Result<(), Failed> {
        let name = sanitizer.name();
        let has_source = has_library_source()?;
        if sanitizer == Sanitizer::Thread && !has_source {
            let text = "sanitize thread: it requires the source of the standard library: run `rustup component add rust-src`";
            return Err(Failed(text.to_owned()));
        }
        let flags = match has_source {
            true => format!("-Zsanitizer={name}"),
            // The standard library is compiled without the sanitizer.
            false => format!("-Zsanitizer={name} -Cunsafe-allow-abi-mismatch=sanitizer"),
        };
        let folder = root().join("target/sanitize").join(name);
        let mut arguments = vec!["test", "--package", self.package, "--lib", "--tests", "--target", PLATFORM];
        if has_source {
            arguments.push("-Zbuild-std");
        }
        arguments.push("--");
        let skip_thread = if sanitizer == Sanitizer::Thread { self.skip_thread } else { &[] };
        arguments.extend(self.skip.iter().chain(skip_thread).flat_map(|skip| ["--skip", *skip]));
        let mut command = Command::new(env!("CARGO"));
        command.args(&arguments).current_dir(root()).env("RUSTFLAGS", &flags).env("RUSTC_BOOTSTRAP", "1");
        command.env("CARGO_TARGET_DIR", folder).envs(sanitizer.options());
        let step = format!("RUSTFLAGS=\"{flags}\" cargo {}", arguments.join(" "));
        eprintln!("xtask: {step}");
        let (passed, is_success) =
            follow(&mut command).map_err(|error| Failed(format!("{step}: {error}")))?;
        let line = Line {
            name: format!("{} with the {name} sanitizer", self.package),
            count: passed,
            unit: "tests",
            failures: u64::from(!is_success),
            note: String::new(),
        };
        record("sanitize", &[line])?;
        if is_success { Ok(()) } else { Err(Failed(step)) }
    }
}

/// Runs tests, prints their output, and counts those that passed.
fn follow(command: &mut Command) -> std::io::Result<(u64, bool)> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take().expect("standard output is a pipe");
    let mut passed = 0;
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        println!("{line}");
        passed += passed_tests(&line);
    }
    Ok((passed, child.wait()?.success()))
}

/// The number of tests in a line such as `test result: ok. 12 passed; 0 failed; …`.
fn passed_tests(line: &str) -> u64 {
    let words = line.strip_prefix("test result: ").map(|rest| rest.split_whitespace().collect::<Vec<_>>());
    let words = words.unwrap_or_default();
    let number =
        words.iter().position(|word| *word == "passed;").and_then(|at| words.get(at.checked_sub(1)?));
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_tests_are_counted() {
        assert_eq!(passed_tests("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured"), 12);
        assert_eq!(passed_tests("test result: FAILED. 3 passed; 1 failed"), 3);
        assert_eq!(passed_tests("test a::passed ... ok"), 0);
        assert_eq!(passed_tests("test result: passed;"), 0);
    }

    #[test]
    fn unknown_sanitizers_are_errors() {
        for arguments in [&["memory"][..], &["address", "thread"]] {
            assert!(sanitize(arguments).is_err_and(|Failed(message)| message.contains("address and thread")));
        }
    }
}
