//! Properties of every scorer: outliers have higher scores, no NaN for extreme rows, and typed errors; tests of restored baselines with
//! impossible values, and of the layers that are trained on embeddings (SNGP and DUQ).

use nuq::nuq_neighbors;
use nuq::{Embeddings, ExactIndex, NeighborIndex, Neighbors, Shrinkage};
use nuq_eval::Error;
use nuq_eval::baselines::{
    Array, ArrayValues, Batch, Ddu, Duq, DuqParams, Energy, Ensemble, Entropy, Fdbd, FitInputs, Gen, Head,
    Huq, KnnDistance, KnnReduction, LocalOutlierFactor, Mahalanobis, Margin, MaxLogit, MaxProb, Members,
    NnGuide, Normalized, Param, React, Reduction, RelativeMahalanobis, Scorer, Sngp, SngpParams,
    SngpReduction, Vim, fit, restore, temperature,
};
use nuq_eval::evaluate::MethodId;
use nuq_testkit::data::{self, to_rows};

fn rows(rows: &[&[f32]]) -> Embeddings<'static> {
    Embeddings::from_rows(rows).unwrap()
}

fn of_embeddings<'b>(rows: &'b Embeddings<'b>) -> Batch<'b> {
    Batch { embeddings: Some(rows), ..Batch::default() }
}

fn scaled(rows: &Embeddings<'_>, factor: f32) -> Embeddings<'static> {
    Embeddings::new(rows.as_slice().iter().map(|v| v * factor).collect(), rows.dim()).unwrap()
}

/// Three classes of 40 rows, and a last layer. The mean of class `c` is 4 times the unit vector `c`; the weights of
/// class `c` in the last layer are 3 times this vector.
fn separated_classes() -> (Embeddings<'static>, Vec<i64>, Head) {
    let noise = data::normal(120, 4, 1);
    let value = |(at, e): (usize, &f32)| 0.3 * e + if at % 4 == at / 4 % 3 { 4.0 } else { 0.0 };
    let x = noise.as_slice().iter().enumerate().map(value).collect();
    let w = rows(&[&[3.0, 0.0, 0.0, 0.0], &[0.0, 3.0, 0.0, 0.0], &[0.0, 0.0, 3.0, 0.0]]);
    let labels = (0..120).map(|i| i % 3).collect();
    (Embeddings::new(x, 4).unwrap(), labels, Head::new(&w, &[0.0; 3]).unwrap())
}

fn small_sngp(reduction: SngpReduction) -> SngpParams {
    SngpParams { features: 100, reduction, ..SngpParams::default() }
}

fn small_duq() -> DuqParams {
    DuqParams { projection: 10, steps: 50, ..DuqParams::default() }
}

/// Every scorer, fitted to the separated classes, except HUQ, whose inputs are uncertainties.
fn every_scorer() -> Vec<Box<dyn Scorer>> {
    let (x, y, head) = separated_classes();
    let (logits, l2, auto) = (head.logits(&x).unwrap(), x.l2_normalized(), Shrinkage::LedoitWolf);
    let mut all: Vec<Box<dyn Scorer>> = vec![
        Box::new(MaxProb),
        Box::new(Entropy),
        Box::new(Margin),
        Box::new(Energy::default()),
        Box::new(MaxLogit),
        Box::new(Gen::default()),
        Box::new(Ddu::fit(&x, &y, auto).unwrap()),
        Box::new(Mahalanobis::fit(&x, &y, auto).unwrap()),
        Box::new(RelativeMahalanobis::fit(&x, &y, auto).unwrap()),
        Box::new(KnnDistance::kth(&x, 5).unwrap()),
        Box::new(KnnDistance::mean(&x, 5).unwrap()),
        Box::new(LocalOutlierFactor::fit(&x, 10).unwrap()),
        Box::new(Normalized::new(KnnDistance::kth(&l2, 5).unwrap())),
        Box::new(Normalized::new(Mahalanobis::fit(&l2, &y, auto).unwrap())),
        Box::new(Vim::fit(&x, &head, Some(3)).unwrap()),
        Box::new(Fdbd::fit(&x, &head).unwrap()),
        Box::new(NnGuide::fit(&x, &logits, 10).unwrap()),
        Box::new(React::fit(&x, &head, 0.9).unwrap()),
        Box::new(Sngp::fit(&x, &y, small_sngp(SngpReduction::MaxProb)).unwrap()),
        Box::new(Sngp::fit(&x, &y, small_sngp(SngpReduction::DempsterShafer)).unwrap()),
        Box::new(Duq::fit(&x, &y, small_duq()).unwrap()),
    ];
    use Reduction::{Entropy as OfMean, MaxProb as Best, MeanEntropy, MutualInformation, Std};
    for reduction in [OfMean, Best, MeanEntropy, MutualInformation, Std] {
        all.push(Box::new(Ensemble(reduction)));
    }
    all
}

/// Queries with all input arrays that the scorers need.
struct Queries {
    embeddings: Embeddings<'static>,
    logits: Embeddings<'static>,
    members: Members,
}

impl Queries {
    fn batch(&self) -> Batch<'_> {
        let (embeddings, logits, members) = (Some(&self.embeddings), Some(&self.logits), Some(&self.members));
        Batch { embeddings, logits, members, ..Batch::default() }
    }
}

