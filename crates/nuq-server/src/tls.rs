//! TLS, with certificates that are reloaded when they change.
