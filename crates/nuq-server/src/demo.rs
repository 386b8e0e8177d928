//! The demonstration: a shipped model and a replay of its test rows.
