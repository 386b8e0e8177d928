//! Routes that read the data of the page.

use std::sync::Arc;

use axum::Router;

use crate::App;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
}
