//! Peak memory of a child process: anonymous pages, which only this process can use, and pages of mapped files, which the system can
//! reclaim and other processes share.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Peaks of the memory of a process in bytes. The peaks of both kinds of pages can occur at different times.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Peak {
    /// All resident pages, as counted by the system.
    pub(crate) resident: f64,
    /// Anonymous pages, sampled.
    pub(crate) anonymous: f64,
    /// Pages of mapped files, sampled.
    pub(crate) mapped: f64,
}

/// Time between two samples.
const INTERVAL: Duration = Duration::from_millis(5);
pub(crate) const MIB: f64 = 1024.0 * 1024.0;

/// The bound on the peak memory of a command for embeddings of this many bytes.
pub(crate) fn bound(bytes: f64) -> f64 {
    1.25 * bytes + 200.0 * MIB
}

impl Peak {
    fn add(&mut self, process: u32) {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let value = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name));
            let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
            1024.0 * kib.unwrap_or(0.0)
        };
        self.resident = self.resident.max(value("VmHWM:"));
        self.anonymous = self.anonymous.max(value("RssAnon:"));
        self.mapped = self.mapped.max(value("RssFile:"));
    }

    /// The peaks in MiB, for a table; question marks if the system does not report them.
    pub(crate) fn columns(&self) -> [String; 3] {
        [self.resident, self.anonymous, self.mapped]
            .map(|bytes| if self.resident > 0.0 { format!("{:.0}", bytes / MIB) } else { "?".to_owned() })
    }
}

/// Runs a program to its end. Returns its standard output and its peak memory.
pub(crate) fn watch(command: &mut Command) -> Result<(String, Peak), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |error: std::io::Error| format!("cannot run {name}: {error}");
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    let mut peak = Peak::default();
    // The pipes are read while the program runs, because a program stops at a full pipe.
    let (status, output, errors) = std::thread::scope(|scope| {
        let output = scope.spawn(|| read(output));
        let errors = scope.spawn(|| read(errors));
        let status = loop {
            peak.add(child.id());
            match child.try_wait() {
                Ok(None) => std::thread::sleep(INTERVAL),
                ended => break ended,
            }
        };
        (status, output.join().unwrap_or_default(), errors.join().unwrap_or_default())
    });
    match status.map_err(failed)?.is_some_and(|status| status.success()) {
        true => Ok((output, peak)),
        false => Err(format!("{name} failed: {}", errors.trim())),
    }
}

/// The text of a pipe until its end.
fn read(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    // A read error is treated as the end of the pipe.
    let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}
