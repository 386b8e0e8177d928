//! The pictures of a report: which there are, what they are called, and how each method and set looks in all of them.

use std::collections::HashSet;

use crate::axis::{Axis, Unit};
use crate::canvas::Pen;
use crate::color::Color;
use crate::figure::Figure;
use crate::figures::line_chart::{LineChart, Panel, Series};
use crate::figures::picture::Picture;
use crate::figures::{embedding_map, histogram, pens};
use crate::numbers;
use crate::report::{BandwidthCurve, Curve, Family, Histogram, Map, Mark, Method, Report};

/// All pictures, by what they are about.
pub(crate) struct Gallery {
    pub(crate) errors: Vec<Picture>,
    pub(crate) histograms: Vec<Picture>,
    pub(crate) roc: Vec<Picture>,
    pub(crate) counts: Vec<Picture>,
    pub(crate) bandwidth: Option<Picture>,
    pub(crate) map: Option<Picture>,
}

impl Report {
    /// Every figure of the report with a name for its file, without ending: `risk-coverage`, `roc-svhn`, `map`.
    pub fn figures(&self) -> Vec<(String, Figure)> {
        let Gallery { errors, histograms, roc, counts, bandwidth, map } = Gallery::of(self);
        let groups = [errors, histograms, roc, counts];
        let pictures = groups.into_iter().flatten().chain(bandwidth).chain(map);
        pictures.map(|picture| (picture.stem.clone(), picture.figure())).collect()
    }
}

impl Gallery {
    /// The pictures of a report.
    pub(crate) fn of(report: &Report) -> Self {
        let pens = Pens::of(report);
        let sets = || report.ood.iter().map(|set| set.name.as_str());
        let mut gallery = Self {
            errors: errors(report, &pens),
            histograms: report.histograms.iter().map(scores).collect(),
            roc: sets()
                .zip(&report.roc)
                .filter_map(|(set, curves)| roc(report, &pens, set, curves))
                .collect(),
            counts: sets()
                .zip(&report.counts)
                .filter_map(|(set, curves)| counts(&pens, set, curves))
                .collect(),
            bandwidth: report.bandwidth.as_ref().filter(|curve| !curve.points.is_empty()).map(bandwidth),
            map: report.map.as_ref().filter(|map| !map.points.is_empty()).map(map_picture),
        };
        gallery.name_once();
        gallery
    }

    /// Gives pictures whose names would be the same a number.
    fn name_once(&mut self) {
        let Self { errors, histograms, roc, counts, bandwidth, map } = self;
        let mut taken: HashSet<String> = HashSet::new();
        let groups = [errors, histograms, roc, counts];
        for picture in groups.into_iter().flatten().chain(bandwidth).chain(map) {
            let wanted = picture.stem.clone();
            let mut number = 2;
            while !taken.insert(picture.stem.clone()) {
                picture.stem = format!("{wanted}-{number}");
                number += 1;
            }
        }
    }
}

/// How the methods' lines look.
struct Pens {
    /// Name and whether it is this project's.
    methods: Vec<(String, bool)>,
}

impl Pens {
    fn of(report: &Report) -> Self {
        let is_own = |method: &Method| (method.name.clone(), method.family == Family::Nuq);
        Self { methods: report.methods.iter().map(is_own).collect() }
    }

    /// Strong for this project's methods, thinner for others, thin and gray for references. Colors go by the place in the
    /// picture, so that its first line, this project's, is the same in all.
    fn pen(&self, name: &str, place: usize) -> Pen {
        match self.methods.iter().find(|(method, _)| method == name) {
            Some((_, is_own)) => pens::at(place, if *is_own { pens::STRONG } else { pens::PLAIN }),
            None => pens::REFERENCE,
        }
    }

    /// Lines, those of methods first.
    fn series(&self, curves: &[Curve], form: impl Fn((f64, f64)) -> (f64, f64)) -> Vec<Series> {
        let (methods, references): (Vec<&Curve>, Vec<&Curve>) =
            curves.iter().partition(|curve| self.methods.iter().any(|(name, _)| *name == curve.name));
        let series = |(place, curve): (usize, &Curve)| {
            let points = curve.points.iter().copied().map(&form).collect();
            Series { name: curve.name.clone(), pen: self.pen(&curve.name, place), points }
        };
        methods.into_iter().chain(references).enumerate().map(series).collect()
    }
}

/// A set's outline in histograms, the test set first.
fn set_pen(set: usize) -> Pen {
    pens::at(set, 1.8)
}

fn picture(stem: String, title: String, caption: String, chart: &LineChart) -> Picture {
    let (drawing, hover) = chart.draw();
    Picture { stem, title, caption, legend: chart.legend(), drawing, hover }
}

/// Risk over coverage, and the same curves read from the other side.
fn errors(report: &Report, pens: &Pens) -> Vec<Picture> {
    if report.risk_coverage.is_empty() {
        return Vec::new();
    }
    let chart = |x: &str, y: Axis, series: Vec<Series>| LineChart {
        x: Axis::new(x, Unit::Share, 0.0, 1.0),
        panels: vec![Panel { y, height: 250.0, series }],
        mark: None,
    };
    // Of the first few rows one error is a risk of 100 %: they may leave the picture.
    let settled = |curve: &&Curve| pens.methods.iter().any(|(name, _)| *name == curve.name);
    let risks = || {
        let points = report.risk_coverage.iter().filter(settled).flat_map(|curve| &curve.points);
        points.filter(|point| point.0 >= 0.05).map(|point| point.1)
    };
    let risk = Axis::holding("errors among rows kept (%)", Unit::Share, risks().chain([0.0, 0.01]));
    let accuracy = Axis::new("accuracy of rows kept (%)", Unit::Share, 1.0 - risk.high, 1.0);
    let kept = pens.series(&report.risk_coverage, |point| point);
    let rejected = pens.series(&report.risk_coverage, |(coverage, risk)| (1.0 - coverage, 1.0 - risk));
    let name = &report.test.name;
    vec![
        picture(
            "risk-coverage".to_owned(),
            "Risk and coverage".to_owned(),
            format!(
                "Keep only the most certain rows of {name}: how many of them are wrong? Lower is better."
            ),
            &chart("rows kept, most certain first (%)", risk, kept),
        ),
        picture(
            "accuracy-rejection".to_owned(),
            "Accuracy and rejection".to_owned(),
            format!(
                "Reject the most uncertain rows of {name}: how many of the rest are right? Higher is better."
            ),
            &chart("rows rejected, most uncertain first (%)", accuracy, rejected),
        ),
    ]
}

