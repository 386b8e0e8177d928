//! Degenerate and invalid input gives an error or a documented value, never a panic.

use nuq::bandwidth::BandwidthRule;
use nuq::{
    Bandwidth, Covariance, Criterion, Density, DensityBandwidth, Embeddings, Error, FittedModel, Kernel,
    Neighbors, NuqClassifier, NuqRegressor, Shrinkage,
};
use nuq_testkit::data;

fn rows(rows: &[&[f32]]) -> Embeddings<'static> {
    Embeddings::from_rows(rows).unwrap()
}

fn two_classes(n: usize) -> Vec<i64> {
    (0..n as i64).map(|i| i % 2).collect()
}

#[test]
fn an_empty_training_set_is_an_error() {
    let none = Embeddings::new(vec![], 3).unwrap();
    let empty = Error::Neighbors(nuq_neighbors::Error::Empty);
    assert_eq!(NuqClassifier::params().fit(&none, &[0i64; 0]).err(), Some(empty.clone()));
    assert_eq!(NuqRegressor::params().fit(&none, &[]).err(), Some(empty));
}

#[test]
fn with_fewer_rows_than_neighbors_all_rows_are_neighbors() {
    let (x, y) = data::clusters(5, 2, 2, 3.0, 1);
    let model = NuqClassifier::params().fit(&x, &y).unwrap();
    assert_eq!(model.predict(&x).unwrap().neighbors().k(), 5);
}

fn no_bandwidth(rows: usize) -> Error {
    let remedy = match rows {
        1 => {
            "set bandwidth to a number, choose the density kde and set density_bandwidth to a number; or give more rows"
        }
        _ => "set bandwidth and density_bandwidth to numbers, or increase n_neighbors",
    };
    Error::NoSpread { what: "bandwidth", rows, remedy }
}

#[test]
fn one_row_works_with_given_bandwidths_and_is_an_error_without() {
    let x = rows(&[&[1.0, 2.0]]);
    assert_eq!(NuqClassifier::params().fit(&x, &["only"]).err(), Some(no_bandwidth(1)));
    // With a given bandwidth, only that of the density is missing.
    for density in [Density::Auto, Density::kde()] {
        let fit = NuqClassifier::params().bandwidth(1.0).density(density).fit(&x, &["only"]);
        let remedy = "choose the density kde and set density_bandwidth to a number, or give more rows";
        assert_eq!(fit.err(), Some(Error::NoSpread { what: "density_bandwidth", rows: 1, remedy }));
    }
    let density = Density::Kde { bandwidth: DensityBandwidth::Same };
    let model = NuqClassifier::params().bandwidth(1.0).density(density).fit(&x, &["only"]).unwrap();
    let predictions = model.predict(&x).unwrap();
    assert_eq!(predictions.label(0).to_string(), "only");
    // The kernel weights sum to 1 and the prior weight is 1e-3; the prior gives 1/2 to a class without rows.
    assert!((predictions[0].aleatoric - 0.5e-3 / 1.001).abs() < 1e-15);
    assert!(predictions[0].log_epistemic.is_finite());
}

