//! Sample weights: a row of weight `s` counts as `s` equal rows.

use nuq::{
    Bandwidth, Covariance, Density, DensityBandwidth, Embeddings, Error, FittedModel, Kernel, NuqClassifier,
    NuqRegressor, Scale, Shrinkage,
};
use nuq_testkit::data;
use proptest::prelude::*;

const H: f64 = 0.7;

fn densities() -> impl Strategy<Value = Density> {
    let gmm = |covariance| Density::Gmm { covariance, shrinkage: Shrinkage::LedoitWolf, scale_free: false };
    prop::sample::select(vec![
        Density::Kde { bandwidth: DensityBandwidth::Same },
        Density::Kde { bandwidth: DensityBandwidth::Fixed(0.4) },
        gmm(Covariance::Full),
        gmm(Covariance::Tied),
        gmm(Covariance::Diagonal),
    ])
}

fn kernels() -> impl Strategy<Value = Kernel> {
    prop::sample::select(vec![Kernel::Gaussian, Kernel::Logistic, Kernel::Student])
}

/// The number of each row, repeated as often as the weight of the row states.
fn repeated(weights: &[u32]) -> Vec<u32> {
    (0..).zip(weights).flat_map(|(row, &count)| vec![row; count as usize]).collect()
}

fn as_floats(weights: &[u32]) -> Vec<f64> {
    weights.iter().map(|&weight| f64::from(weight)).collect()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs()) || a == b
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn integer_weights_equal_repeated_rows(
        mut weights in prop::collection::vec(0u32..4, 4..25), dim in 1usize..40, seed in 0u64..500,
        kernel in kernels(), density in densities(), per_point in any::<bool>(), w in prop::sample::select(vec![0.0, 1e-3, 2.0]),
    ) {
        weights[0] = 2; // at least two rows with a positive weight
        weights[1] = 1;
        let (x, y) = data::clusters(weights.len(), dim, 3, 1.0, seed);
        let targets: Vec<f64> = y.iter().zip(x.rows()).map(|(&y, x)| y as f64 + f64::from(x[0])).collect();
        let rows = repeated(&weights);
        let (q, _) = data::clusters(10, dim, 3, 2.0, seed + 1);
        let bandwidth = |rows: &[u32]| match per_point {
            true => Bandwidth::PerPoint(rows.iter().map(|&row| H + 0.01 * f64::from(row)).collect()),
            false => Bandwidth::Scalar(H),
        };
        let all: Vec<u32> = (0..weights.len() as u32).collect();

        let params = NuqClassifier::params().n_neighbors(200).kernel(kernel).density(density.clone());
        let params = params.scale(Scale::Ambient).prior_weight(w);
        let labels: Vec<i64> = rows.iter().map(|&row| y[row as usize]).collect();
        let a = params.clone().bandwidth(bandwidth(&all)).fit_weighted(&x, &y, &as_floats(&weights)).unwrap();
        let b = params.bandwidth(bandwidth(&rows)).fit(&x.gather(&rows), &labels).unwrap();
        prop_assert_eq!(a.classes().labels(), b.classes().labels());
        let (eta_a, eta_b) = (a.predict_proba(&q).unwrap(), b.predict_proba(&q).unwrap());
        let (a, b) = (a.predict(&q).unwrap(), b.predict(&q).unwrap());
        for i in 0..q.len() {
            for (a, b) in eta_a.row(i).iter().zip(eta_b.row(i)) {
                prop_assert!((a - b).abs() < 1e-11, "{a} {b}");
            }
            prop_assert!(close(a[i].log_density, b[i].log_density), "{} {}", a[i].log_density, b[i].log_density);
            prop_assert!(close(a[i].log_epistemic, b[i].log_epistemic));
            prop_assert!(close(a[i].log_total, b[i].log_total));
        }

        let params = NuqRegressor::params().n_neighbors(200).kernel(kernel).density(density);
        let params = params.scale(Scale::Ambient).prior_weight(w);
        let repeated: Vec<f64> = rows.iter().map(|&row| targets[row as usize]).collect();
        let a = params.clone().bandwidth(bandwidth(&all)).fit_weighted(&x, &targets, &as_floats(&weights)).unwrap();
        let b = params.bandwidth(bandwidth(&rows)).fit(&x.gather(&rows), &repeated).unwrap();
        let (a, b) = (a.predict(&q).unwrap(), b.predict(&q).unwrap());
        for i in 0..q.len() {
            prop_assert!(close(a[i].mean, b[i].mean));
            prop_assert!(close(a[i].log_aleatoric, b[i].log_aleatoric));
            prop_assert!(close(a[i].log_total, b[i].log_total));
        }
    }

    /// A model with rows of weight zero equals the model without these rows, even with fewer neighbors than rows, and with learned
    /// bandwidths and densities.
    #[test]
    fn rows_of_weight_zero_are_absent(
        weights in prop::collection::vec(prop::sample::select(vec![0.0, 0.0, 1.0, 1.0, 2.5]), 60), seed in 0u64..200, ones in any::<bool>(),
    ) {
        let weights: Vec<f64> = weights.iter().map(|&w| if ones && w > 0.0 { 1.0 } else { w }).collect();
        let (x, y) = data::clusters(60, 3, 4, 1.0, seed);
        let targets: Vec<f64> = x.rows().map(|x| f64::from(x[0] - x[1])).collect();
        let present: Vec<u32> = (0..60).filter(|&i| weights[i as usize] > 0.0).collect();
        prop_assume!(present.len() > 10);
        let pick = |i: &u32| *i as usize;
        let some_weights: Vec<f64> = present.iter().map(|i| weights[pick(i)]).collect();
        let some = x.gather(&present);
        let (q, _) = data::clusters(10, 3, 4, 2.0, seed + 1);

        let labels: Vec<i64> = present.iter().map(|i| y[pick(i)]).collect();
        let params = NuqClassifier::params().n_neighbors(5);
        let a = params.fit_weighted(&x, &y, &weights).unwrap();
        let b = params.fit_weighted(&some, &labels, &some_weights).unwrap();
        prop_assert_eq!(a.index().len(), present.len());
        prop_assert_eq!(a.bandwidth_curve(), b.bandwidth_curve());
        let (a, b) = (a.predict(&q).unwrap(), b.predict(&q).unwrap());
        for i in 0..q.len() {
            prop_assert_eq!(a[i], b[i]);
            let ids: Vec<u32> = b.neighbors().ids(i).iter().map(|id| present[pick(id)]).collect();
            prop_assert_eq!(a.neighbors().ids(i), &ids);
        }

        let some_targets: Vec<f64> = present.iter().map(|i| targets[pick(i)]).collect();
        let params = NuqRegressor::params().n_neighbors(5).bandwidth(nuq::BandwidthRule::Adaptive { k: None });
        let a = params.fit_weighted(&x, &targets, &weights).unwrap().predict(&q).unwrap();
        let b = params.fit_weighted(&some, &some_targets, &some_weights).unwrap().predict(&q).unwrap();
        for i in 0..q.len() {
            prop_assert_eq!(a[i], b[i]);
        }
    }

    #[test]
    fn common_factors_do_not_change_probabilities_and_density_without_a_prior(factor in 1e-6f64..1e6, seed in 0u64..200) {
        let (x, y) = data::clusters(40, 3, 3, 1.0, seed);
        let weights: Vec<f64> = (0..40).map(|i| 0.5 + f64::from(i % 3)).collect();
        let scaled: Vec<f64> = weights.iter().map(|w| w * factor).collect();
        let density = Density::Kde { bandwidth: DensityBandwidth::HalfMedian };
        let params = NuqClassifier::params().n_neighbors(7).prior_weight(0.0).density(density);
        let a = params.fit_weighted(&x, &y, &weights).unwrap().leave_one_out().unwrap().to_vec();
        let b = params.fit_weighted(&x, &y, &scaled).unwrap().leave_one_out().unwrap().to_vec();
        for i in 0..40 {
            prop_assert!(close(a[i].probability, b[i].probability));
            prop_assert!(close(a[i].log_density, b[i].log_density));
        }
    }
}

