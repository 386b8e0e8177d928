//! The figures of a report: contents, file names, captions and line styles.

use std::collections::HashSet;

use crate::charts::captioned_drawing::CaptionedDrawing;
use crate::charts::line_chart::{LineChart, Panel, Series};
use crate::charts::{embedding_map, histogram, line_style};
use crate::drawing::axis::{Axis, Unit};
use crate::drawing::canvas::LineStyle;
use crate::drawing::color::Color;
use crate::drawing::figure::Figure;
use crate::drawing::number_format;
use crate::report::{BandwidthCurve, Curve, CurveKind, Histogram, Map, Mark, Report};

/// All figures of a report by section.
pub(crate) struct ReportFigures {
    pub(crate) errors: Vec<CaptionedDrawing>,
    pub(crate) histograms: Vec<CaptionedDrawing>,
    pub(crate) roc: Vec<CaptionedDrawing>,
    pub(crate) counts: Vec<CaptionedDrawing>,
    pub(crate) bandwidth: Option<CaptionedDrawing>,
    pub(crate) map: Option<CaptionedDrawing>,
}

impl Report {
    /// All figures, each with its file name without extension, such as `risk-coverage`, `roc-svhn` or `map`.
    #[must_use]
    pub fn figures(&self) -> Vec<(String, Figure)> {
        let ReportFigures { errors, histograms, roc, counts, bandwidth, map } = ReportFigures::new(self);
        let groups = [errors, histograms, roc, counts];
        let drawings = groups.into_iter().flatten().chain(bandwidth).chain(map);
        drawings.map(|drawing| (drawing.stem.clone(), drawing.figure())).collect()
    }
}

impl ReportFigures {
    /// Draws the figures of a report.
    pub(crate) fn new(report: &Report) -> Self {
        let sets = || report.ood.iter().map(|set| set.name.as_str());
        let mut figures = Self {
            errors: errors(report),
            histograms: report.histograms.iter().map(scores).collect(),
            roc: sets().zip(&report.roc).filter_map(|(set, curves)| roc(report, set, curves)).collect(),
            counts: sets().zip(&report.counts).filter_map(|(set, curves)| counts(set, curves)).collect(),
            bandwidth: report.bandwidth.as_ref().filter(|curve| !curve.points.is_empty()).map(bandwidth),
            map: report.map.as_ref().filter(|map| !map.points.is_empty()).map(embedding_map),
        };
        figures.make_names_unique();
        figures
    }

    /// Appends a number to file names that occur more than once.
    fn make_names_unique(&mut self) {
        let Self { errors, histograms, roc, counts, bandwidth, map } = self;
        let mut used: HashSet<String> = HashSet::new();
        let groups = [errors, histograms, roc, counts];
        for drawing in groups.into_iter().flatten().chain(bandwidth).chain(map) {
            let base = drawing.stem.clone();
            let mut number = 2;
            while !used.insert(drawing.stem.clone()) {
                drawing.stem = format!("{base}-{number}");
                number += 1;
            }
        }
    }
}

/// Thick lines for NUQ, thinner lines for baselines, thin gray lines for references. The color depends on the position in the chart:
/// the first line belongs to NUQ and has the same color in all charts.
fn curve_style(kind: CurveKind, index: usize) -> LineStyle {
    match kind {
        CurveKind::Nuq => line_style::nth(index, line_style::STRONG),
        CurveKind::Baseline => line_style::nth(index, line_style::NORMAL),
        CurveKind::Reference => line_style::REFERENCE,
    }
}

/// Lines with transformed points. Lines of methods come before lines of references.
fn series(curves: &[Curve], transform: impl Fn((f64, f64)) -> (f64, f64)) -> Vec<Series> {
    let (references, methods): (Vec<&Curve>, Vec<&Curve>) =
        curves.iter().partition(|curve| curve.kind == CurveKind::Reference);
    let series = |(index, curve): (usize, &Curve)| {
        let points = curve.points.iter().copied().map(&transform).collect();
        Series { name: curve.name.clone(), style: curve_style(curve.kind, index), points }
    };
    methods.into_iter().chain(references).enumerate().map(series).collect()
}

/// Outline of a set in histograms, by its index.
fn set_style(set: usize) -> LineStyle {
    line_style::nth(set, 1.8)
}

fn captioned(stem: String, title: String, caption: String, chart: &LineChart) -> CaptionedDrawing {
    let (drawing, hover) = chart.draw();
    CaptionedDrawing { stem, title, caption, legend: chart.legend(), drawing, hover }
}

/// Risk against coverage, and the same curves as accuracy against rejection.
fn errors(report: &Report) -> Vec<CaptionedDrawing> {
    if report.risk_coverage.is_empty() {
        return Vec::new();
    }
    let chart = |x: &str, y: Axis, series: Vec<Series>| LineChart {
        x: Axis::new(x, Unit::Share, 0.0, 1.0),
        panels: vec![Panel { y, height: 250.0, series }],
        mark: None,
    };
    // The risk among the few most certain rows can be as high as 100 %. The axis does not have to show such values.
    let is_method = |curve: &&Curve| curve.kind != CurveKind::Reference;
    let risks = || {
        let points = report.risk_coverage.iter().filter(is_method).flat_map(|curve| &curve.points);
        points.filter(|point| point.0 >= 0.05).map(|point| point.1)
    };
    let risk = Axis::covering("error rate among accepted rows (%)", Unit::Share, risks().chain([0.0, 0.01]));
    let accuracy = Axis::new("accuracy among accepted rows (%)", Unit::Share, 1.0 - risk.high, 1.0);
    let accepted = series(&report.risk_coverage, |point| point);
    let rejected = series(&report.risk_coverage, |(coverage, risk)| (1.0 - coverage, 1.0 - risk));
    let name = &report.test.name;
    vec![
        captioned(
            "risk-coverage".to_owned(),
            "Risk-coverage curve".to_owned(),
            format!("Error rate among the most certain {name} rows. Lower is better."),
            &chart("rows accepted, most certain first (%)", risk, accepted),
        ),
        captioned(
            "accuracy-rejection".to_owned(),
            "Accuracy-rejection curve".to_owned(),
            format!("Accuracy after rejecting the most uncertain {name} rows. Higher is better."),
            &chart("rows rejected, most uncertain first (%)", accuracy, rejected),
        ),
    ]
}

