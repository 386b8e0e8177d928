//! What an evaluation found, as plain data: all that the page, the figures and the JSON show, and nothing computed here.

use serde::Serialize;

/// The whole of it.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What was found, in a sentence or two.
    pub summary: String,
    /// What the model is: names and values, to be read as a list.
    pub model: Vec<Fact>,
    /// The rows whose labels are known.
    pub test: TestSet,
    /// The sets that are unlike the training data.
    pub ood: Vec<OodSet>,
    /// The methods, best kept in the order to be shown.
    pub methods: Vec<Method>,
    /// Methods that were left out, and why.
    pub left_out: Vec<Fact>,
    /// For some methods the error rate among the least uncertain: share of rows kept, error rate.
    pub risk_coverage: Vec<Curve>,
    /// For each set of `ood`, for some methods: false alarms, detections.
    pub roc: Vec<Vec<Curve>>,
    /// For each set of `ood`, for some methods: rows accepted of test and set together, most certain first, and how many
    /// of them belong to the set.
    pub counts: Vec<Vec<Curve>>,
    /// How scores of the test set and of the others lie, a picture for each score.
    pub histograms: Vec<Histogram>,
    /// How the bandwidth was chosen, where it was.
    pub bandwidth: Option<BandwidthCurve>,
    /// The rows in the plane of the two directions in which they differ most.
    pub map: Option<Map>,
    /// The most uncertain rows.
    pub most_uncertain: Vec<UncertainRow>,
    /// What made this report.
    pub made_by: MadeBy,
}

/// A name and a value.
#[derive(Debug, Clone, Serialize)]
pub struct Fact {
    /// The name.
    pub name: String,
    /// The value, as it is read.
    pub value: String,
}

/// A number with the interval in which it lies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The number.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The test set.
#[derive(Debug, Clone, Serialize)]
pub struct TestSet {
    /// Its name.
    pub name: String,
    /// Its rows.
    pub rows: usize,
    /// How many were predicted right, of one.
    pub accuracy: Interval,
    /// How many the threshold rejects, of one.
    pub rejected: Option<f64>,
}

/// A set that is unlike the training data.
#[derive(Debug, Clone, Serialize)]
pub struct OodSet {
    /// Its name.
    pub name: String,
    /// Its rows.
    pub rows: usize,
    /// How many the threshold rejects, of one.
    pub rejected: Option<f64>,
}

/// What a method looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// This project's uncertainties.
    Nuq,
    /// The network's outputs.
    Logits,
    /// The embeddings.
    Embeddings,
    /// Both.
    Both,
    /// The outputs of several networks, or of one that was asked several times.
    Members,
}

/// A method and how well it does.
#[derive(Debug, Clone, Serialize)]
pub struct Method {
    /// Its name.
    pub name: String,
    /// What it looks at.
    pub family: Family,
    /// Area under the risk-coverage curve: lower is better.
    pub rcc_auc: Cell,
    /// For each set of `ood` in turn.
    pub ood: Vec<OodCells>,
    /// The mean of the areas under the ROC curves.
    pub mean_roc_auc: Option<f64>,
    /// Milliseconds for a thousand queries.
    pub milliseconds: f64,
    /// Bytes that it keeps beside the training embeddings.
    pub bytes: u64,
}

/// How well a method tells a set from the test set.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct OodCells {
    /// Area under the ROC curve.
    pub roc_auc: Cell,
    /// Average precision, the set's rows being what is looked for.
    pub aupr: Cell,
    /// False alarms where 95 % of the set are found: lower is better.
    pub fpr95: Cell,
}

/// A number in a table.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Cell {
    /// The number, with its interval.
    pub interval: Interval,
    /// Whether no other method is better beyond chance.
    pub is_best: bool,
}

/// A line.
#[derive(Debug, Clone, Serialize)]
pub struct Curve {
    /// What it shows: a method, or a reference such as "best possible".
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// How many rows have scores in each bin.
#[derive(Debug, Clone, Serialize)]
pub struct Histogram {
    /// The score, such as "log epistemic".
    pub score: String,
    /// The ends of the bins, ascending; one more than bins.
    pub edges: Vec<f64>,
    /// For each set its name and the share of its rows in each bin; the test set first.
    pub sets: Vec<Bars>,
    /// Where the threshold lies, and what it is called.
    pub threshold: Option<Mark>,
}

/// The bars of one set.
#[derive(Debug, Clone, Serialize)]
pub struct Bars {
    /// The set.
    pub name: String,
    /// The share of its rows in each bin.
    pub shares: Vec<f64>,
}

/// A place on an axis.
#[derive(Debug, Clone, Serialize)]
pub struct Mark {
    /// What is there.
    pub name: String,
    /// Where.
    pub value: f64,
}

/// What leave-one-out said of each bandwidth.
#[derive(Debug, Clone, Serialize)]
pub struct BandwidthCurve {
    /// Bandwidth, accuracy, mean log-likelihood.
    pub points: Vec<(f64, f64, f64)>,
    /// The one that was taken.
    pub chosen: usize,
}

/// The rows in a plane.
#[derive(Debug, Clone, Serialize)]
pub struct Map {
    /// The share of the variance that each axis shows.
    pub explained: (f64, f64),
    /// The sets, the test set first.
    pub sets: Vec<String>,
    /// The points.
    pub points: Vec<MapPoint>,
}

/// A row on the map.
#[derive(Debug, Clone, Serialize)]
pub struct MapPoint {
    /// From left to right.
    pub x: f64,
    /// From bottom to top.
    pub y: f64,
    /// The number of its set.
    pub set: usize,
    /// Its number in the set.
    pub row: usize,
    /// The predicted label.
    pub label: String,
    /// The label it has, where that is known.
    pub truth: Option<String>,
    /// Of the predicted label.
    pub probability: f64,
    /// The natural logarithm of its epistemic uncertainty.
    pub log_epistemic: f64,
    /// Its place among all rows of the test set by total uncertainty, 0 for the most certain and 1 for the least.
    pub rank: f64,
}

/// A row that is hard to say anything about.
#[derive(Debug, Clone, Serialize)]
pub struct UncertainRow {
    /// Its set.
    pub set: String,
    /// Its number in the set.
    pub row: usize,
    /// The predicted label.
    pub label: String,
    /// The label it has, where that is known.
    pub truth: Option<String>,
    /// Of the predicted label.
    pub probability: f64,
    /// Aleatoric uncertainty.
    pub aleatoric: f64,
    /// The natural logarithm of the epistemic uncertainty.
    pub log_epistemic: f64,
    /// The nearest training rows.
    pub neighbors: Vec<NearRow>,
}

/// A training row near another.
#[derive(Debug, Clone, Serialize)]
pub struct NearRow {
    /// Its number in the training set.
    pub row: u32,
    /// How far.
    pub distance: f64,
    /// Its label.
    pub label: String,
}

/// What made a report.
#[derive(Debug, Clone, Serialize)]
pub struct MadeBy {
    /// The command, as it was typed.
    pub command: String,
    /// The program and its version.
    pub version: String,
    /// What the model file says wrote it.
    pub model_written_by: String,
    /// The seed of all resampling.
    pub seed: u64,
    /// How often scores were resampled for the intervals.
    pub resamples: usize,
}
