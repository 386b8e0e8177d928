//! How far a training is.

use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

/// An epoch that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Epoch {
    /// Which one, from 1.
    pub number: usize,
    /// Of how many.
    pub of: usize,
    /// The mean loss of its steps.
    pub loss: f64,
    /// The share of pictures that were told right, while the network changed.
    pub accuracy: f64,
    /// The speed.
    pub images_per_second: f64,
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, of, loss, accuracy, images_per_second } = self;
        write!(
            f,
            "epoch {number}/{of}: loss {loss:.4}, accuracy {accuracy:.4}, {images_per_second:.0} images/s"
        )
    }
}

/// Who is told about a training.
pub trait Progress {
    /// A training begins, or goes on after the epochs that are done.
    fn start(&self, _done: usize, _of: usize) {}

    /// An epoch is over and its checkpoint stored.
    fn epoch(&self, epoch: &Epoch);

    /// A step within an epoch is done: told as if the epoch were over.
    fn step(&self, _so_far: &Epoch, _share: f64) {}

    /// Whether to stop after this epoch; the next training of the same recipe goes on from there.
    fn stop(&self) -> bool {
        false
    }
}

/// Tells nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn epoch(&self, _: &Epoch) {}
}

/// A line on stderr for each epoch, and within a long one now and then.
#[derive(Debug)]
pub struct ToStderr {
    name: String,
    last: Cell<Instant>,
}

/// How long nothing is said at most.
const PATIENCE: Duration = Duration::from_secs(30);

impl ToStderr {
    /// With the name of what is trained at the head of each line.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), last: Cell::new(Instant::now()) }
    }
}

impl Progress for ToStderr {
    fn start(&self, done: usize, of: usize) {
        self.last.set(Instant::now());
        eprintln!("{}: training, {done} of {of} epochs done", self.name);
    }

    fn epoch(&self, epoch: &Epoch) {
        self.last.set(Instant::now());
        eprintln!("{}: {epoch}", self.name);
    }

    fn step(&self, so_far: &Epoch, share: f64) {
        if self.last.get().elapsed() >= PATIENCE {
            self.last.set(Instant::now());
            eprintln!("{}: {:.0} % of {so_far}", self.name, 100.0 * share);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_one_line() {
        let epoch = Epoch { number: 2, of: 4, loss: 0.12345, accuracy: 0.9876, images_per_second: 1612.4 };
        assert_eq!(epoch.to_string(), "epoch 2/4: loss 0.1235, accuracy 0.9876, 1612 images/s");
    }
}
