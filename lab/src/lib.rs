//! The laboratory: the networks, experiments, tables and figures of the paper, one command each.
