//! `cargo xtask bench`: ratios against named peers, measured in one run on one machine.
//!
//! `search` compares exact search with the machine's multiply-add peak and with faiss, and graph search with its peers;
//! `fit` times whole models and their memory; `score` does that of the command line on a file of 2 GB; `rivals` compares other
//! methods with pytorch-ood's; `growth` draws how models and graphs grow with the number of rows; `results` prints how well every
//! method does on real embeddings. Without an argument: `search` and `fit`.

mod data;
mod fit;
mod graph;
mod graph_growth;
mod growth;
mod peak;
mod peers;
mod results;
mod rivals;
mod score;
mod search;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result =
        match words.as_slice() {
            [] => search::run().and_then(|()| graph::run()).and_then(|()| fit::run()),
            ["search"] => search::run().and_then(|()| graph::run()),
            ["search", "exact"] => search::run(),
            ["search", "graph"] => graph::run(),
            ["fit"] => fit::run(),
            ["score"] => score::run(),
            ["results"] => results::run(),
            ["rivals"] => rivals::run(),
            ["growth"] => growth::run().and_then(|()| graph_growth::run()),
            ["growth", "models"] => growth::run(),
            ["growth", "graph"] => graph_growth::run(),
            // How the benchmark calls itself, so that one model's memory is one process's.
            ["measure", rest @ ..] => fit::measure(rest),
            ["measure-graph", rows] => graph_growth::measure(rows),
            _ => Err("usage: cargo xtask bench [search [exact | graph] | fit | score | rivals | growth]"
                .to_owned()),
        };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("bench: {message}");
            ExitCode::FAILURE
        }
    }
}
