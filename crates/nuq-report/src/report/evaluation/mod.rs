//! Reports of evaluations: [`Report::from_evaluation`].

mod curves;
mod histograms;
mod map;
mod summary;

use nuq::calibrate::{Predictor, Threshold};
use nuq::{Decision, FittedModel, Label, NuqClassifier, Predictions};
use nuq_eval::Error;
use nuq_eval::baselines::Input;
use nuq_eval::evaluate::{Comparison, Evaluation, Measured, MethodResult};
use nuq_eval::metrics::{self, Resampling};
use nuq_neighbors::Embeddings;

use crate::model_summary::ModelSummary;
use crate::report::{
    BandwidthCurve, Cell, Fact, Family, Interval, Method, Neighbor, OodCells, OodSet, Provenance, Report,
    TestSet, UncertainRow,
};

/// Name of the test set in a report.
const TEST_NAME: &str = "test";
/// Number of most uncertain rows of the test set that are shown.
const UNCERTAIN_TEST_ROWS: usize = 6;
/// Number of most uncertain rows of each out-of-distribution set that are shown.
const UNCERTAIN_OOD_ROWS: usize = 3;
/// Number of neighbors that are shown for each uncertain row.
const SHOWN_NEIGHBORS: usize = 5;

/// Optional contents of a report that are not part of the evaluation.
///
/// ```
/// use nuq_report::ReportOptions;
/// let options = ReportOptions { command: "nuq evaluate …".to_owned(), ..ReportOptions::default() };
/// assert!(options.threshold.is_none());
/// ```
#[derive(Debug, Clone, Default)]
pub struct ReportOptions {
    /// A threshold with its name. Its decisions are shown for every set.
    pub threshold: Option<(String, Threshold)>,
    /// Command or call that produced the report; not shown if empty.
    pub command: String,
    /// Program and version that wrote the model file; not shown if empty.
    pub model_written_by: String,
}

impl Report {
    /// Makes a report of an evaluation. `evaluation` must be the result of `comparison` with `model`.
    ///
    /// ```
    /// use nuq::{Embeddings, NuqClassifier};
    /// use nuq_eval::evaluate::{Comparison, Rows};
    /// use nuq_report::{Report, ReportOptions};
    ///
    /// let train = Embeddings::from_rows(&[[0.0, 0.0], [0.1, 0.1], [0.0, 0.2], [1.0, 1.0], [1.1, 1.0], [1.0, 1.2]])?;
    /// let model = NuqClassifier::params().fit(&train, &["cat", "cat", "cat", "dog", "dog", "dog"])?;
    /// let test = Embeddings::from_rows(&[[0.1, 0.0], [1.0, 1.1], [0.2, 0.1], [0.9, 1.0]])?;
    /// let comparison = Comparison::new(Rows::new(&test), &["cat", "dog", "cat", "dog"]);
    /// let evaluation = comparison.run(&model)?;
    ///
    /// let report = Report::from_evaluation(&model, &comparison, &evaluation, &ReportOptions::default())?;
    /// assert_eq!((report.test.rows, report.test.accuracy.value), (4, 1.0));
    /// assert!(report.page().starts_with("<!DOCTYPE html>"));
    /// # Ok::<(), nuq_eval::Error>(())
    /// ```
    ///
    /// # Errors
    /// The eigendecomposition for the projection onto principal components does not converge, or the training rows cannot be
    /// read.
    pub fn from_evaluation(
        model: &NuqClassifier<'_>,
        comparison: &Comparison<'_>,
        evaluation: &Evaluation<'_>,
        options: &ReportOptions,
    ) -> Result<Self, Error> {
        Source { model, comparison, evaluation, options }.report()
    }
}

/// Everything that a report is computed from.
struct Source<'s> {
    model: &'s NuqClassifier<'s>,
    comparison: &'s Comparison<'s>,
    evaluation: &'s Evaluation<'s>,
    options: &'s ReportOptions,
}

