//! Files of baselines: round trips of every method, damaged files and impossible values.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use nuq::calibrate::{Predictor, ScoreThreshold, Target};
use nuq::nuq_neighbors::SeededRng;
use nuq::{Embeddings, ExactIndex, HnswIndex, HnswParams, Model, NeighborIndex, NuqClassifier, Shrinkage};
use nuq_eval::baselines::{
    Array, ArrayValues, Batch, Ddu, Duq, DuqParams, Energy, Ensemble, Entropy, Fdbd, Gen, Head, Huq, Input,
    KnnDistance, KnnReduction, LocalOutlierFactor, Mahalanobis, Margin, MaxLogit, MaxProb, Members, NnGuide,
    Normalized, Param, React, Reduction, RelativeMahalanobis, Scorer, Sngp, SngpParams, SngpReduction,
    Uncertainties, Vim, restore,
};
use nuq_eval::evaluate::MethodId;
use nuq_io::{BaselineDetails, Contents, Error, ModelLock, TrainingRows};
use nuq_testkit::data;

const DIM: usize = 6;

/// Queries with all inputs.
struct Queries {
    embeddings: Embeddings<'static>,
    logits: Embeddings<'static>,
    members: Members,
    aleatoric: Vec<f64>,
    epistemic: Vec<f64>,
}

impl Queries {
    fn new() -> Self {
        let members = (0..3).map(|seed| data::normal(70, 3, 20 + seed)).collect();
        Self {
            embeddings: data::normal(70, DIM, 10),
            logits: data::normal(70, 3, 11),
            members: Members::new(members).unwrap(),
            aleatoric: data::normal(70, 1, 12).column(0),
            epistemic: data::normal(70, 1, 13).column(0),
        }
    }

    fn bits(&self, scorer: &dyn Scorer) -> Result<Vec<u64>, nuq_eval::Error> {
        let batch = Batch {
            embeddings: Some(&self.embeddings),
            logits: Some(&self.logits),
            members: Some(&self.members),
            uncertainties: Some(Uncertainties { aleatoric: &self.aleatoric, epistemic: &self.epistemic }),
            ..Batch::default()
        };
        Ok(scorer.score(&batch)?.into_iter().map(f64::to_bits).collect())
    }
}

/// Every method, with the options that change what is stored.
fn every_baseline() -> Vec<Box<dyn Scorer>> {
    let (x, y) = data::clusters(90, DIM, 3, 1.0, 1);
    let weights = data::normal(3, DIM, 2);
    let head = Head::new(&weights, &[0.5, 0.0, -1.0]).unwrap();
    let (logits, l2, auto) = (head.logits(&x).unwrap(), x.l2_normalized(), Shrinkage::LedoitWolf);
    let (few, few_labels) = (x.gather(&[0, 1, 2, 3, 4]), &y[..5]);
    let words: Vec<String> = y.iter().map(|class| format!("class {class} é")).collect();
    let sngp = SngpParams { features: 20, ..SngpParams::default() };
    let shafer = SngpParams { length_scale: Some(1.5), reduction: SngpReduction::DempsterShafer, ..sngp };
    let duq = DuqParams { projection: 4, steps: 5, ..DuqParams::default() };
    let graph = HnswIndex::new(&x, HnswParams::default()).unwrap();
    let uncertainties = (data::normal(50, 1, 3).column(0), data::normal(50, 1, 4).column(0));
    let mut all: Vec<Box<dyn Scorer>> = vec![
        Box::new(MaxProb),
        Box::new(Entropy),
        Box::new(Margin),
        Box::new(MaxLogit),
        Box::new(Energy::new(0.1).unwrap()),
        Box::new(Gen::new(0.3, 2).unwrap()),
        Box::new(Ddu::fit(&x, &y, auto).unwrap()),
        Box::new(Ddu::fit(&few, few_labels, Shrinkage::Fixed(0.3)).unwrap()),
        Box::new(Normalized::new(Ddu::fit(&l2, &y, auto).unwrap())),
        Box::new(Mahalanobis::fit(&x, &y, auto).unwrap()),
        Box::new(Mahalanobis::fit(&few, few_labels, auto).unwrap()),
        Box::new(Normalized::new(Mahalanobis::fit(&l2, &y, auto).unwrap())),
        Box::new(RelativeMahalanobis::fit(&x, &y, auto).unwrap()),
        Box::new(Normalized::new(RelativeMahalanobis::fit(&l2, &y, auto).unwrap())),
        Box::new(KnnDistance::kth(&x, 5).unwrap()),
        Box::new(KnnDistance::mean(&x, 500).unwrap()),
        Box::new(KnnDistance::new(Box::new(graph), 5, KnnReduction::Kth).unwrap()),
        Box::new(Normalized::new(KnnDistance::kth(&l2, 5).unwrap())),
        Box::new(LocalOutlierFactor::fit(&x, 10).unwrap()),
        Box::new(LocalOutlierFactor::fit(&few, 10).unwrap()),
        Box::new(Normalized::new(LocalOutlierFactor::fit(&l2, 10).unwrap())),
        Box::new(Sngp::fit(&x, &words, sngp).unwrap()),
        Box::new(Sngp::fit(&x, &y, shafer).unwrap()),
        Box::new(Normalized::new(Sngp::fit(&l2, &y, sngp).unwrap())),
        Box::new(Duq::fit(&x, &words, duq).unwrap()),
        Box::new(Normalized::new(Duq::fit(&l2, &y, duq).unwrap())),
        Box::new(Vim::fit(&x, &head, None).unwrap()),
        Box::new(Vim::fit(&x, &head, Some(4)).unwrap()),
        Box::new(Fdbd::fit(&x, &head).unwrap()),
        Box::new(NnGuide::fit(&x, &logits, 10).unwrap()),
        Box::new(React::fit(&x, &head, 0.9).unwrap()),
        Box::new(Huq::fit(&uncertainties.0, &uncertainties.1, 0.2, 0.8, 0.9).unwrap()),
    ];
    all.extend(Reduction::ALL.iter().map(|&reduction| Box::new(Ensemble(reduction)) as Box<dyn Scorer>));
    all
}

