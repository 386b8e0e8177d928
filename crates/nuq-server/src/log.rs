//! The log on standard error.

use tracing::Level;
use tracing::level_filters::LevelFilter;

/// How lines of the log are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// Text with `name=value` fields.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

nuq::nuq_neighbors::choices!(LogFormat, "log_format", { Text => "text", Json => "json" });

/// Which messages are written. Each level includes the levels before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogLevel {
    /// Only failures of the server.
    Error,
    /// Also problems that an operator should look at.
    Warn,
    /// Also one line for each request. Frequent requests have no line unless they fail: health probes, scrapes of the metrics, and the
    /// requests of the page for files, pictures and live data.
    #[default]
    Info,
    /// Also the frequent requests that `Info` leaves out, and connections that ended early.
    Debug,
}

nuq::nuq_neighbors::choices!(LogLevel, "log_level", {
    Error => "error", Warn => "warn", Info => "info", Debug => "debug",
});

/// Starts the log of this process. Later calls have no effect.
pub fn start_log(format: LogFormat, level: LogLevel) {
    let level = match level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
    };
    let builder = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(LevelFilter::from_level(level))
        .with_target(false);
    // An error means that a log was started before.
    let _ = match format {
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}