/// An inlier and a distant outlier. The logits of the outlier are equal for all classes, and the members predict different
/// classes for it.
fn inlier_and_outlier() -> Queries {
    let embeddings = rows(&[&[4.0, 0.1, -0.1, 0.05], &[0.0, 0.0, 0.0, 50.0]]);
    let logits = rows(&[&[12.0, 0.3, -0.3], &[0.0, 0.0, 0.0]]);
    let disagreeing = [[1.0, 0.0, 0.0], [0.0, 1.2, 0.0], [0.0, 0.0, 0.9]];
    let member = |z: &[f32; 3]| Embeddings::from_rows(&[[12.0, 0.0, 0.0], *z]).unwrap();
    Queries { embeddings, logits, members: Members::new(disagreeing.iter().map(member).collect()).unwrap() }
}

#[test]
fn outliers_have_higher_scores_for_every_scorer() {
    let queries = inlier_and_outlier();
    for scorer in every_scorer() {
        let scores = scorer.score(&queries.batch()).unwrap();
        assert!(scores[1] > scores[0], "{}: {scores:?}", scorer.name());
    }
}

#[test]
fn scores_of_extreme_rows_are_not_nan() {
    // Embeddings: the largest f32, the smallest positive normal f32, zero, the training mean, and large values of both signs.
    let (x, _, _) = separated_classes();
    let mean: Vec<f32> = (0..4).map(|j| (x.column(j).iter().sum::<f64>() / x.len() as f64) as f32).collect();
    let embeddings =
        rows(&[&[f32::MAX; 4], &[f32::MIN_POSITIVE; 4], &[0.0; 4], &mean, &[-1e30, 0.0, 1e30, 1.0]]);
    let logits =
        rows(&[&[f32::MAX; 3], &[f32::MIN; 3], &[0.0; 3], &[1e4, -1e4, 1e4], &[f32::MAX, 0.0, f32::MIN]]);
    let members = Members::new(vec![logits.clone(), scaled(&logits, 0.5)]).unwrap();
    let queries = Queries { embeddings, logits, members };
    for scorer in every_scorer() {
        let scores = scorer.score(&queries.batch()).unwrap();
        assert!(scores.iter().all(|score| !score.is_nan()), "{}: {scores:?}", scorer.name());
    }
}

