//! Tests of the HTML page of a report in a headless browser at desktop, tablet and phone width. A script that is added only here checks
//! the layout, operates the controls and posts its results to the parent page.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::sample;
use serde_json::Value;

const CHECKS: &str = include_str!("../browser/checks.js");
const FRAME: &str = include_str!("../browser/frame.html");

/// Path of the browser: the variable `NUQ_CHROMIUM`, else a known name in `PATH`.
fn chromium() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("NUQ_CHROMIUM") {
        return Some(path.into());
    }
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|path| path.is_file())
}

/// Results of the checks on a page at a given width. A frame is used because headless windows have a minimum width.
fn run_checks(browser: &Path, name: &str, page: &str, width: u32) -> Value {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{width}"));
    std::fs::create_dir_all(&folder).expect("the folder can be created");
    // Inserted before the page's own scripts, so that their errors are recorded.
    let checked = page.replacen("<head>", &format!("<head><script>{CHECKS}</script>"), 1);
    std::fs::write(folder.join("page.html"), checked).expect("the page can be written");
    std::fs::write(folder.join("frame.html"), FRAME.replace("WIDTH", &width.to_string()))
        .expect("the frame can be written");
    let output = Command::new(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,900"])
        .args(["--virtual-time-budget=8000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("file://{}", folder.join("frame.html").display()))
        .output()
        .expect("the browser starts");
    let dom = String::from_utf8_lossy(&output.stdout);
    let begin =
        dom.find("<pre id=\"result\">").expect("the frame has a result") + "<pre id=\"result\">".len();
    let text = &dom[begin..begin + dom[begin..].find("</pre>").expect("the result ends")];
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("the result is not JSON ({error}): {text}"))
}

/// Checks a page with a given number of figures at three widths; skipped without a browser.
fn check(name: &str, page: &str, figures: u64) {
    let Some(browser) = chromium() else {
        eprintln!(
            "no Chromium found (NUQ_CHROMIUM, chromium, chromium-browser, google-chrome): page test skipped"
        );
        return;
    };
    for width in [1280, 768, 360] {
        let result = run_checks(&browser, name, page, width);
        assert_eq!(result["failures"], Value::Array(vec![]), "{name} at {width} px");
        assert_eq!(result["width"], width, "width of the frame");
        assert_eq!(result["figures"], figures, "{name} at {width} px");
        assert!(result["checks"].as_u64().is_some_and(|checks| checks > 100), "{result}");
    }
}

#[test]
fn a_full_page_passes_all_checks() {
    let report = sample(&["svhn", "textures"]);
    check("full", &report.page(), report.figures().len() as u64);
}

#[test]
fn a_page_without_ood_sets_bandwidth_curve_map_and_uncertain_rows_passes_all_checks() {
    let mut report = sample(&[]);
    report.bandwidth = None;
    report.map = None;
    report.most_uncertain.clear();
    check("plain", &report.page(), 4);
}

#[test]
fn a_page_with_numbers_of_extreme_magnitude_and_a_method_without_a_time_passes_all_checks() {
    let mut report = sample(&["svhn"]);
    for (histogram, scale) in report.histograms.iter_mut().zip([1e-9, 1e9]) {
        histogram.edges.iter_mut().for_each(|edge| *edge = scale * (*edge - 8.0));
        histogram.threshold = None;
    }
    let bandwidth = report.bandwidth.as_mut().unwrap();
    bandwidth.points.iter_mut().for_each(|point| point.0 *= 1e-9);
    report.methods[2].milliseconds = None;
    check("extreme", &report.page(), report.figures().len() as u64);
}

#[test]
fn a_page_with_long_names_four_sets_and_thirty_methods_passes_all_checks() {
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
