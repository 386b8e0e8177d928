//! Progress reports of a training.

use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

/// Statistics of an epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct Epoch {
    /// Epoch number, from 1.
    pub number: usize,
    /// Total number of epochs.
    pub total: usize,
    /// Mean training loss.
    pub loss: f64,
    /// Training accuracy, measured during the epoch while weights change.
    pub accuracy: f64,
    /// Training speed in images per second.
    pub images_per_second: f64,
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, total, loss, accuracy, images_per_second } = self;
        write!(
            f,
            "epoch {number}/{total}: loss {loss:.4}, accuracy {accuracy:.4}, {images_per_second:.0} images/s"
        )
    }
}

/// Receives the progress of a training.
pub trait Progress {
    /// Called when a training starts or resumes after `_done` of `_total` epochs.
    fn start(&self, _done: usize, _total: usize) {}

    /// Called after each epoch, when its checkpoint has been stored.
    fn epoch(&self, epoch: &Epoch);

    /// Called after each step with the statistics of the epoch so far and the completed share of the epoch.
    fn step(&self, _so_far: &Epoch, _share: f64) {}

    /// Whether to stop after this epoch. The next training of the same recipe resumes there.
    fn stop(&self) -> bool {
        false
    }
}

/// Reports nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn epoch(&self, _: &Epoch) {}
}

/// Prints a line to stderr for each epoch, and every 30 seconds within long epochs.
#[derive(Debug)]
pub struct ToStderr {
    name: String,
    last: Cell<Instant>,
}

/// Interval of the messages within an epoch.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

impl ToStderr {
    /// Creates a reporter whose lines start with `name`.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), last: Cell::new(Instant::now()) }
    }
}

impl Progress for ToStderr {
    fn start(&self, done: usize, total: usize) {
        self.last.set(Instant::now());
        eprintln!("{}: training, {done} of {total} epochs completed", self.name);
    }

    fn epoch(&self, epoch: &Epoch) {
        self.last.set(Instant::now());
        eprintln!("{}: {epoch}", self.name);
    }

    fn step(&self, so_far: &Epoch, share: f64) {
        if self.last.get().elapsed() >= LOG_INTERVAL {
            self.last.set(Instant::now());
            eprintln!("{}: {:.0} % of {so_far}", self.name, 100.0 * share);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoch_is_formatted_as_one_line() {
        let epoch = Epoch { number: 2, total: 4, loss: 0.12345, accuracy: 0.9876, images_per_second: 1612.4 };
        assert_eq!(epoch.to_string(), "epoch 2/4: loss 0.1235, accuracy 0.9876, 1612 images/s");
    }
}
