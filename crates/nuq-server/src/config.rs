//! Options of the server and their validation.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nuq::Device;

use crate::Error;
use crate::auth::Key;
use crate::listen::ListenAddress;
use crate::pictures::PictureSource;

/// All options of the server.
#[derive(Debug, Clone)]
pub struct Config {
    /// The served models.
    pub models: Vec<ModelSource>,
    /// Pictures of training rows.
    pub pictures: Vec<PictureSource>,
    /// Whether a demonstration is served: a model of CIFAR-10 images that scores example rows continuously.
    pub demo: bool,
    /// The address to listen on. Port 0 selects a free port.
    pub address: ListenAddress,
    /// Whether an address that other machines can reach is allowed without a read key. Without a read key, this option also allows any
    /// host name in the header `Host` of a request.
    pub insecure: bool,
    /// The key of requests that read. Without it, every request may read.
    pub read_key: Option<Key>,
    /// The key of requests that change models. It also allows reading. Without it, every request may change models if there is no read key
    /// either; with a read key, changes are refused.
    pub write_key: Option<Key>,
    /// Origins of other web pages whose scripts may use the server, such as `https://example.org`.
    pub cors_origins: Vec<String>,
    /// Who may read `/metrics`.
    pub metrics: MetricsAccess,
    /// Certificate and private key; without them connections are not encrypted.
    pub tls: Option<TlsFiles>,
    /// Limits of requests.
    pub limits: Limits,
    /// Longest time that the server waits for running requests before it ends.
    pub drain_timeout: Duration,
    /// The device of the neighbor search.
    pub device: Device,
    /// The folder in which changes of models and the records of scored rows and requests are stored. Without it, changes are refused
    /// unless `ephemeral` or `demo` is set.
    pub state: Option<PathBuf>,
    /// Whether changes of models are accepted without a folder. They are lost when the process ends.
    pub ephemeral: bool,
    /// The probability of a false alarm of the drift monitor, in (0, 1).
    pub drift_alpha: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            models: Vec::new(),
            pictures: Vec::new(),
            demo: false,
            address: SocketAddr::from(([127, 0, 0, 1], 8080)).into(),
            insecure: false,
            read_key: None,
            write_key: None,
            cors_origins: Vec::new(),
            metrics: MetricsAccess::default(),
            tls: None,
            limits: Limits::default(),
            drain_timeout: Duration::from_secs(30),
            device: Device::default(),
            state: None,
            ephemeral: false,
            drift_alpha: 0.01,
        }
    }
}

/// The name and the file of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSource {
    /// The name in URLs: at most 100 ASCII letters, digits, `.`, `_` and `-`. The first character is not `.`.
    pub name: String,
    /// The model file.
    pub path: PathBuf,
}

impl ModelSource {
    /// Parses `NAME=FILE` or `FILE`. Without `NAME`, the model has the name of the file without its extension.
    ///
    /// ```
    /// use nuq_server::ModelSource;
    /// assert_eq!(ModelSource::parse("cats=m.nuq").unwrap().name, "cats");
    /// assert_eq!(ModelSource::parse("models/dogs.nuq").unwrap().name, "dogs");
    /// assert!(ModelSource::parse("a b=m.nuq").is_err());
    /// ```
    ///
    /// # Errors
    /// A message that says which characters a name may have.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, path) = match text.split_once('=') {
            // The path of an existing file may contain an equals sign.
            Some((name, path)) if !Path::new(text).exists() => (name.to_owned(), PathBuf::from(path)),
            _ => {
                let path = PathBuf::from(text);
                (path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), path)
            }
        };
        let source = Self { name, path };
        source.check_name().map(|()| source)
    }

    /// Checks the name, which appears in URLs, in the log and in the metrics.
    fn check_name(&self) -> Result<(), String> {
        let name = &self.name;
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.is_empty() || name.len() > 100 || name.starts_with('.') || !name.chars().all(is_allowed) {
            return Err(format!(
                "{name:?} cannot be the name of a model: use at most 100 ASCII letters, digits, `_`, `-` and, after the \
                 first character, `.`, as in NAME=FILE"
            ));
        }
        Ok(())
    }
}

/// The files of a certificate, in PEM format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by the certificates of its issuers.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Who may read `/metrics`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MetricsAccess {
    /// Requests with a key. Without a read key, every request.
    #[default]
    Key,
    /// Every request.
    Open,
    /// No request.
    Off,
}

nuq::nuq_neighbors::choices!(MetricsAccess, "metrics", { Key => "key", Open => "open", Off => "off" });

/// Limits of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest body that is held in memory, in bytes.
    pub body_bytes: usize,
    /// Largest sum of the bodies that are held in memory at a time, in bytes.
    pub memory_bytes: usize,
    /// Largest number of rows of a request that is held in memory, and largest number of rows of an npz response.
    pub rows: usize,
    /// Largest number of requests that are processed at a time.
    pub requests: usize,
    /// Largest number of connections.
    pub connections: usize,
    /// Longest time for the arrival of a body, and longest time for the computation of its results. In a stream, both limits apply to
    /// each block.
    pub request_timeout: Duration,
    /// Longest time until a client has sent the head of a request, or has accepted a part of a response.
    pub client_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 64 << 20,
            memory_bytes: 1 << 30,
            rows: 100_000,
            requests: 256,
            connections: 1024,
            request_timeout: Duration::from_secs(30),
            client_timeout: Duration::from_secs(30),
        }
    }
}

