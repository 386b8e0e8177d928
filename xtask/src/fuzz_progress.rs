//! What a run of a fuzz target has executed and reached, read from the lines that libFuzzer prints.

use std::fs;
use std::process::Command;

use crate::reliability::Line;

/// Source files in which the same input takes different paths: these depend on time or on other threads. The metrics have a counter for each
/// range of durations, a batch consists of the requests that wait at the same time, an exchange ends when the connection does, sums and samples
/// are those of a minute, and long computations check at intervals whether they are cancelled.
const TIMED: [&str; 8] = [
    "nuq-server/src/metrics.rs",
    "nuq-server/src/batch.rs",
    "nuq-server/src/exchange.rs",
    "nuq-server/src/state/activity.rs",
    "nuq-server/src/state/drift.rs",
    "nuq-server/src/state/recorder.rs",
    "nuq-server/src/state/samples.rs",
    "nuq-neighbors/src/cancel.rs",
];

/// Functions of the standard library whose path depends on other threads: locks.
const LOCKS: [&str; 3] =
    ["library/std/src/panicking.rs", "library/std/src/sync/", "library/std/src/sys/sync/"];

/// The smallest number of executions after which a run may be called converged.
const MIN_EXECUTIONS: u64 = 1_000_000;

/// The counts in the lines that libFuzzer prints.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) executions: u64,
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
    /// Reads a line that the process of the target has printed. Returns whether it should be printed: the addresses of new edges should not.
    pub(crate) fn read(&mut self, line: &str, process_id: u32) -> bool {
        self.start = self.start.or_else(|| start_address(process_id));
        let is_new_edge = self.read_new_edge(line);
        if !is_new_edge {
            self.read_counts(line);
        }
        !is_new_edge
    }

    /// Reads a line such as `#4096\tpulse  cov: 311 ft: 1024 corp: 87/12Kb …` or `stat::number_of_executed_units: 20000`.
    fn read_counts(&mut self, line: &str) {
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

    /// The executions that reached new edges in the code of nuq after the inputs of the corpus, each with the source line of the edge.
    /// Edges in other libraries, such as the branches of a decompression or of a hash table with random keys, are left out. `None` if the
    /// source lines of the edges are not known.
    pub(crate) fn own_edges(&self, program: &str) -> Option<Vec<(u64, String)>> {
        if self.edges.is_empty() {
            return Some(vec![]);
        }
        let start = self.start?;
        let addresses = self.edges.iter().map(|(_, address)| format!("{:#x}", address.wrapping_sub(start)));
        let output =
            Command::new("addr2line").args(["-a", "-i", "-e", program]).args(addresses).output().ok()?;
        let lines = own_lines(&String::from_utf8_lossy(&output.stdout))?;
        let executions = self.edges.iter().map(|(execution, _)| *execution);
        Some(executions.zip(lines).filter_map(|(execution, line)| Some((execution, line?))).collect())
    }

    /// Whether an execution is in the last third of the run.
    pub(crate) fn is_late(&self, execution: u64) -> bool {
        3 * execution > 2 * self.executions
    }

    /// Whether the run is long enough to be called converged.
    pub(crate) fn is_long(&self) -> bool {
        self.executions >= MIN_EXECUTIONS
    }

    /// Whether a run has converged, as docs/reliability.md defines it, if the execution `last` was the last one that reached a new edge in
    /// the code of nuq.
    fn has_converged(&self, last: u64) -> bool {
        self.is_long() && !self.is_late(last)
    }

    /// The execution at which the run converges if it reaches no further edge in the code of nuq. `None` if the source lines of the edges are not
    /// known.
    pub(crate) fn converges_at(&self, program: &str) -> Option<u64> {
        let last = last_execution(&self.own_edges(program)?);
        Some(MIN_EXECUTIONS.max((3 * last).div_ceil(2)))
    }

    /// The counts of a run. `own_edges` are those of [`own_edges`](Self::own_edges).
    pub(crate) fn line(&self, target: &str, own_edges: Option<&[(u64, String)]>, is_success: bool) -> Line {
        let Self { executions, coverage, grown_at, inputs, .. } = self;
        let own = own_edges.map_or(String::new(), |edges| {
            let last = last_execution(edges);
            let state = if self.has_converged(last) { "converged" } else { "not converged" };
            match last {
                0 => format!(", none in the code of nuq after the known inputs ({state})"),
                _ => format!(", in the code of nuq at {last} ({state})"),
            }
        });
        let note = format!(
            "{coverage} edges reached, the last new one at execution {grown_at}{own}; {inputs} inputs in the corpus"
        );
        let failures = u64::from(!is_success);
        Line { name: target.to_owned(), count: *executions, unit: "executions", failures, note }
    }
}

