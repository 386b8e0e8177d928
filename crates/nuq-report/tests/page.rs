//! The page in a real browser, at the width of a desk and of a phone: a script that only this test adds looks at it,
//! uses it as a reader would, and hands its findings to the page around it.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::sample;
use serde_json::Value;

const CHECKS: &str = include_str!("browser/checks.js");
const FRAME: &str = include_str!("browser/frame.html");

/// The browser: the one that `NUQ_CHROMIUM` names, else one of the usual names.
fn chromium() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("NUQ_CHROMIUM") {
        return Some(named.into());
    }
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|path| path.is_file())
}

/// What the checks found on a page of a width. Headless windows cannot be as narrow as a phone, but frames can.
fn verdict(browser: &Path, name: &str, page: &str, width: u32) -> Value {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{width}"));
    std::fs::create_dir_all(&folder).expect("a folder");
    // Before the page's own scripts, so that no error of theirs is missed.
    let checked = page.replacen("<head>", &format!("<head><script>{CHECKS}</script>"), 1);
    std::fs::write(folder.join("page.html"), checked).expect("the page");
    std::fs::write(folder.join("frame.html"), FRAME.replace("WIDTH", &width.to_string())).expect("the frame");
    let output = Command::new(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,900"])
        .args(["--virtual-time-budget=8000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("file://{}", folder.join("frame.html").display()))
        .output()
        .expect("a browser that runs");
    let dom = String::from_utf8_lossy(&output.stdout);
    let begin = dom.find("<pre id=\"verdict\">").expect("the frame") + "<pre id=\"verdict\">".len();
    let text = &dom[begin..begin + dom[begin..].find("</pre>").expect("the end of the verdict")];
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("no verdict ({error}): {text}"))
}

/// Holds a page to its promises; `figures` is how many it has.
fn check(name: &str, page: &str, figures: u64) {
    let Some(browser) = chromium() else {
        eprintln!(
            "no Chromium found (NUQ_CHROMIUM, chromium, chromium-browser, google-chrome): page not looked at"
        );
        return;
    };
    for width in [1280, 360] {
        let found = verdict(&browser, name, page, width);
        assert_eq!(found["failures"], Value::Array(vec![]), "{name} at {width} px");
        assert_eq!(found["width"], width, "the frame has the width that is tested");
        assert_eq!(found["figures"], figures, "{name} at {width} px");
        assert!(found["checks"].as_u64().is_some_and(|checks| checks > 100), "{found}");
    }
}

#[test]
fn a_full_page_works() {
    let report = sample(&["svhn", "textures"]);
    check("full", &report.page(), report.figures().len() as u64);
}

#[test]
fn a_page_without_foreign_sets_works() {
    let mut report = sample(&[]);
    report.bandwidth = None;
    report.map = None;
    report.most_uncertain.clear();
    check("plain", &report.page(), 4);
}

#[test]
fn a_page_with_long_names_four_sets_and_thirty_methods_works() {
    let long = "a_set_whose_name_is_a_path_and_never_seems_to_end_".repeat(4);
    let mut report = sample(&["svhn", &long, "<script>alert(1)</script>", "textures"]);
    report.test.name = format!("{long} with words");
    report.summary = long.clone();
    let methods = report.methods.clone();
    report.methods = methods.into_iter().cycle().take(30).collect();
    for (i, method) in report.methods.iter_mut().enumerate().skip(14) {
        method.name = format!("{} {i} {long}", method.name);
    }
    for row in &mut report.most_uncertain {
        row.label = long.clone();
        row.neighbors[0].label = long.clone();
    }
    let map = report.map.as_mut().unwrap();
    map.points.iter_mut().for_each(|point| point.label = long.clone());
    map.points = map.points.iter().cycle().take(4000).cloned().collect();
    check("long", &report.page(), report.figures().len() as u64);
}
