//! The networks.
