//! Development tasks of the workspace: `cargo xtask test | bench | fuzz | faults | kills | soak | sanitize | unsafe | results | docs |
//! release`.

mod benchmarks;
mod build_code;
mod corpora;
mod cuda;
mod docs;
mod faults;
mod fuzz;
mod fuzz_progress;
mod kills;
mod python;
mod release;
mod reliability;
mod rust_tokens;
mod sanitize;
mod security_page;
mod soak;
mod steps;
mod unsafe_code;

use std::process::ExitCode;

use steps::{Failed, cargo, cargo_with, has, skip};

const USAGE: &str = "\
cargo xtask COMMAND

  test                          format, all tests of the Rust crates, examples of the documentation
  test lint                     lints, and the API documentation without warnings
  test python                   the Python package: build the wheel, install it in a new environment, run its tests
  test torch                    the tests that need PyTorch (a large download), after `test python`
  test ecosystem                MLflow, figures, tables, migrations from pytorch-ood, PyOD, cleanlab and MAPIE, the guide as a site,
                                guarded networks of torchvision, timm, transformers, sentence-transformers and ONNX Runtime
                                (large downloads)
  test serve                    the server: 200 kills under load, memory over 20,000 requests, limits and hostile requests, clients of
                                the Open Inference Protocol from PyPI, the files of examples/serving for containers and KServe
  test cluster                  Ray with two nodes, Spark (needs Java), pgvector, LanceDB, Qdrant and FAISS (large downloads)
  test cuda                     the tests of searches on a GPU
  test lab                      the laboratory: lints, tests and every experiment at a small size
  bench [search | fit | score | baselines | growth]
                                speed on this machine, compared with other libraries
  bench imagenet [ROWS] [COLUMNS]
                                fit and predict at the size of ImageNet, 1281167 × 2048 (needs 22 GB of disk space)
  bench commands [ROWS] [COLUMNS]
                                time and memory of the commands of the command line, 200000 × 512
  bench cuda                    searches on a GPU, compared with PyTorch
  bench cluster [ROWS]          scoring a parquet file with Ray and Spark, compared with the command line
  bench python                  the Python package compared with Rust
  bench serve                   the server compared with FastAPI and uvicorn
  bench serve memory            the memory of the server during a million requests
  bench guard                   a guarded forward pass of a ResNet-50 compared with a plain one (downloads PyTorch)
  bench sets                    prediction sets and intervals compared with MAPIE
  results                       evaluate every method on the embeddings in the folder NUQ_DATA and write docs/results.md
  fuzz [TARGET] [--runs N | --seconds N | --converge]
                                coverage-guided tests of all readers of files and requests (folder fuzz; Linux)
  fuzz corpora                  write the archives of fuzz/corpora from the inputs that runs have found
  fuzz seeds                    write the first inputs of the fuzz targets again, after a change of the model format
  faults [PART] [--quick]       failing system calls, full disks, shortened files and other faults of the system, during the commands
                                and the service (folder reliability/faults; Linux, Python and a C compiler); a few of them with --quick
  sanitize [address | thread | python]
                                the tests of unsafe code with the sanitizers of the compiler, and tests of the Python package with the
                                address sanitizer
  unsafe                        every use of `unsafe` with its reason; one without a reason is an error
  kills [fit | shards | score | calibrate | save | guard | serve] [--kills N]
                                kill commands at random moments, 500 times each, and check the files that they leave
  soak --minutes N [--release]  the server under load for a long time: answers, memory, descriptors and latencies (target/reliability)
  docs                          run the demo, the coverage simulation and all benchmarks except cuda and imagenet, and write their
                                figures and tables into docs/
  docs coverage                 simulate the size of the epistemic uncertainty and write docs/coverage.md
  docs shards                   simulate a search that is split over shards and write its tables into docs/scale-out.md
  docs reliability              the table of docs/reliability.md, from the counts that fuzz, faults, kills, soak and sanitize recorded
  docs page                     the picture of the page of `nuq serve --demo` only
  docs figures | BENCH...       the figures only, or the tables of these benchmarks only
  release [SHA256SUMS]          build wheel, source distribution, binary, list of components and checksums in target/dist, and run the
                                README with them; compare the checksums with the file of another build
";

