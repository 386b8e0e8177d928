//! How a long run shows that it lives: on stderr, and only where someone looks.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::{Common, ProgressKind};

/// Rows going by.
pub(crate) struct Progress {
    bar: ProgressBar,
    plain: Option<Plain>,
}

struct Plain {
    what: &'static str,
    total: u64,
    done: u64,
    last: Instant,
}

/// Plain lines come at most this often.
const PLAIN_EVERY: Duration = Duration::from_secs(2);

impl Progress {
    /// A bar over `total` rows.
    pub(crate) fn rows(what: &'static str, total: u64, common: &Common) -> Self {
        let shown = !common.quiet && common.progress == ProgressKind::Auto;
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style =
            ProgressStyle::with_template("{msg} {wide_bar} {human_pos} of {human_len}, {per_sec}, {eta}")
                .expect("a fixed template");
        let bar = ProgressBar::with_draw_target(Some(total), target).with_style(style).with_message(what);
        let is_plain = !common.quiet && common.progress == ProgressKind::Plain;
        let plain = is_plain.then(|| Plain { what, total, done: 0, last: Instant::now() });
        Self { bar, plain }
    }

    /// Some more rows are done.
    pub(crate) fn advance(&mut self, rows: u64) {
        self.bar.inc(rows);
        if let Some(plain) = &mut self.plain {
            plain.done += rows;
            if plain.last.elapsed() >= PLAIN_EVERY || plain.done == plain.total {
                eprintln!("{}: {} of {} rows", plain.what, plain.done, plain.total);
                plain.last = Instant::now();
            }
        }
    }
}

/// Named steps, of which there is no number.
pub(crate) struct Steps {
    bar: ProgressBar,
    plain: Option<&'static str>,
}

impl Progress {
    /// Steps that are told by name as they come.
    pub(crate) fn steps(what: &'static str, common: &Common) -> Steps {
        let shown = !common.quiet && common.progress == ProgressKind::Auto;
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template("{spinner} {prefix}: {msg}").expect("a fixed template");
        let bar = ProgressBar::with_draw_target(None, target).with_style(style).with_prefix(what);
        bar.enable_steady_tick(Duration::from_millis(100));
        let is_plain = !common.quiet && common.progress == ProgressKind::Plain;
        Steps { bar, plain: is_plain.then_some(what) }
    }
}

impl Steps {
    /// The next step begins.
    pub(crate) fn step(&self, name: &str) {
        self.bar.set_message(name.to_owned());
        if let Some(what) = self.plain {
            eprintln!("{what}: {name}");
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

/// Says what is being done, where that takes a while.
pub(crate) fn say(common: &Common, what: &str) {
    if !common.quiet {
        eprintln!("{what}");
    }
}
