//! Plain data of a report: everything that the page, the figures, the table and the JSON output show.

use serde::Serialize;

/// Results of an evaluation.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Main results, one per line.
    pub summary: String,
    /// Properties of the model.
    pub model: Vec<Fact>,
    /// Test set, whose labels are known.
    pub test: TestSet,
    /// Out-of-distribution sets.
    pub ood: Vec<OodSet>,
    /// Methods in display order.
    pub methods: Vec<Method>,
    /// Skipped methods with reasons.
    pub skipped: Vec<Fact>,
    /// Risk-coverage curves of selected methods: (share of accepted rows, error rate among them).
    pub risk_coverage: Vec<Curve>,
    /// ROC curves of selected methods for each set of `ood`: (false positive rate, true positive rate).
    pub roc: Vec<Vec<Curve>>,
    /// Count curves of selected methods for each set of `ood`: (number of accepted rows, number of `ood` rows among them).
    /// The rows of the test set and of the `ood` set are ranked together, and the most certain rows are accepted.
    pub counts: Vec<Vec<Curve>>,
    /// Histograms of NUQ's uncertainties, one per measure.
    pub histograms: Vec<Histogram>,
    /// Leave-one-out scores by bandwidth; `None` if the bandwidth was not selected.
    pub bandwidth: Option<BandwidthCurve>,
    /// Rows projected onto two principal components.
    pub map: Option<Map>,
    /// Most uncertain rows of each set.
    pub most_uncertain: Vec<UncertainRow>,
    /// Command, versions and bootstrap parameters of the report.
    pub provenance: Provenance,
}

/// A name and a value.
#[derive(Debug, Clone, Serialize)]
pub struct Fact {
    /// Name of the property.
    pub name: String,
    /// Value as displayed.
    pub value: String,
}

/// A value with a 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Value on all rows.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// Size and results of the test set.
#[derive(Debug, Clone, Serialize)]
pub struct TestSet {
    /// Name of the set.
    pub name: String,
    /// Number of rows.
    pub rows: usize,
    /// Number of rows that equal training rows. Metrics on such rows are too optimistic.
    pub training_rows: usize,
    /// Share of correct predictions, in [0, 1].
    pub accuracy: Interval,
    /// Share of rows that the threshold rejects, in [0, 1]; `None` without a threshold, or without the logits that it
    /// needs.
    pub rejected: Option<f64>,
}

/// Size and results of an out-of-distribution set.
#[derive(Debug, Clone, Serialize)]
pub struct OodSet {
    /// Name of the set.
    pub name: String,
    /// Number of rows.
    pub rows: usize,
    /// Share of rows that the threshold rejects, in [0, 1]; `None` without a threshold, or without the logits that it
    /// needs.
    pub rejected: Option<f64>,
}

/// Inputs of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Embeddings and a fitted NUQ model, with or without logits.
    Nuq,
    /// Logits of the network.
    Logits,
    /// Embeddings.
    Embeddings,
    /// Logits and embeddings.
    Both,
    /// Logits of several ensemble members or stochastic forward passes.
    Members,
}

/// Results of one method.
#[derive(Debug, Clone, Serialize)]
pub struct Method {
    /// Name of the method in tables and legends.
    pub name: String,
    /// Inputs of the method.
    pub family: Family,
    /// Area under the risk-coverage curve; lower is better.
    pub rcc_auc: Cell,
    /// Detection results for each set of `ood`.
    pub ood: Vec<OodCells>,
    /// Mean area under the ROC curves; `None` without out-of-distribution sets.
    pub mean_roc_auc: Option<f64>,
    /// Milliseconds per 1000 queries; `None` if the methods were not timed.
    pub milliseconds: Option<f64>,
    /// Memory in bytes in addition to the model.
    pub bytes: u64,
}

/// Results of a method at separating an out-of-distribution set from the test set.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct OodCells {
    /// Area under the ROC curve.
    pub roc_auc: Cell,
    /// Average precision, with the rows of the set as positives.
    pub aupr: Cell,
    /// False positive rate at a true positive rate of 95 %; lower is better.
    pub fpr95: Cell,
}

/// A table cell.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Cell {
    /// Value with its interval.
    pub interval: Interval,
    /// Whether no other method is significantly better.
    pub is_best: bool,
}

