//! Routes that list doubtful labels and rows worth a label.

use std::sync::Arc;

use axum::Router;

use crate::App;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
}
