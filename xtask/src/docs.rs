//! `cargo xtask docs`: figures and tables of the documentation, made by the commands they document.

use std::fs;

use crate::steps::{Failed, cargo, cargo_output, root};

/// Runs the demo and the benchmarks and writes `docs/figures` and `docs/benchmarks.md`.
pub(crate) fn write() -> Result<(), Failed> {
    cargo(&["run", "--quiet", "--release", "--", "demo", "--out", "docs/figures"])?;
    page()?;
    let bench = |name: &str| {
        cargo_output(&[
            "run",
            "--quiet",
            "--release",
            "--package",
            "nuq-bench",
            "--features",
            "peers",
            "--",
            name,
        ])
    };
    let (search, fit, rivals, growth) = (bench("search")?, bench("fit")?, bench("rivals")?, bench("growth")?);
    let (exact, graph) = search.split_once("\nGraph search").unwrap_or((&search, ""));
    let (growth, graph_growth) = growth.split_once("\nBuilding a graph").unwrap_or((&growth, ""));
    let page = format!(
        "# Benchmarks\n\n\
         Written by `cargo xtask docs` on one machine ({}), each table in one run; `cargo xtask bench` prints the same tables on \
         yours. Ratios above 1 mean that nuq is faster.\n\n\
         ## Exact search\n\n```text\n{}\n```\n\n\
         *Agreement* is the share of neighbors that both found; they differ only where faiss's `f32` distances tie or \
         cancel.\n\n\
         ## Graph search\n\n```text\nGraph search{}\n```\n\n\
         ## Fit and predict\n\n```text\n{}\n```\n\n\
         ## Other methods\n\n```text\n{}\n```\n\n\
         *×* compares fitting and scoring together, *× score* scoring alone. Scores agree in their order where *rank agreement* \
         is 1; pytorch-ood's covariance is not shrunk.\n\n\
         ## Growth with the number of rows\n\n![Seconds against training rows](figures/growth.png)\n\n```text\n{}\n```\n\n\
         Up to 10,000 rows every training point is left out in turn, and fitting grows with the square of the rows; \
         beyond that a sample of 10,000 is, and it grows in proportion.\n\n\
         ## Growth of a graph\n\n![Seconds of building against rows](figures/graph-growth.png)\n\n\
         ```text\nBuilding a graph{}\n```\n\n\
         Memory is the largest that the process took beyond what it took before it had data. Some three megabytes of it \
         do not depend on the rows, and show below a hundred thousand of them.\n",
        machine(),
        exact.trim(),
        graph.trim_end(),
        fit.trim(),
        rivals.trim(),
        growth.trim(),
        graph_growth.trim_end(),
    );
    let path = root().join("docs/benchmarks.md");
    fs::write(&path, page).map_err(|error| Failed(format!("writing {}: {error}", path.display())))
}

/// The processor, as the system names it.
fn machine() -> String {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        info.lines()
            .find(|line| line.starts_with(name))
            .and_then(|line| line.split(": ").nth(1))
            .unwrap_or("")
    };
    let model = field("model name");
    let wide = if field("flags").contains("avx512f") { ", AVX-512" } else { "" };
    format!("{}{wide}, {threads} threads", if model.is_empty() { std::env::consts::ARCH } else { model })
}

/// Every method on real embeddings, as `docs/results.md`.
pub(crate) fn write_results() -> Result<(), Failed> {
    let page = cargo_output(&["run", "--quiet", "--release", "--package", "nuq-bench", "--", "results"])?;
    if page.is_empty() {
        return Err(Failed("results: no data".to_owned()));
    }
    let path = root().join("docs/results.md");
    fs::write(&path, page).map_err(|e| Failed(format!("{}: {e}", path.display())))
}

/// The example's evaluation page, as a browser shows its top.
fn page() -> Result<(), Failed> {
    let folder = std::env::temp_dir().join(format!("nuq-docs-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|e| Failed(format!("{}: {e}", folder.display())))?;
    let (model, page) = (folder.join("cifar10.nuq"), folder.join("report.html"));
    let (model, page) = (model.to_string_lossy().into_owned(), page.to_string_lossy().into_owned());
    let array = |file: &str, name: &str| format!("examples/cifar10/{file}.npz:{name}");
    let nuq = |arguments: &[&str]| {
        cargo(&[&["run", "--quiet", "--release", "--"][..], arguments, &["--quiet"]].concat())
    };
    let (x, y) = (array("train", "embeddings"), array("train", "labels"));
    nuq(&["fit", "--embeddings", &x, "--labels", &y, "--out", &model])?;
    let held_out = array("held_out", "embeddings");
    let target = ["--target", "false-alarm=0.05", "--name", "guard"];
    nuq(&[&["calibrate", "--model", &model, "--embeddings", &held_out][..], &target].concat())?;
    let mut arguments: Vec<String> =
        ["evaluate", "--model", &model, "--threshold", "guard", "--report", &page]
            .map(str::to_owned)
            .to_vec();
    for (option, name) in [("--test", "embeddings"), ("--labels", "labels"), ("--logits", "logits")] {
        arguments.extend([option.to_owned(), array("test", name)]);
    }
    for set in ["svhn", "textures"] {
        arguments.extend(["--ood".to_owned(), format!("{set}={}", array(set, "embeddings"))]);
        arguments.extend(["--ood-logits".to_owned(), format!("{set}={}", array(set, "logits"))]);
    }
    nuq(&arguments.iter().map(String::as_str).collect::<Vec<_>>())?;
    let picture = root().join("docs/figures/report.png");
    screenshot(&page, &picture.to_string_lossy())?;
    fs::remove_dir_all(&folder).map_err(|e| Failed(format!("{}: {e}", folder.display())))
}

/// The top of a page.
fn screenshot(page: &str, picture: &str) -> Result<(), Failed> {
    let browsers = ["chromium", "chromium-browser", "google-chrome"];
    let options =
        ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1280,1120"];
    let taken = browsers.iter().any(|browser| {
        let mut command = std::process::Command::new(browser);
        command.args(options).arg(format!("--screenshot={picture}")).arg(page);
        command.stderr(std::process::Stdio::null()).status().is_ok_and(|status| status.success())
    });
    if taken { Ok(()) } else { Err(Failed("a picture of the page: install chromium".to_owned())) }
}