/// The last execution of a list of edges; 0 if it is empty.
fn last_execution(edges: &[(u64, String)]) -> u64 {
    edges.iter().map(|(execution, _)| *execution).max().unwrap_or(0)
}

/// The address at which the program of a process begins; `None` where it is not available.
fn start_address(process_id: u32) -> Option<u64> {
    let maps = fs::read_to_string(format!("/proc/{process_id}/maps")).ok()?;
    u64::from_str_radix(maps.split_once('-')?.0, 16).ok()
}

/// The source line of each address that is in the code of nuq and whose execution depends on the input alone, given the output of
/// `addr2line -a -i`: each address is followed by the source lines of its inlined functions, from the innermost to the outermost. The first
/// line outside of the standard library decides. `None` if no source line is known.
fn own_lines(output: &str) -> Option<Vec<Option<String>>> {
    let is_known = output.lines().any(|line| !line.starts_with("0x") && !line.starts_with("??"));
    let is_in = |line: &str, files: &[&str]| files.iter().any(|file| line.contains(file));
    let mut own = vec![];
    let mut is_decided = true;
    for line in output.lines() {
        if line.starts_with("0x") {
            own.push(None);
            is_decided = false;
        } else if !is_decided && (is_in(line, &LOCKS) || is_in(line, &TIMED)) {
            is_decided = true;
        } else if !is_decided && !line.contains("/rustc/") {
            is_decided = true;
            if let (Some(last), Some(at)) = (own.last_mut(), line.find("crates/nuq")) {
                *last = Some(line[at..].to_owned());
            }
        }
    }
    is_known.then_some(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_source_line_outside_of_the_standard_library_decides() {
        let output = "0x10\n/rustc/59/library/core/src/option.rs:3\n./crates/nuq-io/src/arrays/npy.rs:7\n/registry/zip/src/read.rs:1\n\
                      0x20\n/registry/zlib-rs/src/inflate.rs:104\n./crates/nuq-io/src/arrays/npz.rs:9\n0x30\n??:0\n";
        let own = Some("crates/nuq-io/src/arrays/npy.rs:7".to_owned());
        assert_eq!(own_lines(output), Some(vec![own, None, None]));
        let timed = "0x10\n/rustc/59/library/std/src/sync/poison.rs:9\n./crates/nuq-server/src/v2.rs:7\n\
                     0x20\n./crates/nuq-server/src/metrics.rs:50\n./crates/nuq-server/src/v2.rs:7\n";
        assert_eq!(own_lines(timed), Some(vec![None, None]));
        assert_eq!(own_lines("0x10\n??:0\n"), None);
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
            // Process 0 has no address.
            assert_eq!(progress.read(line, 0), !line.contains("NEW_PC"));
        }
        let expected =
            Progress { executions: 5001, coverage: 101, grown_at: 42, inputs: 3, ..Progress::default() };
        assert_eq!(progress, Progress { edges: vec![(42, 0x5000)], ..expected });
    }

    #[test]
    fn a_run_has_converged_if_its_last_third_reached_no_new_code_of_nuq() {
        let executions = 3 * MIN_EXECUTIONS;
        let progress =
            Progress { executions, coverage: 101, grown_at: 299, inputs: 3, ..Progress::default() };
        let edges = |execution| [(execution, "npy.rs:7".to_owned())];
        let note = |execution: u64| progress.line("npy", Some(&edges(execution)), true).note;
        assert_eq!(
            note(2 * MIN_EXECUTIONS),
            "101 edges reached, the last new one at execution 299, in the code of nuq at 2000000 (converged); 3 inputs in the corpus"
        );
        assert!(note(2 * MIN_EXECUTIONS + 1).contains("at 2000001 (not converged)"));
        let short = Progress { executions: MIN_EXECUTIONS - 1, ..Progress::default() };
        assert!(short.line("npy", Some(&[]), true).note.contains("(not converged)"));
        let line = progress.line("npy", None, false);
        assert_eq!((line.count, line.failures), (executions, 1));
        assert!(!line.note.contains("converged"));
    }
}
