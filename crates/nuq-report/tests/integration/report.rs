//! Tests of a report as page, HTML fragment for notebooks, figures, table and JSON: contents, omitted sections and escaping.

use std::collections::HashSet;

use crate::common::sample;
use nuq_report::{Figure, Report};

/// A report without figures, uncertain rows and properties of the model.
fn minimal() -> Report {
    let mut report = sample(&[]);
    report.risk_coverage.clear();
    report.histograms.clear();
    report.most_uncertain.clear();
    report.model.clear();
    report.bandwidth = None;
    report.map = None;
    report
}

/// Number of pixels that are darker than background and grid.
fn dark_pixels(figure: &Figure) -> usize {
    let data = figure.png(1.0).expect("the figure can be rendered");
    let mut reader = png::Decoder::new(std::io::Cursor::new(data)).read_info().expect("the image is a PNG");
    let mut pixels = vec![0; reader.output_buffer_size().expect("the size is known")];
    reader.next_frame(&mut pixels).expect("the image can be decoded");
    pixels.chunks(4).filter(|pixel| pixel[..3].iter().all(|&channel| channel < 200)).count()
}

#[test]
fn every_figure_has_its_own_name_and_is_not_empty() {
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
        assert!(dark_pixels(figure) > 500, "{stem} is empty");
        std::fs::write(folder.join(format!("{stem}.png")), figure.png(2.0).unwrap()).unwrap();
        std::fs::write(folder.join(format!("{stem}.svg")), figure.svg()).unwrap();
    }
}

#[test]
fn file_names_are_safe_and_unique_for_any_set_names() {
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
fn empty_sections_are_omitted_and_the_others_are_in_order() {
    let page = minimal().page();
    for heading in
        ["Errors", "Scores", "Detection", "Acceptance", "Bandwidth", "Map", "Most uncertain rows", "Model"]
    {
        assert!(!page.contains(&format!(">{heading}</h2>")), "{heading}");
    }
    assert!(page.contains(">Methods</h2>") && page.contains(">Reproduction</h2>"));
    assert!(!page.contains("Mean ROC-AUC") && minimal().figures().is_empty());
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
fn text_from_data_is_escaped() {
    let markup = "</script><script>alert(1)</script>\u{2028}\"'&";
    let mut report = sample(&[markup]);
    report.summary = markup.to_owned();
    report.test.name = markup.to_owned();
    report.provenance.command = markup.to_owned();
    report.methods[0].name = markup.to_owned();
    report.risk_coverage[0].name = markup.to_owned();
    report.histograms[0].score = markup.to_owned();
    report.most_uncertain[0].label = markup.to_owned();
    report.most_uncertain[0].neighbors[0].label = markup.to_owned();
    let map = report.map.as_mut().unwrap();
    map.points[0].label = markup.to_owned();
    let page = report.page();
    assert!(!page.contains("<script>alert") && !page.contains("</script><script>alert"));
    let scripts = page.matches("<script").count();
    assert_eq!(scripts, sample(&["svhn"]).page().matches("<script").count());
    assert_eq!(scripts, page.matches("</script").count());
    assert!(report.figures().iter().all(|(_, figure)| figure.png(1.0).is_ok()));
}

#[test]
fn names_of_sets_are_not_paths() {
    let report = sample(&["../../x", "..", "/etc/passwd", "a\\b", "", "x\0y", "ä"]);
    let stems: Vec<String> = report.figures().into_iter().map(|(stem, _)| stem).collect();
    assert!(stems.len() > 7, "{stems:?}");
    let is_plain =
        |stem: &String| stem.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    assert!(stems.iter().all(|stem| !stem.is_empty() && is_plain(stem)), "{stems:?}");
}

#[test]
fn a_page_makes_no_network_requests() {
    let page = sample(&["svhn", "textures"]).page();
    let text = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!text.contains("http://") && !text.contains("https://"));
    assert!(!text.contains("<link") && !text.contains("<img") && !text.contains(" src="));
    assert_eq!(page.matches("@font-face").count(), 2, "the font is embedded once, in two weights");
}

#[test]
fn a_page_with_4000_points_is_smaller_than_1_2_mb() {
    let mut report = sample(&["svhn", "textures"]);
    let map = report.map.as_mut().unwrap();
    map.points = map.points.iter().cycle().take(4000).cloned().collect();
    let size = report.page().len();
    assert!(size < 1_200_000, "{size}");
}

#[test]
fn infinite_values_are_shown_as_infinity() {
    let mut report = sample(&["svhn"]);
    report.most_uncertain[0].log_epistemic = f64::NEG_INFINITY;
    report.most_uncertain[1].log_epistemic = f64::INFINITY;
    report.histograms[0].edges[0] = f64::NEG_INFINITY;
    report.histograms[0].threshold.as_mut().unwrap().value = f64::INFINITY;
    report.bandwidth.as_mut().unwrap().points[0].2 = f64::NEG_INFINITY;
    let page = report.page();
    assert!(page.contains(">−∞</td>") && page.contains(">∞</td>"));
    assert!(page.contains("The separate bins at the ends contain the ") && page.contains(" above 4.00."));
    // The page's script contains `Number.isNaN`, with which it tests for missing values.
    let data = page.replace("Number.isNaN", "");
    assert!(!data.contains("NaN") && !data.contains("inf\"") && !data.contains(" inf "));
}

#[test]
fn the_table_is_at_most_110_characters_wide_and_aligned() {
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
        // The column of memory contains "none" for methods without additional memory. Column and legend are shown or omitted together.
        assert_eq!(
            table.contains(" none\n"),
            table.contains("memory: required in addition to the model"),
            "\n{table}"
        );
        assert!(!table.contains(" 0 B"), "\n{table}");
        println!("{table}");
    }
}

