//! Limits on bodies, rows, concurrent requests and time.
