//! Tests and benchmarks of searches on a GPU.

use crate::PARQUET;
use crate::python::{target, text};
use crate::steps::{Failed, cargo, cargo_with, output, root, skip};

/// The name of the GPU, or the reason why it cannot be used. Both are printed by the example `device` of nuq-cuda. It is built with the
/// packages and features of `cargo xtask test`, so that nothing is compiled again.
fn device() -> Result<Result<String, String>, Failed> {
    cargo(&[&["build", "--quiet", "--workspace", "--example", "device"][..], &PARQUET].concat())?;
    let program = target().join("debug/examples").join(format!("device{}", std::env::consts::EXE_SUFFIX));
    let text = output(&text(&program), &[], &root())?;
    let text = text.trim();
    Ok(text.strip_prefix("device: ").map(str::to_owned).ok_or_else(|| text.to_owned()))
}

/// Runs the tests of the GPU. Without a GPU they are skipped with a notice; `cargo xtask test` contains the other tests of the package.
pub(crate) fn test() -> Result<(), Failed> {
    match device()? {
        Ok(name) => {
            eprintln!("xtask: tests on {name}");
            cargo_with(&["test", "--package", "nuq-cuda"], &[("NUQ_REQUIRE_CUDA", "1")])
        }
        Err(problem) => {
            skip("the tests that need a GPU", &problem);
            Ok(())
        }
    }
}

/// Times of searches with nuq and with PyTorch on the same arrays.
pub(crate) fn bench() -> Result<String, Failed> {
    if let Err(problem) = device()? {
        return Err(Failed(format!("bench cuda: {problem}")));
    }
    cargo(&["build", "--quiet", "--release", "--package", "nuq-cuda", "--example", "speed"])?;
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    let program = format!("{target}/release/examples/speed{}", std::env::consts::EXE_SUFFIX);
    output("python3", &["bench/cuda.py", &program], &root())
}
