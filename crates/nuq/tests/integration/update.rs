//! After rows are inserted and removed, a model equals the model of the remaining rows.

use nuq::{
    Bandwidth, Covariance, Density, Embeddings, Error, FittedModel, Label, NuqClassifier, NuqRegressor,
    Shrinkage,
};
use nuq_testkit::data::clusters;

#[test]
fn inserting_and_removing_rows_gives_the_model_of_the_remaining_rows() {
    let (x, y) = clusters(300, 6, 4, 1.0, 1);
    let first: Vec<u32> = (0..200).collect();
    let rest: Vec<u32> = (200..300).collect();
    let labels = |ids: &[u32]| -> Vec<i64> { ids.iter().map(|&id| y[id as usize]).collect() };
    let densities = [
        Density::kde(),
        Density::Gmm { covariance: Covariance::Tied, shrinkage: Shrinkage::LedoitWolf, scale_free: false },
    ];
    for density in densities {
        let params = NuqClassifier::params().n_neighbors(10).bandwidth(0.7).density(density);
        let mut model = params.fit(&x.gather(&first), &labels(&first)).unwrap();
        model.predict(&x).unwrap();
        assert_eq!(model.insert(&x.gather(&rest), &labels(&rest)).unwrap(), rest);
        let removed: Vec<u32> = (0..300).step_by(3).collect();
        model.remove(&removed).unwrap();
        let left: Vec<u32> = (0..300).filter(|id| id % 3 != 0).collect();
        // Density bandwidth and dimension are not fitted again, so the expected model is restored from parts.
        let mut parts = model.parts();
        let index = nuq::ExactIndex::new(&x.gather(&left)).unwrap();
        parts.class_of_row = left.iter().map(|&id| parts.class_of_row[id as usize]).collect();
        let expected = NuqClassifier::from_parts(parts, Box::new(index)).unwrap();
        let (actual, expected) = (model.predict(&x).unwrap(), expected.predict(&x).unwrap());
        for i in 0..x.len() {
            let ids: Vec<u32> = expected.neighbors().ids(i).iter().map(|&id| left[id as usize]).collect();
            assert_eq!(actual.neighbors().ids(i), ids);
            assert_eq!(actual[i], expected[i], "row {i}");
        }
    }
}

#[test]
fn a_left_out_prediction_equals_that_of_the_model_without_the_row() {
    let (x, y) = clusters(60, 3, 3, 1.0, 5);
    // Gaussians are fitted to all rows, including the left-out row, so this test uses a kernel density.
    let params = NuqClassifier::params().density(Density::kde()).n_neighbors(7).prior_weight(0.0);
    let classifier = || params.fit(&x, &y).unwrap();
    let targets: Vec<f64> = x.rows().map(|row| f64::from(row[0])).collect();
    let regressor = || NuqRegressor::params().n_neighbors(7).prior_weight(0.0).fit(&x, &targets).unwrap();
    let (with_labels, with_targets) = (classifier(), regressor());
    let left_out = with_labels.leave_one_out().unwrap();
    let left_out_means = with_targets.leave_one_out().unwrap();
    for row in 0..60u32 {
        let query = x.gather(&[row]);
        let mut without = classifier();
        without.remove(&[row]).unwrap();
        let expected = without.predict(&query).unwrap();
        assert_eq!(left_out[row as usize], expected[0], "row {row}");
        assert_eq!(left_out.neighbors().ids(row as usize), expected.neighbors().ids(0));
        let mut without = regressor();
        without.remove(&[row]).unwrap();
        assert_eq!(left_out_means[row as usize], without.predict(&query).unwrap()[0], "row {row}");
    }
}

#[test]
fn left_out_predictions_are_in_the_order_of_the_remaining_ids() {
    let (x, y) = clusters(5000, 2, 3, 1.0, 5);
    let mut model = NuqClassifier::params().n_neighbors(5).bandwidth(0.5).fit(&x, &y).unwrap();
    model.remove(&[0, 17]).unwrap();
    let left_out = model.leave_one_out().unwrap();
    assert_eq!((left_out.len(), left_out.neighbors().len()), (4998, 4998));
    // The label issues are exactly the rows whose predicted label differs from the given label.
    let ids: Vec<u32> = (0..5000).filter(|id| ![0, 17].contains(id)).collect();
    let given = |id: u32| Label::from(y[id as usize]);
    let mut differing: Vec<u32> =
        (0..4998).filter(|&i| *left_out.label(i) != given(ids[i])).map(|i| ids[i]).collect();
    let mut issues: Vec<u32> = model.label_issues().unwrap().iter().map(|issue| issue.row).collect();
    differing.sort_unstable();
    issues.sort_unstable();
    assert_eq!(differing, issues);
}

#[test]
fn a_label_that_is_as_probable_as_the_predicted_one_is_not_an_issue() {
    // The neighbors of the row at 0 have the classes a and b, at the same distance.
    let x = Embeddings::from_rows(&[[-1.0], [1.0], [0.0]]).unwrap();
    let model = NuqClassifier::params().n_neighbors(2).bandwidth(1.0).fit(&x, &["a", "b", "b"]).unwrap();
    let issues: Vec<u32> = model.label_issues().unwrap().iter().map(|issue| issue.row).collect();
    assert_eq!(issues, [0]);
}

