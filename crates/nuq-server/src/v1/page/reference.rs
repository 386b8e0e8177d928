//! A seeded sample of training rows, with which the page compares live rows (rows that clients have scored). It contains the uncertainties
//! of the training rows and their positions in two dimensions. For its uncertainty, each training row is left out of its own neighbors.

use nuq::calibrate::Measure;
use nuq::{Embeddings, FittedModel, Model, Neighbors};
use nuq_eval::evaluate::{Plane, discriminant_plane};
use nuq_neighbors::SeededRng;

use crate::error::ApiError;
use crate::state::now_ms;

/// Largest number of rows of the sample.
const ROWS: usize = 1500;

/// The measures in the order of the page.
pub(super) const MEASURES: [Measure; 4] =
    [Measure::Epistemic, Measure::Aleatoric, Measure::Total, Measure::Density];

/// A sample of the training rows of a model.
pub(in super::super) struct Reference {
    /// The version of the model from which the sample was drawn.
    pub(super) version: u64,
    /// The time at which the sample was drawn, in milliseconds since 1970. Unlike the version, it differs after a restart of the server.
    pub(super) drawn_ms: u64,
    pub(super) rows: Vec<TrainingRow>,
    /// The values of each measure, ascending, in the order of [`MEASURES`].
    sorted: [Vec<f64>; MEASURES.len()],
    /// The plane of the map; `None` if there is no map.
    plane: Option<Plane>,
    is_normalized: bool,
}

pub(super) struct TrainingRow {
    pub(super) id: u32,
    /// Label of a classifier or target of a regressor.
    pub(super) label: String,
    pub(super) position: (f64, f64),
    /// The share of the sample that has a smaller total uncertainty.
    pub(super) rank: f64,
}

impl Reference {
    pub(super) fn new(model: &Model<'_>, version: u64) -> Result<Self, ApiError> {
        let stored = model.index().rows();
        let all_ids = stored.live_ids();
        let sample = SeededRng::new(0).sample(all_ids.len(), ROWS);
        let ids: Vec<u32> = sample.into_iter().map(|at| all_ids[at as usize]).collect();
        let embeddings = stored.gather(&ids).map_err(nuq::Error::from)?;
        let values = leave_one_out(model, &embeddings, &ids)?;
        let classes = ids.iter().map(|&id| match model {
            Model::Classifier(model) => model.training_classes()[id as usize],
            Model::Regressor(_) => 0,
        });
        // There is no map if the plane cannot be computed, or if all rows are equal. Equal rows would all be at one place, and the axes
        // would be arbitrary.
        let plane = match are_equal(&embeddings) {
            true => None,
            false => discriminant_plane(&embeddings, &classes.collect::<Vec<_>>()).ok(),
        };
        let positions = match &plane {
            Some(plane) => plane.project(&embeddings),
            None => vec![(0.0, 0.0); ids.len()],
        };
        let sorted = [0, 1, 2, 3].map(|measure| {
            let mut sorted: Vec<f64> = values.iter().map(|row| row[measure]).collect();
            sorted.sort_by(f64::total_cmp);
            sorted
        });
        let mut reference = Self {
            version,
            drawn_ms: now_ms(),
            rows: vec![],
            sorted,
            plane,
            is_normalized: model.is_normalized(),
        };
        reference.rows = (0..ids.len())
            .map(|i| TrainingRow {
                id: ids[i],
                label: training_label(model, ids[i]),
                position: positions[i],
                rank: values.get(i).map_or(0.0, |row| reference.rank(Measure::Total, row[2])),
            })
            .collect();
        Ok(reference)
    }

    /// The values of a measure, ascending.
    pub(super) fn sorted(&self, measure: Measure) -> &[f64] {
        let at = MEASURES.iter().position(|other| *other == measure).expect("all measures are listed");
        &self.sorted[at]
    }

    /// The share of the sample that has a smaller value of the measure.
    pub(super) fn rank(&self, measure: Measure, value: f64) -> f64 {
        rank(self.sorted(measure), value)
    }

    /// The positions of other rows; `None` if there is no map, or if the rows have another number of columns.
    pub(super) fn project(&self, rows: &Embeddings<'_>) -> Option<Vec<(f64, f64)>> {
        let plane = self.plane.as_ref().filter(|plane| plane.dim() == rows.dim())?;
        Some(if self.is_normalized { plane.project(&rows.l2_normalized()) } else { plane.project(rows) })
    }

    /// The shares of the variance along the two axes; `None` if the axes are not principal components.
    pub(super) fn explained(&self) -> Option<(f64, f64)> {
        self.plane.as_ref()?.explained
    }

    pub(super) fn has_map(&self) -> bool {
        self.plane.is_some()
    }
}

/// Whether all rows are equal.
fn are_equal(rows: &Embeddings<'_>) -> bool {
    let mut rows = rows.rows();
    let first = rows.next();
    rows.all(|row| Some(row) == first)
}

/// The share of sorted values that are smaller than a value.
pub(in super::super) fn rank(sorted: &[f64], value: f64) -> f64 {
    sorted.partition_point(|&other| other < value) as f64 / sorted.len().max(1) as f64
}

