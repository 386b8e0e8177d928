//! Where and by what results were made.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The machine of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name, where the system tells it.
    pub processor: String,
    /// How many threads it runs at once.
    pub cores: usize,
    /// The operating system.
    pub system: String,
}

impl Machine {
    /// The one that this runs on.
    pub fn of_this_run() -> Self {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name =
            info.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(':'));
        Self {
            processor: name.map_or(std::env::consts::ARCH, |(_, name)| name.trim()).to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            system: std::env::consts::OS.to_owned(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processor, cores, system } = self;
        let cores = if *cores == 1 { "1 core".to_owned() } else { format!("{cores} cores") };
        write!(f, "{processor}, {cores}, {system}")
    }
}

/// The versions of what computed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Versions {
    /// Of `nuq`.
    pub nuq: String,
    /// Of `burn`.
    pub burn: String,
}

impl Versions {
    /// Those that this program was built with: its lock file knows.
    pub fn of_this_build() -> Self {
        Self { nuq: locked("nuq"), burn: locked("burn") }
    }
}

fn locked(package: &str) -> String {
    const LOCK: &str = include_str!("../../Cargo.lock");
    let entry = LOCK.split("[[package]]").find(|entry| entry.contains(&format!("name = \"{package}\"\n")));
    let version = entry.and_then(|entry| entry.split_once("version = \"")?.1.split_once('"'));
    version.map_or_else(|| "unknown".to_owned(), |(version, _)| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_lock_file() {
        let Versions { nuq, burn } = Versions::of_this_build();
        assert!(burn.starts_with("0.22."), "{burn}");
        assert!(nuq.starts_with("0."), "{nuq}");
        assert_eq!(locked("no such package"), "unknown");
    }

    #[test]
    fn the_machine_reads_as_a_phrase() {
        let machine = Machine { processor: "Z80".to_owned(), cores: 1, system: "cpm".to_owned() };
        assert_eq!(machine.to_string(), "Z80, 1 core, cpm");
        assert!(Machine::of_this_run().cores > 0);
    }
}
