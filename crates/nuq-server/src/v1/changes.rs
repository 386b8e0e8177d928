//! Routes that change a model: rows, thresholds, and undo.

use std::sync::Arc;

use axum::Router;

use crate::App;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
}
