//! Cancelled fits, predictions and updates: they end at a check point and leave the model as it was.

use nuq::{
    BandwidthRule, CancelToken, Cancelled, ClassGaussians, Covariance, Density, Embeddings, FittedModel,
    HnswParams, IndexKind, NuqClassifier, NuqRegressor, Prediction, Shrinkage, suggest,
};
use nuq_testkit::cancel::{assert_checks_often, cancel_at_check_points};
use nuq_testkit::data::{clusters, normal};

const GMM: Density =
    Density::Gmm { covariance: Covariance::Full, shrinkage: Shrinkage::LedoitWolf, scale_free: false };

fn predictions(model: &NuqClassifier<'_>, queries: &Embeddings<'_>) -> Vec<Prediction> {
    model.predict(queries).unwrap().to_vec()
}

/// The numbers in each call of `assert_checks_often` are the steps of the computation, and the factor by which the steps between two check
/// points grow in the largest expected computation of this kind.
#[test]
fn every_long_loop_has_enough_check_points() {
    let (x, y) = clusters(2000, 32, 5, 4.0, 1);
    let queries = normal(1000, 32, 2);
    let params = NuqClassifier::params().n_neighbors(20);
    let model = params.clone().fit(&x, &y).unwrap();
    let (search, selection) = (2000 * 2000 * 32, 2000 * 20 * 50);
    assert_checks_often("leave-one-out selection", search + 20 * selection, 32, || {
        params.fit(&x, &y).unwrap()
    });
    assert_checks_often("prediction", 2000 * 1000 * 32, 32, || model.predict(&queries).unwrap());
    assert_checks_often("label issues", search, 32, || model.label_issues().unwrap());
    let isj = params.clone().bandwidth(BandwidthRule::ImprovedSheatherJones);
    assert_checks_often("Sheather-Jones", 32 * 1024 * 1024, 1, || isj.fit(&x, &y).unwrap());
    for covariance in [Covariance::Full, Covariance::Diagonal, Covariance::Tied] {
        let fit = || ClassGaussians::fit(&x, &y, covariance, Shrinkage::LedoitWolf).unwrap();
        assert_checks_often("covariances", 2000 * 32 * 32, 32, fit);
        let gaussians = fit();
        // With one covariance per class, there is a check point for each class and block of 256 queries. Between two of them, a
        // triangular system is solved for each query of the block. With 1024 instead of 32 columns, this takes 1024 times as many
        // steps. The ratio is divided by 4, because matrix products in `f64` do at least four steps per instruction. (With 2048
        // columns, a slow core takes about 60 ms between two check points, more than the limit of 25 ms.)
        let steps = 5 * 1000 * 32 * 32 / 2;
        assert_checks_often("densities", steps, 1024 / 4, || gaussians.log_density(&queries).unwrap());
    }
    let uncertainty = vec![1.0; 2000];
    assert_checks_often("suggestions", 2000 * 200 * 32, 32, || suggest(&x, &uncertainty, 200).unwrap());
}

#[test]
fn a_cancelled_fit_returns_cancelled_and_a_cancelled_prediction_changes_nothing() {
    let (x, y) = clusters(600, 8, 3, 4.0, 1);
    let queries = normal(50, 8, 2);
    for density in [Density::kde(), Density::Auto, GMM] {
        let params = NuqClassifier::params().n_neighbors(10).density(density);
        let token = CancelToken::at_check(4);
        assert_eq!(token.run(|| params.fit(&x, &y)).err(), Some(Cancelled));
        let mut model = params.fit(&x, &y).unwrap();
        // The Gaussians of an updated model are fitted by its first prediction.
        model.insert(&queries, &vec![0; queries.len()]).unwrap();
        cancel_at_check_points(&mut model, |model| predictions(model, &queries), |_| {});
        let expected = predictions(&model, &queries);
        cancel_at_check_points(
            &mut model,
            |model| predictions(model, &queries),
            |model| assert_eq!(predictions(model, &queries), expected),
        );
    }
}

#[test]
fn a_cancelled_update_of_a_classifier_changes_nothing() {
    let (x, y) = clusters(1500, 8, 3, 4.0, 1);
    let (new, queries) = (normal(200, 8, 2), normal(40, 8, 3));
    let labels: Vec<i64> = (0..200).map(|i| i % 7).collect();
    for index in [IndexKind::Exact, IndexKind::Hnsw(HnswParams::default())] {
        for normalize in [false, true] {
            let params = NuqClassifier::params().n_neighbors(10).index(index).normalize(normalize);
            let mut model = params.fit(&x, &y).unwrap();
            let state = |model: &NuqClassifier<'_>| {
                (
                    predictions(model, &queries),
                    model.classes().labels().to_vec(),
                    model.training_classes().to_vec(),
                )
            };
            let before = state(&model);
            let unchanged =
                |model: &NuqClassifier<'_>| assert!(state(model) == before, "{index} {normalize}");
            cancel_at_check_points(&mut model, |model| model.insert(&new, &labels).unwrap(), unchanged);
            assert_eq!(model.classes().len(), 7);
            let before = state(&model);
            let unchanged =
                |model: &NuqClassifier<'_>| assert!(state(model) == before, "{index} {normalize}");
            let removed: Vec<u32> = (0..1000).collect();
            cancel_at_check_points(&mut model, |model| model.remove(&removed).unwrap(), unchanged);
            assert_ne!(state(&model).0, before.0);
        }
    }
}

#[test]
fn a_cancelled_insertion_with_rows_of_weight_0_changes_nothing() {
    let (x, y) = clusters(1500, 8, 3, 4.0, 1);
    let (new, queries) = (normal(4, 8, 2), normal(40, 8, 3));
    let params = NuqClassifier::params().n_neighbors(10).index(IndexKind::Hnsw(HnswParams::default()));
    let mut model = params.fit(&x, &y).unwrap();
    let state = |model: &NuqClassifier<'_>| (predictions(model, &queries), model.index().len());
    let before = state(&model);
    // With few rows there are few check points, and a call is cancelled at each of them.
    cancel_at_check_points(
        &mut model,
        |model| model.insert_weighted(&new, &[7; 4], &[1.0, 0.0, 2.0, 0.0]).unwrap(),
        |model| assert!(state(model) == before),
    );
    assert_eq!(model.index().len(), 1502);
}

#[test]
fn a_cancelled_update_of_a_regressor_changes_nothing() {
    let (x, new) = (normal(1500, 8, 1), normal(200, 8, 2));
    let targets: Vec<f64> = x.rows().map(|row| f64::from(row[0])).collect();
    let params = NuqRegressor::params().n_neighbors(10).index(IndexKind::Hnsw(HnswParams::default()));
    let mut model = params.fit(&x, &targets).unwrap();
    let state = |model: &NuqRegressor<'_>| (model.predict(&new).unwrap().to_vec(), model.targets().to_vec());
    let before = state(&model);
    cancel_at_check_points(
        &mut model,
        |model| model.insert(&new, &targets[..200]).unwrap(),
        |model| assert!(state(model) == before),
    );
    assert_eq!(model.targets().len(), 1700);
}