/// The label of a training row of a classifier, or the target of a regressor.
pub(super) fn training_label(model: &Model<'_>, id: u32) -> String {
    match model {
        Model::Classifier(model) => {
            model.classes().label(model.training_classes()[id as usize] as usize).to_string()
        }
        Model::Regressor(model) => model.target(id).to_string(),
    }
}

/// The measures of training rows. Each row is left out of its own neighbors. The result is empty if the model has a single row.
fn leave_one_out(
    model: &Model<'_>,
    rows: &Embeddings<'_>,
    ids: &[u32],
) -> Result<Vec<[f64; MEASURES.len()]>, ApiError> {
    let k = model.n_neighbors().min(model.index().len().saturating_sub(1));
    if k == 0 {
        return Ok(vec![]);
    }
    let found = model.neighbors_of(rows, k + 1)?;
    let (mut others, mut sq_distances) = (vec![], vec![]);
    for (i, id) in ids.iter().enumerate() {
        let pairs = found.ids(i).iter().zip(found.sq_distances(i));
        for (other, sq_distance) in pairs.filter(|(other, _)| *other != id).take(k) {
            others.push(*other);
            sq_distances.push(*sq_distance);
        }
    }
    let neighbors = Neighbors::new(k, others, sq_distances).map_err(nuq::Error::from)?;
    Ok(match model {
        Model::Classifier(model) => {
            let predictions = model.predict_from(rows, &neighbors)?;
            predictions.iter().map(|prediction| MEASURES.map(|measure| measure.of(prediction))).collect()
        }
        Model::Regressor(model) => {
            let estimates = model.predict_from(rows, &neighbors)?;
            estimates.iter().map(|estimate| MEASURES.map(|measure| measure.of_estimate(estimate))).collect()
        }
    })
}

#[cfg(test)]
mod tests {
    use nuq::{Density, DensityBandwidth, NuqClassifier};

    use super::*;

    fn model() -> Model<'static> {
        let rows: Vec<[f32; 3]> = (0..60)
            .map(|i| {
                let noise = |j: usize| ((i * 7 + j * 13) % 10) as f32 * 0.05;
                [[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]][i % 3]
                    .map(|x: f32| x + noise(i % 3))
                    .into_iter()
                    .chain([noise(5)])
                    .collect::<Vec<_>>()
                    .try_into()
                    .unwrap()
            })
            .collect();
        let labels: Vec<&str> = (0..60).map(|i| ["a", "b", "c"][i % 3]).collect();
        let embeddings = Embeddings::from_rows(&rows).unwrap();
        NuqClassifier::params().n_neighbors(5).fit(&embeddings, &labels).unwrap().into()
    }

    #[test]
    fn values_are_equal_to_leave_one_out_predictions() {
        let model = model();
        let reference = Reference::new(&model, 3).unwrap();
        let Model::Classifier(classifier) = &model else { unreachable!() };
        let expected = classifier.leave_one_out().unwrap();
        let mut expected: Vec<f64> = expected.iter().map(|prediction| prediction.aleatoric).collect();
        expected.sort_by(f64::total_cmp);
        let values = reference.sorted(Measure::Aleatoric);
        assert_eq!(values.len(), expected.len());
        assert!(values.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-12), "{values:?} {expected:?}");
        assert_eq!((reference.rows.len(), reference.rows[4].label.as_str()), (60, "b"));
        assert!(reference.rows.iter().all(|row| (0.0..1.0).contains(&row.rank)));
    }

    #[test]
    fn rows_of_a_class_are_closer_to_each_other_on_the_map() {
        let reference = Reference::new(&model(), 1).unwrap();
        let position = |i: usize| reference.rows[i].position;
        let distance = |i, j| (position(i).0 - position(j).0).hypot(position(i).1 - position(j).1);
        assert!(distance(0, 3) < distance(0, 1) && distance(0, 3) < distance(0, 2));
        assert!(reference.project(&Embeddings::from_rows(&[[1.0, 2.0]]).unwrap()).is_none());
    }

    #[test]
    fn equal_training_rows_have_no_map() {
        let density = Density::Kde { bandwidth: DensityBandwidth::Fixed(1.0) };
        let params = NuqClassifier::params().n_neighbors(3).bandwidth(1.0).density(density);
        // Two classes would give principal components, three classes discriminants.
        for labels in [["a", "b", "a", "b", "a", "b"], ["a", "b", "c", "a", "b", "c"]] {
            let rows = Embeddings::new(vec![0.5; 12], 2).unwrap();
            let model: Model<'_> = params.fit(&rows, &labels).unwrap().into();
            let reference = Reference::new(&model, 1).unwrap();
            assert!(!reference.has_map() && reference.explained().is_none());
            assert!(reference.project(&Embeddings::from_rows(&[[1.0, 2.0]]).unwrap()).is_none());
            assert_eq!(reference.rows.len(), 6);
        }
    }

    #[test]
    fn a_rank_is_the_share_of_smaller_values() {
        assert_eq!(
            [0.0, 2.0, f64::INFINITY].map(|value| rank(&[f64::NEG_INFINITY, 1.0, 2.0, 2.0], value)),
            [0.25, 0.5, 1.0]
        );
        assert_eq!(rank(&[], 1.0), 0.0);
    }
}
