//! Serves nuq models over HTTP: the Open Inference Protocol, routes for programs and people, and a page.
//!
//! `Config` holds the options, `check` validates them, and `run` serves until the process is asked to end. The mathematics is
//! that of the crate `nuq`; this crate only transports it.

#![allow(dead_code, reason = "the routes are not complete yet")]

mod auth;
mod batch;
mod config;
mod demo;
mod error;
mod limits;
mod metrics;
mod models;
mod openapi;
mod page;
mod pictures;
mod shutdown;
mod state;
mod tls;
mod v1;
mod v2;

use std::sync::Arc;

use axum::Router;

/// What every handler can use: `State<Arc<App>>`.
pub(crate) struct App {
    pub(crate) models: models::Registry,
}

/// All routes.
fn routes() -> Router<Arc<App>> {
    Router::new().nest("/v1", v1::routes())
}