fn rows_and_weights() -> (Embeddings<'static>, Vec<i64>, Vec<f64>) {
    let (x, y) = data::clusters(30, 2, 3, 1.0, 8);
    (x, y, (0..30).map(|i| [1.0, 0.25, 3.0, 10.0][i % 4]).collect())
}

#[test]
fn weights_of_one_equal_no_weights_bit_for_bit() {
    let (x, y, _) = rows_and_weights();
    let params = NuqClassifier::params().n_neighbors(5);
    let (plain, ones) = (params.fit(&x, &y).unwrap(), params.fit_weighted(&x, &y, &[1.0; 30]).unwrap());
    assert_eq!(plain.parts(), ones.parts());
    let (plain, ones) = (plain.leave_one_out().unwrap(), ones.leave_one_out().unwrap());
    assert!((0..30).all(|i| plain[i] == ones[i]));
    let targets: Vec<f64> = y.iter().map(|&y| y as f64).collect();
    let params = NuqRegressor::params().n_neighbors(5);
    let (plain, ones) =
        (params.fit(&x, &targets).unwrap(), params.fit_weighted(&x, &targets, &[1.0; 30]).unwrap());
    assert_eq!(plain.parts(), ones.parts());
}

#[test]
fn left_out_rows_are_predicted_from_the_weighted_other_rows() {
    let (x, y, weights) = rows_and_weights();
    let density = Density::Kde { bandwidth: DensityBandwidth::Fixed(0.3) };
    let params = NuqClassifier::params().n_neighbors(9).bandwidth(0.5).prior_weight(0.0);
    let params = params.density(density).scale(Scale::Ambient);
    let left_out = params.fit_weighted(&x, &y, &weights).unwrap().leave_one_out().unwrap().to_vec();
    for i in 0..30 {
        let mut others = weights.clone();
        others[i] = 0.0;
        let model = params.fit_weighted(&x, &y, &others).unwrap();
        let want = model.predict(&x.gather(&[i as u32])).unwrap();
        assert!(close(left_out[i].log_density, want[0].log_density), "row {i}");
        assert!(close(left_out[i].probability, want[0].probability), "row {i}");
        assert!(close(left_out[i].log_epistemic, want[0].log_epistemic), "row {i}");
    }
}

