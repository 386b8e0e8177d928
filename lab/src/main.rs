//! `lab`: runs the paper's experiments.

fn main() {}
