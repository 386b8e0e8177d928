//! Curves of the charts. Each curve is reduced to few points, and only some methods are selected for a chart.

use nuq_eval::Error;
use nuq_eval::evaluate::{Evaluation, MethodId, MethodResult};
use nuq_eval::metrics::{Detection, Selective};

use crate::report::{Curve, CurveKind};

/// Maximum number of evenly spaced points of a curve. The last point of the curve may be added to them.
const MAX_POINTS: usize = 200;
/// Number of baselines that are drawn together with NUQ.
const BASELINES: usize = 3;

/// The methods to draw: `of_nuq`, then [`BASELINES`] baselines. The first baseline is MaxProb if it was evaluated, and the others have
/// the highest quality.
fn selected<'e>(
    evaluation: &'e Evaluation<'_>,
    of_nuq: &[MethodId],
    quality: impl Fn(&MethodResult) -> f64,
) -> Vec<&'e MethodResult> {
    let methods = &evaluation.methods;
    let mut baselines: Vec<&MethodResult> = methods.iter().filter(|method| !method.id.is_nuq()).collect();
    baselines.sort_by(|a, b| {
        let is_max_prob = |method: &MethodResult| method.id == MethodId::MaxProb;
        is_max_prob(b).cmp(&is_max_prob(a)).then(quality(b).total_cmp(&quality(a)))
    });
    let of_nuq = of_nuq.iter().filter_map(|&id| evaluation.method(id));
    of_nuq.chain(baselines.into_iter().take(BASELINES)).collect()
}

/// Evenly spaced points of a curve, including both ends.
fn downsample(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    if points.len() <= MAX_POINTS {
        return points;
    }
    let mut sample: Vec<(f64, f64)> =
        points.iter().copied().step_by(points.len().div_ceil(MAX_POINTS)).collect();
    if sample.last() != points.last() {
        sample.extend(points.last());
    }
    sample
}

fn method_curve(method: &MethodResult, points: Vec<(f64, f64)>) -> Curve {
    let kind = if method.id.is_nuq() { CurveKind::Nuq } else { CurveKind::Baseline };
    Curve { name: method.name.clone(), kind, points: downsample(points) }
}

fn optimum_curve(points: Vec<(f64, f64)>) -> Curve {
    Curve { name: "best possible".to_owned(), kind: CurveKind::Reference, points: downsample(points) }
}

/// Error rate against the share of accepted rows.
pub(super) fn risk_coverage(evaluation: &Evaluation<'_>) -> Result<Vec<Curve>, Error> {
    let rows = evaluation.is_error.len() as f64;
    let points = |risks: Vec<f64>| {
        risks.into_iter().enumerate().map(|(i, risk)| ((i + 1) as f64 / rows, risk)).collect()
    };
    let of_nuq = match evaluation.method(MethodId::NuqTotalWithLogits) {
        Some(_) => [MethodId::NuqTotalWithLogits, MethodId::NuqTotal],
        None => [MethodId::NuqTotal, MethodId::NuqAleatoric],
    };
    let methods = selected(evaluation, &of_nuq, |method| -method.rcc_auc.interval.value);
    let mut curves = vec![];
    let mut optimum = None;
    for method in methods {
        let selective = Selective::new(&method.test, &evaluation.is_error)?;
        optimum.get_or_insert_with(|| selective.best_curve());
        curves.push(method_curve(method, points(selective.curve())));
    }
    curves.extend(optimum.map(|risks| optimum_curve(points(risks))));
    Ok(curves)
}

/// ROC curves for one out-of-distribution set, and count curves: the number of rows of the set among the accepted rows.
pub(super) fn detection(evaluation: &Evaluation<'_>, set: usize) -> Result<(Vec<Curve>, Vec<Curve>), Error> {
    let of_nuq = [MethodId::NuqEpistemic, MethodId::NuqDensity];
    let methods = selected(evaluation, &of_nuq, |method| method.ood[set].roc_auc.interval.value);
    let (mut roc, mut counts) = (vec![], vec![]);
    for method in methods {
        let detection = Detection::new(&method.test, &method.ood_scores[set])?;
        roc.push(method_curve(method, detection.curve()));
        let count =
            detection.count_curve().into_iter().enumerate().map(|(accepted, count)| (accepted as f64, count));
        counts.push(method_curve(method, count.collect()));
    }
    // The optimum accepts all test rows before any row of the set.
    let (inliers, outliers) = (evaluation.test.len() as f64, evaluation.ood[set].len() as f64);
    counts.push(optimum_curve(vec![(0.0, 0.0), (inliers, 0.0), (inliers + outliers, outliers)]));
    Ok((roc, counts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn downsampled_curves_keep_both_ends() {
        let points: Vec<(f64, f64)> = (0..1001).map(|i| (f64::from(i), 0.0)).collect();
        let sample = downsample(points);
        assert!(sample.len() <= MAX_POINTS + 1);
        assert_eq!((sample[0].0, sample[sample.len() - 1].0), (0.0, 1000.0));
        assert_eq!(downsample(vec![(1.0, 2.0)]), [(1.0, 2.0)]);
    }
}