#[test]
fn missing_and_mismatched_inputs_are_errors() {
    let queries = inlier_and_outlier();
    let whole = queries.batch();
    let (wide, many) = (data::normal(2, 9, 1), data::normal(2, 8, 2));
    for scorer in every_scorer() {
        let name = scorer.name();
        let error = |batch: &Batch<'_>| scorer.score(batch).err();
        let missing = error(&Batch::default());
        assert!(matches!(missing, Some(Error::MissingInput { .. })), "{name}: {missing:?}");
        let takes = |input| scorer.inputs().contains(&input);
        let (rows, z) =
            (takes(nuq_eval::baselines::Input::Embeddings), takes(nuq_eval::baselines::Input::Logits));
        if rows {
            let wrong = error(&Batch { embeddings: Some(&wide), ..whole });
            assert!(matches!(wrong, Some(Error::Model(nuq::Error::Neighbors(_)))), "{name}: {wrong:?}");
        }
        if rows && z {
            let wrong = error(&Batch { logits: Some(&many), ..whole });
            assert!(
                matches!(wrong, Some(Error::Model(nuq::Error::LengthMismatch { got: 8, .. }))),
                "{name}: {wrong:?}"
            );
            let (one, without) = (queries.embeddings.gather(&[0]), queries.logits.gather(&[]));
            for batch in
                [Batch { embeddings: Some(&one), ..whole }, Batch { logits: Some(&without), ..whole }]
            {
                let wrong = error(&batch);
                assert!(
                    matches!(wrong, Some(Error::Model(nuq::Error::LengthMismatch { .. }))),
                    "{name}: {wrong:?}"
                );
            }
        }
        // An empty batch has no scores.
        let (no_rows, no_logits) = (queries.embeddings.gather(&[]), queries.logits.gather(&[]));
        let no_members = Members::new(vec![no_logits.clone()]).unwrap();
        let empty = Queries { embeddings: no_rows, logits: no_logits, members: no_members };
        assert_eq!(scorer.score(&empty.batch()), Ok(vec![]), "{name}");
    }
}

#[test]
fn given_neighbors_with_the_id_of_a_removed_row_are_an_error() {
    let x = rows(&[&[0.0], &[1.0], &[2.0]]);
    let queries = x.gather(&[0, 2]);
    let mut index = ExactIndex::new(&x).unwrap();
    index.remove(&[2]).unwrap();
    let scorer = KnnDistance::new(Box::new(index), 2, KnnReduction::Kth).unwrap();
    let neighbors = Neighbors::new(2, vec![0, 1, 2, 1], vec![0.0, 1.0, 0.0, 1.0]).unwrap();
    let error = scorer.score(&Batch { neighbors: Some(&neighbors), ..of_embeddings(&queries) }).err();
    let unknown = nuq_neighbors::Error::UnknownId { query: 1, id: 2, len: 2 };
    assert_eq!(error, Some(Error::Model(nuq::Error::Neighbors(unknown))));
}

#[test]
fn given_neighbors_are_validated() {
    let (x, _, _) = separated_classes();
    let queries = x.gather(&[0, 1]);
    let (knn, lof) = (KnnDistance::kth(&x, 2).unwrap(), LocalOutlierFactor::fit(&x, 2).unwrap());
    for scorer in [&knn as &dyn Scorer, &lof] {
        let score = |queries: &Embeddings<'_>, neighbors: &Neighbors| {
            scorer.score(&Batch { neighbors: Some(neighbors), ..of_embeddings(queries) })
        };
        let unknown = Neighbors::new(2, vec![0, 999, 1, 2], vec![0.0; 4]).unwrap();
        let error = score(&queries, &unknown).unwrap_err();
        assert!(
            matches!(
                error,
                Error::Model(nuq::Error::Neighbors(nuq_neighbors::Error::UnknownId { id: 999, .. }))
            ),
            "{error}"
        );
        let too_short = Neighbors::new(2, vec![0, 1], vec![0.0; 2]).unwrap();
        let error = score(&queries, &too_short).unwrap_err();
        assert!(
            matches!(error, Error::Model(nuq::Error::LengthMismatch { got: 1, expected: 2, .. })),
            "{error}"
        );
        let neighbors = Neighbors::new(2, vec![0, 1, 1, 2], vec![0.0; 4]).unwrap();
        let error = score(&data::normal(2, 9, 1), &neighbors).unwrap_err();
        assert!(
            matches!(
                error,
                Error::Model(nuq::Error::Neighbors(nuq_neighbors::Error::DimensionMismatch { .. }))
            ),
            "{error}"
        );
        // If fewer neighbors than needed are given, they are replaced by a search.
        let short = Neighbors::new(1, vec![0, 1], vec![9.0; 2]).unwrap();
        assert_eq!(score(&queries, &short), scorer.score(&of_embeddings(&queries)));
    }
}

