//! Coverage-guided tests of everything that reads bytes from outside: the targets of the folder `fuzz`.
//!
//! The targets are compiled by the stable compiler with the coverage counters of LLVM, and linked with libFuzzer. Inputs that reach new
//! code are kept in `target/fuzz/corpus/TARGET`. A run begins with those of earlier runs ([`corpora`](crate::corpora)) and with
//! `fuzz/seeds/TARGET`, which contains an example of each kind of input, and every input that once failed. The executions and the coverage
//! of each run are written to `target/reliability/fuzz.json`.

use std::env::consts::OS;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::corpora;
use crate::reliability::{Line, record};
use crate::steps::{Failed, cargo_with, is_linux, root};

/// The targets, each with the largest length of its inputs in bytes.
const TARGETS: [(&str, usize); 11] = [
    ("npy", 4096),
    ("npz", 4096),
    ("safetensors", 4096),
    ("table", 2048),
    ("parquet", 8192),
    ("model", 8192),
    ("manifest", 8192),
    ("rules", 2048),
    ("options", 256),
    ("http", 2048),
    ("changes", 1024),
];

/// The platform of the option `--target` of cargo. Without this option, build scripts would be compiled with counters too.
const PLATFORM: &str = env!("NUQ_PLATFORM");

/// The folder of the compiled targets.
const TARGET_DIR: &str = "fuzz/target";

/// Compiler flags that insert what libFuzzer needs: a counter for each edge of the control flow, and at each comparison a call with both
/// compared values.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
                     -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// Files of the tests, in the formats of several targets. They are further inputs of each target.
const FILES: &str = "crates/nuq-io/tests/data";

/// Number of executions per target if no option is given. They take seconds, and are enough to apply the mutations of libFuzzer to
/// each seed.
const DEFAULT_RUNS: &str = "20000";

/// `cargo xtask fuzz [TARGET] [--runs N | --seconds N]`, `cargo xtask fuzz seeds` or `cargo xtask fuzz corpora`. On
/// other systems than Linux, only `seeds` runs; the others print a notice.
pub(crate) fn fuzz(arguments: &[&str]) -> Result<(), Failed> {
    if arguments == ["seeds"] {
        return cargo_with(&["run", "--manifest-path", "fuzz/Cargo.toml", "--bin", "seeds"], &[]);
    }
    let is_corpora = arguments == ["corpora"];
    let (name, limit) = options(if is_corpora { &[] } else { arguments })?;
    let targets = TARGETS.iter().filter(|(target, _)| name.is_none_or(|name| name == *target));
    if !is_linux(OS, "fuzz") {
        return Ok(());
    }
    cargo_with(&build_arguments(), &[("RUSTFLAGS", FLAGS)])?;
    targets.into_iter().try_for_each(|&(target, max_len)| match is_corpora {
        true => corpora::pack(target, &program(target), &corpus(target)?),
        false => run_target(target, max_len, &limit),
    })
}

/// The compiled program of a target.
fn program(target: &str) -> String {
    root().join(TARGET_DIR).join(PLATFORM).join("release").join(target).to_string_lossy().into_owned()
}

/// The folder of the inputs that runs of a target have found on this machine. The inputs of the archive in the repository are added to it.
fn corpus(target: &str) -> Result<PathBuf, Failed> {
    let folder = root().join("target/fuzz/corpus").join(target);
    fs::create_dir_all(&folder).map_err(|error| Failed(format!("{}: {error}", folder.display())))?;
    corpora::unpack(target, &folder)?;
    Ok(folder)
}

/// The target, if one is named, and the options of libFuzzer that limit the executions or the time. Runs without an option have a fixed seed,
/// so that CI executes the same inputs every time.
fn options<'a>(arguments: &[&'a str]) -> Result<(Option<&'a str>, Vec<String>), Failed> {
    let (name, rest) = match arguments {
        [name, rest @ ..] if !name.starts_with("--") => (Some(*name), rest),
        rest => (None, rest),
    };
    let known: Vec<&str> = TARGETS.iter().map(|(target, _)| *target).collect();
    if name.is_some_and(|name| !known.contains(&name)) {
        return Err(Failed(format!("fuzz: the targets are {}", known.join(", "))));
    }
    let is_number = |text: &str| text.parse::<u64>().is_ok();
    match rest {
        [] => Ok((name, vec![format!("-runs={DEFAULT_RUNS}"), "-seed=1".to_owned()])),
        ["--runs", runs] if is_number(runs) => Ok((name, vec![format!("-runs={runs}")])),
        ["--seconds", seconds] if is_number(seconds) => {
            Ok((name, vec![format!("-max_total_time={seconds}")]))
        }
        _ => Err(Failed("fuzz: the options are --runs NUMBER or --seconds NUMBER".to_owned())),
    }
}