#[test]
fn equal_rows_are_an_error_without_given_bandwidths() {
    let x = Embeddings::new(vec![0.5; 60], 3).unwrap();
    let y = two_classes(20);
    assert_eq!(NuqClassifier::params().fit(&x, &y).err(), Some(no_bandwidth(20)));
    for rule in [
        BandwidthRule::Silverman,
        BandwidthRule::ImprovedSheatherJones,
        BandwidthRule::Adaptive { k: Some(3) },
    ] {
        assert_eq!(NuqClassifier::params().bandwidth(rule).fit(&x, &y).err(), Some(no_bandwidth(20)));
    }
    let gaussians =
        Density::Gmm { covariance: Covariance::Full, shrinkage: Shrinkage::LedoitWolf, scale_free: false };
    let fit = NuqClassifier::params().bandwidth(1.0).density(gaussians).fit(&x, &y);
    let message = fit.expect_err("equal rows have no covariance").to_string();
    assert!(
        message.starts_with("the covariance of the density") && message.contains("density_bandwidth"),
        "{message}"
    );
    let fit = NuqClassifier::params().bandwidth(1.0).fit(&x, &y);
    let message = fit.expect_err("equal rows have no density bandwidth").to_string();
    assert!(message.starts_with("density_bandwidth cannot be estimated"), "{message}");
    // Each row equals its nearest neighbors.
    let two_places = Embeddings::new((0..60).map(|i| (i / 30) as f32).collect(), 1).unwrap();
    let fit = NuqClassifier::params().fit(&two_places, &two_classes(60));
    assert_eq!(fit.err(), Some(no_bandwidth(60)));
    NuqClassifier::params().n_neighbors(40).fit(&two_places, &two_classes(60)).unwrap();
    // With given bandwidths the probabilities are the class frequencies of the neighbors.
    let density = Density::Kde { bandwidth: DensityBandwidth::Fixed(1.0) };
    let model = NuqClassifier::params().bandwidth(1.0).density(density).fit(&x, &y).unwrap();
    assert!((model.predict(&x).unwrap()[0].probability - 0.5).abs() < 1e-12);
}

#[test]
fn scales_of_1e30_and_1e_minus_30_give_the_predictions_of_scale_one() {
    let (x, y) = data::clusters(200, 4, 3, 1.0, 2);
    let (q, _) = data::clusters(30, 4, 3, 1.0, 3);
    let predictions_at = |power: i32| {
        let factor = 2f32.powi(power);
        let scale = |e: &Embeddings<'_>| {
            Embeddings::new(e.as_slice().iter().map(|v| v * factor).collect(), 4).unwrap()
        };
        let model = NuqClassifier::params().fit(&scale(&x), &y).unwrap();
        model.predict(&scale(&q)).unwrap().iter().copied().collect::<Vec<_>>()
    };
    let plain = predictions_at(0);
    for power in [100, -100] {
        for (a, b) in plain.iter().zip(predictions_at(power)) {
            assert_eq!(a.class, b.class);
            assert!((a.probability - b.probability).abs() < 1e-9);
            assert!(
                (a.log_epistemic - b.log_epistemic).abs() < 1e-7,
                "{} {}",
                a.log_epistemic,
                b.log_epistemic
            );
        }
    }
}

#[test]
fn invalid_queries_are_errors_and_no_queries_give_no_predictions() {
    let nan = Embeddings::new(vec![0.0, 1.0, f32::NAN], 3).unwrap_err();
    assert_eq!(nan.to_string(), "row 0, column 2 is NaN: every coordinate must be finite");
    let (x, y) = data::clusters(30, 5, 2, 1.0, 1);
    let model = NuqClassifier::params().fit(&x, &y).unwrap();
    let column = Embeddings::new(vec![0.0; 4], 1).unwrap();
    let error = model.predict(&column).err().unwrap();
    assert_eq!(
        error.to_string(),
        "the given rows have 1 column, and the training rows have 5: use embeddings of the same layer"
    );
    assert_eq!(model.predict_proba(&column).err(), Some(error));
    let none = model.predict(&Embeddings::new(vec![], 5).unwrap()).unwrap();
    assert!(none.is_empty());
}

#[test]
fn neighbors_that_do_not_match_the_model_or_the_queries_are_errors() {
    let (x, y) = data::clusters(30, 2, 2, 1.0, 1);
    let model = NuqClassifier::params().fit(&x, &y).unwrap();
    let unknown = Neighbors::new(1, vec![30], vec![1.0]).unwrap();
    let error = model.predict_from(&x.gather(&[0]), &unknown).err().unwrap();
    assert_eq!(error.to_string(), "query 0: neighbor id 30 is not among the 30 training rows");
    let error = model.predict_from(&x, &unknown).err().unwrap();
    assert_eq!(error.to_string(), "1 rows of the neighbor table for 30 queries: give one for each");
}

