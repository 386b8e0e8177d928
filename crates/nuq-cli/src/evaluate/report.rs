//! What an evaluation found, arranged to be shown.

use nuq::calibrate::Measure;
use nuq::nuq_neighbors::SeededRng;
use nuq::{Decision, Label, Predictions};
use nuq_eval::baselines::Input;
use nuq_eval::evaluate::{Measured, MethodResult, Predictor, principal_plane};
use nuq_eval::metrics::{self, Selective};
use nuq_report::{
    BandwidthCurve, Cell, Fact, Family, Histogram, Interval, Map, MapPoint, Mark, Method, Neighbor, OodCells,
    OodSet, Provenance, Report, TestSet, UncertainRow,
};

use super::{Shown, curves};
use crate::error::Error;

/// Points of the map.
const MAP_POINTS: usize = 3000;
/// Uncertain rows shown of the test set, and of each other.
const UNCERTAIN_TEST: usize = 6;
const UNCERTAIN_OOD: usize = 3;
/// Neighbors shown of each.
const NEAR: usize = 5;

impl Shown<'_> {
    pub(super) fn report(&self) -> Result<Report, Error> {
        let found = self.found;
        let detections =
            (0..found.ood.len()).map(|set| curves::detection(found, set)).collect::<Result<Vec<_>, _>>()?;
        let (roc, counts) = detections.into_iter().unzip();
        Ok(Report {
            summary: self.sentence()?,
            model: self.facts(),
            test: TestSet {
                name: self.arrays.test.name.clone(),
                rows: found.test.len(),
                accuracy: interval(found.accuracy),
                rejected: self.rejected(&found.test),
            },
            ood: self
                .arrays
                .ood
                .iter()
                .zip(&found.ood)
                .map(|(set, predictions)| OodSet {
                    name: set.name.clone(),
                    rows: predictions.len(),
                    rejected: self.rejected(predictions),
                })
                .collect(),
            methods: found.methods.iter().map(method).collect(),
            left_out: found
                .skipped
                .iter()
                .map(|skipped| Fact { name: skipped.name.clone(), value: skipped.reason.clone() })
                .collect(),
            risk_coverage: curves::risk_coverage(found)?,
            roc,
            counts,
            histograms: self.histograms(),
            bandwidth: self.bandwidth(),
            map: Some(self.map()?),
            most_uncertain: self.most_uncertain(),
            made_by: Provenance {
                command: command(),
                version: concat!("nuq ", env!("CARGO_PKG_VERSION")).to_owned(),
                model_written_by: self.written_by.to_owned(),
                seed: self.options.seed,
                resamples: self.options.resamples,
            },
        })
    }

    /// The finding, in a few sentences.
    fn sentence(&self) -> Result<String, Error> {
        let found = self.found;
        let who = match found.errors_of {
            Predictor::Network => "The network",
            Predictor::Nuq => "The model",
        };
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let mut text =
            format!("{who} is right on {} of {} test rows.", percent(found.accuracy.value), found.test.len());
        let total = &found.methods.iter().find(|method| method.name == "NUQ total");
        if let Some(total) = total {
            let kept = Selective::new(&total.test, &found.is_error).map_err(Error::from)?.risk_at(0.9);
            text += &format!(" Of the 90 % that NUQ is surest of, it is right on {}.", percent(1.0 - kept));
        }
        let epistemic = found.methods.iter().find(|method| method.name == "NUQ epistemic");
        let areas: Vec<String> = epistemic
            .into_iter()
            .flat_map(|method| self.arrays.ood.iter().zip(&method.ood))
            .map(|(set, cells)| format!("{} ({:.3})", set.name, cells.roc_auc.interval.value))
            .collect();
        if !areas.is_empty() {
            text += &format!(" Epistemic uncertainty tells them from {} by ROC-AUC.", listed(&areas));
        }
        if let (Some(name), Some(test)) = (&self.options.threshold, self.rejected(&found.test)) {
            let of_sets = self.arrays.ood.iter().zip(&found.ood);
            let rejected = std::iter::once(format!("{} of the test rows", percent(test)))
                .chain(of_sets.filter_map(|(set, predictions)| {
                    Some(format!("{} of {}", percent(self.rejected(predictions)?), set.name))
                }))
                .collect::<Vec<_>>();
            text += &format!(" The threshold “{name}” rejects {}", listed(&rejected));
            text += &self.accuracy_of_accepted().map_or(".".to_owned(), |share| {
                format!("; of the test rows that it accepts, {} are right.", percent(share))
            });
        }
        if let Some(doubt) = super::doubtful_order(self.model, self.arrays, found) {
            text += &format!(" {doubt}");
        }
        Ok(text)
    }

    fn facts(&self) -> Vec<Fact> {
        let mut facts: Vec<Fact> = vec![];
        for (name, value) in self.summary.facts() {
            match facts.last_mut() {
                Some(last) if name.is_empty() => last.value += &format!("; {value}"),
                _ => facts.push(Fact { name: name.to_owned(), value }),
            }
        }
        if let (Some(name), Some(threshold)) = (&self.options.threshold, self.threshold) {
            facts.push(Fact { name: format!("threshold “{name}”"), value: threshold.to_string() });
        }
        facts
    }

    /// The share of predictions that the threshold rejects.
    fn rejected(&self, predictions: &Predictions<'_>) -> Option<f64> {
        let threshold = self.threshold?;
        let rejected = predictions.iter().filter(|p| threshold.decide(p) == Decision::Reject).count();
        Some(rejected as f64 / predictions.len() as f64)
    }

    /// How many of the test predictions that the threshold accepts are right.
    fn accuracy_of_accepted(&self) -> Option<f64> {
        let threshold = self.threshold?;
        let is_accepted = |i: &usize| threshold.decide(&self.found.test[*i]) == Decision::Accept;
        let accepted: Vec<usize> = (0..self.found.test.len()).filter(is_accepted).collect();
        let right = accepted.iter().filter(|&&i| !self.found.is_error[i]).count();
        (!accepted.is_empty()).then(|| right as f64 / accepted.len() as f64)
    }

    /// Every set with its name, the test set first.
    fn sets(&self) -> impl Iterator<Item = (&super::Set, &Predictions<'_>)> {
        std::iter::once((&self.arrays.test, &self.found.test))
            .chain(self.arrays.ood.iter().zip(&self.found.ood))
    }

    fn histograms(&self) -> Vec<Histogram> {
        let mut measures = vec![Measure::Epistemic, Measure::Total];
        if let Some(threshold) = self.threshold
            && !measures.contains(&threshold.measure)
        {
            measures.push(threshold.measure);
        }
        let of = |measure: Measure| {
            let name = match measure {
                Measure::Aleatoric => "aleatoric uncertainty",
                Measure::Epistemic => "log epistemic uncertainty",
                Measure::Total => "log total uncertainty",
                Measure::Density => "minus log density",
            };
            let sets: Vec<(&str, Vec<f64>)> = self
                .sets()
                .map(|(set, found)| (&*set.name, found.iter().map(|p| measure.of(p)).collect()))
                .collect();
            let mark = self.threshold.filter(|threshold| threshold.measure == measure).map(|threshold| {
                Mark { name: self.options.threshold.clone().unwrap_or_default(), value: threshold.value }
            });
            curves::histogram(name, &sets, mark)
        };
        measures.into_iter().filter_map(of).collect()
    }

    fn bandwidth(&self) -> Option<BandwidthCurve> {
        let curve = self.model.bandwidth_curve()?;
        let points =
            curve.points.iter().map(|p| (p.bandwidth, p.score.accuracy, p.score.log_likelihood)).collect();
        Some(BandwidthCurve { points, chosen: curve.chosen })
    }

    /// An even sample of all sets in the plane in which the training rows differ most.
    fn map(&self) -> Result<Map, Error> {
        let plane = principal_plane(self.model)?;
        let all: usize = self.sets().map(|(set, _)| set.rows.len()).sum();
        let mut ranked: Vec<f64> = self.found.test.iter().map(|p| p.log_total).collect();
        ranked.sort_by(f64::total_cmp);
        let rank = |value: f64| ranked.partition_point(|&v| v < value) as f64 / ranked.len() as f64;
        let mut points = vec![];
        for (number, (set, found)) in self.sets().enumerate() {
            let most = (MAP_POINTS * set.rows.len()).div_ceil(all);
            let chosen = SeededRng::new(self.options.seed).sample(set.rows.len(), most);
            for (row, (x, y)) in chosen.iter().zip(plane.project(&set.rows.gather(&chosen))) {
                let row = *row as usize;
                let prediction = &found[row];
                points.push(MapPoint {
                    x,
                    y,
                    set: number,
                    row,
                    label: found.label(row).to_string(),
                    truth: self.truth(number, row),
                    probability: prediction.probability,
                    log_epistemic: prediction.log_epistemic,
                    rank: rank(prediction.log_total),
                });
            }
        }
        let sets = self.sets().map(|(set, _)| set.name.clone()).collect();
        Ok(Map { explained: plane.explained, sets, points })
    }

    fn truth(&self, set: usize, row: usize) -> Option<String> {
        (set == 0).then(|| self.arrays.labels[row].to_string())
    }

    fn most_uncertain(&self) -> Vec<UncertainRow> {
        let mut shown = vec![];
        for (number, (set, found)) in self.sets().enumerate() {
            let mut rows: Vec<usize> = (0..found.len()).collect();
            rows.sort_by(|&a, &b| found[b].log_total.total_cmp(&found[a].log_total).then(a.cmp(&b)));
            rows.truncate(if number == 0 { UNCERTAIN_TEST } else { UNCERTAIN_OOD });
            shown.extend(rows.into_iter().map(|row| self.uncertain(number, &set.name, found, row)));
        }
        shown
    }

    fn uncertain(&self, number: usize, set: &str, found: &Predictions<'_>, row: usize) -> UncertainRow {
        let near = found.neighbors().ids(row).iter().zip(found.neighbors().sq_distances(row)).take(NEAR);
        let label = |id: u32| self.model.classes().label(self.model.training_classes()[id as usize] as usize);
        UncertainRow {
            set: set.to_owned(),
            row,
            label: found.label(row).to_string(),
            truth: self.truth(number, row),
            probability: found[row].probability,
            aleatoric: found[row].aleatoric,
            log_epistemic: found[row].log_epistemic,
            neighbors: near
                .map(|(&id, sq)| Neighbor {
                    row: id,
                    distance: sq.sqrt(),
                    label: Label::to_string(label(id)),
                })
                .collect(),
        }
    }
}