/// The arguments of cargo that build all targets. The program `seeds` is not built, because it is not linked with libFuzzer. The folder of
/// the programs is given, because the variable `CARGO_TARGET_DIR` may name another one.
fn build_arguments() -> Vec<&'static str> {
    let build = ["build", "--release", "--manifest-path", "fuzz/Cargo.toml", "--target-dir", TARGET_DIR];
    let programs = TARGETS.iter().flat_map(|(target, _)| ["--bin", *target]);
    build.into_iter().chain(["--target", PLATFORM]).chain(programs).collect()
}

/// Runs a target and records its counts. libFuzzer stops at the first input that fails, writes it to `target/fuzz` and prints its path.
fn run_target(target: &str, max_len: usize, limit: &[String]) -> Result<(), Failed> {
    let folder = root().join("target/fuzz");
    let corpus = corpus(target)?;
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let dictionary = root().join("fuzz/dictionaries").join(format!("{target}.dict"));
    let mut arguments = limit.to_vec();
    arguments.extend([
        format!("-max_len={max_len}"),
        // An input fails if its execution takes more than 10 seconds or 2048 MiB of memory.
        "-timeout=10".to_owned(),
        "-rss_limit_mb=2048".to_owned(),
        "-print_final_stats=1".to_owned(),
        "-print_pcs=1".to_owned(),
        format!("-artifact_prefix={}/{target}-", folder.display()),
        text(corpus),
        text(root().join("fuzz/seeds").join(target)),
        text(root().join(FILES)),
    ]);
    if dictionary.exists() {
        arguments.push(format!("-dict={}", dictionary.display()));
    }
    let program = program(target);
    let name = format!("{program} {}", arguments.join(" "));
    eprintln!("xtask: {name}");
    let mut command = Command::new(&program);
    // With one thread, an input takes the same path at every execution.
    command.args(&arguments).current_dir(root()).env("RAYON_NUM_THREADS", "1");
    let (progress, is_success) = follow(&mut command).map_err(|error| Failed(format!("{name}: {error}")))?;
    let own_grown_at = progress.own_grown_at(&program);
    record("fuzz", &[progress.line(target, own_grown_at, is_success)])?;
    if is_success { Ok(()) } else { Err(Failed(name)) }
}

/// Runs a fuzz target, prints its standard error and reads the counts from it. Returns the counts and whether the target succeeded.
fn follow(command: &mut Command) -> std::io::Result<(Progress, bool)> {
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let id = child.id();
    let stderr = child.stderr.take().expect("standard error is a pipe");
    let mut progress = Progress::default();
    // Messages may contain bytes of inputs, which need not be UTF-8.
    for line in BufReader::new(stderr).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        progress.start = progress.start.or_else(|| start_address(id));
        if !progress.read_new_edge(&line) {
            eprintln!("{line}");
            progress.read(&line);
        }
    }
    let is_success = child.wait()?.success();
    remove_files(id);
    Ok((progress, is_success))
}

/// Removes the temporary files of a target, which is ended without a cleanup. The names are those of `fuzz/src/file.rs`.
fn remove_files(process_id: u32) {
    for parent in [PathBuf::from("/dev/shm"), std::env::temp_dir()] {
        // Only one of the folders exists, and none if the target has written no file.
        let _ = fs::remove_dir_all(parent.join(format!("nuq-fuzz-{process_id}")));
    }
}

/// The address at which the program of a process begins; `None` where the system does not tell it.
fn start_address(process_id: u32) -> Option<u64> {
    let maps = fs::read_to_string(format!("/proc/{process_id}/maps")).ok()?;
    u64::from_str_radix(maps.split_once('-')?.0, 16).ok()
}

/// Source files in which the same input takes different paths: these depend on time or on other threads. The metrics have a counter for each
/// range of durations, a batch consists of the requests that wait at the same time, and long computations check at intervals whether they are cancelled.
const TIMED: [&str; 7] = [
    "nuq-server/src/metrics.rs",
    "nuq-server/src/batch.rs",
    "nuq-server/src/exchange.rs",
    "nuq-server/src/state/activity.rs",
    "nuq-server/src/state/recorder.rs",
    "nuq-server/src/state/samples.rs",
    "nuq-neighbors/src/cancel.rs",
];

