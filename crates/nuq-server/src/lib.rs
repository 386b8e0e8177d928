//! Serves nuq models over HTTP: the Open Inference Protocol (`/v2`), all other functions (`/v1`), and a web page.
//!
//! [`Config`] has the options, [`check`] validates them, and [`Server`] answers requests. The crate `nuq` computes all results. This
//! crate parses requests and sends responses. It stores the changes of models, and statistics of the requests and of the scored rows.

mod auth;
mod batch;
mod config;
mod demo;
mod error;
mod exchange;
mod file_rows;
mod limits;
mod listen;
mod loaded_model;
mod log;
mod long_read;
mod metrics;
mod models;
mod openapi;
mod page;
mod pictures;
mod responses;
mod results;
mod rows;
mod served_model;
mod server;
mod state;
mod tls;
mod v1;
mod v2;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use axum::routing::get;
use axum::{Router, middleware};

pub use auth::Key;
pub use config::{Config, Limits, MetricsAccess, ModelSource, TlsFiles};
pub use error::Error;
pub use listen::ListenAddress;
pub use log::{LogFormat, LogLevel, start_log};
pub use pictures::PictureSource;
pub use server::Server;
pub use state::StateError;

/// The state that all handlers share. A handler receives it as `State<Arc<App>>`.
pub(crate) struct App {
    pub(crate) config: Config,
    pub(crate) models: models::Registry,
    pub(crate) metrics: metrics::Metrics,
    pub(crate) capacity: limits::Capacity,
    pub(crate) pictures: pictures::AllPictures,
    /// Samples of the training rows of each model, for the page.
    pub(crate) references: v1::References,
    /// Set when the server begins to shut down. From then on, readiness probes fail.
    pub(crate) stopping: AtomicBool,
}

impl App {
    fn new(config: Config) -> Result<Self, Error> {
        let metrics = metrics::Metrics::default();
        let models = models::Registry::open(&config, &metrics)?;
        let capacity = limits::Capacity::new(config.limits);
        let pictures = open_pictures(&config)?;
        let references = v1::References::default();
        let stopping = AtomicBool::new(false);
        Ok(Self { config, models, metrics, capacity, pictures, references, stopping })
    }

    /// Opens the files of all models again. A model whose file cannot be opened is not replaced.
    fn reload_all(&self) {
        for served in self.models.iter() {
            if let Err(error) = served.reload() {
                tracing::error!(model = served.name, %error, "the model was not reloaded, or not completely");
            }
        }
    }
}

fn open_pictures(config: &Config) -> Result<pictures::AllPictures, Error> {
    let mut names: Vec<&str> = config.models.iter().map(|model| model.name.as_str()).collect();
    // `Server::start` adds the model of the demonstration to the configuration, but `check` does not.
    if config.demo && !names.contains(&demo::NAME) {
        names.push(demo::NAME);
    }
    pictures::AllPictures::open(&config.pictures, &names)
}

/// All routes.
fn routes(app: Arc<App>) -> Router {
    Router::new()
        .nest("/v1", v1::routes())
        .merge(v2::routes())
        .merge(openapi::routes())
        .merge(page::routes())
        .route("/metrics", get(metrics::get))
        .fallback(responses::no_route)
        .method_not_allowed_fallback(responses::wrong_method)
        .layer(middleware::from_fn_with_state(app.clone(), auth::check))
        .layer(middleware::from_fn_with_state(app.clone(), responses::finish))
        .with_state(app)
}

/// Validates a configuration: options, certificates, the state folder, pictures and models. Nothing is served.
///
/// # Errors
/// The first problem that would prevent the start of the server.
pub fn check(config: &Config) -> Result<(), Error> {
    config.validate()?;
    if let Some(files) = &config.tls {
        tls::Certificates::open(files)?;
    }
    state::check(config)?;
    open_pictures(config)?;
    config.models.iter().try_for_each(|source| served_model::open_model(source, config.device).map(drop))
}
