//! Metrics of each method with bootstrap intervals, and marks of the best methods.

use nuq_neighbors::cancel::checkpoint;

use super::registry::Scored;
use super::{MethodId, Rows};
use crate::Error;
use crate::baselines::Input;
use crate::metrics::{Detection, Difference, Interval, Resampling, Selective};

/// A metric of one method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// The value with its 95 % bootstrap interval.
    pub interval: Interval,
    /// Whether the method is the best, or does not differ significantly from the best (paired bootstrap, level 0.05).
    pub is_best: bool,
}

/// Detection metrics of one method for one out-of-distribution set, with the test rows as inliers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DetectionResult {
    /// Area under the ROC curve.
    pub roc_auc: Measured,
    /// Average precision, with the rows of the set as positives.
    pub average_precision: Measured,
    /// False positive rate at a true positive rate of 95 %. Lower is better.
    pub fpr95: Measured,
}

/// The scores and metrics of one method.
#[derive(Debug, Clone)]
pub struct MethodResult {
    /// The identity of the method.
    pub id: MethodId,
    /// The title of the method, [`MethodId::title`].
    pub name: String,
    /// The arrays that the method uses, including logits from which it estimates the last layer of the network.
    pub inputs: &'static [Input],
    /// One score per test row. A higher score means a higher uncertainty.
    pub test: Vec<f64>,
    /// One score per row of each out-of-distribution set.
    pub ood_scores: Vec<Vec<f64>>,
    /// Area under the risk-coverage curve of the test rows. Lower is better.
    pub rcc_auc: Measured,
    /// Detection metrics of each out-of-distribution set.
    pub ood: Vec<DetectionResult>,
    /// Mean ROC-AUC over the out-of-distribution sets; `None` if there is no such set.
    pub mean_roc_auc: Option<f64>,
    /// Seconds of the fit; `None` without a clock and for the uncertainties of NUQ, which need no fit of their own.
    pub fit_seconds: Option<f64>,
    /// Seconds per 1000 rows, including the neighbor search; `None` without a clock.
    pub seconds_per_1000: Option<f64>,
    /// Bytes of memory in addition to the training rows.
    pub bytes: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Better {
    Higher,
    Lower,
}

pub(super) fn compare(
    scored: Vec<Scored>,
    is_error: &[bool],
    ood: &[(String, Rows<'_>)],
    resampling: Resampling,
) -> Result<Vec<MethodResult>, Error> {
    let rcc_auc = selective(&scored, is_error, resampling)?;
    let of_sets =
        (0..ood.len()).map(|set| detection(&scored, set, resampling)).collect::<Result<Vec<_>, Error>>()?;
    let result = |(i, scored): (usize, Scored)| {
        let ood: Vec<DetectionResult> = of_sets.iter().map(|methods| methods[i]).collect();
        let sum: f64 = ood.iter().map(|set| set.roc_auc.interval.value).sum();
        MethodResult {
            id: scored.id,
            name: scored.id.title().to_owned(),
            inputs: scored.inputs,
            test: scored.test,
            ood_scores: scored.ood,
            rcc_auc: rcc_auc[i],
            mean_roc_auc: (!ood.is_empty()).then(|| sum / ood.len() as f64),
            ood,
            fit_seconds: scored.fit_seconds,
            seconds_per_1000: scored.seconds_per_1000,
            bytes: scored.bytes,
        }
    };
    Ok(scored.into_iter().enumerate().map(result).collect())
}

fn selective(scored: &[Scored], is_error: &[bool], resampling: Resampling) -> Result<Vec<Measured>, Error> {
    let methods: Vec<Selective> =
        scored.iter().map(|method| Selective::new(&method.test, is_error)).collect::<Result<_, _>>()?;
    let draws = resampling.table(&[is_error.len()], |counts| {
        let rcc_auc = |method: &Selective| {
            checkpoint();
            method.rcc_auc_of(&|row| u32::from(counts[row as usize]))
        };
        methods.iter().map(rcc_auc).collect()
    });
    let values: Vec<f64> = methods.iter().map(Selective::rcc_auc).collect();
    with_marks(&values, &draws, 0, Better::Lower)
}

fn detection(scored: &[Scored], set: usize, resampling: Resampling) -> Result<Vec<DetectionResult>, Error> {
    let methods: Vec<Detection> = scored
        .iter()
        .map(|method| Detection::new(&method.test, &method.ood[set]))
        .collect::<Result<_, _>>()?;
    let strata = methods[0].strata();
    let draws = resampling.table(&strata, |counts| {
        // One column per metric and method, grouped by metric.
        let all = |method: &Detection| {
            checkpoint();
            method.all_of(0.95, counts)
        };
        let rows: Vec<[f64; 3]> = methods.iter().map(all).collect();
        (0..3).flat_map(|metric| rows.iter().map(move |row| row[metric])).collect()
    });
    let all = |metric: fn(&Detection) -> f64| -> Vec<f64> { methods.iter().map(metric).collect() };
    let count = methods.len();
    let roc_auc = with_marks(&all(Detection::roc_auc), &draws, 0, Better::Higher)?;
    let precision = with_marks(&all(Detection::average_precision), &draws, count, Better::Higher)?;
    let fpr95 = with_marks(&all(|method| method.fpr_at_tpr(0.95)), &draws, 2 * count, Better::Lower)?;
    let result =
        |i: usize| DetectionResult { roc_auc: roc_auc[i], average_precision: precision[i], fpr95: fpr95[i] };
    Ok((0..count).map(result).collect())
}

/// The values with their intervals, and the marks of the best methods. `draws` has one row per bootstrap sample. Its columns
/// from `first` on belong to `values`, one column per value.
fn with_marks(
    values: &[f64],
    draws: &[Vec<f64>],
    first: usize,
    better: Better,
) -> Result<Vec<Measured>, Error> {
    let column = |i: usize| -> Vec<f64> { draws.iter().map(|row| row[first + i]).collect() };
    let quality = |i: usize| if better == Better::Higher { values[i] } else { -values[i] };
    let best = (0..values.len()).max_by(|&a, &b| quality(a).total_cmp(&quality(b))).unwrap_or(0);
    let draws_of_best = column(best);
    let measured = |i: usize| {
        let draws = column(i);
        let is_best = values[i] == values[best]
            || Difference::new((values[best], &draws_of_best), (values[i], &draws))?.p_value >= 0.05;
        Ok(Measured { interval: Interval::new(values[i], &draws), is_best })
    };
    (0..values.len()).map(measured).collect()
}