#[test]
fn fit_rejects_empty_and_mismatched_inputs() {
    let (x, y, head) = separated_classes();
    let logits = head.logits(&x).unwrap();
    let (none, no_labels) = (x.gather(&[]), [0i64; 0]);
    let auto = Shrinkage::LedoitWolf;
    let empty = Error::Model(nuq::Error::Neighbors(nuq_neighbors::Error::Empty));
    assert_eq!(Ddu::fit(&none, &no_labels, auto).err(), Some(empty.clone()));
    assert_eq!(Mahalanobis::fit(&none, &no_labels, auto).err(), Some(empty.clone()));
    assert_eq!(RelativeMahalanobis::fit(&none, &no_labels, auto).err(), Some(empty.clone()));
    assert_eq!(KnnDistance::kth(&none, 1).err(), Some(empty.clone()));
    assert_eq!(LocalOutlierFactor::fit(&none, 1).err(), Some(empty.clone()));
    assert_eq!(Vim::fit(&none, &head, None).err(), Some(empty.clone()));
    assert_eq!(Fdbd::fit(&none, &head).err(), Some(empty.clone()));
    assert_eq!(React::fit(&none, &head, 0.9).err(), Some(empty.clone()));
    assert_eq!(NnGuide::fit(&none, &logits.gather(&[]), 1).err(), Some(empty.clone()));
    assert_eq!(Sngp::fit(&none, &no_labels, SngpParams::default()).err(), Some(empty.clone()));
    assert_eq!(Duq::fit(&none, &no_labels, DuqParams::default()).err(), Some(empty));

    assert!(matches!(
        Ddu::fit(&x, &y[1..], auto).err(),
        Some(Error::Model(nuq::Error::LengthMismatch { .. }))
    ));
    assert!(matches!(
        Mahalanobis::fit(&x, &y[1..], auto).err(),
        Some(Error::Model(nuq::Error::LengthMismatch { .. }))
    ));
    let few = logits.gather(&[0, 1]);
    assert!(matches!(NnGuide::fit(&x, &few, 1).err(), Some(Error::Model(nuq::Error::LengthMismatch { .. }))));
    assert!(matches!(Head::fit(&x, &few).err(), Some(Error::Model(nuq::Error::LengthMismatch { .. }))));
    let first = |n: u32| (0..n).collect::<Vec<u32>>();
    let four = (x.gather(&first(4)), logits.gather(&first(4)));
    assert_eq!(
        Head::fit(&four.0, &four.1).err(),
        Some(Error::FewRows { what: "the last layer of the network", got: 4, needed: 5 })
    );
    // Rows with another number of columns than the last layer.
    for dim in [3, 9] {
        let rows = data::normal(30, dim, 1);
        let wrong = Some(Error::Model(nuq::Error::Neighbors(nuq_neighbors::Error::DimensionMismatch {
            got: dim,
            expected: 4,
        })));
        assert_eq!(Vim::fit(&rows, &head, Some(1)).err(), wrong);
        assert_eq!(Fdbd::fit(&rows, &head).err(), wrong);
        assert_eq!(React::fit(&rows, &head, 0.9).err(), wrong);
    }
    let unrelated = data::normal(120, 3, 5);
    assert!(matches!(Head::fit(&x, &unrelated).err(), Some(Error::LogitsNotLinear { .. })));
}

