//! Coverage-guided tests of everything that reads bytes from outside: the targets of the folder `fuzz`.
//!
//! The targets are compiled by the stable compiler with the coverage counters of LLVM, and linked with libFuzzer. Inputs that reach new
//! code are kept in `target/fuzz/corpus/TARGET`. `fuzz/seeds/TARGET` contains the first inputs, and every input that once failed.

use std::fs;
use std::path::PathBuf;

use crate::steps::{Failed, cargo_with, root, run};

/// The targets, each with the largest length of its inputs in bytes.
const TARGETS: [(&str, usize); 10] = [
    ("npy", 4096),
    ("npz", 4096),
    ("safetensors", 4096),
    ("table", 2048),
    ("parquet", 4096),
    ("model", 8192),
    ("manifest", 8192),
    ("rules", 2048),
    ("options", 256),
    ("http", 2048),
];

/// The platform of the option `--target` of cargo. Without this option, build scripts would be compiled with counters too.
const PLATFORM: &str = env!("NUQ_PLATFORM");

/// Inserts what libFuzzer reads: a counter for each edge of the control flow, and a call at each comparison that passes both values.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
                     -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// Number of executions per target if no option is given. They take seconds, and are enough to apply the mutations of libFuzzer to
/// each seed.
const DEFAULT_RUNS: &str = "20000";

/// `cargo xtask fuzz [TARGET] [--runs N | --seconds N]`, or `cargo xtask fuzz seeds`.
pub(crate) fn fuzz(arguments: &[&str]) -> Result<(), Failed> {
    if arguments == ["seeds"] {
        return cargo_with(&["run", "--manifest-path", "fuzz/Cargo.toml", "--bin", "seeds"], &[]);
    }
    let (name, limit) = options(arguments)?;
    let targets = TARGETS.iter().filter(|(target, _)| name.is_none_or(|name| name == *target));
    build()?;
    targets.into_iter().try_for_each(|&(target, max_len)| run_target(target, max_len, &limit))
}

/// The target, if one is named, and the option of libFuzzer that limits the executions or the time.
fn options<'a>(arguments: &[&'a str]) -> Result<(Option<&'a str>, String), Failed> {
    let (name, rest) = match arguments {
        [name, rest @ ..] if !name.starts_with("--") => (Some(*name), rest),
        rest => (None, rest),
    };
    let known: Vec<&str> = TARGETS.iter().map(|(target, _)| *target).collect();
    if name.is_some_and(|name| !known.contains(&name)) {
        return Err(Failed(format!("fuzz: the targets are {}", known.join(", "))));
    }
    let number = |text: &str| text.parse::<u64>().is_ok();
    match rest {
        [] => Ok((name, format!("-runs={DEFAULT_RUNS}"))),
        ["--runs", runs] if number(runs) => Ok((name, format!("-runs={runs}"))),
        ["--seconds", seconds] if number(seconds) => Ok((name, format!("-max_total_time={seconds}"))),
        _ => Err(Failed("fuzz: the options are --runs NUMBER or --seconds NUMBER".to_owned())),
    }
}

fn build() -> Result<(), Failed> {
    let build = ["build", "--release", "--manifest-path", "fuzz/Cargo.toml", "--target", PLATFORM, "--bins"];
    cargo_with(&build, &[("RUSTFLAGS", FLAGS)])
}

/// Runs a target. libFuzzer stops at the first input that fails, writes it to `target/fuzz` and prints its path.
fn run_target(target: &str, max_len: usize, limit: &str) -> Result<(), Failed> {
    let folder = root().join("target/fuzz");
    let corpus = folder.join("corpus").join(target);
    fs::create_dir_all(&corpus).map_err(|error| Failed(format!("{}: {error}", corpus.display())))?;
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let dictionary = root().join("fuzz/dictionaries").join(format!("{target}.dict"));
    let mut arguments = vec![
        limit.to_owned(),
        format!("-max_len={max_len}"),
        // An input fails if its execution takes more than 10 seconds or 2048 MiB of memory.
        "-timeout=10".to_owned(),
        "-rss_limit_mb=2048".to_owned(),
        "-print_final_stats=1".to_owned(),
        format!("-artifact_prefix={}/{target}-", folder.display()),
        text(corpus),
        text(root().join("fuzz/seeds").join(target)),
    ];
    if dictionary.exists() {
        arguments.push(format!("-dict={}", dictionary.display()));
    }
    let program = root().join("fuzz/target").join(PLATFORM).join("release").join(target);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    run(&text(program), &arguments, &[], &root())
}