#[test]
fn the_scores_of_the_bandwidth_selection_are_weighted_means_over_left_out_rows() {
    let (x, y, weights) = rows_and_weights();
    let targets: Vec<f64> = y.iter().zip(x.rows()).map(|(&y, x)| y as f64 + f64::from(x[0])).collect();
    let params = NuqRegressor::params().n_neighbors(9).prior_weight(0.0);
    let model = params.fit_weighted(&x, &targets, &weights).unwrap();
    let curve = model.bandwidth_curve().unwrap();
    let total: f64 = weights.iter().sum();
    for point in curve.points.iter().step_by(7) {
        let fixed = params.clone().bandwidth(point.bandwidth).fit_weighted(&x, &targets, &weights).unwrap();
        let left_out = fixed.leave_one_out().unwrap();
        let loss = |i: usize| weights[i] * (left_out[i].mean - targets[i]).powi(2) / total;
        assert!(close(point.score.squared_error, (0..30).map(loss).sum()), "{}", point.bandwidth);
    }
    let params = NuqClassifier::params().n_neighbors(9);
    let model = params.fit_weighted(&x, &y, &weights).unwrap();
    let curve = model.bandwidth_curve().unwrap();
    for point in curve.points.iter().step_by(7) {
        let fixed = params.clone().bandwidth(point.bandwidth).fit_weighted(&x, &y, &weights).unwrap();
        let left_out = fixed.leave_one_out().unwrap();
        let correct = |i: usize| if left_out.label(i) == &y[i] { weights[i] / total } else { 0.0 };
        assert!(close(point.score.accuracy, (0..30).map(correct).sum()), "{}", point.bandwidth);
    }
}

