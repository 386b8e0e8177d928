//! The methods' scores as metrics, with intervals, and with a mark where none is better beyond chance.

use super::registry::Scored;
use super::{MethodKind, Rows};
use crate::Error;
use crate::baselines::Input;
use crate::metrics::{Detection, Difference, Interval, Resampling, Selective};

/// A number of one method among those of others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// The number with its 95 % interval.
    pub interval: Interval,
    /// Whether no other method is better beyond chance: the best, and those that a paired bootstrap does not tell from it
    /// at the level 0.05.
    pub is_best: bool,
}

/// How well a method tells a set from the test rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DetectionResult {
    /// Area under the ROC curve.
    pub roc_auc: Measured,
    /// Average precision of finding the set's rows.
    pub average_precision: Measured,
    /// False alarms where 95 % of the set is found: lower is better.
    pub fpr95: Measured,
}

/// What a method did.
#[derive(Debug, Clone)]
pub struct MethodResult {
    /// Its name.
    pub name: String,
    /// Its kind, which identifies NUQ's own scores and the reference baseline.
    pub kind: MethodKind,
    /// What it looks at: logits too, where it reads the head of the network from them.
    pub inputs: &'static [Input],
    /// Its scores of the test rows.
    pub test: Vec<f64>,
    /// Its scores of the other sets.
    pub ood_scores: Vec<Vec<f64>>,
    /// Area under the risk-coverage curve of the test rows: lower is better.
    pub rcc_auc: Measured,
    /// For each of the other sets.
    pub ood: Vec<DetectionResult>,
    /// The mean of the areas under the ROC curves, `None` without a set.
    pub mean_roc_auc: Option<f64>,
    /// What fitting took; `None` without a clock, or where it belongs to the model.
    pub fit_seconds: Option<f64>,
    /// What a thousand rows took, the search for their neighbors included; `None` without a clock.
    pub seconds_per_1000: Option<f64>,
    /// Bytes it keeps beside the training rows.
    pub bytes: u64,
}

/// Which way is better.
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
            name: scored.name,
            kind: scored.kind,
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
        methods.iter().map(|method| method.rcc_auc_of(&|row| u32::from(counts[row as usize]))).collect()
    });
    let values: Vec<f64> = methods.iter().map(Selective::rcc_auc).collect();
    marked(&values, &draws, 0, Better::Lower)
}

fn detection(scored: &[Scored], set: usize, resampling: Resampling) -> Result<Vec<DetectionResult>, Error> {
    let methods: Vec<Detection> = scored
        .iter()
        .map(|method| Detection::new(&method.test, &method.ood[set]))
        .collect::<Result<_, _>>()?;
    let strata = methods[0].strata();
    let draws = resampling.table(&strata, |counts| {
        // All of one metric, then all of the next.
        let rows: Vec<[f64; 3]> = methods.iter().map(|method| method.all_of(0.95, counts)).collect();
        (0..3).flat_map(|metric| rows.iter().map(move |row| row[metric])).collect()
    });
    let all = |read: fn(&Detection) -> f64| -> Vec<f64> { methods.iter().map(read).collect() };
    let count = methods.len();
    let roc_auc = marked(&all(Detection::roc_auc), &draws, 0, Better::Higher)?;
    let precision = marked(&all(Detection::average_precision), &draws, count, Better::Higher)?;
    let fpr95 = marked(&all(|method| method.fpr_at_tpr(0.95)), &draws, 2 * count, Better::Lower)?;
    let result =
        |i: usize| DetectionResult { roc_auc: roc_auc[i], average_precision: precision[i], fpr95: fpr95[i] };
    Ok((0..count).map(result).collect())
}

/// Values with their intervals from columns `first..` of the draws, and the marks.
fn marked(values: &[f64], draws: &[Vec<f64>], first: usize, better: Better) -> Result<Vec<Measured>, Error> {
    let column = |i: usize| -> Vec<f64> { draws.iter().map(|row| row[first + i]).collect() };
    let worth = |i: usize| if better == Better::Higher { values[i] } else { -values[i] };
    let top = (0..values.len()).max_by(|&a, &b| worth(a).total_cmp(&worth(b))).unwrap_or(0);
    let of_top = column(top);
    let measured = |i: usize| {
        let of_this = column(i);
        let is_best = values[i] == values[top]
            || Difference::new((values[top], &of_top), (values[i], &of_this))?.p_value >= 0.05;
        Ok(Measured { interval: Interval::new(values[i], &of_this), is_best })
    };
    (0..values.len()).map(measured).collect()
}
