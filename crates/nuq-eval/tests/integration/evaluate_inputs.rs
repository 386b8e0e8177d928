//! Inputs of a comparison that do not match the model are errors. Skipped methods are listed with the reason.

use nuq::{Density, DensityBandwidth, Embeddings, NuqClassifier};
use nuq_eval::Error;
use nuq_eval::baselines::Members;
use nuq_eval::evaluate::{Comparison, MethodId, Rows};
use nuq_testkit::data;

fn model<'a>(rows: &Embeddings<'a>) -> NuqClassifier<'a> {
    let labels: Vec<i64> = (0..rows.len() as i64).map(|i| i % 3).collect();
    NuqClassifier::params().n_neighbors(5).bandwidth(1.0).fit(rows, &labels).unwrap()
}

#[test]
fn logits_with_a_wrong_number_of_columns_are_errors() {
    let (train, test) = (data::normal(60, 4, 1), data::normal(12, 4, 2));
    let labels: Vec<i64> = (0..12).map(|i| i % 3).collect();
    let (wide, right) = (data::normal(12, 4, 3), data::normal(12, 3, 3));
    let model = model(&train);
    let mismatch = |error: Error| {
        assert_eq!(error.to_string(), "4 columns of logits for 3 classes of the model: give one for each");
    };
    mismatch(Comparison::new(Rows::new(&test).logits(&wide), &labels).run(&model).err().unwrap());
    let comparison = Comparison::new(Rows::new(&test).logits(&right), &labels);
    mismatch(comparison.ood("far", Rows::new(&test).logits(&wide)).run(&model).err().unwrap());
}

#[test]
fn wrong_numbers_of_members_or_of_their_columns_are_errors() {
    let (train, test) = (data::normal(60, 4, 1), data::normal(12, 4, 2));
    let labels: Vec<i64> = (0..12).map(|i| i % 3).collect();
    let members = |count: u64, classes: usize| {
        Members::new((0..count).map(|seed| data::normal(12, classes, seed)).collect()).unwrap()
    };
    let (three, two, wide) = (members(3, 3), members(2, 3), members(3, 4));
    let model = model(&train);
    let mismatch = |error: Error| {
        let text = "4 columns of the members' logits for 3 classes of the model: give one for each";
        assert_eq!(error.to_string(), text);
    };
    mismatch(Comparison::new(Rows::new(&test).members(&wide), &labels).run(&model).err().unwrap());
    let comparison = Comparison::new(Rows::new(&test).members(&three), &labels);
    mismatch(comparison.clone().ood("far", Rows::new(&test).members(&wide)).run(&model).err().unwrap());
    let error = comparison.ood("far", Rows::new(&test).members(&two)).run(&model).err().unwrap();
    assert_eq!(error, Error::MemberCount { set: "far".to_owned(), got: 2, expected: 3 });
}

#[test]
fn labels_of_another_kind_are_errors() {
    let (train, test) = (data::normal(60, 4, 1), data::normal(3, 4, 2));
    let error = Comparison::new(Rows::new(&test), &["0", "1", "2"]).run(&model(&train)).err().unwrap();
    assert!(matches!(error, Error::Model(nuq::Error::LabelKind { row: 0, .. })), "{error}");
}

#[test]
fn methods_that_need_logits_are_skipped_with_the_reason_if_a_set_has_none() {
    let (train, test) = (data::normal(60, 4, 1), data::normal(12, 4, 2));
    let labels: Vec<i64> = (0..12).map(|i| i % 3).collect();
    let logits = data::normal(12, 3, 3);
    let comparison = Comparison::new(Rows::new(&test).logits(&logits), &labels).ood("far", Rows::new(&test));
    let model = model(&train);
    let evaluation = comparison.run(&model).unwrap();
    let skipped = evaluation.skipped.iter().find(|skipped| skipped.id == MethodId::MaxProb).unwrap();
    assert_eq!(skipped.reason, "logits are missing for far");
    assert!(evaluation.method(MethodId::MaxProb).is_none());
}

/// The reference rows of HUQ are training rows, each predicted from the other training rows. The model of this test has only one row, so
/// the fit of HUQ fails.
#[test]
fn huq_is_skipped_if_its_fit_fails() {
    let train = Embeddings::from_rows(&[[0.0, 0.5]]).unwrap();
    let test = Embeddings::from_rows(&[[0.0, 0.6], [1.0, 2.0], [0.2, 0.4]]).unwrap();
    let density = Density::Kde { bandwidth: DensityBandwidth::Fixed(1.0) };
    let params = NuqClassifier::params().n_neighbors(5).bandwidth(1.0).density(density);
    let model = params.fit(&train, &["a"]).unwrap();
    let evaluation = Comparison::new(Rows::new(&test), &["a", "a", "a"]).run(&model).unwrap();
    let skipped = evaluation.skipped.iter().find(|skipped| skipped.id == MethodId::Huq).unwrap();
    assert!(skipped.reason.starts_with("there are no rows"), "{}", skipped.reason);
    assert!(evaluation.method(MethodId::Huq).is_none());
    assert!(evaluation.method(MethodId::NuqTotal).is_some());
}
