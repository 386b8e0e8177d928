//! Machine and software versions of a run.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Machine of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the CPU, or the architecture if the name is unknown.
    pub processor: String,
    /// Number of processor cores (hardware threads) that the process may use.
    pub cores: usize,
    /// Operating system.
    pub system: String,
}

impl Machine {
    /// Describes the current machine.
    #[must_use]
    pub fn current() -> Self {
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

/// Software versions of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Versions {
    /// Version of `nuq`.
    pub nuq: String,
    /// Version of `burn`.
    pub burn: String,
}

impl Versions {
    /// Versions in the lock file of this build.
    #[must_use]
    pub fn current() -> Self {
        Self { nuq: locked_version("nuq"), burn: locked_version("burn") }
    }
}

fn locked_version(package: &str) -> String {
    const LOCK: &str = include_str!("../../Cargo.lock");
    let entry = LOCK.split("[[package]]").find(|entry| entry.contains(&format!("name = \"{package}\"\n")));
    let version = entry.and_then(|entry| entry.split_once("version = \"")?.1.split_once('"'));
    version.map_or_else(|| "unknown".to_owned(), |(version, _)| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_lock_file() {
        let Versions { nuq, burn } = Versions::current();
        assert!(burn.starts_with("0.22."), "{burn}");
        assert!(nuq.starts_with("0."), "{nuq}");
        assert_eq!(locked_version("no such package"), "unknown");
    }

    #[test]
    fn machine_is_formatted() {
        let machine = Machine { processor: "Z80".to_owned(), cores: 1, system: "cpm".to_owned() };
        assert_eq!(machine.to_string(), "Z80, 1 core, cpm");
        assert!(Machine::current().cores > 0);
    }
}
