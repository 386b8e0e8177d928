//! Projection of a sample of the rows of all sets onto the first two principal components of the training rows.

use nuq::{FittedModel, NuqClassifier};
use nuq_eval::Error;
use nuq_eval::evaluate::principal_plane;
use nuq_neighbors::SeededRng;

use super::Set;
use crate::report::{Map, MapPoint};

/// Approximate number of points of the map.
const POINTS: usize = 3000;

/// The map of a seeded sample. The number of points of each set is proportional to its number of rows.
pub(super) fn map(model: &NuqClassifier<'_>, sets: &[Set<'_>], seed: u64) -> Result<Map, Error> {
    let plane = principal_plane(model)?;
    let n_rows: usize = sets.iter().map(|set| set.embeddings.len()).sum();
    let mut test_log_total: Vec<f64> = sets[0].predictions.iter().map(|p| p.log_total).collect();
    test_log_total.sort_by(f64::total_cmp);
    let mut points = vec![];
    for (i, set) in sets.iter().enumerate() {
        let size = (POINTS * set.embeddings.len()).div_ceil(n_rows);
        let sample = SeededRng::new(seed).sample(set.embeddings.len(), size);
        let rows = set.embeddings.gather(&sample);
        // The training rows of the plane are in the space of the index.
        let rows = if model.is_normalized() { rows.into_l2_normalized() } else { rows };
        for (&row, (x, y)) in sample.iter().zip(plane.project(&rows)) {
            let row = row as usize;
            let prediction = &set.predictions[row];
            points.push(MapPoint {
                x,
                y,
                set: i,
                row,
                label: set.predictions.label(row).to_string(),
                truth: set.truth(row),
                probability: prediction.probability,
                log_epistemic: prediction.log_epistemic,
                rank: rank(&test_log_total, prediction.log_total),
            });
        }
    }
    let names = sets.iter().map(|set| set.name.to_owned()).collect();
    Ok(Map { explained: plane.explained.unwrap_or_default(), sets: names, points })
}

/// Share of sorted values that are smaller than a value.
fn rank(sorted: &[f64], value: f64) -> f64 {
    sorted.partition_point(|&v| v < value) as f64 / sorted.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rank_is_the_share_of_smaller_values() {
        let sorted = [f64::NEG_INFINITY, 1.0, 2.0, 2.0];
        assert_eq!([0.0, 2.0, 9.0].map(|value| rank(&sorted, value)), [0.25, 0.5, 1.0]);
    }
}
