//! Progress and messages on stderr.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use nuq::nuq_neighbors::Stage;
use nuq::{Device, NeighborIndex};
use serde_json::json;

use crate::args::{Common, ProgressKind};
use crate::output::{print_json_line, print_message};

/// Progress in rows.
pub(crate) struct Progress {
    bar: ProgressBar,
    plain: Option<Plain>,
}

/// Progress that is printed as plain lines (`--progress plain`).
struct Plain {
    what: &'static str,
    total: u64,
    done: u64,
    /// When the last line was printed; at first, when the work started.
    last: Instant,
    as_json: bool,
}

/// Shortest time between two plain lines. The first line of a stage and the line after the last row are printed at once.
const PLAIN_EVERY: Duration = Duration::from_secs(2);

impl Progress {
    /// Starts the progress of `total` rows; `what` names the work.
    pub(crate) fn rows(what: &'static str, total: u64, common: &Common) -> Self {
        let is_bar = !common.quiet && common.progress == ProgressKind::Auto;
        let target = if is_bar { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style =
            ProgressStyle::with_template("{msg} {wide_bar} {human_pos} of {human_len} rows, {eta} left")
                .expect("the template is valid");
        let bar = ProgressBar::with_draw_target(Some(total), target).with_style(style).with_message(what);
        let is_plain = !common.quiet && common.progress == ProgressKind::Plain;
        let plain =
            is_plain.then(|| Plain { what, total, done: 0, last: Instant::now(), as_json: common.json });
        Self { bar, plain }
    }

    /// Adds finished rows.
    pub(crate) fn advance(&mut self, rows: u64) {
        self.bar.inc(rows);
        if let Some(plain) = &mut self.plain {
            plain.done += rows;
            if plain.last.elapsed() >= PLAIN_EVERY || plain.done == plain.total {
                let text = format!("{}: {} of {} rows", plain.what, plain.done, plain.total);
                print_line(&text, plain.as_json);
                plain.last = Instant::now();
            }
        }
    }
}

/// Progress in named steps whose number is not known in advance.
pub(crate) struct Steps {
    bar: ProgressBar,
    /// The name of the work, if the steps are printed as plain lines.
    plain: Option<&'static str>,
    as_json: bool,
}

impl Progress {
    /// Starts the progress of named steps; `what` names the work.
    pub(crate) fn steps(what: &'static str, common: &Common) -> Steps {
        let is_bar = !common.quiet && common.progress == ProgressKind::Auto;
        let target = if is_bar { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template("{spinner} {prefix}: {msg} ({elapsed})")
            .expect("the template is valid");
        let bar = ProgressBar::with_draw_target(None, target)
            .with_style(style)
            .with_prefix(what)
            .with_message("starting");
        // `enable_steady_tick` starts a thread, and would panic if the system cannot start one. This is therefore tested first.
        if std::thread::Builder::new().spawn(|| {}).is_ok_and(|thread| thread.join().is_ok()) {
            bar.enable_steady_tick(Duration::from_millis(100));
        }
        let is_plain = !common.quiet && common.progress == ProgressKind::Plain;
        Steps { bar, plain: is_plain.then_some(what), as_json: common.json }
    }
}

impl Steps {
    /// Starts the next step.
    pub(crate) fn step(&self, name: &str) {
        self.bar.set_message(name.to_owned());
        if let Some(what) = self.plain {
            print_line(&format!("{what}: {name}"), self.as_json);
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Calls a function of the library and shows its stages; `what` names the work.
pub(crate) fn observe<T>(what: &'static str, common: &Common, compute: impl FnOnce() -> T) -> T {
    let progress = nuq::Progress::new();
    let mut stages = Stages { steps: Progress::steps(what, common), shown: "", last: Instant::now() };
    std::thread::scope(|scope| {
        // The thread ends when the sender is dropped. This happens also if `compute` panics.
        let (_sender, receiver) = mpsc::channel::<()>();
        let observed = progress.clone();
        let show = move || {
            while receiver.recv_timeout(POLL_EVERY) == Err(RecvTimeoutError::Timeout) {
                stages.show(observed.stage());
            }
        };
        // If the system cannot start the thread, the stages are not shown.
        let _ = std::thread::Builder::new().spawn_scoped(scope, show);
        progress.observe(compute)
    })
}

/// Time between two readings of the stage.
const POLL_EVERY: Duration = Duration::from_millis(100);

/// The stages of an observed function on stderr.
struct Stages {
    steps: Steps,
    /// The stage that was shown last.
    shown: &'static str,
    last: Instant,
}

impl Stages {
    fn show(&mut self, stage: Stage) {
        let is_due = stage.name != self.shown || self.last.elapsed() >= PLAIN_EVERY;
        if stage.name.is_empty() || (self.steps.plain.is_some() && !is_due) {
            return;
        }
        (self.shown, self.last) = (stage.name, Instant::now());
        self.steps.step(&match stage.total {
            0 => stage.name.to_owned(),
            total => format!("{}, {} %", stage.name, 100 * stage.done / total),
        });
    }
}

/// Prints the device of the last search if this device was a GPU, or if a GPU was requested.
pub(crate) fn device_message(common: &Common, index: &dyn NeighborIndex) {
    let is_requested = matches!(common.device, Device::Cuda(_));
    if let Some(device) = index.device().filter(|device| is_requested || device.starts_with("cuda")) {
        message(common, &format!("searched on {device}"));
    }
}

/// Prints a message to stderr, unless `--quiet` is given.
pub(crate) fn message(common: &Common, text: &str) {
    if !common.quiet {
        print_line(text, common.json);
    }
}

/// Prints a line to stderr. With `--json` it is an object, so that a program can parse each line of stderr.
fn print_line(text: &str, as_json: bool) {
    match as_json {
        true => print_json_line(&json!({ "message": text })),
        false => print_message(text),
    }
}