fn in_folder(test: impl FnOnce(&Path, &Path)) {
    let folder = tempfile::tempdir().unwrap();
    test(&folder.path().join("baseline.nuq"), &folder.path().join("again.nuq"));
}

#[test]
fn an_opened_baseline_of_every_method_scores_the_same_bits() {
    in_folder(|path, again| {
        let queries = Queries::new();
        let mut methods = BTreeSet::new();
        for scorer in every_baseline() {
            nuq_io::save_baseline(&*scorer, &BaselineDetails::default(), path).unwrap();
            let opened = nuq_io::open_baseline(path).unwrap();
            let parts = scorer.parts().unwrap();
            let name = scorer.name();
            assert_eq!(queries.bits(&*opened.scorer), queries.bits(&*scorer), "{name}");
            assert_eq!(opened.scorer.name(), name);
            assert_eq!(opened.scorer.bytes(), scorer.bytes(), "{name}");
            assert_eq!((opened.method, &opened.params), (parts.method, &parts.params));
            assert_eq!(opened.scorer.parts().unwrap(), parts, "{name}");
            opened.verify().unwrap();
            nuq_io::save_baseline(&*opened.scorer, &BaselineDetails::default(), again).unwrap();
            assert_eq!(fs::read(path).unwrap(), fs::read(again).unwrap(), "{name}");
            methods.insert(parts.method);
        }
        let missing: Vec<&MethodId> =
            MethodId::ALL.iter().filter(|id| !id.is_nuq() && !methods.contains(id)).collect();
        assert!(missing.is_empty(), "not tested: {missing:?}");
    });
}

#[test]
fn the_description_of_the_training_rows_is_stored() {
    in_folder(|path, again| {
        let (x, y) = data::clusters(40, 3, 2, 1.0, 1);
        let scorer = Mahalanobis::fit(&x, &y, Shrinkage::LedoitWolf).unwrap();
        let names = ["a", "b", "c"].map(str::to_owned).to_vec();
        let mut training = TrainingRows { rows: 40, columns: 3, column_names: Some(names) };
        let details = |training: &TrainingRows| BaselineDetails {
            training: Some(training.clone()),
            ..BaselineDetails::default()
        };
        nuq_io::save_baseline(&scorer, &details(&training), path).unwrap();
        let opened = nuq_io::open_baseline(path).unwrap();
        assert_eq!(opened.details, details(&training));
        assert!(training.check_column_names(&["a", "b", "c"]).is_ok());
        assert!(training.check_column_names(&["c", "b", "a"]).is_err());
        training.columns = 4;
        nuq_io::save_baseline(&scorer, &details(&training), again).unwrap();
        assert!(matches!(nuq_io::open_baseline(again), Err(Error::Damaged { .. })));
    });
}