#[test]
fn invalid_bandwidths_are_errors() {
    let (x, y) = data::clusters(30, 2, 2, 1.0, 1);
    for h in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-200] {
        let error = NuqClassifier::params().bandwidth(h).fit(&x, &y).err().unwrap();
        assert!(matches!(error, Error::BadBandwidth { .. }), "{h}: {error}");
        let density = Density::Kde { bandwidth: DensityBandwidth::Fixed(h) };
        let error = NuqClassifier::params().density(density).fit(&x, &y).err().unwrap();
        assert!(error.to_string().starts_with("density bandwidth is"), "{error}");
    }
    let fit = |bandwidth| NuqClassifier::params().bandwidth(bandwidth).fit(&x, &y).err().unwrap().to_string();
    assert_eq!(fit(Bandwidth::PerDimension(vec![1.0])), "1 bandwidths for 2 columns: give one for each");
    assert_eq!(
        fit(Bandwidth::PerPoint(vec![1.0; 29])),
        "29 bandwidths for 30 training rows: give one for each"
    );
    assert_eq!(
        fit(Bandwidth::PerDimension(vec![1.0, -2.0])),
        "bandwidth of column 1 is -2.0: it must be positive and finite (1e-100 to 1e100)"
    );
}

#[test]
fn values_of_given_bandwidths_are_checked_without_data() {
    let check = |bandwidth| NuqClassifier::params().bandwidth(bandwidth).check();
    for (bandwidth, what) in [
        (Bandwidth::PerDimension(vec![1.0, -2.0]), "bandwidth of column 1"),
        (Bandwidth::PerPoint(vec![f64::INFINITY]), "bandwidth of training row 0"),
    ] {
        let error = check(bandwidth).unwrap_err();
        assert!(matches!(&error, Error::BadBandwidth { what: of, .. } if of == what), "{error}");
    }
    check(Bandwidth::PerDimension(vec![1.0, 2.0])).unwrap();
}

#[test]
fn parameters_outside_their_range_are_errors() {
    let (x, y) = data::clusters(30, 2, 2, 1.0, 1);
    let zero = Error::Neighbors(nuq_neighbors::Error::ZeroNeighbors);
    assert_eq!(NuqClassifier::params().n_neighbors(0).fit(&x, &y).err(), Some(zero.clone()));
    let rule = BandwidthRule::Adaptive { k: Some(0) };
    assert_eq!(NuqClassifier::params().bandwidth(rule).fit(&x, &y).err(), Some(zero));
    for weight in [-1e-9, f64::NAN, f64::INFINITY] {
        let error = NuqClassifier::params().prior_weight(weight).fit(&x, &y).err().unwrap();
        assert!(matches!(error, Error::OutOfRange { name: "prior_weight", .. }));
    }
    let rule = BandwidthRule::LeaveOneOut { criterion: Criterion::Accuracy, points: 1 };
    assert!(matches!(
        NuqClassifier::params().bandwidth(rule).fit(&x, &y).err(),
        Some(Error::OutOfRange { name: "grid points", .. })
    ));
    assert!(matches!(
        NuqClassifier::params().selection_rows(1).fit(&x, &y).err(),
        Some(Error::OutOfRange { name: "selection_rows", .. })
    ));
    let density = |amount| Density::Gmm {
        covariance: Covariance::Full,
        shrinkage: Shrinkage::Fixed(amount),
        scale_free: false,
    };
    for amount in [-0.1, 1.1, f64::NAN] {
        let fit = NuqClassifier::params().density(density(amount)).fit(&x, &y);
        assert!(matches!(fit.err(), Some(Error::OutOfRange { name: "shrinkage", .. })));
    }
}

