//! `nuq serve`: serves models over HTTP.

use std::path::Path;
use std::time::Duration;

use nuq_server::{Config, Key, Limits, Server, TlsFiles};
use serde_json::json;

use crate::args::{Common, ServeArgs};
use crate::error::Error;
use crate::output;

pub(crate) fn run(options: &ServeArgs, common: &Common) -> Result<(), Error> {
    let config = config(options, common)?;
    if options.check {
        nuq_server::check(&config)?;
        let text = format!("{config}the configuration is valid\n");
        return output::print_result(
            common,
            &json!({ "valid": true, "configuration": config.to_string() }),
            &text,
        );
    }
    nuq_server::start_log(options.log_format, options.log_level);
    // A shard that another process shortens is an error of the requests that need it; other models are still served.
    nuq_io::continue_after_lost_pages();
    Ok(Server::run(config)?)
}

fn config(options: &ServeArgs, common: &Common) -> Result<Config, Error> {
    let tls = options.tls_certificate.clone().zip(options.tls_key.clone());
    let limits = Limits {
        body_bytes: options.max_body_bytes,
        memory_bytes: options.max_memory_bytes,
        rows: options.max_rows,
        requests: options.max_requests,
        connections: options.max_connections,
        request_timeout: seconds("--request-timeout", options.request_timeout)?,
        client_timeout: seconds("--client-timeout", options.client_timeout)?,
    };
    Ok(Config {
        models: options.models.clone(),
        pictures: options.pictures.clone(),
        demo: options.demo,
        address: options.address.clone(),
        insecure: options.insecure,
        read_key: key("NUQ_READ_KEY", options.read_key_file.as_deref())?,
        write_key: key("NUQ_WRITE_KEY", options.write_key_file.as_deref())?,
        cors_origins: options.cors_origin.clone(),
        metrics: options.metrics,
        tls: tls.map(|(certificate, key)| TlsFiles { certificate, key }),
        limits,
        drain_timeout: seconds("--drain-timeout", options.drain_timeout)?,
        device: common.device,
        state: options.state.clone(),
        ephemeral: options.ephemeral,
        drift_alpha: options.drift_alpha,
    })
}

/// A key from an environment variable or a file.
fn key(variable: &str, file: Option<&Path>) -> Result<Option<Key>, Error> {
    let given = std::env::var_os(variable).filter(|value| !value.is_empty());
    match (given, file) {
        (Some(_), Some(file)) => Err(Error::Usage(format!(
            "the key is given twice, by {variable} and by the file {}: use one of them",
            file.display()
        ))),
        (Some(value), None) => {
            // The replacement character of a key that is not Unicode makes the key invalid: `Key::new` rejects it.
            Ok(Some(Key::new(&value.to_string_lossy(), variable)?))
        }
        (None, Some(file)) => Ok(Some(Key::from_file(file)?)),
        (None, None) => Ok(None),
    }
}

fn seconds(option: &str, value: f64) -> Result<Duration, Error> {
    Duration::try_from_secs_f64(value).ok().filter(|time| time.as_secs() < 1 << 32).ok_or_else(|| {
        Error::Usage(format!("{option} {value}: give a number of seconds, at most {}", u32::MAX))
    })
}
