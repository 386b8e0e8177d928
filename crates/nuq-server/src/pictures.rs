//! Pictures of training rows.