/// A data set with its predictions.
struct Set<'s> {
    name: &'s str,
    embeddings: &'s Embeddings<'s>,
    predictions: &'s Predictions<'s>,
    /// Predictions of the network; `None` without logits.
    with_logits: Option<&'s Predictions<'s>>,
    /// Labels of the test set; `None` for other sets.
    labels: Option<&'s [Label]>,
}

impl Set<'_> {
    /// The predictions of one predictor; `None` for the network if there are no logits.
    fn by(&self, predictor: Predictor) -> Option<&Predictions<'_>> {
        match predictor {
            Predictor::Nuq => Some(self.predictions),
            Predictor::Network => self.with_logits,
        }
    }

    fn truth(&self, row: usize) -> Option<String> {
        self.labels.map(|labels| labels[row].to_string())
    }
}

impl Source<'_> {
    fn report(&self) -> Result<Report, Error> {
        let Evaluation { test, methods, skipped, .. } = self.evaluation;
        let sets = self.sets();
        let detection_curves = (0..sets.len() - 1)
            .map(|set| curves::detection(self.evaluation, set))
            .collect::<Result<Vec<_>, _>>()?;
        let (roc, counts) = detection_curves.into_iter().unzip();
        Ok(Report {
            summary: self.summary()?,
            model: self.facts(),
            test: TestSet {
                name: TEST_NAME.to_owned(),
                rows: test.len(),
                training_rows: self
                    .model
                    .equal_training_rows(self.comparison.test().embeddings, test.neighbors()),
                accuracy: interval(self.evaluation.accuracy),
                rejected: self.rejected(&sets[0]),
            },
            ood: sets[1..]
                .iter()
                .map(|set| OodSet {
                    name: set.name.to_owned(),
                    rows: set.predictions.len(),
                    rejected: self.rejected(set),
                })
                .collect(),
            methods: methods.iter().map(method).collect(),
            skipped: skipped
                .iter()
                .map(|skipped| Fact { name: skipped.name.clone(), value: skipped.reason.clone() })
                .collect(),
            risk_coverage: curves::risk_coverage(self.evaluation)?,
            roc,
            counts,
            histograms: histograms::histograms(&sets, self.options.threshold.as_ref()),
            bandwidth: self.bandwidth(),
            map: Some(map::map(self.model, &sets, self.comparison.resampling_params().seed)?),
            most_uncertain: self.most_uncertain(&sets),
            provenance: self.provenance(),
        })
    }

    /// All sets, the test set first.
    fn sets(&self) -> Vec<Set<'_>> {
        let test = Set {
            name: TEST_NAME,
            embeddings: self.comparison.test().embeddings,
            predictions: &self.evaluation.test,
            with_logits: self.evaluation.test_with_logits.as_ref(),
            labels: Some(self.comparison.labels()),
        };
        let ood = self.comparison.ood_sets().iter().enumerate().map(|(i, (name, rows))| Set {
            name,
            embeddings: rows.embeddings,
            predictions: &self.evaluation.ood[i],
            with_logits: self.evaluation.ood_with_logits[i].as_ref(),
            labels: None,
        });
        std::iter::once(test).chain(ood).collect()
    }

    fn facts(&self) -> Vec<Fact> {
        let mut facts = ModelSummary::of_classifier(self.model).facts();
        if let Some((name, threshold)) = &self.options.threshold {
            facts.push(Fact { name: format!("threshold “{name}”"), value: threshold.to_string() });
        }
        facts
    }

    /// For each row, whether the threshold accepts it; `None` without a threshold, or without the logits that it needs.
    fn accepted(&self, set: &Set<'_>) -> Option<Vec<bool>> {
        let (_, threshold) = self.options.threshold.as_ref()?;
        let predictions = set.by(threshold.predictor)?;
        Some(predictions.iter().map(|p| threshold.decide(p) == Decision::Accept).collect())
    }

    /// Share of predictions that the threshold rejects.
    fn rejected(&self, set: &Set<'_>) -> Option<f64> {
        let accepted = self.accepted(set)?;
        let rejected = accepted.iter().filter(|accepted| !**accepted).count();
        Some(rejected as f64 / accepted.len() as f64)
    }

    fn bandwidth(&self) -> Option<BandwidthCurve> {
        let curve = self.model.bandwidth_curve()?;
        let points =
            curve.points.iter().map(|p| (p.bandwidth, p.score.accuracy, p.score.log_likelihood)).collect();
        Some(BandwidthCurve { points, chosen: curve.chosen })
    }

    fn most_uncertain(&self, sets: &[Set<'_>]) -> Vec<UncertainRow> {
        let mut shown = vec![];
        for (i, set) in sets.iter().enumerate() {
            let log_total = |row: usize| set.predictions[row].log_total;
            let mut rows: Vec<usize> = (0..set.predictions.len()).collect();
            rows.sort_by(|&a, &b| log_total(b).total_cmp(&log_total(a)).then(a.cmp(&b)));
            rows.truncate(if i == 0 { UNCERTAIN_TEST_ROWS } else { UNCERTAIN_OOD_ROWS });
            shown.extend(rows.into_iter().map(|row| self.uncertain_row(set, row)));
        }
        shown
    }

    fn uncertain_row(&self, set: &Set<'_>, row: usize) -> UncertainRow {
        let (prediction, nearest) = (&set.predictions[row], set.predictions.neighbors());
        let neighbor = |(&id, sq_distance): (&u32, &f64)| Neighbor {
            row: id,
            distance: sq_distance.sqrt(),
            label: self
                .model
                .classes()
                .label(self.model.training_classes()[id as usize] as usize)
                .to_string(),
        };
        let neighbors = nearest.ids(row).iter().zip(nearest.sq_distances(row)).take(SHOWN_NEIGHBORS);
        UncertainRow {
            set: set.name.to_owned(),
            row,
            label: set.predictions.label(row).to_string(),
            truth: set.truth(row),
            probability: prediction.probability,
            aleatoric: prediction.aleatoric,
            log_epistemic: prediction.log_epistemic,
            neighbors: neighbors.map(neighbor).collect(),
        }
    }

    fn provenance(&self) -> Provenance {
        let Resampling { resamples, seed } = self.comparison.resampling_params();
        Provenance {
            command: self.options.command.clone(),
            version: concat!("nuq ", env!("CARGO_PKG_VERSION")).to_owned(),
            model_written_by: self.options.model_written_by.clone(),
            seed,
            resamples,
        }
    }
}

fn interval(interval: metrics::Interval) -> Interval {
    Interval { value: interval.value, low: interval.low, high: interval.high }
}

fn cell(measured: Measured) -> Cell {
    Cell { interval: interval(measured.interval), is_best: measured.is_best }
}

fn family(result: &MethodResult) -> Family {
    let has = |input: Input| result.inputs.contains(&input);
    match (has(Input::Embeddings), has(Input::Logits)) {
        _ if result.id.is_nuq() => Family::Nuq,
        _ if has(Input::Members) => Family::Members,
        (true, true) => Family::Both,
        (true, false) => Family::Embeddings,
        (false, _) => Family::Logits,
    }
}

fn method(result: &MethodResult) -> Method {
    Method {
        name: result.name.clone(),
        family: family(result),
        rcc_auc: cell(result.rcc_auc),
        ood: result
            .ood
            .iter()
            .map(|set| OodCells {
                roc_auc: cell(set.roc_auc),
                aupr: cell(set.average_precision),
                fpr95: cell(set.fpr95),
            })
            .collect(),
        mean_roc_auc: result.mean_roc_auc,
        milliseconds: result.seconds_per_1000.map(|seconds| 1000.0 * seconds),
        bytes: result.bytes,
    }
}