/// Functions of the standard library whose path depends on other threads: locks.
const LOCKS: [&str; 3] =
    ["library/std/src/panicking.rs", "library/std/src/sync/", "library/std/src/sys/sync/"];

/// Whether each address is in the code of nuq and its execution depends on the input alone, given the output of `addr2line -a -i`: each address is
/// followed by the source lines of its inlined functions, from the innermost to the outermost. The first line outside of the standard library
/// decides. `None` if no source line is known.
fn are_own(output: &str) -> Option<Vec<bool>> {
    let is_known = output.lines().any(|line| !line.starts_with("0x") && !line.starts_with("??"));
    let mut own: Vec<Option<bool>> = vec![];
    for line in output.lines() {
        if line.starts_with("0x") {
            own.push(None);
        } else if let Some(last @ None) = own.last_mut() {
            let is_in = |files: &[&str]| files.iter().any(|file| line.contains(file));
            if is_in(&LOCKS) || is_in(&TIMED) {
                *last = Some(false);
            } else if !line.contains("/rustc/") {
                *last = Some(line.contains("crates/nuq"));
            }
        }
    }
    is_known.then(|| own.into_iter().map(Option::unwrap_or_default).collect())
}

/// The counts in the lines that libFuzzer prints.
#[derive(Debug, Default, PartialEq, Eq)]
struct Progress {
    executions: u64,
    /// The largest number of reached edges of the control flow.
    coverage: u64,
    /// The execution at which the coverage last grew.
    grown_at: u64,
    /// The number of inputs in the corpus.
    inputs: u64,
    /// The address at which the program begins.
    start: Option<u64>,
    /// The addresses of new edges whose execution is not known yet. libFuzzer prints them before the line with the execution.
    new_edges: Vec<u64>,
    /// The executions that reached new edges after all inputs of the corpus were executed, with the addresses of the edges.
    edges: Vec<(u64, u64)>,
}

