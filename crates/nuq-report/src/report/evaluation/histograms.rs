//! Histograms of NUQ's uncertainties.

use nuq::calibrate::{Measure, Threshold};

use super::Set;
use crate::report::{Histogram, HistogramSet, Mark};

const BINS: usize = 40;

/// Histograms of epistemic and total uncertainty, and of the measure of the threshold.
pub(super) fn histograms(sets: &[Set<'_>], threshold: Option<&(String, Threshold)>) -> Vec<Histogram> {
    let mut measures = vec![Measure::Epistemic, Measure::Total];
    measures.extend(threshold.map(|(_, threshold)| threshold.measure));
    if measures.len() == 3 && measures[..2].contains(&measures[2]) {
        measures.pop();
    }
    let of_measure = |measure: Measure| {
        let scores: Vec<(&str, Vec<f64>)> = sets
            .iter()
            .map(|set| (set.name, set.predictions.iter().map(|p| measure.of(p)).collect()))
            .collect();
        let mark = threshold
            .filter(|(_, threshold)| threshold.measure == measure)
            .map(|(name, threshold)| Mark { name: name.clone(), value: threshold.value });
        histogram(title(measure), &scores, mark)
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

/// Histogram over the central 99 % of all finite scores; the outer bins also count the scores beyond. `None` without finite
/// scores.
fn histogram(score: &str, sets: &[(&str, Vec<f64>)], threshold: Option<Mark>) -> Option<Histogram> {
    let threshold = threshold.filter(|mark| mark.value.is_finite());
    let mut all: Vec<f64> = sets.iter().flat_map(|(_, scores)| scores.iter().copied()).collect();
    all.retain(|score| score.is_finite());
    all.sort_by(f64::total_cmp);
    let quantile = |share: f64| all.get((share * (all.len().saturating_sub(1)) as f64) as usize).copied();
    let (mut low, mut high) = (quantile(0.005)?, quantile(0.995)?);
    if let Some(mark) = &threshold {
        (low, high) = (low.min(mark.value), high.max(mark.value));
    }
    if high <= low {
        (low, high) = (low - 0.5, high + 0.5);
    }
    let width = (high - low) / BINS as f64;
    let bin = |score: f64| (((score - low) / width).floor().clamp(0.0, (BINS - 1) as f64)) as usize;
    let set = |(name, scores): &(&str, Vec<f64>)| {
        let mut shares = vec![0.0; BINS];
        scores.iter().for_each(|&score| shares[bin(score)] += 1.0 / scores.len() as f64);
        HistogramSet { name: (*name).to_owned(), shares }
    };
    Some(Histogram {
        score: score.to_owned(),
        edges: (0..=BINS).map(|i| low + i as f64 * width).collect(),
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
        assert!(histogram.edges[BINS] >= 5.0);
    }

    #[test]
    fn scores_that_are_all_infinite_have_no_histogram() {
        assert!(histogram("s", &[("test", vec![f64::INFINITY])], None).is_none());
    }
}
