//! Options of `nuq serve`.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use nuq_server::{ListenAddress, LogFormat, LogLevel, MetricsAccess, ModelSource, PictureSource};

use super::choice::choice;

/// Text after the help of `nuq serve`.
pub(super) const SERVE: &str = "\
Keys:
  NUQ_READ_KEY and NUQ_WRITE_KEY, or the files of --read-key-file and --write-key-file. Keys are
  never arguments: other users of the machine can see arguments. A request sends
  `Authorization: Bearer KEY`. The read key allows predictions, the write key also changes of models.

Signals:
  SIGTERM, SIGINT  complete the running requests within --drain-timeout and end;
                   a second signal ends the process at once
  SIGHUP           open models and certificates again

Routes:
  /                the page: activity, drift, single predictions, a map, and rows to label next
  /v2/…            Open Inference Protocol (KServe, Triton)
  /v1/…            scores, models and their changes
  /docs            all routes; /openapi.json for programs
  /metrics         Prometheus";

#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// Model to serve under a name [default name: the name of the file without its extension]; can be repeated, or separated by commas
    #[arg(
        short, long = "model", value_name = "[NAME=]FILE", env = "NUQ_MODEL", value_delimiter = ',', required_unless_present = "demo",
        value_parser = ModelSource::parse, hide_env_values = true
    )]
    pub(crate) models: Vec<ModelSource>,
    /// Host and port to listen on, such as localhost:8080; port 0 selects a free one
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "NUQ_ADDRESS",
        default_value = "127.0.0.1:8080",
        hide_env_values = true
    )]
    pub(crate) address: ListenAddress,
    /// Serve a model of CIFAR-10 images and score test images, then images of house numbers (SVHN), to show the page with data
    #[arg(
        long,
        env = "NUQ_DEMO",
        hide_env_values = true,
        value_parser = BoolishValueParser::new()
    )]
    pub(crate) demo: bool,
    /// Pictures of training rows for the page: a folder with files such as 12.png for row 12, an address such as
    /// https://example.org/{row}.png, or an array of images as FILE.npz:ARRAY; NAME is the name of a model [default: all models];
    /// can be repeated
    #[arg(
        long = "pictures", value_name = "[NAME=]SOURCE", env = "NUQ_PICTURES", value_parser = PictureSource::parse_option,
        hide_env_values = true
    )]
    pub(crate) pictures: Vec<PictureSource>,
    /// Check the options and open all models, print the configuration, and exit
    #[arg(long, env = "NUQ_CHECK", hide_env_values = true, value_parser = BoolishValueParser::new())]
    pub(crate) check: bool,

    /// Folder in which changes of models and the activity are stored, so that they are not lost when the process ends; it is created if
    /// it does not exist
    #[arg(long, value_name = "DIR", env = "NUQ_STATE", hide_env_values = true, help_heading = "State")]
    pub(crate) state: Option<PathBuf>,
    /// Accept changes of models without --state; they are lost when the process ends
    #[arg(
        long,
        env = "NUQ_EPHEMERAL",
        hide_env_values = true,
        value_parser = BoolishValueParser::new(),
        help_heading = "State"
    )]
    pub(crate) ephemeral: bool,
    /// Upper bound on the probability that the drift monitor of a model ever raises an alarm if nothing changes
    #[arg(
        long,
        value_name = "ALPHA",
        env = "NUQ_DRIFT_ALPHA",
        default_value_t = 0.01,
        hide_env_values = true,
        help_heading = "State"
    )]
    pub(crate) drift_alpha: f64,

    /// File with the key of requests that read
    #[arg(
        long,
        value_name = "FILE",
        env = "NUQ_READ_KEY_FILE",
        hide_env_values = true,
        help_heading = "Access"
    )]
    pub(crate) read_key_file: Option<PathBuf>,
    /// File with the key of requests that change models
    #[arg(
        long,
        value_name = "FILE",
        env = "NUQ_WRITE_KEY_FILE",
        hide_env_values = true,
        help_heading = "Access"
    )]
    pub(crate) write_key_file: Option<PathBuf>,
    /// Allow an --address that other machines can reach, even if there is no read key
    #[arg(
        long,
        env = "NUQ_INSECURE",
        hide_env_values = true,
        value_parser = BoolishValueParser::new(),
        help_heading = "Access"
    )]
    pub(crate) insecure: bool,
    /// Certificate for https, in PEM format, with the certificates of its issuers; it is read again when it changes
    #[arg(
        long,
        value_name = "FILE",
        env = "NUQ_TLS_CERTIFICATE",
        requires = "tls_key",
        hide_env_values = true,
        help_heading = "Access"
    )]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// Private key of the certificate, in PEM format
    #[arg(
        long,
        value_name = "FILE",
        env = "NUQ_TLS_KEY",
        requires = "tls_certificate",
        hide_env_values = true,
        help_heading = "Access"
    )]
    pub(crate) tls_key: Option<PathBuf>,
    /// Web page whose scripts may use the server, such as https://example.org; can be repeated, or separated by commas
    #[arg(
        long,
        value_name = "ORIGIN",
        env = "NUQ_CORS_ORIGIN",
        value_delimiter = ',',
        hide_env_values = true,
        help_heading = "Access"
    )]
    pub(crate) cors_origin: Vec<String>,
    /// Who may read /metrics: requests with a key, all requests, or none
    #[arg(
        long, value_name = "ACCESS", env = "NUQ_METRICS", value_parser = choice::<MetricsAccess>(), default_value = "key",
        hide_env_values = true, help_heading = "Access"
    )]
    pub(crate) metrics: MetricsAccess,

    /// Largest body that is held in memory, in bytes; streamed bodies may be larger
    #[arg(
        long, value_name = "BYTES", env = "NUQ_MAX_BODY_BYTES", default_value_t = 64 << 20, hide_env_values = true,
        help_heading = "Limits"
    )]
    pub(crate) max_body_bytes: usize,
    /// Largest sum of the bodies in memory, in bytes
    #[arg(
        long, value_name = "BYTES", env = "NUQ_MAX_MEMORY_BYTES", default_value_t = 1 << 30, hide_env_values = true,
        help_heading = "Limits"
    )]
    pub(crate) max_memory_bytes: usize,
    /// Largest number of rows of a request that is not streamed
    #[arg(
        long,
        value_name = "N",
        env = "NUQ_MAX_ROWS",
        default_value_t = 100_000,
        hide_env_values = true,
        help_heading = "Limits"
    )]
    pub(crate) max_rows: usize,
    /// Largest number of requests that are processed at a time; others get the status 429
    #[arg(
        long,
        value_name = "N",
        env = "NUQ_MAX_REQUESTS",
        default_value_t = 256,
        hide_env_values = true,
        help_heading = "Limits"
    )]
    pub(crate) max_requests: usize,
    /// Largest number of connections; others wait
    #[arg(
        long,
        value_name = "N",
        env = "NUQ_MAX_CONNECTIONS",
        default_value_t = 1024,
        hide_env_values = true,
        help_heading = "Limits"
    )]
    pub(crate) max_connections: usize,
    /// Longest time until the body of a request, or a block of a stream, has arrived; the same limit then applies to its computation
    #[arg(
        long,
        value_name = "SECONDS",
        env = "NUQ_REQUEST_TIMEOUT",
        default_value_t = 30.0,
        hide_env_values = true,
        help_heading = "Limits"
    )]
    pub(crate) request_timeout: f64,
    /// Longest time in which a client sends the head of a request, or receives a part of a response
    #[arg(
        long,
        value_name = "SECONDS",
        env = "NUQ_CLIENT_TIMEOUT",
        default_value_t = 30.0,
        hide_env_values = true,
        help_heading = "Limits"
    )]
    pub(crate) client_timeout: f64,
    /// Longest time in which running requests are completed after the server was told to end
    #[arg(
        long,
        value_name = "SECONDS",
        env = "NUQ_DRAIN_TIMEOUT",
        default_value_t = 30.0,
        hide_env_values = true,
        help_heading = "Limits"
    )]
    pub(crate) drain_timeout: f64,

    /// Format of the log on standard error
    #[arg(
        long, value_name = "FORMAT", env = "NUQ_LOG_FORMAT", value_parser = choice::<LogFormat>(), default_value = "text",
        hide_env_values = true, help_heading = "Log"
    )]
    pub(crate) log_format: LogFormat,
    /// Lowest level of the messages that are logged; info includes a line for each request
    #[arg(
        long, value_name = "LEVEL", env = "NUQ_LOG_LEVEL", value_parser = choice::<LogLevel>(), default_value = "info",
        hide_env_values = true, help_heading = "Log"
    )]
    pub(crate) log_level: LogLevel,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use crate::args::Args;

    #[test]
    fn every_option_is_an_environment_variable() {
        let mut nuq = Args::command();
        nuq.build();
        let serve = nuq.find_subcommand("serve").unwrap();
        let mut count = 0;
        for option in serve.get_arguments().filter(|option| option.get_id() != "help") {
            let long = option.get_long().unwrap();
            let variable = format!("NUQ_{}", long.to_uppercase().replace('-', "_"));
            assert_eq!(
                option.get_env().map(|name| name.to_string_lossy()),
                Some(variable.into()),
                "--{long}"
            );
            // Values of variables, such as paths, are not printed in the help.
            assert!(option.is_hide_env_values_set(), "--{long}");
            count += 1;
        }
        assert!(count > 25, "{count} options");
    }
}
