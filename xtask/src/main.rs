//! The chores that a person would otherwise have to remember: `cargo xtask test | bench | docs`.

mod benchmarks;
mod docs;
mod python;
mod steps;

use std::process::ExitCode;

use steps::{Failed, cargo, cargo_with, has, skip};

const USAGE: &str = "\
cargo xtask COMMAND

  test                          everything that must hold before a change lands
  test python                   the last part of it alone: the wheel in a fresh environment, with its tests
  test torch                    after it, those that need PyTorch, which is a large download
  test lab                      the laboratory: lints, tests and every experiment at a tiny size
  bench [search | fit | score | rivals | growth]
                                speed against named peers on this machine
  bench python                  the Python package against Rust's own times
  results                       every method on the real embeddings that NUQ_DATA names, into docs/results.md
  docs                          run the demo and all benchmarks, and write their figures and tables into docs/
  docs figures | BENCH...       only the figures, or only the tables of these benchmarks
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["test"] => test(),
        ["test", "python"] => {
            cargo(&["build", "--package", "nuq-cli", "--features", "parquet"]).and_then(|()| python::test())
        }
        ["test", "torch"] => python::test_torch(),
        ["test", "lab"] => test_lab(),
        ["bench", "python"] => python::bench().map(|said| print!("{said}")),
        ["bench", rest @ ..] => bench(rest),
        ["docs"] => docs::figures().and_then(|()| benchmarks::write(&[])),
        ["docs", "figures"] => docs::figures(),
        ["docs", names @ ..] => benchmarks::write(names),
        ["results"] => docs::write_results(),
        [] | ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("xtask: unknown command `{}`\n\n{USAGE}", words.join(" "));
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed(step)) => {
            eprintln!("xtask: failed: {step}");
            ExitCode::FAILURE
        }
    }
}

/// Formatting, lints, tests with all documentation examples, the API documentation without a warning, and the Python package.
fn test() -> Result<(), Failed> {
    if has("fmt") {
        cargo(&["fmt", "--all", "--check"])?;
    } else {
        skip("formatting", "rustup component add rustfmt");
    }
    if has("clippy") {
        cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"])?;
        let parquet = ["clippy", "-p", "nuq-io", "-p", "nuq-cli", "--features", "parquet", "--all-targets"];
        cargo(&[&parquet[..], &["--", "--deny", "warnings"]].concat())?;
    } else {
        skip("lints", "rustup component add clippy");
    }
    // With all that a release has, in one build: a second one without parquet would compile most of it again.
    cargo(&["test", "--workspace", "--features", "nuq-cli/parquet"])?;
    cargo_with(&["doc", "--workspace", "--lib", "--no-deps"], &[("RUSTDOCFLAGS", "--deny warnings")])?;
    python::test()
}

/// The laboratory is a workspace of its own, and its networks take minutes to compile.
fn test_lab() -> Result<(), Failed> {
    let lab = ["--manifest-path", "lab/Cargo.toml"];
    if has("fmt") {
        cargo(&[&["fmt"][..], &lab, &["--check"]].concat())?;
    }
    if has("clippy") {
        cargo(&[&["clippy"][..], &lab, &["--all-targets", "--", "--deny", "warnings"]].concat())?;
    }
    cargo(&[&["test"][..], &lab].concat())
}

/// Builds the benchmarks and runs them.
fn bench(arguments: &[&str]) -> Result<(), Failed> {
    let command = ["run", "--quiet", "--release", "--package", "nuq-bench", "--features", "peers", "--"];
    cargo(&[&command[..], arguments].concat())
}