/// The features of a release.
const PARQUET: [&str; 2] = ["--features", "nuq-cli/parquet"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["test"] => test(),
        ["test", "lint"] => test_lint(),
        ["test", "python"] => build_program().and_then(|_| python::test()),
        ["test", "torch"] => python::test_torch(),
        ["test", "ecosystem"] => python::test_ecosystem(),
        ["test", "serve"] => test_serve(),
        ["test", "cluster"] => test_cluster(),
        ["test", "lab"] => test_lab(),
        ["test", "cuda"] => cuda::test(),
        ["bench", "cuda"] => cuda::bench().map(|table| print!("{table}")),
        ["bench", "cluster", rows @ ..] => python::bench_cluster(rows).map(|table| print!("{table}")),
        ["bench", "python"] => python::bench().map(|table| print!("{table}")),
        ["bench", "serve"] => python::bench_serve(&[]).map(|table| print!("{table}")),
        ["bench", "serve", "memory"] => python::bench_serve(&["memory"]).map(|table| print!("{table}")),
        ["bench", "guard"] => python::bench_guard().map(|table| print!("{table}")),
        ["bench", "sets"] => python::bench_sets().map(|table| print!("{table}")),
        ["bench", rest @ ..] => bench(rest),
        ["docs"] => {
            docs::figures().and_then(|()| docs::write_coverage()).and_then(|()| benchmarks::write(&[]))
        }
        ["docs", "figures"] => docs::figures(),
        ["docs", "page"] => docs::serve(),
        ["docs", "coverage"] => docs::write_coverage(),
        ["docs", "shards"] => python::write_shards(),
        ["docs", "reliability"] => reliability::write_page(),
        ["docs", names @ ..] => benchmarks::write(names),
        ["fuzz", options @ ..] => fuzz::fuzz(options),
        ["faults", options @ ..] => faults::faults(options),
        ["sanitize", names @ ..] => sanitize::sanitize(names),
        ["unsafe"] => unsafe_code::list(),
        ["kills", options @ ..] => kills::kills(options),
        ["soak", options @ ..] => soak::soak(options),
        ["results"] => docs::write_results(),
        ["release"] => release::release(None),
        ["release", checksums] => release::release(Some(checksums)),
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

/// Format, and all tests of the crates, with those of the documentation. Lints and the Python package have steps of their own, because
/// each of them compiles most packages once more.
///
/// All steps except one of the lints enable the feature `parquet` as releases do, so they share compiled dependencies.
fn test() -> Result<(), Failed> {
    check_format()?;
    cargo(&[&["test", "--workspace"][..], &PARQUET].concat())
}

fn check_format() -> Result<(), Failed> {
    if has("fmt") {
        cargo(&["fmt", "--all", "--check"])?;
        cargo(&["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"])
    } else {
        skip("format", "rustup component add rustfmt");
        Ok(())
    }
}

/// Lints, the API documentation without warnings, and three checks: unsafe code has reasons, dependencies that run code at build time are listed
/// with reasons, and the tests that SECURITY.md names exist.
///
/// The second lint step checks the default features: it excludes the Python package, which enables `parquet`. It includes tests,
/// because they enable features of dependencies; without the tests, the dependencies would have other features and would be checked again.
fn test_lint() -> Result<(), Failed> {
    check_format()?;
    if has("clippy") {
        let deny = ["--", "--deny", "warnings"];
        cargo(&[&["clippy", "--workspace", "--all-targets"][..], &PARQUET, &deny].concat())?;
        cargo(&[&["clippy", "--workspace", "--exclude", "nuq-python", "--all-targets"][..], &deny].concat())?;
    } else {
        skip("lints", "rustup component add clippy");
    }
    unsafe_code::check()?;
    build_code::check()?;
    security_page::check()?;
    let doc = [&["doc", "--workspace", "--lib", "--no-deps"][..], &PARQUET].concat();
    cargo_with(&doc, &[("RUSTDOCFLAGS", "--deny warnings")])
}

/// The server, on a loopback address: 200 kills while models are changed, its memory over many requests, limits and hostile requests,
/// replacement of models and shutdown, TLS, clients of the Open Inference Protocol from PyPI, and the files of `examples/serving`.
/// `cargo xtask test` runs all Rust tests of the server, these with fewer kills and requests.
fn test_serve() -> Result<(), Failed> {
    build_program()?;
    // The packages and features are the same as in `test`, so nothing is compiled again.
    let tests = [
        "--test",
        "integration",
        "--",
        "kill::",
        "memory::",
        "hostile::",
        "limits::",
        "lifecycle::",
        "tls::",
    ];
    let tests = [&["test", "--workspace"][..], &PARQUET, &tests].concat();
    cargo_with(&tests, &[("NUQ_KILLS", "200"), ("NUQ_REQUESTS", "20000")])?;
    python::test_serve_clients()
}

/// Ray, Spark and vector databases. The tests compare results with the command line, which is built with the features of `test`.
fn test_cluster() -> Result<(), Failed> {
    build_program()?;
    python::test_cluster()
}

/// The checks of the laboratory, a separate workspace whose dependencies take minutes to compile.
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

/// Builds the command line with the features of `test`, whose compiled dependencies are used again, and returns its path.
fn build_program() -> Result<String, Failed> {
    cargo(&[&["build", "--workspace", "--bin", "nuq"][..], &PARQUET].concat())?;
    Ok(python::program("debug"))
}

/// Builds the benchmarks and runs them.
fn bench(arguments: &[&str]) -> Result<(), Failed> {
    let command = ["run", "--quiet", "--release", "--package", "nuq-bench", "--features", "peers", "--"];
    cargo(&[&command[..], arguments].concat())
}