#[test]
fn invalid_parameters_members_and_temperature_inputs_are_rejected() {
    let (x, y, head) = separated_classes();
    let assert_out_of_range = |error: Option<Error>| {
        assert!(matches!(error, Some(Error::Model(nuq::Error::OutOfRange { .. }))), "{error:?}")
    };
    for t in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_out_of_range(Energy::new(t).err());
    }
    assert_out_of_range(Gen::new(0.0, 10).err());
    assert_out_of_range(Gen::new(1.0, 10).err());
    assert_out_of_range(Gen::new(0.1, 0).err());
    for quantile in [0.0, 1.1, f64::NAN] {
        assert_out_of_range(React::fit(&x, &head, quantile).err());
        assert_out_of_range(Huq::fit(&[1.0], &[1.0], quantile - 0.5, 2.0, 0.5).err());
    }
    for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_out_of_range(
            Sngp::fit(&x, &y, SngpParams { length_scale: Some(wrong), ..SngpParams::default() }).err(),
        );
        assert_out_of_range(Sngp::fit(&x, &y, SngpParams { ridge: wrong, ..SngpParams::default() }).err());
        assert_out_of_range(
            Duq::fit(&x, &y, DuqParams { length_scale: wrong, ..DuqParams::default() }).err(),
        );
        assert_out_of_range(
            Duq::fit(&x, &y, DuqParams { learning_rate: wrong, ..DuqParams::default() }).err(),
        );
    }
    assert_out_of_range(Sngp::fit(&x, &y, SngpParams { features: 0, ..SngpParams::default() }).err());
    assert_out_of_range(Duq::fit(&x, &y, DuqParams { projection: 0, ..DuqParams::default() }).err());
    assert_out_of_range(Duq::fit(&x, &y, DuqParams { steps: 0, ..DuqParams::default() }).err());
    assert_out_of_range(Duq::fit(&x, &y, DuqParams { batch: 0, ..DuqParams::default() }).err());
    assert_out_of_range(Duq::fit(&x, &y, DuqParams { momentum: 1.0, ..DuqParams::default() }).err());
    assert_out_of_range(Vim::fit(&x, &head, Some(4)).err());
    assert_out_of_range(Ddu::fit(&x, &y, Shrinkage::Fixed(1.5)).err());
    assert_out_of_range(Head::new(&data::normal(2, 3, 1), &[0.0, f64::NAN]).err());
    assert!(matches!(
        Head::new(&data::normal(2, 3, 1), &[0.0]).err(),
        Some(Error::Model(nuq::Error::LengthMismatch { .. }))
    ));
    assert_eq!(
        KnnDistance::kth(&x, 0).err(),
        Some(Error::Model(nuq::Error::Neighbors(nuq_neighbors::Error::ZeroNeighbors)))
    );
    let logits = head.logits(&x).unwrap();
    assert_eq!(
        NnGuide::fit(&x, &logits, 0).err(),
        Some(Error::Model(nuq::Error::Neighbors(nuq_neighbors::Error::ZeroNeighbors)))
    );
    assert!(LocalOutlierFactor::fit(&x, 0).is_err() && LocalOutlierFactor::fit(&x.gather(&[0]), 5).is_err());
    assert!(matches!(Members::new(vec![]).err(), Some(Error::Model(nuq::Error::NoRows { .. }))));
    let unequal = vec![data::normal(2, 3, 1), data::normal(3, 3, 1)];
    assert!(matches!(Members::new(unequal).err(), Some(Error::Model(nuq::Error::LengthMismatch { .. }))));
    assert!(matches!(
        Members::new(vec![data::normal(2, 3, 1), data::normal(2, 4, 1)]).err(),
        Some(Error::Model(nuq::Error::Neighbors(_)))
    ));
    assert_out_of_range(temperature(&logits, &[9; 120]).err());
    assert!(matches!(
        temperature(&logits, &[0]).err(),
        Some(Error::Model(nuq::Error::LengthMismatch { .. }))
    ));
    assert!(matches!(
        temperature(&logits.gather(&[]), &[]).err(),
        Some(Error::Model(nuq::Error::NoRows { .. }))
    ));
}