fn interval(found: metrics::Interval) -> Interval {
    Interval { value: found.value, low: found.low, high: found.high }
}

fn cell(measured: Measured) -> Cell {
    Cell { interval: interval(measured.interval), is_best: measured.is_best }
}

fn method(found: &MethodResult) -> Method {
    let has = |input: Input| found.inputs.contains(&input);
    let family = match (has(Input::Embeddings), has(Input::Logits)) {
        _ if found.name.starts_with("NUQ") => Family::Nuq,
        _ if has(Input::Members) => Family::Members,
        (true, true) => Family::Both,
        (true, false) => Family::Embeddings,
        (false, _) => Family::Logits,
    };
    Method {
        name: found.name.clone(),
        family,
        rcc_auc: cell(found.rcc_auc),
        ood: found
            .ood
            .iter()
            .map(|set| OodCells {
                roc_auc: cell(set.roc_auc),
                aupr: cell(set.average_precision),
                fpr95: cell(set.fpr95),
            })
            .collect(),
        mean_roc_auc: found.mean_roc_auc,
        milliseconds: 1000.0 * found.seconds_per_1000.unwrap_or(0.0),
        bytes: found.bytes,
    }
}

/// "a, b and c".
fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// The command as it was typed, quoted where a shell needs it.
fn command() -> String {
    let quoted = |word: String| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
        if !word.is_empty() && word.chars().all(is_plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    std::iter::once("nuq".to_owned())
        .chain(std::env::args().skip(1).map(quoted))
        .collect::<Vec<_>>()
        .join(" ")
}
