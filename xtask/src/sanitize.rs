//! `cargo xtask sanitize`: the tests of unsafe code and of shared memory with the sanitizers of the compiler.
//!
//! The stable compiler has the sanitizers behind flags that `RUSTC_BOOTSTRAP` allows. If the source of the standard library is installed
//! (`rustup component add rust-src`), the standard library is compiled with the sanitizer too. The thread sanitizer requires this:
//! otherwise it does not see the synchronization by `Once` and locks of the standard library, and reports races that do not exist.
//!
//! The extension module of the Python package is tested with the address sanitizer only: the thread sanitizer requires an interpreter that
//! is compiled with it.

use std::env::consts::OS;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::build_program;
use crate::python::sanitized_tests;
use crate::reliability::{Line, record};
use crate::steps::{Failed, is_linux, output, root};

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

/// `cargo xtask sanitize [address | thread | python]`.
pub(crate) fn sanitize(arguments: &[&str]) -> Result<(), Failed> {
    if arguments == ["python"] {
        return python_package();
    }
    let selected: Vec<Sanitizer> = match arguments {
        [] => Sanitizer::ALL.to_vec(),
        [name] => Sanitizer::ALL.into_iter().filter(|sanitizer| sanitizer.name() == *name).collect(),
        _ => vec![],
    };
    if selected.is_empty() {
        return Err(Failed("sanitize: the sanitizers are address and thread; `sanitize python` tests the Python package only".to_owned()));
    }
    if !PLATFORM.contains("linux") && !PLATFORM.contains("darwin") {
        return Err(Failed(format!("sanitize: {PLATFORM} has no sanitizers; use Linux or macOS")));
    }
    for sanitizer in selected {
        for suite in &SUITES {
            suite.run(sanitizer)?;
        }
        if sanitizer == Sanitizer::Address {
            python_package()?;
        }
    }
    Ok(())
}

/// Runs tests of the Python package whose extension module is compiled with the address sanitizer. The interpreter is not, so the library
/// of the sanitizer is loaded before it. The library of GCC has the same functions as the one of the Rust compiler, which exists only as a
/// static library.
fn python_package() -> Result<(), Failed> {
    if !is_linux(OS, "sanitize python") {
        return Ok(());
    }
    let name = Sanitizer::Address.name();
    let flags = compiler_flags(Sanitizer::Address, false);
    let folder = target_folder(Sanitizer::Address);
    let folder = folder.to_string_lossy();
    let build = [("RUSTFLAGS", flags.as_str()), ("RUSTC_BOOTSTRAP", "1"), ("CARGO_TARGET_DIR", &folder)];
    let runtime = output("gcc", &["-print-file-name=libasan.so"], &root())?;
    let runtime = runtime.trim();
    // If GCC does not have the library, it prints only its name.
    if !Path::new(runtime).is_absolute() {
        let text = "sanitize python: GCC has no address sanitizer: install its library, such as libasan8 and libgcc-12-dev of Debian";
        return Err(Failed(text.to_owned()));
    }
    // The tests also start the command line, without the sanitizer.
    build_program()?;
    let Some(mut command) = sanitized_tests(PLATFORM, &build, runtime)? else { return Ok(()) };
    // The interpreter frees its memory only partly.
    command.envs(Sanitizer::Address.options());
    test(&mut command, &format!("the Python package with the {name} sanitizer"), "pytest")
}

/// The folder of the programs that are compiled with a sanitizer.
fn target_folder(sanitizer: Sanitizer) -> PathBuf {
    root().join("target/sanitize").join(sanitizer.name())
}

/// The flags of the compiler. `has_source` states whether the standard library is compiled with the sanitizer too.
fn compiler_flags(sanitizer: Sanitizer, has_source: bool) -> String {
    match has_source {
        true => format!("-Zsanitizer={}", sanitizer.name()),
        false => format!("-Zsanitizer={} -Cunsafe-allow-abi-mismatch=sanitizer", sanitizer.name()),
    }
}

/// Runs tests and records how many of them passed.
fn test(command: &mut Command, name: &str, step: &str) -> Result<(), Failed> {
    let (passed, is_success) = follow(command).map_err(|error| Failed(format!("{step}: {error}")))?;
    // A run without a test shows nothing.
    let is_success = is_success && passed > 0;
    let (count, failures) = (passed, u64::from(!is_success));
    record(
        "sanitize",
        &[Line { name: name.to_owned(), count, unit: "tests", failures, note: String::new() }],
    )?;
    if is_success { Ok(()) } else { Err(Failed(step.to_owned())) }
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
        let flags = compiler_flags(sanitizer, has_source);
        let mut arguments = vec!["test", "--package", self.package, "--lib", "--tests", "--target", PLATFORM];
        if has_source {
            arguments.push("-Zbuild-std");
        }
        arguments.push("--");
        let skip_thread = if sanitizer == Sanitizer::Thread { self.skip_thread } else { &[] };
        arguments.extend(self.skip.iter().chain(skip_thread).flat_map(|skip| ["--skip", *skip]));
        let mut command = Command::new(env!("CARGO"));
        command.args(&arguments).current_dir(root()).env("RUSTFLAGS", &flags).env("RUSTC_BOOTSTRAP", "1");
        command.env("CARGO_TARGET_DIR", target_folder(sanitizer)).envs(sanitizer.options());
        let step = format!("RUSTFLAGS=\"{flags}\" cargo {}", arguments.join(" "));
        eprintln!("xtask: {step}");
        test(&mut command, &format!("{} with the {name} sanitizer", self.package), &step)
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

/// The number of tests in a line such as `test result: ok. 12 passed; 0 failed; …` of cargo or `1 failed, 12 passed in 3.45s` of pytest.
fn passed_tests(line: &str) -> u64 {
    let is_pytest = line.starts_with(|first: char| first.is_ascii_digit()) && line.contains(" in ");
    if !is_pytest && !line.starts_with("test result: ") {
        return 0;
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| word.trim_end_matches([';', ',']) == "passed");
    let number = at.and_then(|at| words.get(at.checked_sub(1)?));
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
        assert_eq!(passed_tests("1 failed, 182 passed, 13 warnings in 36.07s"), 182);
        assert_eq!(passed_tests("251 passed in 8.17s"), 251);
        assert_eq!(passed_tests("3 values passed the limit"), 0);
    }

    #[test]
    fn unknown_sanitizers_are_errors() {
        for arguments in [&["memory"][..], &["address", "thread"]] {
            assert!(sanitize(arguments).is_err_and(|Failed(message)| message.contains("address and thread")));
        }
    }
}