#[test]
fn huq_rejects_nan_and_unequal_lengths() {
    let huq = Huq::fit(&[0.1, 0.2], &[0.3, 0.4], 0.5, 0.5, 0.5).unwrap();
    assert_eq!(huq.score(&[], &[]), Ok(vec![]));
    assert!(matches!(huq.score(&[0.1], &[]).err(), Some(Error::Model(nuq::Error::LengthMismatch { .. }))));
    assert!(matches!(
        huq.score(&[0.1, f64::NAN], &[0.1, 0.1]).err(),
        Some(Error::Model(nuq::Error::NanScore { row: 1, .. }))
    ));
    assert!(matches!(
        huq.score(&[0.1], &[f64::NAN]).err(),
        Some(Error::Model(nuq::Error::NanScore { row: 0, .. }))
    ));
    assert!(matches!(Huq::fit(&[], &[], 0.5, 0.5, 0.5).err(), Some(Error::Model(nuq::Error::NoRows { .. }))));
    assert!(matches!(
        Huq::fit(&[1.0], &[1.0, 2.0], 0.5, 0.5, 0.5).err(),
        Some(Error::Model(nuq::Error::LengthMismatch { .. }))
    ));
}

#[test]
fn empty_arrays_of_a_restored_baseline_are_errors_that_state_the_needed_shape() {
    let (x, _, head) = separated_classes();
    let fdbd = Fdbd::fit(&x, &head).unwrap();
    let nnguide = NnGuide::fit(&x, &head.logits(&x).unwrap(), 5).unwrap();
    let problem = |scorer: &dyn Scorer, name: &str, shape: &[usize], values: ArrayValues| {
        let mut parts = scorer.parts().unwrap();
        parts.arrays.insert(name.to_owned(), Array { shape: shape.to_vec(), values });
        let error = restore(parts, None).err().unwrap().to_string();
        error.strip_prefix(&format!("section `{name}` is damaged: its shape is ")).unwrap().to_owned()
    };
    assert_eq!(
        problem(&fdbd, "mean", &[0], ArrayValues::F64(vec![])),
        "[0]; needed: one dimension with at least one value"
    );
    assert_eq!(
        problem(&fdbd, "weight_distances", &[0, 3], ArrayValues::F64(vec![])),
        "[0, 3]; needed: a matrix with at least one row and one column"
    );
    assert_eq!(
        problem(&nnguide, "bank", &[2, 0], ArrayValues::F32(vec![])),
        "[2, 0]; needed: a matrix of type f32 with at least one column"
    );
}

#[test]
fn impossible_parameters_of_a_restored_baseline_are_reported_as_damage() {
    let (x, y, head) = separated_classes();
    let react = || React::fit(&x, &head, 0.9).unwrap();
    let huq = Huq::fit(&[0.1, 0.2], &[0.3, 0.4], 0.5, 0.5, 0.5).unwrap();
    let sngp = Sngp::fit(&x, &y, small_sngp(SngpReduction::MaxProb)).unwrap();
    let cases: [(Box<dyn Scorer>, &str, Param); 8] = [
        (Box::new(Energy::default()), "temperature", Param::Number(0.0)),
        (Box::new(Gen::default()), "gamma", Param::Number(2.0)),
        (Box::new(Ddu::fit(&x, &y, Shrinkage::LedoitWolf).unwrap()), "shrinkage", Param::Number(2.0)),
        (Box::new(sngp), "ridge", Param::Number(0.0)),
        (Box::new(Duq::fit(&x, &y, small_duq()).unwrap()), "momentum", Param::Number(1.0)),
        (Box::new(react()), "quantile", Param::Number(2.0)),
        (Box::new(huq), "alpha", Param::Number(2.0)),
        (Box::new(KnnDistance::kth(&x, 5).unwrap()), "n_neighbors", Param::Integer(0)),
    ];
    for (scorer, name, value) in cases {
        let mut parts = scorer.parts().unwrap();
        assert!(parts.params.insert(name.to_owned(), value).is_some(), "{}", scorer.name());
        let index = |_| -> Box<dyn NeighborIndex> { Box::new(ExactIndex::new(&x).unwrap()) };
        let index = scorer.index().map(index);
        let error = restore(parts, index).err().unwrap().to_string();
        assert!(error.starts_with("section `params` is damaged: "), "{}: {error}", scorer.name());
    }
    let mut parts = react().parts().unwrap();
    parts.arrays.insert("bias".to_owned(), vec![0.0f64; 2].into());
    let error = restore(parts, None).err().unwrap().to_string();
    assert_eq!(error, "section `bias` is damaged: its shape is [2]; needed: [3]");
}

