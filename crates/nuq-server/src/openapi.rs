//! The description of the routes as OpenAPI, and its page.
