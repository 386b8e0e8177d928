//! The page at `/`.