#[test]
fn trained_layers_predict_classes_and_detect_outliers() {
    let (all, labels) = data::clusters(1200, 8, 4, 1.2, 21);
    let part = |first: u32, last: u32| all.gather(&(first..last).collect::<Vec<u32>>());
    let (x, test, y, truth) = (part(0, 600), part(600, 1200), &labels[..600], &labels[600..]);
    let outliers = scaled(&data::normal(200, 8, 22), 12.0);
    let sngp = Sngp::fit(&x, y, SngpParams::default()).unwrap();
    let duq = Duq::fit(&x, y, DuqParams::default()).unwrap();
    let accuracy = |labels: Vec<&nuq::Label>| {
        labels.iter().zip(truth).filter(|(label, truth)| **label == *truth).count() as f64 / 600.0
    };
    // For spherical clusters of equal size, the nearest mean is the optimal classifier.
    let best = nearest_mean_accuracy(&x, y, &test, truth);
    for labels in [sngp.predict(&test).unwrap(), duq.predict(&test).unwrap()] {
        assert!(accuracy(labels) > best - 0.02, "{best}");
    }
    for scorer in [&sngp as &dyn Scorer, &duq] {
        let score = |rows: &Embeddings<'_>| scorer.score(&of_embeddings(rows)).unwrap();
        let auc = nuq_eval::metrics::roc_auc(&score(&test), &score(&outliers)).unwrap();
        assert!(auc > 0.95, "{}: {auc}", scorer.name());
    }
}

/// Accuracy of the nearest class mean.
fn nearest_mean_accuracy(x: &Embeddings<'_>, y: &[i64], test: &Embeddings<'_>, truth: &[i64]) -> f64 {
    let mean = |class: i64| {
        let members: Vec<u32> = (0u32..).zip(y).filter(|(_, y)| **y == class).map(|(i, _)| i).collect();
        let members = x.gather(&members);
        (0..x.dim()).map(|j| members.column(j).iter().sum::<f64>() / members.len() as f64).collect::<Vec<_>>()
    };
    let means: Vec<Vec<f64>> = (0..4).map(mean).collect();
    let sq_distance = |q: &[f64], m: &[f64]| q.iter().zip(m).map(|(q, m)| (q - m).powi(2)).sum::<f64>();
    let nearest = |q: &Vec<f64>| {
        let by_distance =
            |&a: &usize, &b: &usize| sq_distance(q, &means[a]).total_cmp(&sq_distance(q, &means[b]));
        (0..4).min_by(by_distance).unwrap()
    };
    let correct = to_rows(test).iter().zip(truth).filter(|(q, truth)| nearest(q) as i64 == **truth).count();
    correct as f64 / truth.len() as f64
}

#[test]
fn trained_layers_do_not_depend_on_threads_or_units() {
    let (x, y) = data::clusters(300, 6, 3, 1.5, 31);
    let scores = |x: &Embeddings<'_>| {
        let sngp =
            Sngp::fit(x, &y, small_sngp(SngpReduction::MaxProb)).unwrap().score(&of_embeddings(x)).unwrap();
        [sngp, Duq::fit(x, &y, small_duq()).unwrap().score(&of_embeddings(x)).unwrap()].concat()
    };
    let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let expected = scores(&x);
    assert_eq!(expected, one_thread.install(|| scores(&x)));
    for (a, b) in scores(&scaled(&x, 1024.0)).iter().zip(&expected) {
        assert!((a - b).abs() <= 1e-6 * b.abs().max(1e-3), "in other units {a}, expected {b}");
    }
}