#[test]
fn inserted_rows_have_the_given_weights_or_weight_1() {
    let (x, y, mut weights) = rows_and_weights();
    weights[25] = 0.0;
    let density = Density::Kde { bandwidth: DensityBandwidth::Same };
    let params = NuqClassifier::params().n_neighbors(9).bandwidth(0.5).density(density).scale(Scale::Ambient);
    let (q, _) = data::clusters(10, 2, 3, 1.0, 9);
    let [first, last] = [0..20, 20..30].map(|rows| x.gather(&rows.collect::<Vec<u32>>()));
    let whole = params.fit_weighted(&x, &y, &weights).unwrap().predict(&q).map(|p| p.to_vec()).unwrap();
    let mut grown = params.fit_weighted(&first, &y[..20], &weights[..20]).unwrap();
    let ids = grown.insert_weighted(&last, &y[20..], &weights[20..]).unwrap();
    assert_eq!((ids.len(), grown.index().len()), (10, 29));
    assert!(!grown.index().rows().contains(ids[5]));
    for (a, b) in grown.predict(&q).unwrap().iter().zip(&whole) {
        assert!(close(a.log_total, b.log_total) && close(a.log_density, b.log_density));
    }
    // Rows that are inserted without weights have weight 1, even if the other rows of the model have weights.
    let mut grown = params.fit_weighted(&first, &y[..20], &weights[..20]).unwrap();
    grown.insert(&last, &y[20..]).unwrap();
    assert_eq!(grown.sample_weights().unwrap()[20..], [1.0; 10]);
    let mut grown = params.fit(&first, &y[..20]).unwrap();
    grown.insert_weighted(&last, &y[20..], &[2.0; 10]).unwrap();
    assert_eq!(grown.sample_weights().unwrap(), [[1.0; 20].to_vec(), [2.0; 10].to_vec()].concat());
    // A model in which all weights are 1 has no weights.
    let mut grown = params.fit(&first, &y[..20]).unwrap();
    grown.insert_weighted(&last, &y[20..], &[1.0; 10]).unwrap();
    assert_eq!(grown.sample_weights(), None);
}

#[test]
fn a_restored_model_with_weights_gives_the_same_predictions() {
    let (x, y, mut weights) = rows_and_weights();
    weights[3] = 0.0;
    let (q, _) = data::clusters(10, 2, 3, 1.0, 9);
    let model = NuqClassifier::params().n_neighbors(5).fit_weighted(&x, &y, &weights).unwrap();
    let (parts, before) = (model.parts(), model.predict(&q).unwrap().to_vec());
    let index = nuq::Model::Classifier(model).into_index();
    let restored = NuqClassifier::from_parts(parts, index).unwrap();
    assert_eq!(restored.predict(&q).unwrap().to_vec(), before);
}

#[test]
fn invalid_weights_are_errors() {
    let (x, y, _) = rows_and_weights();
    let fit = |weights: &[f64]| NuqClassifier::params().fit_weighted(&x, &y, weights).unwrap_err();
    for bad in [-1.0, f64::NAN, f64::INFINITY, 1e200] {
        let mut weights = [1.0; 30];
        weights[7] = bad;
        assert!(matches!(fit(&weights), Error::BadSampleWeight { row: 7, .. }), "{bad}");
    }
    assert!(matches!(fit(&[1.0; 29]), Error::LengthMismatch { .. }));
    assert!(fit(&[0.0; 30]).to_string().contains("at least one weight must be positive"));
    let mut model = NuqClassifier::params().fit(&x, &y).unwrap();
    assert!(model.insert_weighted(&x, &y, &[-1.0; 30]).is_err());
    assert_eq!(model.index().len(), 30);
}