#[test]
fn thresholds_of_a_baseline_are_stored() {
    in_folder(|path, again| {
        let scores: Vec<f64> = (0..99).map(f64::from).collect();
        let wrong: Vec<bool> = (0..99).map(|i| i > 90).collect();
        let calibrate =
            |target| ScoreThreshold::calibrate(&scores, Some(&wrong), Predictor::Network, target).unwrap();
        let thresholds = [
            ("too few rows for a limit", calibrate(Target::FalseAlarm(0.001))),
            ("guard", calibrate(Target::FalseAlarm(0.05)).on_training_rows(99)),
            ("risk", calibrate(Target::Risk { risk: 0.1, delta: 0.1 })),
        ];
        let thresholds = thresholds.map(|(name, threshold)| (name.to_owned(), threshold)).into();
        let details = BaselineDetails { thresholds, ..BaselineDetails::default() };
        nuq_io::save_baseline(&Energy::default(), &details, path).unwrap();
        let opened = nuq_io::open_baseline(path).unwrap();
        assert_eq!(opened.details, details);
        nuq_io::save_baseline(&*opened.scorer, &opened.details, again).unwrap();
        assert_eq!(fs::read(path).unwrap(), fs::read(again).unwrap());
        // The file of a baseline without thresholds has no field `thresholds`, like the files of earlier programs.
        nuq_io::save_baseline(&Energy::default(), &BaselineDetails::default(), again).unwrap();
        let bytes = fs::read(again).unwrap();
        assert!(!bytes.windows(10).any(|word| word == b"thresholds"));
    });
}

#[test]
fn concurrent_changes_of_a_baseline_keep_all_thresholds() {
    in_folder(|path, _| {
        nuq_io::save_baseline(&Energy::default(), &BaselineDetails::default(), path).unwrap();
        std::thread::scope(|scope| {
            for i in 0..8 {
                scope.spawn(move || {
                    let lock = ModelLock::acquire(path, || {}).unwrap();
                    let mut opened = nuq_io::open_baseline(path).unwrap();
                    let scores: Vec<f64> = (0..99).map(f64::from).collect();
                    let threshold =
                        ScoreThreshold::calibrate(&scores, None, Predictor::Network, Target::Coverage(0.5));
                    opened.details.thresholds.insert(format!("t{i}"), threshold.unwrap());
                    lock.save_baseline(&*opened.scorer, &opened.details).unwrap();
                });
            }
        });
        assert_eq!(nuq_io::open_baseline(path).unwrap().details.thresholds.len(), 8);
    });
}

#[test]
fn a_file_of_the_other_kind_is_an_error_that_states_its_contents() {
    in_folder(|path, _| {
        let (x, y) = data::clusters(40, 3, 2, 1.0, 1);
        nuq_io::save_baseline(&Energy::default(), &BaselineDetails::default(), path).unwrap();
        let error = nuq_io::open(path).unwrap_err().to_string();
        assert!(error.ends_with("holds the baseline energy, not a classifier or regressor"), "{error}");
        assert!(matches!(nuq_io::open_any(path).unwrap(), Contents::Baseline(_)));
        nuq_io::save(&Model::Classifier(NuqClassifier::params().fit(&x, &y).unwrap()), path).unwrap();
        let error = nuq_io::open_baseline(path).unwrap_err().to_string();
        assert!(error.ends_with("baseline.nuq holds a classifier, not a baseline"), "{error}");
        assert!(matches!(nuq_io::open_any(path).unwrap(), Contents::Model(_)));
    });
}

/// A scorer that a user of the library implements.
struct Constant;

impl Scorer for Constant {
    fn name(&self) -> String {
        "constant".to_owned()
    }
    fn inputs(&self) -> &'static [Input] {
        &[]
    }
    fn score(&self, _: &Batch<'_>) -> Result<Vec<f64>, nuq_eval::Error> {
        Ok(vec![])
    }
}

#[test]
fn a_scorer_of_another_crate_cannot_be_saved() {
    in_folder(|path, _| {
        let error =
            nuq_io::save_baseline(&Constant, &BaselineDetails::default(), path).unwrap_err().to_string();
        assert!(error.ends_with("constant is not a method of nuq") && !path.exists(), "{error}");
    });
}