#[test]
fn scores_do_not_depend_on_the_batch() {
    let (x, y, head) = separated_classes();
    let queries = data::normal(18, 4, 10);
    let (logits, train) = (head.logits(&queries).unwrap(), head.logits(&x).unwrap());
    let scorers: [Box<dyn Scorer>; 3] = [
        Box::new(NnGuide::fit(&x, &train, 10).unwrap()),
        Box::new(Sngp::fit(&x, &y, small_sngp(SngpReduction::MaxProb)).unwrap()),
        Box::new(Duq::fit(&x, &y, small_duq()).unwrap()),
    ];
    for scorer in scorers {
        let batch = Batch { logits: Some(&logits), ..of_embeddings(&queries) };
        let scores = scorer.score(&batch).unwrap();
        for (i, score) in (0u32..).zip(&scores) {
            let (row, z) = (queries.gather(&[i]), logits.gather(&[i]));
            let batch = Batch { logits: Some(&z), ..of_embeddings(&row) };
            assert_eq!(scorer.score(&batch).unwrap(), [*score], "{}, row {i}", scorer.name());
        }
    }
}

#[test]
fn layers_reject_one_class_unequal_lengths_and_equal_rows() {
    let (x, y, _) = separated_classes();
    let one = vec![7; 120];
    assert_eq!(Sngp::fit(&x, &one, SngpParams::default()).err(), Some(Error::OneClass { what: "SNGP" }));
    assert_eq!(Duq::fit(&x, &one, DuqParams::default()).err(), Some(Error::OneClass { what: "DUQ" }));
    let short = Some(Error::Model(nuq::Error::LengthMismatch {
        what: "labels",
        got: 119,
        counterpart: "training rows",
        expected: 120,
    }));
    assert_eq!(Sngp::fit(&x, &y[1..], SngpParams::default()).err(), short);
    assert_eq!(Duq::fit(&x, &y[1..], DuqParams::default()).err(), short);
    let same = Embeddings::new(vec![0.5; 480], 4).unwrap();
    let message = Sngp::fit(&same, &y, SngpParams::default()).err().unwrap().to_string();
    assert!(message.starts_with("length_scale cannot be estimated"), "{message}");
    let message = Duq::fit(&same, &y, DuqParams::default()).err().unwrap().to_string();
    assert!(message.starts_with("the projection of DUQ cannot be estimated"), "{message}");
}

#[test]
fn gaussians_of_equal_rows_are_an_error_with_a_remedy_for_baselines() {
    let same = Embeddings::new(vec![0.5; 24], 4).unwrap();
    let (y, auto) = ([0, 1, 0, 1, 0, 1], Shrinkage::LedoitWolf);
    for error in [
        Ddu::fit(&same, &y, auto).err(),
        Mahalanobis::fit(&same, &y, auto).err(),
        RelativeMahalanobis::fit(&same, &y, auto).err(),
    ] {
        let message = error.unwrap().to_string();
        assert!(message.starts_with("the covariance of the classes cannot be estimated"), "{message}");
        assert!(message.ends_with("; give rows that differ from each other"), "{message}");
    }
}

#[test]
fn methods_that_need_a_nuq_model_are_errors_with_a_remedy() {
    let message = |method| fit(method, &FitInputs::default()).err().unwrap().to_string();
    for method in MethodId::ALL.iter().copied().filter(|method| method.is_nuq()) {
        let expected = format!(
            "{} needs a NUQ model, not a baseline: fit a NuqClassifier and use its predictions",
            method.title()
        );
        assert_eq!(message(method), expected);
    }
    let expected = "HUQ needs the uncertainties of a NUQ model: give them to Huq::fit";
    assert_eq!(message(MethodId::Huq), expected);
}
