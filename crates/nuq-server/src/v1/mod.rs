//! The routes below `/v1`.

mod changes;
mod encode;
mod models;
mod page;
mod review;
mod score;

use std::sync::Arc;

use axum::Router;

use crate::App;
pub(crate) use page::References;

/// The routes of each file, relative to `/v1`.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .merge(changes::routes())
        .merge(models::routes())
        .merge(page::routes())
        .merge(review::routes())
        .merge(score::routes())
}
