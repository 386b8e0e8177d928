//! Which methods are drawn, and their curves thinned to what an eye sees.

use nuq_eval::evaluate::{Evaluation, MethodResult};
use nuq_eval::metrics::{Detection, Selective};
use nuq_report::{Curve, Histogram, HistogramSet, Mark};

use crate::error::Error;

/// Points of a drawn curve.
const POINTS: usize = 200;
/// HistogramSet of a histogram.
const BARS: usize = 40;
/// Rivals drawn beside NUQ: the usual one and the best.
const RIVALS: usize = 3;

/// NUQ's own curves, MaxProb where there is one, and the best of the rest.
fn drawn<'e>(
    found: &'e Evaluation<'_>,
    own: &[&str],
    worth: impl Fn(&MethodResult) -> f64,
) -> Vec<&'e MethodResult> {
    let is_own = |method: &MethodResult| method.name.starts_with("NUQ");
    let mut rivals: Vec<&MethodResult> = found.methods.iter().filter(|method| !is_own(method)).collect();
    rivals.sort_by(|a, b| {
        let usual = |method: &MethodResult| method.name == "MaxProb";
        usual(b).cmp(&usual(a)).then(worth(b).total_cmp(&worth(a)))
    });
    let own = own.iter().filter_map(|name| found.methods.iter().find(|method| method.name == *name));
    own.chain(rivals.into_iter().take(RIVALS)).collect()
}

/// Evenly spread points of a long curve, both ends among them.
fn thinned(points: impl ExactSizeIterator<Item = (f64, f64)> + Clone) -> Vec<(f64, f64)> {
    let count = points.len();
    if count <= POINTS {
        return points.collect();
    }
    let mut kept: Vec<(f64, f64)> = points.clone().step_by(count.div_ceil(POINTS)).collect();
    let last = points.last();
    if kept.last() != last.as_ref() {
        kept.extend(last);
    }
    kept
}

/// Error rate against the share of rows kept.
pub(super) fn risk_coverage(found: &Evaluation<'_>) -> Result<Vec<Curve>, Error> {
    let rows = found.is_error.len() as f64;
    let line = |name: &str, risks: Vec<f64>| Curve {
        name: name.to_owned(),
        points: thinned(risks.into_iter().enumerate().map(move |(i, risk)| ((i + 1) as f64 / rows, risk))),
    };
    let methods = drawn(found, &["NUQ total", "NUQ aleatoric"], |method| -method.rcc_auc.interval.value);
    let mut curves = vec![];
    let mut best = None;
    for method in methods {
        let selective = Selective::new(&method.test, &found.is_error).map_err(Error::from)?;
        best.get_or_insert_with(|| selective.best_curve());
        curves.push(line(&method.name, selective.curve()));
    }
    curves.extend(best.map(|best| line("best possible", best)));
    Ok(curves)
}

/// Detections against false alarms, and outliers accepted against rows accepted, for one set.
pub(super) fn detection(found: &Evaluation<'_>, set: usize) -> Result<(Vec<Curve>, Vec<Curve>), Error> {
    let own = ["NUQ epistemic", "NUQ density"];
    let methods = drawn(found, &own, |method| method.ood[set].roc_auc.interval.value);
    let (mut roc, mut counts) = (vec![], vec![]);
    for method in methods {
        let detection = Detection::new(&method.test, &method.ood_scores[set]).map_err(Error::from)?;
        let curve = detection.curve();
        roc.push(Curve { name: method.name.clone(), points: thinned(curve.into_iter()) });
        let count = detection.count_curve().into_iter().enumerate().map(|(kept, count)| (kept as f64, count));
        let count: Vec<(f64, f64)> = count.collect();
        counts.push(Curve { name: method.name.clone(), points: thinned(count.into_iter()) });
    }
    // All test rows first.
    let (inliers, outliers) = (found.test.len() as f64, found.ood[set].len() as f64);
    let points = vec![(0.0, 0.0), (inliers, 0.0), (inliers + outliers, outliers)];
    counts.push(Curve { name: "best possible".to_owned(), points });
    Ok((roc, counts))
}

/// How a score lies in each set; what is beyond the middle 99 % of all stands in the outer bars.
pub(super) fn histogram(
    score: &str,
    sets: &[(&str, Vec<f64>)],
    threshold: Option<Mark>,
) -> Option<Histogram> {
    let mut all: Vec<f64> = sets.iter().flat_map(|(_, scores)| scores.iter().copied()).collect();
    all.retain(|score| score.is_finite());
    all.sort_by(f64::total_cmp);
    let at = |share: f64| all.get((share * (all.len().saturating_sub(1)) as f64) as usize).copied();
    let (mut low, mut high) = (at(0.005)?, at(0.995)?);
    if let Some(mark) = threshold.as_ref().filter(|mark| mark.value.is_finite()) {
        (low, high) = (low.min(mark.value), high.max(mark.value));
    }
    if high <= low {
        (low, high) = (low - 0.5, high + 0.5);
    }
    let width = (high - low) / BARS as f64;
    let bar = |score: f64| (((score - low) / width).floor().clamp(0.0, (BARS - 1) as f64)) as usize;
    let bars = |(name, scores): &(&str, Vec<f64>)| {
        let mut shares = vec![0.0; BARS];
        scores.iter().for_each(|&score| shares[bar(score)] += 1.0 / scores.len() as f64);
        HistogramSet { name: (*name).to_owned(), shares }
    };
    Some(Histogram {
        score: score.to_owned(),
        edges: (0..=BARS).map(|i| low + i as f64 * width).collect(),
        sets: sets.iter().map(bars).collect(),
        threshold: threshold.filter(|mark| mark.value.is_finite()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thin_curves_keep_both_ends() {
        let points: Vec<(f64, f64)> = (0..1001).map(|i| (f64::from(i), 0.0)).collect();
        let thin = thinned(points.into_iter());
        assert!(thin.len() <= POINTS + 1);
        assert_eq!((thin[0].0, thin[thin.len() - 1].0), (0.0, 1000.0));
    }

    #[test]
    fn every_row_stands_in_a_bar() {
        let scores = vec![f64::NEG_INFINITY, 0.0, 1.0, 2.0, f64::INFINITY];
        let mark = Mark { name: "t".to_owned(), value: 5.0 };
        let found = histogram("s", &[("test", scores), ("none", vec![3.0; 7])], Some(mark)).unwrap();
        assert!(found.sets.iter().all(|set| (set.shares.iter().sum::<f64>() - 1.0).abs() < 1e-12));
        assert!(found.edges[BARS] >= 5.0);
        assert!(histogram("s", &[("test", vec![f64::INFINITY])], None).is_none());
    }
}