fn scores(scores: &Histogram) -> CaptionedDrawing {
    let (drawing, hover) = histogram::draw(scores, &set_style);
    CaptionedDrawing {
        stem: format!("histogram-{}", slug(&scores.score)),
        title: capitalized(&scores.score),
        caption: format!(
            "Distribution of the score in each set.{}{}",
            histogram::threshold_note(scores),
            histogram::outer_bins_note(scores)
        ),
        legend: histogram::legend(scores, &set_style),
        drawing,
        hover,
    }
}

fn roc(report: &Report, set: &str, curves: &[Curve]) -> Option<CaptionedDrawing> {
    let mut series = series(curves, |point| point);
    if series.is_empty() {
        return None;
    }
    if series.iter().all(|line| line.name != "chance") {
        series.push(Series {
            name: "chance".to_owned(),
            style: line_style::REFERENCE,
            points: vec![(0.0, 0.0), (1.0, 1.0)],
        });
    }
    let name = &report.test.name;
    let share = |title: &str| Axis::new(title, Unit::Share, 0.0, 1.0);
    let chart = LineChart {
        x: share("false positive rate (%)"),
        panels: vec![Panel { y: share("true positive rate (%)"), height: 320.0, series }],
        mark: None,
    };
    let caption = format!("Detection of {set} rows (positives) among {name} rows (negatives).");
    Some(captioned(format!("roc-{}", slug(set)), format!("ROC curve: {set}"), caption, &chart))
}

fn counts(set: &str, curves: &[Curve]) -> Option<CaptionedDrawing> {
    let series = series(curves, |point| point);
    let maximum = |coordinate: fn(&(f64, f64)) -> f64| {
        series.iter().flat_map(|line| &line.points).map(coordinate).fold(1.0, f64::max)
    };
    let (rows, of_set) = (maximum(|point| point.0), maximum(|point| point.1));
    let chart = LineChart {
        x: Axis::new("rows accepted, most certain first", Unit::Count, 0.0, rows),
        panels: vec![Panel {
            y: Axis::new(&format!("accepted {set} rows"), Unit::Count, 0.0, of_set),
            height: 250.0,
            series,
        }],
        mark: None,
    };
    let caption = format!("Number of {set} rows among the accepted rows. Lower is better.");
    let is_empty = chart.panels[0].series.is_empty();
    (!is_empty)
        .then(|| captioned(format!("count-{}", slug(set)), format!("Accepted rows: {set}"), caption, &chart))
}

fn bandwidth(curve: &BandwidthCurve) -> CaptionedDrawing {
    let panel = |title: &str, unit: Unit, value: fn(&(f64, f64, f64)) -> f64, series: usize| {
        let points: Vec<(f64, f64)> =
            curve.points.iter().map(|point| (point.0, value(point))).filter(|p| p.1.is_finite()).collect();
        let style = LineStyle { color: Color::SERIES[series], width: 2.2, dash: "" };
        let y = Axis::covering(title, unit, points.iter().map(|point| point.1));
        Panel { y, height: 150.0, series: vec![Series { name: title.to_owned(), style, points }] }
    };
    let chosen = curve.points.get(curve.chosen).map(|point| point.0);
    let name = |h: f64| format!("selected: {}", number_format::significant(h, 4));
    let mut chart = LineChart {
        x: Axis::log("bandwidth h (log scale)", curve.points.iter().map(|point| point.0)),
        panels: vec![
            panel("accuracy (%)", Unit::Share, |point| point.1, 0),
            panel("log-likelihood", Unit::Number, |point| point.2, 1),
        ],
        mark: chosen.map(|value| Mark { name: name(value), value }),
    };
    // A criterion that is not finite at any bandwidth is not drawn.
    chart.panels.retain(|panel| !panel.series[0].points.is_empty());
    let caption = "Leave-one-out accuracy and mean log-likelihood by bandwidth. Higher is better.";
    let (stem, title) = ("bandwidth".to_owned(), "Bandwidth selection".to_owned());
    // The axis title of each panel names its only line.
    CaptionedDrawing { legend: Vec::new(), ..captioned(stem, title, caption.to_owned(), &chart) }
}

fn embedding_map(map: &Map) -> CaptionedDrawing {
    let (drawing, hover) = embedding_map::draw(map);
    let (first, second) = map.explained;
    CaptionedDrawing {
        stem: "map".to_owned(),
        title: "Map of the embeddings".to_owned(),
        caption: format!(
            "Projection onto the first two principal components of the training rows, which explain {} and {} of the \
             variance. Color: rank by total uncertainty among the test rows.",
            number_format::percent(first),
            number_format::percent(second)
        ),
        legend: embedding_map::legend(map),
        drawing,
        hover,
    }
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// A name as part of a file name: at most 40 lowercase letters, digits and single hyphens; `set` if none remain.
fn slug(name: &str) -> String {
    let letters: String =
        name.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let words: Vec<&str> = letters.split('-').filter(|word| !word.is_empty()).collect();
    let joined: String = words.join("-").chars().take(40).collect();
    let slug = joined.trim_end_matches('-');
    if slug.is_empty() { "set".to_owned() } else { slug.to_owned() }
}
