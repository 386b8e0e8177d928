//! `cargo xtask docs` and `cargo xtask results`: figures of the documentation, produced by the documented commands, and the pages
//! docs/results.md and docs/coverage.md.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::steps::{Failed, cargo, cargo_output, root};

/// Writes `docs/figures`: the figures of `nuq demo`, of the evaluation of the example, and of the page of the server.
pub(crate) fn figures() -> Result<(), Failed> {
    cargo(&["run", "--quiet", "--release", "--", "demo", "--out", "docs/figures"])?;
    page()?;
    serve()
}

/// Screenshot of the page of `nuq serve --demo` after the demonstration has scored test images and then house numbers, which are
/// outliers.
pub(crate) fn serve() -> Result<(), Failed> {
    cargo(&["build", "--release", "--package", "nuq-cli"])?;
    let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    let address = free.map_err(|error| Failed(format!("a free port: {error}")))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), Into::into);
    let server = Command::new(target.join("release/nuq"))
        .args(["serve", "--demo", "--address", &address.to_string(), "--log-level", "warn"])
        .stdin(Stdio::null())
        .spawn();
    let server = KilledOnDrop(server.map_err(|error| Failed(format!("nuq serve: {error}")))?);
    wait_for(address, "/v1/models/cifar10/drift", |text| text.contains("\"alarm\":{"))?;
    // House numbers are scored for half a minute, and the alarm comes in the first seconds. After 20 more seconds the page shows many house
    // numbers.
    sleep(Duration::from_secs(20));
    let picture = root().join("docs/figures/serve.png");
    screenshot(&format!("http://{address}/#view=now"), &picture.to_string_lossy())?;
    drop(server);
    Ok(())
}

/// A process that is killed when this value is dropped.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Requests a path until its response satisfies a condition, at most for three minutes.
fn wait_for(address: SocketAddr, path: &str, is_done: impl Fn(&str) -> bool) -> Result<(), Failed> {
    for _ in 0..360 {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        let mut text = String::new();
        let response = TcpStream::connect(address).and_then(|mut stream| {
            stream.write_all(request.as_bytes())?;
            stream.read_to_string(&mut text)
        });
        if response.is_ok() && is_done(&text) {
            return Ok(());
        }
        sleep(Duration::from_millis(500));
    }
    Err(Failed(format!("http://{address}{path} does not have the expected data")))
}

/// Evaluates every method on real embeddings and writes `docs/results.md`.
pub(crate) fn write_results() -> Result<(), Failed> {
    let page = bench_page("results")?;
    if page.is_empty() {
        return Err(Failed("results: set NUQ_DATA to the folder of the embeddings".to_owned()));
    }
    write_page("results.md", &page)
}

/// Runs the simulations of the epistemic uncertainty and writes `docs/coverage.md` and its figure.
pub(crate) fn write_coverage() -> Result<(), Failed> {
    let page = bench_page("coverage")?;
    write_page("coverage.md", &format!("{}\n", page.trim_end()))
}

fn bench_page(name: &str) -> Result<String, Failed> {
    cargo_output(&["run", "--quiet", "--release", "--package", "nuq-bench", "--", name])
}

fn write_page(name: &str, page: &str) -> Result<(), Failed> {
    let path = root().join("docs").join(name);
    fs::write(&path, page).map_err(|e| Failed(format!("{}: {e}", path.display())))
}

/// Screenshot of the evaluation page of the example.
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
    let target = ["--target", "false_alarm=0.05", "--name", "guard"];
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

/// Writes a screenshot of the top of a page.
fn screenshot(page: &str, picture: &str) -> Result<(), Failed> {
    screenshot_by(&["chromium", "chromium-browser", "google-chrome"], page, picture)
}

/// Writes a screenshot by the first browser that succeeds.
fn screenshot_by(browsers: &[&str], page: &str, picture: &str) -> Result<(), Failed> {
    let options =
        ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1280,1120"];
    // The time in milliseconds that the page has to load its data.
    let options = options.into_iter().chain(["--virtual-time-budget=3000"]);
    let mut problems = vec![];
    for browser in browsers {
        let mut command = Command::new(browser);
        command.args(options.clone()).arg(format!("--screenshot={picture}")).arg(page);
        match command.stderr(Stdio::null()).status() {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => {
                let remedy = format!("run `{browser} --headless=new {page}` to see its messages");
                problems.push(format!("{browser} failed ({status}): {remedy}"));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => problems.push(format!("{browser} could not be started ({error})")),
        }
    }
    let problem = if problems.is_empty() { "install chromium".to_owned() } else { problems.join("; ") };
    Err(Failed(format!("screenshot of the page: {problem}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installed_browser_that_fails_is_named() {
        let message = |browsers: &[&str]| screenshot_by(browsers, "page.html", "page.png").err().unwrap().0;
        assert_eq!(message(&["no-such-browser"]), "screenshot of the page: install chromium");
        let failed = message(&["no-such-browser", "false"]);
        assert!(failed.starts_with("screenshot of the page: false failed (exit status: 1)"), "{failed}");
    }
}