fn scores(scores: &Histogram) -> Picture {
    let (drawing, hover) = histogram::draw(scores, &set_pen);
    Picture {
        stem: format!("histogram-{}", slug(&scores.score)),
        title: capitalized(&scores.score),
        caption: format!("Share of each set's rows in each bin.{}", histogram::threshold(scores)),
        legend: histogram::legend(scores, &set_pen),
        drawing,
        hover,
    }
}

fn roc(report: &Report, pens: &Pens, set: &str, curves: &[Curve]) -> Option<Picture> {
    let mut series = pens.series(curves, |point| point);
    if series.is_empty() {
        return None;
    }
    if series.iter().all(|line| line.name != "chance") {
        series.push(Series {
            name: "chance".to_owned(),
            pen: pens::REFERENCE,
            points: vec![(0.0, 0.0), (1.0, 1.0)],
        });
    }
    let name = &report.test.name;
    let share = |title: &str| Axis::new(title, Unit::Share, 0.0, 1.0);
    let chart = LineChart {
        x: share(&format!("false alarms: rows of {name} flagged (%)")),
        panels: vec![Panel { y: share("rows of the set found (%)"), height: 320.0, series }],
        mark: None,
    };
    let caption = format!("Rows of {set} found against false alarms on {name}.");
    Some(picture(format!("roc-{}", slug(set)), format!("ROC: {set}"), caption, &chart))
}

fn counts(pens: &Pens, set: &str, curves: &[Curve]) -> Option<Picture> {
    let series = pens.series(curves, |point| point);
    let ends = |coordinate: fn(&(f64, f64)) -> f64| {
        series.iter().flat_map(|line| &line.points).map(coordinate).fold(1.0, f64::max)
    };
    let (rows, foreign) = (ends(|point| point.0), ends(|point| point.1));
    let chart = LineChart {
        x: Axis::new("rows accepted, most certain first", Unit::Count, 0.0, rows),
        panels: vec![Panel {
            y: Axis::new("rows of the set among them", Unit::Count, 0.0, foreign),
            height: 250.0,
            series,
        }],
        mark: None,
    };
    let caption = format!("How many rows of {set} are among those accepted? Lower is better.");
    let is_empty = chart.panels[0].series.is_empty();
    (!is_empty).then(|| picture(format!("count-{}", slug(set)), format!("Accepted: {set}"), caption, &chart))
}

fn bandwidth(curve: &BandwidthCurve) -> Picture {
    let panel = |title: &str, unit: Unit, value: fn(&(f64, f64, f64)) -> f64, series: usize| {
        let points: Vec<(f64, f64)> =
            curve.points.iter().map(|point| (point.0, value(point))).filter(|p| p.1.is_finite()).collect();
        let pen = Pen { color: Color::SERIES[series], width: 2.2, dash: "" };
        let y = Axis::holding(title, unit, points.iter().map(|point| point.1));
        Panel { y, height: 150.0, series: vec![Series { name: title.to_owned(), pen, points }] }
    };
    let chosen = curve.points.get(curve.chosen).map(|point| point.0);
    let name = |h: f64| format!("chosen: {}", numbers::significant(h, 4));
    let mut chart = LineChart {
        x: Axis::decades("bandwidth h (log scale)", curve.points.iter().map(|point| point.0)),
        panels: vec![
            panel("accuracy (%)", Unit::Share, |point| point.1, 0),
            panel("log-likelihood", Unit::Number, |point| point.2, 1),
        ],
        mark: chosen.map(|value| Mark { name: name(value), value }),
    };
    // A criterion that is infinite at every bandwidth has no line.
    chart.panels.retain(|panel| !panel.series[0].points.is_empty());
    let caption = "Leave-one-out accuracy and mean log-likelihood at each bandwidth. Higher is better.";
    let (stem, title) = ("bandwidth".to_owned(), "Choice of the bandwidth".to_owned());
    // Each panel says what its only line is.
    Picture { legend: Vec::new(), ..picture(stem, title, caption.to_owned(), &chart) }
}

fn map_picture(map: &Map) -> Picture {
    let (drawing, hover) = embedding_map::draw(map);
    let (first, second) = map.explained;
    Picture {
        stem: "map".to_owned(),
        title: "Map of the rows".to_owned(),
        caption: format!(
            "The two directions in which rows differ most, across {} and up {} of their variance. \
             Color: rank by total uncertainty.",
            numbers::percent(first),
            numbers::percent(second)
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

/// A name as part of a file's name: small letters, digits and single hyphens, at most 40.
fn slug(name: &str) -> String {
    let letters: String =
        name.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let words: Vec<&str> = letters.split('-').filter(|word| !word.is_empty()).collect();
    let joined: String = words.join("-").chars().take(40).collect();
    let slug = joined.trim_end_matches('-');
    if slug.is_empty() { "set".to_owned() } else { slug.to_owned() }
}