/// A curve of a chart.
#[derive(Debug, Clone, Serialize)]
pub struct Curve {
    /// Name of a method, or of a reference such as "best possible".
    pub name: String,
    /// Kind of the curve; it determines the line style.
    pub kind: CurveKind,
    /// Points in order of x.
    pub points: Vec<(f64, f64)>,
}

/// Kind of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CurveKind {
    /// A method of NUQ.
    Nuq,
    /// A baseline.
    Baseline,
    /// A reference such as the optimum.
    Reference,
}

/// Histogram of a score.
#[derive(Debug, Clone, Serialize)]
pub struct Histogram {
    /// Name of the score, such as "log epistemic uncertainty".
    pub score: String,
    /// Ascending bin edges, one more than the number of bins. The first edge may be −∞, and the last edge may be ∞. A bin with an
    /// infinite edge counts all scores beyond its finite edge and is drawn apart from the other bins.
    pub edges: Vec<f64>,
    /// Sets, the test set first.
    pub sets: Vec<HistogramSet>,
    /// Threshold on this score, if there is one.
    pub threshold: Option<Mark>,
}

/// Bins of one set.
#[derive(Debug, Clone, Serialize)]
pub struct HistogramSet {
    /// Name of the set.
    pub name: String,
    /// Number of rows.
    pub rows: usize,
    /// Share of the set's rows in each bin.
    pub shares: Vec<f64>,
}

/// A named value on an axis.
#[derive(Debug, Clone, Serialize)]
pub struct Mark {
    /// Text of the mark.
    pub name: String,
    /// Position on the axis.
    pub value: f64,
}

/// Leave-one-out scores by bandwidth.
#[derive(Debug, Clone, Serialize)]
pub struct BandwidthCurve {
    /// (Bandwidth, accuracy, mean log-likelihood).
    pub points: Vec<(f64, f64, f64)>,
    /// Index of the selected bandwidth.
    pub chosen: usize,
}

/// Rows projected onto a plane.
#[derive(Debug, Clone, Serialize)]
pub struct Map {
    /// Share of the variance that each axis explains.
    pub explained: (f64, f64),
    /// Names of the sets, the test set first.
    pub sets: Vec<String>,
    /// Projected rows.
    pub points: Vec<MapPoint>,
}

/// A projected row.
#[derive(Debug, Clone, Serialize)]
pub struct MapPoint {
    /// Horizontal coordinate.
    pub x: f64,
    /// Vertical coordinate.
    pub y: f64,
    /// Index of its set.
    pub set: usize,
    /// Row number in the set, from 0.
    pub row: usize,
    /// Predicted label.
    pub label: String,
    /// True label, if known.
    pub truth: Option<String>,
    /// Probability of the predicted label.
    pub probability: f64,
    /// Natural logarithm of the epistemic uncertainty.
    pub log_epistemic: f64,
    /// Rank by total uncertainty: the share of test rows with a lower total uncertainty, in [0, 1].
    pub rank: f64,
}

/// A row with high uncertainty.
#[derive(Debug, Clone, Serialize)]
pub struct UncertainRow {
    /// Name of its set.
    pub set: String,
    /// Row number in the set, from 0.
    pub row: usize,
    /// Predicted label.
    pub label: String,
    /// True label, if known.
    pub truth: Option<String>,
    /// Probability of the predicted label.
    pub probability: f64,
    /// Aleatoric uncertainty.
    pub aleatoric: f64,
    /// Natural logarithm of the epistemic uncertainty.
    pub log_epistemic: f64,
    /// Nearest training rows.
    pub neighbors: Vec<Neighbor>,
}

/// A neighboring training row.
#[derive(Debug, Clone, Serialize)]
pub struct Neighbor {
    /// Row number in the training set, from 0.
    pub row: u32,
    /// Distance from the uncertain row.
    pub distance: f64,
    /// Label of the training row.
    pub label: String,
}

/// Command, versions and bootstrap parameters of a report.
#[derive(Debug, Clone, Serialize)]
pub struct Provenance {
    /// Command line.
    pub command: String,
    /// Program name and version.
    pub version: String,
    /// Program and version that wrote the model file.
    pub model_written_by: String,
    /// Seed of the bootstrap.
    pub seed: u64,
    /// Number of bootstrap resamples.
    pub resamples: usize,
}
