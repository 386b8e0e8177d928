//! `cargo xtask bench`: time, memory and detection metrics; other libraries (peers) are measured in the same run.
//!
//! | argument | measurement |
//! | --- | --- |
//! | `search` | exact search against faiss and k-d trees; graph search against its peers |
//! | `search axes` | a graph over projected rows compared with a graph over rows |
//! | `fit` | time and memory of `fit` and `predict` |
//! | `score` | time and memory of `nuq score` on files of up to 2 GB |
//! | `imagenet` | fit and predict with exact search at the size of ImageNet, from a mapped file |
//! | `commands` | time and memory of the commands of the command line |
//! | `baselines` | baselines compared with the same baselines of pytorch-ood |
//! | `growth` | time and memory of models and graphs by number of rows |
//! | `coverage` | share of rows whose error is at most the epistemic uncertainty, in simulations with known class probabilities |
//! | `results` | detection metrics of every method on real embeddings |
//!
//! Without an argument: `search` and `fit`.

mod baselines;
mod commands;
mod coverage;
mod data;
mod fit;
mod graph;
mod graph_growth;
mod growth;
mod imagenet;
mod large_file;
mod load;
mod memory;
mod peak;
mod peers;
mod projected_graph;
mod results;
mod score;
mod search;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result =
        match words.as_slice() {
            [] => search::run(None).and_then(|()| graph::run()).and_then(|()| fit::run()),
            ["search"] => search::run(None).and_then(|()| graph::run()),
            ["search", "exact"] => search::run(None),
            ["search", "exact", title] => search::run(Some(title)),
            ["search", "graph"] => graph::run(),
            ["search", "axes", sizes @ ..] => projected_graph::run(sizes),
            ["fit"] => fit::run(),
            ["score"] => score::run(),
            ["imagenet", sizes @ ..] => imagenet::run(sizes),
            ["commands", sizes @ ..] => commands::run(sizes),
            ["coverage"] => coverage::run(),
            ["results"] => results::run(),
            ["baselines"] => baselines::run(),
            ["growth"] => growth::run().and_then(|()| graph_growth::run()),
            ["growth", "models"] => growth::run(),
            ["growth", "graph"] => graph_growth::run(),
            // The benchmark starts itself with these arguments: each model is measured in its own process.
            ["measure", rest @ ..] => fit::measure(rest),
            ["measure-imagenet", rest @ ..] => imagenet::measure(rest),
            ["measure-graph", rows] => graph_growth::measure(rows),
            // The load generator of `cargo xtask bench serve`.
            ["load", rest @ ..] => load::run(rest),
            _ => Err("usage: cargo xtask bench [search [exact [TITLE] | graph | axes [ROWS COLUMNS]] | fit | score | imagenet [ROWS] [COLUMNS] | commands [ROWS] [COLUMNS] | baselines | growth [models | graph] | coverage | results]"
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