#[test]
fn wrong_numbers_of_labels_or_targets_and_nan_targets_are_errors() {
    let (x, _) = data::clusters(30, 2, 2, 1.0, 1);
    let error = NuqClassifier::params().fit(&x, &two_classes(29)).err().unwrap();
    assert_eq!(error.to_string(), "29 labels for 30 training rows: give one for each");
    let error = NuqRegressor::params().fit(&x, &[0.0; 31]).err().unwrap();
    assert_eq!(error.to_string(), "31 targets for 30 training rows: give one for each");
    let mut targets = [0.0; 30];
    targets[7] = f64::NAN;
    let error = NuqRegressor::params().fit(&x, &targets).err().unwrap();
    assert!(matches!(error, Error::BadTarget { row: 7, .. }));
}

#[test]
fn constant_targets_have_no_variance() {
    let (x, _) = data::clusters(30, 2, 2, 1.0, 1);
    let estimates = NuqRegressor::params().fit(&x, &[4.2; 30]).unwrap().predict(&x).unwrap();
    for estimate in estimates.iter() {
        assert_eq!((estimate.mean, estimate.log_aleatoric), (4.2, f64::NEG_INFINITY));
        assert_eq!((estimate.log_epistemic, estimate.total()), (f64::NEG_INFINITY, 0.0));
    }
}

#[test]
fn targets_of_a_million_plus_or_minus_a_thousandth_keep_their_digits() {
    let (x, labels) = data::clusters(200, 2, 2, 3.0, 1);
    let near: Vec<f64> = labels.iter().map(|&l| (2 * l - 1) as f64).collect();
    let far: Vec<f64> = near.iter().map(|y| 1e6 + 1e-3 * y).collect();
    let params = NuqRegressor::params().bandwidth(1.0);
    let (near, far) = (params.fit(&x, &near).unwrap(), params.fit(&x, &far).unwrap());
    for (a, b) in near.predict(&x).unwrap().iter().zip(far.predict(&x).unwrap().iter()) {
        // 1e6 + 1e-3 has a rounding error of 1e-10, so deviations of 1e-3 are accurate to seven digits.
        assert!((a.log_aleatoric - b.log_aleatoric - 2.0 * 1e3f64.ln()).abs() < 1e-6);
    }
}

#[test]
fn targets_near_1e_minus_170_give_the_bandwidth_and_variance_of_scaled_targets() {
    let (x, labels) = data::clusters(60, 2, 3, 1.0, 1);
    let fit = |unit: f64| {
        let targets: Vec<f64> = labels.iter().map(|&l| unit * l as f64).collect();
        let model = NuqRegressor::params().fit(&x, &targets).unwrap();
        (model.bandwidth().clone(), model.predict(&x).unwrap()[0].log_aleatoric - 2.0 * unit.ln())
    };
    let (one, tiny) = (fit(1.0), fit(1e-170));
    assert_eq!(one.0, tiny.0);
    assert!((one.1 - tiny.1).abs() < 1e-9);
}

#[test]
fn a_class_of_one_row_and_a_single_class_give_finite_predictions() {
    let (x, _) = data::clusters(30, 4, 1, 1.0, 1);
    let mut labels = vec!["common"; 30];
    labels[13] = "rare";
    for covariance in [Covariance::Full, Covariance::Tied, Covariance::Diagonal] {
        let density = Density::Gmm { covariance, shrinkage: Shrinkage::LedoitWolf, scale_free: false };
        let model = NuqClassifier::params().density(density).fit(&x, &labels).unwrap();
        assert_eq!(model.classes().counts(), [29, 1]);
        assert!(model.predict(&x).unwrap().iter().all(|p| p.log_density.is_finite()));
    }
    let model = NuqClassifier::params().fit(&x, &[7i64; 30]).unwrap();
    let predictions = model.predict(&x).unwrap();
    assert_eq!(predictions.label(0).to_string(), "7");
    assert!(predictions[0].probability > 0.999);
    let far = |distance: f32| {
        let query = Embeddings::new(vec![distance; 4], 4).unwrap();
        model.predict(&query).unwrap()[0].log_epistemic
    };
    assert!(far(1e3) > predictions[0].log_epistemic + 3.0 && far(1e6) > far(1e3) + 3.0);
}