impl Progress {
    /// Reads a line such as `#4096\tpulse  cov: 311 ft: 1024 corp: 87/12Kb …` or `stat::number_of_executed_units: 20000`.
    fn read(&mut self, line: &str) {
        if let Some(units) = line.strip_prefix("stat::number_of_executed_units:") {
            self.executions = units.trim().parse().unwrap_or(self.executions);
        }
        let Some((number, rest)) = line.strip_prefix('#').and_then(|rest| rest.split_once('\t')) else {
            return;
        };
        let Ok(execution) = number.parse::<u64>() else { return };
        self.executions = self.executions.max(execution);
        self.edges.extend(self.new_edges.drain(..).map(|address| (execution, address)));
        let words: Vec<&str> = rest.split_whitespace().collect();
        let value = |name: &str| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1));
        if let Some(coverage) = value("cov:").and_then(|text| text.parse().ok())
            && coverage > self.coverage
        {
            (self.coverage, self.grown_at) = (coverage, execution);
        }
        if let Some(inputs) = value("corp:").and_then(|text| text.split('/').next()?.parse().ok()) {
            self.inputs = inputs;
        }
    }

    /// Reads a line such as `NEW_PC: 0x5555559fe271`. Returns whether the line has this form.
    fn read_new_edge(&mut self, line: &str) -> bool {
        let Some(address) = line.trim().strip_prefix("NEW_PC: 0x") else { return false };
        let address = address.split_whitespace().next().unwrap_or_default();
        self.new_edges.extend(u64::from_str_radix(address, 16));
        true
    }

    /// The execution at which the last new edge in the code of nuq was reached; 0 if none was reached after the inputs of the corpus.
    /// Edges in other libraries, such as the branches of a decompression or of a hash table with random keys, are not counted. `None` if the
    /// source files of the edges are not known.
    fn own_grown_at(&self, program: &str) -> Option<u64> {
        if self.edges.is_empty() {
            return Some(0);
        }
        let start = self.start?;
        let addresses = self.edges.iter().map(|(_, address)| format!("{:#x}", address.wrapping_sub(start)));
        let output =
            Command::new("addr2line").args(["-a", "-i", "-e", program]).args(addresses).output().ok()?;
        let is_own = are_own(&String::from_utf8_lossy(&output.stdout))?;
        let own = self.edges.iter().zip(is_own).filter(|(_, is_own)| *is_own);
        Some(own.map(|((execution, _), _)| *execution).max().unwrap_or(0))
    }

    fn line(&self, target: &str, own_grown_at: Option<u64>, is_success: bool) -> Line {
        let Self { executions, coverage, grown_at, inputs, .. } = self;
        // docs/reliability.md defines when a run has converged.
        let own = own_grown_at.map_or(String::new(), |own| {
            let has_converged = if 3 * own <= 2 * executions { "converged" } else { "not converged" };
            format!(", in the code of nuq at {own} ({has_converged})")
        });
        let note = format!(
            "{coverage} edges reached, the last new one at execution {grown_at}{own}; {inputs} inputs in the corpus"
        );
        let failures = u64::from(!is_success);
        Line { name: target.to_owned(), count: *executions, unit: "executions", failures, note }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_built_in_the_folder_from_which_they_are_started() {
        let arguments = build_arguments();
        assert!(arguments.windows(2).any(|words| words == ["--target-dir", TARGET_DIR]), "{arguments:?}");
    }

    #[cfg(unix)]
    #[test]
    fn temporary_files_of_a_target_are_removed() {
        let script = r#"mkdir "$0/nuq-fuzz-$$" && echo "stat::number_of_executed_units: $$" >&2"#;
        let folder = std::env::temp_dir();
        let (progress, is_success) = follow(Command::new("sh").args(["-c", script]).arg(&folder)).unwrap();
        assert!(is_success && progress.executions > 0);
        assert!(!folder.join(format!("nuq-fuzz-{}", progress.executions)).exists());
    }

    #[test]
    fn the_first_source_line_outside_of_the_standard_library_decides() {
        let output = "0x10\n/rustc/59/library/core/src/option.rs:3\n./crates/nuq-io/src/arrays/npy.rs:7\n/registry/zip/src/read.rs:1\n\
                      0x20\n/registry/zlib-rs/src/inflate.rs:104\n./crates/nuq-io/src/arrays/npz.rs:9\n0x30\n??:0\n";
        assert_eq!(are_own(output), Some(vec![true, false, false]));
        let timed = "0x10\n/rustc/59/library/std/src/sync/poison.rs:9\n./crates/nuq-server/src/v2.rs:7\n\
                     0x20\n./crates/nuq-server/src/metrics.rs:50\n./crates/nuq-server/src/v2.rs:7\n";
        assert_eq!(are_own(timed), Some(vec![false, false]));
        assert_eq!(are_own("0x10\n??:0\n"), None);
    }

    #[test]
    fn counts_are_read_from_the_lines_of_lib_fuzzer() {
        let mut progress = Progress::default();
        for line in [
            "INFO: Seed: 2711",
            "#2\tINITED cov: 97 ft: 98 corp: 1/1b exec/s: 0 rss: 31Mb",
            "\tNEW_PC: 0x5000",
            "#42\tNEW    cov: 101 ft: 180 corp: 2/3b lim: 4 exec/s: 0 rss: 31Mb L: 2/2 MS: 1 InsertByte-",
            "#77\tREDUCE cov: 101 ft: 190 corp: 3/4b lim: 4 exec/s: 0 rss: 31Mb L: 1/2 MS: 1 EraseBytes-",
            "#4096\tpulse  cov: 101 ft: 190 corp: 3/4b lim: 8 exec/s: 2048 rss: 31Mb",
            "#x\tcov: 9999",
            "#5000\tDONE   cov: 101 ft: 190 corp: 3/4b lim: 8 exec/s: 2048 rss: 31Mb",
            "stat::number_of_executed_units: 5001",
        ] {
            if !progress.read_new_edge(line) {
                progress.read(line);
            }
        }
        let expected =
            Progress { executions: 5001, coverage: 101, grown_at: 42, inputs: 3, ..Progress::default() };
        assert_eq!(progress, Progress { edges: vec![(42, 0x5000)], ..expected });
        let line = progress.line("npy", Some(7), true);
        assert_eq!((line.count, line.failures), (5001, 0));
        assert_eq!(
            line.note,
            "101 edges reached, the last new one at execution 42, in the code of nuq at 7 (converged); 3 inputs in the corpus"
        );
        assert_eq!(progress.line("npy", None, false).failures, 1);
    }
}