#[test]
fn times_that_were_not_measured_are_shown_as_dashes() {
    let mut report = sample(&["svhn"]);
    assert!(!report.page().contains("–</td>") && !report.html_fragment().contains("<td>–</td>"));
    report.methods.iter_mut().for_each(|method| method.milliseconds = None);
    let rows = report.methods.len();
    assert_eq!(report.page().matches("<td data-v=\"\">–</td>").count(), rows);
    assert_eq!(report.html_fragment().matches("<td>–</td>").count(), rows);
    let table = report.table();
    let has_dash = |line: &&str| line.split_whitespace().any(|word| word == "–");
    assert_eq!(table.lines().filter(has_dash).count(), rows, "\n{table}");
    let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    assert!(json["methods"][0]["milliseconds"].is_null());
}

#[test]
fn a_fragment_has_the_table_and_two_figures_and_no_script() {
    let report = sample(&["svhn", "textures"]);
    let fragment = report.html_fragment();
    assert!(fragment.starts_with("<div class=\"nuq-report\">") && fragment.ends_with("</div>\n"));
    assert_eq!(fragment.matches("<tr").count(), 1 + report.methods.len());
    assert_eq!(fragment.matches("<figure>").count(), 2);
    assert!(!fragment.contains("<script") && !fragment.contains("http") && !fragment.contains("@font-face"));
    assert!(fragment.contains("ROC-AUC, svhn") && fragment.contains("class=\"nuq-best\""));
    assert!(fragment.len() < 60_000, "{}", fragment.len());
    // Every CSS rule is restricted to the fragment.
    let style = &fragment[fragment.find("*/").unwrap() + 2..fragment.find("</style>").unwrap()];
    let selectors =
        style.split('}').filter_map(|rule| rule.split('{').next()).flat_map(|rule| rule.split(','));
    assert!(selectors.map(str::trim).filter(|s| !s.is_empty()).all(|s| s.starts_with(".nuq-report")));
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(folder.join("fragment.html"), fragment).unwrap();
}

#[test]
fn a_fragment_without_ood_sets_or_curves_has_no_empty_parts() {
    let fragment = minimal().html_fragment();
    assert!(
        !fragment.contains("ROC-AUC,")
            && !fragment.contains("<figure>")
            && !fragment.contains("nuq-figures\"")
    );
    assert!(fragment.contains("RCC-AUC"));
}

#[test]
fn names_in_a_fragment_are_escaped() {
    let mut report = sample(&["<script>alert(1)</script>"]);
    report.methods[0].name = "<b>".to_owned();
    report.summary = "<i>".to_owned();
    let fragment = report.html_fragment();
    assert!(!fragment.contains("<script") && !fragment.contains("<i>") && fragment.contains("&lt;b&gt;"));
}

#[test]
fn json_has_the_methods_and_no_figure_data() {
    let json: serde_json::Value = serde_json::from_str(&sample(&["svhn"]).json()).unwrap();
    assert_eq!(json["methods"][0]["name"], "nuq total");
    assert_eq!(json["methods"][0]["family"], "nuq");
    for field in ["risk_coverage", "roc", "counts", "histograms", "bandwidth", "map", "most_uncertain"] {
        assert!(json.get(field).is_none(), "{field}");
    }
}