#[test]
fn epistemic_uncertainty_grows_with_the_distance_after_removal_of_all_other_classes() {
    let (x, _) = data::clusters(30, 4, 1, 1.0, 1);
    let mut labels = vec!["common"; 30];
    labels[13] = "rare";
    let mut model = NuqClassifier::params().fit(&x, &labels).unwrap();
    model.remove(&[13]).unwrap();
    let predictions = model.predict(&Embeddings::from_rows(&[[0.0; 4], [1e3; 4]]).unwrap()).unwrap();
    assert!(predictions[1].log_epistemic > predictions[0].log_epistemic + 3.0);
}

#[test]
fn without_shrinkage_a_singular_covariance_is_an_error_that_names_the_class() {
    let mut values = data::normal(40, 3, 1).as_slice().to_vec();
    values.chunks_mut(3).take(20).for_each(|row| row[2] = 1.0); // constant within the first class
    let x = Embeddings::new(values, 3).unwrap();
    let labels: Vec<&str> = (0..40).map(|i| if i < 20 { "flat" } else { "full" }).collect();
    for covariance in [Covariance::Full, Covariance::Diagonal] {
        let density = |shrinkage| Density::Gmm { covariance, shrinkage, scale_free: false };
        let error =
            NuqClassifier::params().density(density(Shrinkage::Fixed(0.0))).fit(&x, &labels).err().unwrap();
        assert_eq!(error.to_string(), "the covariance of class flat is singular: give a shrinkage above 0",);
        NuqClassifier::params().density(density(Shrinkage::LedoitWolf)).fit(&x, &labels).unwrap();
    }
    // Fewer points than dimensions, and no shrinkage at all.
    let (x, y) = data::clusters(6, 10, 2, 1.0, 1);
    let density =
        Density::Gmm { covariance: Covariance::Tied, shrinkage: Shrinkage::Fixed(0.0), scale_free: false };
    let error = NuqClassifier::params().bandwidth(1.0).density(density).fit(&x, &y).err().unwrap();
    assert!(matches!(error, Error::SingularCovariance { .. }), "{error}");
}

/// With 1000 classes in 2048 dimensions, d × d matrices would take 33 GB. With three rows per class, 3 × 3 matrices are
/// sufficient.
#[test]
fn a_thousand_classes_in_2048_dimensions_fit_in_memory() {
    let (x, y) = data::clusters(3000, 2048, 1000, 1.0, 1);
    let density =
        Density::Gmm { covariance: Covariance::Full, shrinkage: Shrinkage::LedoitWolf, scale_free: false };
    let model = NuqClassifier::params().bandwidth(10.0).density(density).fit(&x, &y).unwrap();
    let predictions = model.predict(&x.gather(&[0, 1, 2])).unwrap();
    assert!(predictions.iter().all(|p| p.log_density.is_finite()));
}

#[test]
fn every_rule_gives_a_bandwidth_with_a_constant_column() {
    let mut values = data::clusters(300, 6, 3, 2.0, 4).0.as_slice().to_vec();
    values.chunks_mut(6).for_each(|row| row[5] = 0.0);
    let x = Embeddings::new(values, 6).unwrap();
    let y: Vec<i64> = (0..300).map(|i| i % 3).collect();
    for rule in [
        BandwidthRule::Silverman,
        BandwidthRule::Scott,
        BandwidthRule::ImprovedSheatherJones,
        BandwidthRule::Adaptive { k: Some(10) },
        Criterion::Accuracy.into(),
        Criterion::LogLikelihood.into(),
    ] {
        for kernel in [Kernel::Gaussian, Kernel::Logistic] {
            let model = NuqClassifier::params().kernel(kernel).bandwidth(rule.clone()).fit(&x, &y).unwrap();
            let predictions = model.predict(&x).unwrap();
            assert!(predictions.iter().all(|p| p.log_epistemic.is_finite()), "{rule:?} {kernel:?}");
        }
    }
}
