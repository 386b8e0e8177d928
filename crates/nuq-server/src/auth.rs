//! Keys of requests: read and write.
