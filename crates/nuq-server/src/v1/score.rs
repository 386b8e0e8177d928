//! The route that scores rows.

use std::sync::Arc;

use axum::Router;

use crate::App;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
}
