//! Histograms of NUQ's uncertainties.

use nuq::calibrate::{Measure, Predictor, Threshold};

use super::Set;
use crate::report::{Histogram, HistogramSet, Mark};

/// Number of bins of equal width.
const BINS: usize = 40;
/// Largest length of a short tail, relative to the range of the central 99 % of the scores.
const SHORT_TAIL: f64 = 0.25;

/// Histograms of epistemic and total uncertainty, and of the measure of the threshold.
pub(super) fn histograms(sets: &[Set<'_>], threshold: Option<&(String, Threshold)>) -> Vec<Histogram> {
    let mut measures = vec![(Measure::Epistemic, Predictor::Nuq), (Measure::Total, Predictor::Nuq)];
    measures.extend(threshold.map(|(_, threshold)| (threshold.measure, threshold.predictor)));
    if measures.len() == 3 && measures[..2].contains(&measures[2]) {
        measures.pop();
    }
    let of_measure = |(measure, predictor): (Measure, Predictor)| {
        let scores = |set: &Set<'_>| -> Option<Vec<f64>> {
            Some(set.by(predictor)?.iter().map(|p| measure.of(p)).collect())
        };
        let scores: Vec<(&str, Vec<f64>)> =
            sets.iter().map(|set| Some((set.name, scores(set)?))).collect::<Option<_>>()?;
        let mark = threshold
            .filter(|(_, threshold)| (threshold.measure, threshold.predictor) == (measure, predictor))
            .map(|(name, threshold)| Mark { name: name.clone(), value: threshold.score.value });
        let with_logits = if predictor == Predictor::Network { ", with logits" } else { "" };
        histogram(&format!("{}{with_logits}", title(measure)), &scores, mark)
    };
    measures.into_iter().filter_map(of_measure).collect()
}

fn title(measure: Measure) -> &'static str {
    match measure {
        Measure::Aleatoric => "aleatoric uncertainty",
        Measure::Epistemic => "log epistemic uncertainty",
        Measure::Total => "log total uncertainty",
        Measure::Density => "negative log density",
    }
}

/// Histogram of the scores of several sets; `None` without finite scores.
///
/// The bins cover the central 99 % of the finite scores, and a tail beyond them if it is short. The scores of a long tail and
/// infinite scores are counted in an outer bin with an infinite edge. The bins are extended to a threshold if it is at most as far
/// from them as their range is wide. So the scores have at least half of the bins.
fn histogram(score: &str, sets: &[(&str, Vec<f64>)], threshold: Option<Mark>) -> Option<Histogram> {
    let threshold = threshold.filter(|mark| mark.value.is_finite());
    let scores = || sets.iter().flat_map(|(_, scores)| scores.iter().copied());
    let mut finite: Vec<f64> = scores().filter(|score| score.is_finite()).collect();
    finite.sort_by(f64::total_cmp);
    let quantile =
        |share: f64| finite.get((share * (finite.len().saturating_sub(1)) as f64) as usize).copied();
    let (least, mut low, mut high, most) =
        (quantile(0.0)?, quantile(0.005)?, quantile(0.995)?, quantile(1.0)?);
    let short_tail = SHORT_TAIL * (high - low);
    if low - least <= short_tail {
        low = least;
    }
    if most - high <= short_tail {
        high = most;
    }
    if high <= low {
        (low, high) = (low - 0.5, high + 0.5);
    }
    let range = high - low;
    if let Some(mark) = &threshold
        && (low - range..=high + range).contains(&mark.value)
    {
        (low, high) = (low.min(mark.value), high.max(mark.value));
    }
    let width = (high - low) / BINS as f64;
    let (has_below, has_above) = (scores().any(|score| score < low), scores().any(|score| score > high));
    let first = usize::from(has_below);
    let bin = |score: f64| match score {
        _ if score < low => 0,
        _ if score > high => first + BINS,
        // The last bin includes its upper edge.
        _ => first + (((score - low) / width) as usize).min(BINS - 1),
    };
    let set = |(name, scores): &(&str, Vec<f64>)| {
        let mut shares = vec![0.0; first + BINS + usize::from(has_above)];
        scores.iter().for_each(|&score| shares[bin(score)] += 1.0 / scores.len() as f64);
        HistogramSet { name: (*name).to_owned(), rows: scores.len(), shares }
    };
    let edges = (0..=BINS).map(|i| low + i as f64 * width);
    let (below, above) = (has_below.then_some(f64::NEG_INFINITY), has_above.then_some(f64::INFINITY));
    Some(Histogram {
        score: score.to_owned(),
        edges: below.into_iter().chain(edges).chain(above).collect(),
        sets: sets.iter().map(set).collect(),
        threshold,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_score_is_counted_in_a_bin() {
        let scores = vec![f64::NEG_INFINITY, 0.0, 1.0, 2.0, f64::INFINITY];
        let mark = Mark { name: "t".to_owned(), value: 5.0 };
        let histogram =
            histogram("s", &[("test", scores), ("other", vec![3.0; 7])], Some(mark)).expect("finite scores");
        assert!(histogram.sets.iter().all(|set| (set.shares.iter().sum::<f64>() - 1.0).abs() < 1e-12));
        assert_eq!(histogram.edges[BINS + 1], 5.0);
        assert_eq!((histogram.edges[0], histogram.edges[BINS + 2]), (f64::NEG_INFINITY, f64::INFINITY));
        assert_eq!((histogram.sets[0].shares[0], histogram.sets[0].shares[BINS + 1]), (0.2, 0.2));
        assert_eq!((histogram.sets[0].rows, histogram.sets[1].rows), (5, 7));
    }

    #[test]
    fn bins_are_extended_to_a_near_threshold_only() {
        let ends = |threshold: f64| {
            let scores: Vec<f64> = (0..=100).map(|i| f64::from(i) / 100.0).collect();
            let mark = Mark { name: "t".to_owned(), value: threshold };
            let histogram = histogram("s", &[("test", scores)], Some(mark)).expect("finite scores");
            assert_eq!(histogram.threshold.expect("it is finite").value, threshold);
            (histogram.edges[0], histogram.edges[BINS])
        };
        assert_eq!([-1.0, 0.5, 2.0].map(ends), [(-1.0, 1.0), (0.0, 1.0), (0.0, 2.0)]);
        assert_eq!([-1.1, 2.1, 1000.0].map(ends), [(0.0, 1.0); 3]);
    }

    #[test]
    fn a_long_tail_has_its_own_bin_and_a_short_tail_has_none() {
        let uniform: Vec<f64> = (0..=1000).map(f64::from).collect();
        let short = histogram("s", &[("test", uniform.clone())], None).expect("finite scores");
        assert_eq!((short.edges[0], short.edges[BINS]), (0.0, 1000.0));
        let tail = uniform.into_iter().chain([9e3]).collect();
        let long = histogram("s", &[("test", tail)], None).expect("finite scores");
        assert_eq!((long.edges[0], long.edges.len(), long.edges[BINS + 1]), (0.0, BINS + 2, f64::INFINITY));
        let beyond = 1001.0 - long.edges[BINS];
        assert!((long.sets[0].shares[BINS] - beyond / 1002.0).abs() < 1e-12);
    }

    #[test]
    fn scores_that_are_all_infinite_have_no_histogram() {
        assert!(histogram("s", &[("test", vec![f64::INFINITY])], None).is_none());
    }
}
