//! Routes that list, describe, download and reload models.

use std::sync::Arc;

use axum::Router;

use crate::App;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
}
