//! A report in all its forms: what is there, what is left out, and that nothing from data gets out of its place.

mod common;

use std::collections::HashSet;

use common::sample;
use nuq_report::{Figure, Report};

/// A report with hardly anything in it.
fn bare() -> Report {
    let mut report = sample(&[]);
    report.risk_coverage.clear();
    report.histograms.clear();
    report.most_uncertain.clear();
    report.model.clear();
    report.bandwidth = None;
    report.map = None;
    report
}

/// How many pixels of a picture are darker than its ground and grid.
fn ink(figure: &Figure) -> usize {
    let data = figure.png(1.0).expect("a picture");
    let mut reader = png::Decoder::new(std::io::Cursor::new(data)).read_info().expect("a PNG");
    let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
    reader.next_frame(&mut pixels).expect("pixels");
    pixels.chunks(4).filter(|pixel| pixel[..3].iter().all(|&channel| channel < 200)).count()
}

#[test]
fn every_figure_has_a_name_of_its_own_and_ink() {
    let figures = sample(&["svhn", "textures"]).figures();
    let stems: Vec<&str> = figures.iter().map(|(stem, _)| stem.as_str()).collect();
    let expected = [
        "risk-coverage",
        "accuracy-rejection",
        "histogram-log-epistemic",
        "histogram-aleatoric",
        "roc-svhn",
        "roc-textures",
        "count-svhn",
        "count-textures",
        "bandwidth",
        "map",
    ];
    assert_eq!(stems, expected);
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("figures");
    std::fs::create_dir_all(&folder).unwrap();
    for (stem, figure) in &figures {
        assert!(ink(figure) > 500, "{stem} is empty");
        std::fs::write(folder.join(format!("{stem}.png")), figure.png(2.0).unwrap()).unwrap();
        std::fs::write(folder.join(format!("{stem}.svg")), figure.svg()).unwrap();
    }
}

#[test]
fn file_names_are_safe_and_unique_whatever_sets_are_called() {
    let report = sample(&["SVHN (cropped)", "svhn/cropped", "../../etc", "日本語"]);
    let stems: Vec<String> = report.figures().into_iter().map(|(stem, _)| stem).collect();
    assert!(stems.iter().any(|stem| stem == "roc-svhn-cropped-2"));
    assert!(stems.iter().any(|stem| stem == "roc-etc"));
    assert!(
        stems.iter().all(|s| s.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'))
    );
    assert_eq!(stems.iter().collect::<HashSet<_>>().len(), stems.len());
}

#[test]
fn what_is_not_there_has_no_section() {
    let page = bare().page();
    for heading in
        ["Errors", "Scores", "Detection", "Acceptance", "Bandwidth", "Map", "Most uncertain rows", "Model"]
    {
        assert!(!page.contains(&format!(">{heading}</h2>")), "{heading}");
    }
    assert!(page.contains(">Methods</h2>") && page.contains(">How this was made</h2>"));
    assert!(!page.contains("Mean ROC-AUC") && bare().figures().is_empty());
    let full = sample(&["svhn"]).page();
    let at = |heading: &str| full.find(&format!(">{heading}</h2>")).unwrap();
    let order = [
        "Methods",
        "Errors",
        "Scores",
        "Detection",
        "Acceptance",
        "Bandwidth",
        "Map",
        "Most uncertain rows",
        "Model",
    ];
    assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])));
}

#[test]
fn text_from_data_stays_text() {
    let evil = "</script><script>alert(1)</script>\u{2028}\"'&";
    let mut report = sample(&[evil]);
    report.summary = evil.to_owned();
    report.test.name = evil.to_owned();
    report.made_by.command = evil.to_owned();
    report.methods[0].name = evil.to_owned();
    report.risk_coverage[0].name = evil.to_owned();
    report.histograms[0].score = evil.to_owned();
    report.most_uncertain[0].label = evil.to_owned();
    report.most_uncertain[0].neighbors[0].label = evil.to_owned();
    let map = report.map.as_mut().unwrap();
    map.points[0].label = evil.to_owned();
    let page = report.page();
    assert!(!page.contains("<script>alert") && !page.contains("</script><script>alert"));
    let scripts = page.matches("<script").count();
    assert_eq!(scripts, sample(&["svhn"]).page().matches("<script").count());
    assert_eq!(scripts, page.matches("</script").count());
    assert!(report.figures().iter().all(|(_, figure)| figure.png(1.0).is_ok()));
}

#[test]
fn a_page_loads_nothing() {
    let page = sample(&["svhn", "textures"]).page();
    let free = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!free.contains("http://") && !free.contains("https://"));
    assert!(!free.contains("<link") && !free.contains("<img") && !free.contains(" src="));
    assert_eq!(page.matches("@font-face").count(), 2, "the font is there once, in two weights");
}

#[test]
fn a_page_of_4000_points_stays_small() {
    let mut report = sample(&["svhn", "textures"]);
    let map = report.map.as_mut().unwrap();
    map.points = map.points.iter().cycle().take(4000).cloned().collect();
    let size = report.page().len();
    assert!(size < 1_200_000, "{size}");
}

#[test]
fn infinite_values_are_told_and_break_nothing() {
    let mut report = sample(&["svhn"]);
    report.most_uncertain[0].log_epistemic = f64::NEG_INFINITY;
    report.most_uncertain[1].log_epistemic = f64::INFINITY;
    report.histograms[0].edges[0] = f64::NEG_INFINITY;
    report.histograms[0].threshold.as_mut().unwrap().value = f64::INFINITY;
    report.bandwidth.as_mut().unwrap().points[0].2 = f64::NEG_INFINITY;
    let page = report.page();
    assert!(page.contains(">−∞</td>") && page.contains(">∞</td>"));
    assert!(!page.contains("NaN") && !page.contains("inf\"") && !page.contains(" inf "));
}

#[test]
fn the_table_fits_a_terminal_and_aligns() {
    for sets in [&[][..], &["svhn"][..], &["svhn", "textures"][..]] {
        let table = sample(sets).table();
        assert!(table.lines().all(|line| line.chars().count() <= 110), "\n{table}");
        let ends: HashSet<usize> = table
            .lines()
            .filter(|line| line.starts_with("nuq") || line.starts_with("energy"))
            .map(|line| line.chars().count())
            .collect();
        assert_eq!(ends.len(), 1, "\n{table}");
        assert!(table.contains("paired bootstrap") && table.contains('*') && table.contains('±'));
        assert_eq!(table.contains(" none\n"), table.contains("memory: kept beyond the model"), "\n{table}");
        assert!(!table.contains(" 0 B"), "\n{table}");
        println!("{table}");
    }
}