impl Config {
    /// Checks that each value is valid and that the values do not contradict each other. Files are not read.
    ///
    /// # Errors
    /// [`Error::Usage`] with the option and the remedy.
    pub fn validate(&self) -> Result<(), Error> {
        let usage = |text: String| Err(Error::Usage(text));
        if self.models.is_empty() && !self.demo {
            return usage("no model is given: use --model FILE, or --demo for an example".to_owned());
        }
        for (i, model) in self.models.iter().enumerate() {
            model.check_name().map_err(Error::Usage)?;
            if self.models[..i].iter().any(|other| other.name == model.name) {
                return usage(format!(
                    "two models have the name {}: rename one of them with --model NAME=FILE",
                    model.name
                ));
            }
        }
        if self.demo && self.models.iter().any(|model| model.name == crate::demo::NAME) {
            return usage(format!(
                "the model of --demo has the name {}: rename the other model with --model NAME=FILE",
                crate::demo::NAME
            ));
        }
        // With a read key and without a write key, changes of models are refused.
        if let (Some(public), None) = (self.address.public().filter(|_| !self.insecure), &self.read_key) {
            let action = if self.write_key.is_none() { " and change models" } else { "" };
            return usage(format!(
                "--address {}: other machines could read predictions{action} without a key, at {public}; set NUQ_READ_KEY or \
                 --read-key-file, or allow it with --insecure",
                self.address,
            ));
        }
        if let (Some(read), Some(write)) = (&self.read_key, &self.write_key)
            && read.matches(write.as_bytes())
        {
            return usage("the read key and the write key are equal: use two different keys".to_owned());
        }
        for origin in &self.cors_origins {
            let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
            if host.is_none_or(|host| host.is_empty() || host.contains('/')) {
                return usage(format!(
                    "--cors-origin {origin}: an origin is a scheme and a host, such as https://example.org"
                ));
            }
        }
        if self.ephemeral && self.state.is_some() {
            return usage("--state and --ephemeral contradict each other: give one of them".to_owned());
        }
        if !(self.drift_alpha > 0.0 && self.drift_alpha < 1.0) {
            return usage(format!(
                "--drift-alpha {}: it must lie strictly between 0 and 1",
                self.drift_alpha
            ));
        }
        self.limits.validate()
    }
}

impl Limits {
    fn validate(&self) -> Result<(), Error> {
        let sizes = [
            ("--max-body-bytes", self.body_bytes),
            ("--max-memory-bytes", self.memory_bytes),
            ("--max-rows", self.rows),
            ("--max-requests", self.requests),
            ("--max-connections", self.connections),
        ];
        if let Some((option, _)) = sizes.iter().find(|(_, value)| *value == 0) {
            return Err(Error::Usage(format!("{option} 0: at least 1 is required")));
        }
        if self.memory_bytes < self.body_bytes {
            return Err(Error::Usage(format!(
                "--max-memory-bytes {} is less than --max-body-bytes {}: a single body would exceed it",
                self.memory_bytes, self.body_bytes
            )));
        }
        let times = [("--request-timeout", self.request_timeout), ("--client-timeout", self.client_timeout)];
        match times.iter().find(|(_, time)| time.is_zero()) {
            Some((option, _)) => {
                Err(Error::Usage(format!("{option} 0: more than zero seconds are required")))
            }
            None => Ok(()),
        }
    }
}

/// The configuration in words, for `--check`. The keys are not printed, only whether they are set.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        writeln!(f, "address     {scheme}://{}", self.address)?;
        for model in &self.models {
            writeln!(f, "model       {} from {}", model.name, model.path.display())?;
        }
        if self.demo {
            writeln!(f, "model       {}, a demonstration", crate::demo::NAME)?;
        }
        for source in &self.pictures {
            let model = source.model.as_ref().map(|name| format!(" of {name}")).unwrap_or_default();
            writeln!(f, "pictures    {}{model}", source.location)?;
        }
        let keys = match (&self.read_key, &self.write_key) {
            (None, None) => "none: every request is allowed",
            (Some(_), None) => "a read key; models cannot be changed",
            (None, Some(_)) => "a write key; every request may read",
            (Some(_), Some(_)) => "a read key and a write key",
        };
        writeln!(f, "keys        {keys}")?;
        writeln!(f, "metrics     {}", self.metrics)?;
        // The demonstration accepts changes also without --ephemeral.
        match (&self.state, self.ephemeral || self.demo) {
            (Some(folder), _) => writeln!(f, "state       {}", folder.display())?,
            (None, true) => writeln!(f, "state       in memory: changes are lost when the process ends")?,
            (None, false) => writeln!(f, "state       none: changes of models are refused")?,
        }
        let limits = &self.limits;
        writeln!(
            f,
            "limits      {} bytes per body, {} bytes in memory, {} rows, {} requests, {} connections, request timeout {} s, \
             client timeout {} s",
            limits.body_bytes,
            limits.memory_bytes,
            limits.rows,
            limits.requests,
            limits.connections,
            limits.request_timeout.as_secs_f64(),
            limits.client_timeout.as_secs_f64(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_says_whether_changes_are_kept() {
        let state = |config: &Config| {
            let text = config.to_string();
            text.lines().find_map(|line| line.strip_prefix("state       ")).unwrap().to_owned()
        };
        let in_memory = "in memory: changes are lost when the process ends";
        let config = Config::default();
        assert_eq!(state(&config), "none: changes of models are refused");
        assert_eq!(state(&Config { ephemeral: true, ..config.clone() }), in_memory);
        let demo = Config { demo: true, ..config };
        assert_eq!(state(&demo), in_memory);
        assert_eq!(state(&Config { state: Some("folder".into()), ..demo }), "folder");
    }
}