#[test]
fn a_relabeled_model_equals_the_model_fitted_with_the_new_labels() {
    let (x, y) = clusters(120, 4, 3, 1.0, 8);
    for density in [
        Density::kde(),
        Density::Gmm { covariance: Covariance::Full, shrinkage: Shrinkage::LedoitWolf, scale_free: false },
    ] {
        let params = NuqClassifier::params().n_neighbors(10).bandwidth(0.7).density(density);
        // Class 0 loses all its rows, class 9 is new, and some rows keep their label.
        let ids: Vec<u32> = (0..120).filter(|&id| y[id as usize] == 0 || id % 7 == 0).collect();
        let relabeled: Vec<i64> = ids.iter().map(|&id| if id % 2 == 0 { 9 } else { 1 }).collect();
        let mut expected = y.clone();
        ids.iter().zip(&relabeled).for_each(|(&id, &label)| expected[id as usize] = label);
        let mut model = params.fit(&x, &y).unwrap();
        model.predict(&x).unwrap();
        model.relabel(&ids, &relabeled).unwrap();
        let mut parts = params.fit(&x, &expected).unwrap().parts();
        assert_eq!(
            (model.parts().labels, model.parts().class_of_row),
            (parts.labels.clone(), parts.class_of_row.clone())
        );
        // Bandwidths and dimension are not fitted again.
        parts.smoother = model.parts().smoother;
        let index = nuq::ExactIndex::new(&x).unwrap();
        let fitted = NuqClassifier::from_parts(parts, Box::new(index)).unwrap();
        let (actual, expected) = (model.predict(&x).unwrap(), fitted.predict(&x).unwrap());
        assert!((0..x.len()).all(|i| actual[i] == expected[i] && actual.label(i) == expected.label(i)));
        let before = model.parts();
        for ids in [[0, 0], [0, 120]] {
            let error = model.relabel(&ids, &[1, 1]).unwrap_err();
            assert!(matches!(error, Error::CannotRelabel { position: 1, .. }), "{error}");
        }
        assert!(model.relabel(&[0], &[1, 2]).is_err());
        assert_eq!(model.parts(), before);
    }
}

#[test]
fn classes_without_rows_are_removed_and_new_classes_are_added() {
    let x = Embeddings::from_rows(&[[0.0], [1.0], [2.0]]).unwrap();
    let mut model = NuqClassifier::params().n_neighbors(2).bandwidth(0.5).fit(&x, &["b", "c", "c"]).unwrap();
    model.remove(&[0]).unwrap();
    assert_eq!(model.classes().labels(), [Label::from("c")]);
    // The id of the removed row is used again.
    assert_eq!(model.insert(&Embeddings::from_rows(&[[5.0], [6.0]]).unwrap(), &["a", "d"]).unwrap(), [0, 3]);
    assert_eq!(model.classes().labels(), ["a", "c", "d"].map(Label::from));
    assert_eq!(model.classes().counts(), [1, 2, 1]);
}

#[test]
fn invalid_updates_are_errors_and_change_nothing() {
    let x = Embeddings::from_rows(&[[0.0], [1.0], [2.0]]).unwrap();
    let mut model = NuqClassifier::params().n_neighbors(2).bandwidth(0.5).fit(&x, &[0, 1, 1]).unwrap();
    let before = model.parts();
    assert_eq!(model.remove(&[0, 1, 2]).unwrap_err(), Error::NoRows { what: "training rows left" });
    assert!(model.remove(&[1, 7]).is_err());
    assert!(model.insert(&Embeddings::from_rows(&[[0.0, 1.0]]).unwrap(), &[1]).is_err());
    assert!(matches!(model.insert(&x, &[1]), Err(Error::LengthMismatch { .. })));
    assert_eq!(model.parts(), before);
    let per_point = NuqClassifier::params().bandwidth(Bandwidth::PerPoint(vec![1.0; 3]));
    assert_eq!(
        per_point.fit(&x, &[0, 1, 1]).unwrap().insert(&x, &[0, 0, 0]).unwrap_err(),
        Error::PerPointBandwidthFixed
    );
    let mut regressor =
        NuqRegressor::params().n_neighbors(2).bandwidth(0.5).fit(&x, &[1.0, 2.0, 4.0]).unwrap();
    assert!(matches!(regressor.insert(&x, &[1.0, f64::NAN, 0.0]), Err(Error::BadTarget { row: 1, .. })));
    assert_eq!(regressor.index().len(), 3);
    regressor.remove(&[2]).unwrap();
    // Far away the mean is the mean target of the remaining rows.
    let far = regressor.predict(&Embeddings::from_rows(&[[1e6]]).unwrap()).unwrap();
    assert!((far[0].mean - 1.5).abs() < 1e-9, "{}", far[0].mean);
}