#[test]
fn a_damaged_baseline_file_is_an_error_or_scores_the_same_bits() {
    in_folder(|path, _| {
        let queries = Queries::new();
        let mut rng = SeededRng::new(5);
        for scorer in every_baseline() {
            nuq_io::save_baseline(&*scorer, &BaselineDetails::default(), path).unwrap();
            let whole = fs::read(path).unwrap();
            let expected = queries.bits(&*scorer);
            for i in 0..40 {
                let mut bytes = whole.clone();
                if i % 4 == 0 {
                    bytes.truncate(rng.below(whole.len()));
                } else {
                    bytes[rng.below(whole.len())] ^= 1 << rng.below(8);
                }
                fs::write(path, &bytes).unwrap();
                match nuq_io::open_baseline(path) {
                    Ok(opened) => match queries.bits(&*opened.scorer) {
                        Ok(bits) => assert_eq!(Ok(bits), expected, "{}", scorer.name()),
                        Err(error) => assert!(error.to_string().contains("is damaged"), "{error}"),
                    },
                    Err(Error::Damaged { .. } | Error::NotAModel { .. } | Error::NewerFormat { .. }) => {}
                    Err(other) => panic!("{}: {other}", scorer.name()),
                }
            }
        }
    });
}

/// Parts that no fit produces give an error, or scores without a panic.
#[test]
fn impossible_parts_do_not_panic() {
    let queries = Queries::new();
    let mut rng = SeededRng::new(6);
    for scorer in every_baseline() {
        let index = || -> Option<Box<dyn NeighborIndex>> {
            let rows = scorer.index()?.rows();
            Some(Box::new(ExactIndex::new(&rows.gather(&rows.live_ids()).unwrap()).unwrap()))
        };
        let whole = scorer.parts().unwrap();
        let names: Vec<String> = whole.arrays.keys().cloned().collect();
        let params: Vec<String> = whole.params.keys().cloned().collect();
        for name in &names {
            let mut parts = whole.clone();
            parts.arrays.remove(name);
            let error = restore(parts, index()).err().unwrap().to_string();
            assert_eq!(error, format!("section `{name}` is damaged: it is missing"));
        }
        for name in &params {
            let mut parts = whole.clone();
            parts.params.remove(name);
            let error = restore(parts, index()).err().unwrap().to_string();
            assert_eq!(error, format!("section `params` is damaged: `{name}` is missing"));
        }
        for _ in 0..100 {
            let mut parts = whole.clone();
            if !params.is_empty() && rng.below(3) == 0 {
                let numbers = [0.0, -1.0, 1.0, 0.5, 1e300, f64::NAN, f64::INFINITY];
                let value = match rng.below(4) {
                    0 => Param::Default,
                    1 => Param::Integer([0, 1, 7, u64::MAX][rng.below(4)]),
                    2 => Param::Number(numbers[rng.below(numbers.len())]),
                    _ => Param::Word("mean".to_owned()),
                };
                parts.params.insert(params[rng.below(params.len())].clone(), value);
            } else if !names.is_empty() {
                let array = parts.arrays.get_mut(&names[rng.below(names.len())]).unwrap();
                change(array, &mut rng);
            } else {
                parts.labels.clear();
            }
            if let Ok(changed) = restore(parts, index()) {
                let _ = queries.bits(&*changed);
            }
        }
    }
}

fn change(array: &mut Array, rng: &mut SeededRng) {
    let len = array.values.len();
    match (rng.below(4), &mut array.values) {
        (0, _) => {
            array.shape =
                [vec![], vec![len], vec![0, len], vec![usize::MAX, 2], vec![len, 1]][rng.below(5)].clone()
        }
        (1, _) => array.shape.reverse(),
        (2, ArrayValues::F64(values)) => {
            values.truncate(len / 2);
            array.shape = vec![len / 2];
        }
        (_, ArrayValues::F64(values)) if len > 0 => {
            values[rng.below(len)] = [0.0, -1.0, 1e300, f64::NAN, f64::INFINITY][rng.below(5)];
        }
        (_, ArrayValues::F32(values)) if len > 0 => {
            values[rng.below(len)] = [0.0, -1.0, f32::MAX, f32::NAN, f32::INFINITY][rng.below(5)];
        }
        (_, ArrayValues::U32(values)) if len > 0 => {
            values[rng.below(len)] = [0, 1, 2, 3, u32::MAX][rng.below(5)]
        }
        _ => array.values = ArrayValues::U32(vec![1; len]),
    }
}
