//! Small models: the inputs with which the targets `model` and `manifest` begin, and the models that the servers of the targets `http` and
//! `changes` serve.

use std::fs;
use std::path::Path;

use nuq::calibrate::{
    IntervalRule, Measure, Predictor, Rules, ScoreThreshold, SetRule, SetScore, SetTarget, Target, calibrate,
};
use nuq::nuq_neighbors::{
    self, CodeBlock, CodeParts, GraphParts, HnswParams, IndexKind, IndexParts, LinkParts, OrderParts,
    Precision, Verifier,
};
use nuq::{
    Bandwidth, BandwidthRule, Classification, Covariance, Criterion, Density, DensityBandwidth, Embeddings,
    FittedModel, Kernel, Label, Model, NuqClassifier, NuqRegressor, Params, Regression, Scale, Shrinkage,
    Variance,
};
use nuq_eval::baselines::{Duq, DuqParams, FitInputs, Huq, Scorer, Sngp, SngpParams, Uses};
use nuq_eval::evaluate::MethodId;
use nuq_io::{
    BaselineDetails, TrainingRows, open_shards, rules_to_bytes, save, save_without_rows, write_baseline,
    write_shard,
};

use crate::file;
use crate::models::model_bytes;

/// Twelve rows of two classes in two columns.
fn rows() -> (Embeddings<'static>, [&'static str; 12]) {
    let value = |i: usize| if i < 6 { 0.1 * i as f32 } else { 2.0 + 0.3 * i as f32 };
    let values: Vec<f32> = (0..12).flat_map(|i| [value(i), (i % 5) as f32]).collect();
    let labels = std::array::from_fn(|i| if i < 6 { "cat" } else { "dog" });
    (Embeddings::new(values, 2).expect("the values are finite"), labels)
}

/// The bytes of a small classifier.
pub fn small_model() -> Vec<u8> {
    let (rows, labels) = rows();
    let model = NuqClassifier::params().n_neighbors(4).fit(&rows, &labels).expect("the rows can be fitted");
    model_bytes(&Model::Classifier(model)).expect("writing to memory cannot fail")
}

/// The bytes of a small classifier with thresholds, sets and a temperature.
pub fn small_model_with_rules() -> Vec<u8> {
    let (rows, labels) = rows();
    let mut model =
        NuqClassifier::params().n_neighbors(4).fit(&rows, &labels).expect("the rows can be fitted");
    *model.rules_mut() = classifier_rules(&model, &rows, &labels);
    model.set_column_names(Some(vec!["x".to_owned(), "y".to_owned()])).expect("the names are distinct");
    model_bytes(&Model::Classifier(model)).expect("writing to memory cannot fail")
}

/// Files of small models and baselines, which together have every section and every kind of metadata. Each has a name.
pub fn model_files() -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> =
        vec![("classifier".to_owned(), small_model()), ("ordered".to_owned(), small_ordered_model())];
    files.push(("graph".to_owned(), small_graph_model(true)));
    files.push(("graph-f16".to_owned(), small_graph_model(false)));
    let named = |(name, bytes): (&str, Vec<u8>)| (name.to_owned(), bytes);
    files.extend(classifiers().into_iter().chain(regressors()).map(named));
    files.extend(baselines());
    files
}

/// Classifiers with other sections or other metadata than [`small_model`].
fn classifiers() -> Vec<(&'static str, Vec<u8>)> {
    let (rows, labels) = rows();
    let params = || NuqClassifier::params().n_neighbors(4);
    let fitted = |params: Params<Classification>| params.fit(&rows, &labels).expect("the rows can be fitted");
    let bytes = |model| model_bytes(&Model::Classifier(model)).expect("writing to memory cannot fail");
    let weights: Vec<f64> = (0..12).map(|i| 0.5 + f64::from(i % 3)).collect();
    let weighted = params().fit_weighted(&rows, &labels, &weights).expect("the rows can be fitted");
    let mut removed = fitted(params());
    removed.remove(&[3, 7]).expect("the rows exist");
    let integers: Vec<i64> = labels.iter().map(|label| if *label == "cat" { -3 } else { 70 }).collect();
    let integers = params().fit(&rows, &integers).expect("the rows can be fitted");
    let flags = params().fit(&rows, &labels.map(|label| label == "cat")).expect("the rows can be fitted");
    let path = file::path("without-rows.nuq");
    save_without_rows(&Model::Classifier(fitted(params().density(gaussians()))), &path)
        .expect("a file can be written");
    let gmm = |covariance, shrinkage| Density::Gmm { covariance, shrinkage, scale_free: false };
    let fixed = Density::Kde { bandwidth: DensityBandwidth::Fixed(0.7) };
    vec![
        ("gaussians", bytes(fitted(params().density(gaussians())))),
        ("gaussians-full", bytes(fitted(params().density(gmm(Covariance::Full, Shrinkage::Fixed(0.3)))))),
        (
            "gaussians-diagonal",
            bytes(fitted(params().density(gmm(Covariance::Diagonal, Shrinkage::LedoitWolf)))),
        ),
        (
            "auto",
            bytes(fitted(params().density(Density::Auto).kernel(Kernel::Sigmoid).variance(Variance::Max))),
        ),
        ("kde", bytes(fitted(params().density(fixed).kernel(Kernel::Logistic).scale(Scale::Ambient)))),
        ("paper", bytes(fitted(NuqClassifier::paper().n_neighbors(4)))),
        (
            "selected",
            bytes(fitted(params().bandwidth(LEAVE_ONE_OUT).kernel(Kernel::Student).normalize(true))),
        ),
        ("fixed", bytes(fitted(params().bandwidth(Bandwidth::Scalar(0.5)).scale(Scale::Intrinsic)))),
        ("per-column", bytes(fitted(params().bandwidth(BandwidthRule::Silverman)))),
        ("per-row", bytes(fitted(params().bandwidth(BandwidthRule::Adaptive { k: None })))),
        ("weights", bytes(weighted)),
        ("rules", small_model_with_rules()),
        ("removed", bytes(removed)),
        ("integers", bytes(integers)),
        ("flags", bytes(flags)),
        ("without-rows", fs::read(&path).expect("the file was written")),
    ]
}

const LEAVE_ONE_OUT: BandwidthRule<Criterion> =
    BandwidthRule::LeaveOneOut { criterion: Criterion::LogLikelihood, points: 3 };

fn regressors() -> Vec<(&'static str, Vec<u8>)> {
    let (rows, _) = rows();
    let targets: Vec<f64> = (0..12).map(|i| f64::from(i) * 0.5).collect();
    let params = || NuqRegressor::params().n_neighbors(4);
    let fitted = |params: Params<Regression>| params.fit(&rows, &targets).expect("the rows can be fitted");
    let bytes = |model| model_bytes(&Model::Regressor(model)).expect("writing to memory cannot fail");
    let mut with_rules = fitted(params());
    let estimates = with_rules.predict(&rows).expect("the rows can be predicted");
    let interval = IntervalRule::calibrate(0.5, &estimates, &targets).expect("there are twelve rows");
    with_rules.rules_mut().intervals.insert("half".to_owned(), interval);
    vec![
        ("regressor", bytes(fitted(params()))),
        ("regressor-gaussians", bytes(fitted(params().density(gaussians())))),
        ("regressor-rules", bytes(with_rules)),
    ]
}

fn gaussians() -> Density {
    Density::Gmm { covariance: Covariance::Tied, shrinkage: Shrinkage::LedoitWolf, scale_free: true }
}

/// Arrays in memory, which need no verification.
struct InMemory;

impl Verifier for InMemory {
    fn verify(&self) -> Result<(), nuq_neighbors::Error> {
        Ok(())
    }
}

/// The bytes of a small classifier with an order of its rows. A fit records an order only if there are many rows.
pub fn small_ordered_model() -> Vec<u8> {
    let (rows, labels) = rows();
    let model = NuqClassifier::params().n_neighbors(4).fit(&rows, &labels).expect("the rows can be fitted");
    let ids: Vec<u32> = (0..12).collect();
    let order =
        OrderParts { axes: vec![1.0, 0.0, 0.0, 1.0].into(), ids: ids.into(), starts: vec![0, 6].into() };
    let index = IndexParts { order: Some(order), ..model.index().parts() }.restore(Box::new(InMemory));
    let index = index.expect("the order fits the rows");
    let ordered = NuqClassifier::from_parts(model.parts(), index).expect("the parts are those of a model");
    model_bytes(&Model::Classifier(ordered)).expect("writing to memory cannot fail")
}

/// The bytes of a small classifier with a graph. With codes, the rows are in single precision, otherwise in half precision. A fit creates
/// links and codes only if there are many rows.
pub fn small_graph_model(has_codes: bool) -> Vec<u8> {
    let (rows, labels) = rows();
    let precision = if has_codes { Precision::F32 } else { Precision::F16 };
    let params = HnswParams::default().m(4).precision(precision);
    let classifier = NuqClassifier::params().n_neighbors(4).index(IndexKind::Hnsw(params));
    let model = classifier.fit(&rows, &labels).expect("the rows can be fitted");
    // Each row has two links, and space for eight.
    let bottom: Vec<u32> =
        (0..12).flat_map(|id| [2, (id + 1) % 12, (id + 5) % 12, 0, 0, 0, 0, 0, 0]).collect();
    let codes = || CodeParts {
        center: vec![2.0, 2.0],
        step: 0.1,
        out_of_range: 0,
        blocks: vec![CodeBlock([64; 64]); 12].into(),
    };
    // The number of lists above the bottom layer depends on the seed.
    let restored = (0..12).find_map(|lists| {
        let links = LinkParts { bottom: bottom.clone().into(), upper: vec![0; lists * 5].into(), entry: 0 };
        let graph = GraphParts { params, recall: None, links: Some(links), codes: has_codes.then(codes) };
        IndexParts { graph: Some(graph), ..model.index().parts() }.restore(Box::new(InMemory)).ok()
    });
    let index = restored.expect("the graph fits the rows");
    let model = NuqClassifier::from_parts(model.parts(), index).expect("the parts are those of a model");
    model_bytes(&Model::Classifier(model)).expect("writing to memory cannot fail")
}

/// Every baseline, with few parameters, fitted to twelve rows.
fn baselines() -> Vec<(String, Vec<u8>)> {
    let (rows, labels) = rows();
    let labels: Vec<Label> = labels.iter().map(|&label| Label::from(label)).collect();
    let logits: Vec<f32> = rows.rows().flat_map(|row| [row[0], row[1] - row[0]]).collect();
    let logits = Embeddings::new(logits, 2).expect("the values are finite");
    let inputs = FitInputs {
        embeddings: Some(&rows),
        labels: Some(&labels),
        logits: Some(&logits),
        n_neighbors: Some(3),
        ..FitInputs::default()
    };
    let scores: Vec<f64> = (0..12).map(f64::from).collect();
    MethodId::ALL
        .iter()
        .filter_map(|&method| {
            let scorer: Box<dyn Scorer> = match method {
                MethodId::Huq => {
                    Box::new(Huq::fit(&scores, &scores, 0.2, 0.8, 0.9).expect("the scores are finite"))
                }
                MethodId::Sngp => {
                    let params = SngpParams { features: 8, ..SngpParams::default() };
                    Box::new(Sngp::fit(&rows, &labels, params).expect("the rows can be fitted"))
                }
                MethodId::Duq => {
                    let params = DuqParams { projection: 3, steps: 5, ..DuqParams::default() };
                    Box::new(Duq::fit(&rows, &labels, params).expect("the rows can be fitted"))
                }
                // With the default parameters, these files would be too long.
                MethodId::SngpL2 | MethodId::DuqL2 => return None,
                _ => {
                    Uses::of(method)?;
                    nuq_eval::baselines::fit(method, &inputs).expect("the rows can be fitted")
                }
            };
            let is_fitted = Uses::of(method).is_some_and(|uses| uses.embeddings);
            Some((format!("baseline-{}", method.name()), baseline_bytes(&*scorer, is_fitted)))
        })
        .collect()
}

fn baseline_bytes(scorer: &dyn Scorer, is_fitted_to_rows: bool) -> Vec<u8> {
    let scores: Vec<f64> = (0..12).map(f64::from).collect();
    let threshold = ScoreThreshold::calibrate(&scores, None, Predictor::Network, Target::Coverage(0.5));
    let thresholds = [("guard".to_owned(), threshold.expect("the scores are different"))].into();
    let column_names = Some(vec!["x".to_owned(), "y".to_owned()]);
    let training = is_fitted_to_rows.then_some(TrainingRows { rows: 12, columns: 2, column_names });
    let mut bytes = vec![];
    write_baseline(scorer, &BaselineDetails { training, thresholds }, &mut bytes)
        .expect("writing to memory cannot fail");
    bytes
}

/// Parameters of small sharded classifiers, each with a name.
pub fn sharded_params() -> [(&'static str, Params<Classification>); 5] {
    let params = || NuqClassifier::params().n_neighbors(4);
    [
        ("two-shards", params()),
        ("two-shards-gaussians", params().density(gaussians())),
        ("two-shards-auto", params().density(Density::Auto).kernel(Kernel::Student)),
        ("two-shards-per-column", params().bandwidth(BandwidthRule::Scott)),
        ("two-shards-selected", params().bandwidth(LEAVE_ONE_OUT)),
    ]
}

/// Writes a small sharded classifier into a folder.
pub fn write_sharded(folder: &Path, params: Params<Classification>) {
    fs::create_dir_all(folder).expect("a folder can be created");
    let (rows, labels) = rows();
    let part = |range: std::ops::Range<usize>| {
        Embeddings::new(rows.as_slice()[2 * range.start..2 * range.end].to_vec(), 2)
            .expect("the values are finite")
    };
    let write =
        |number, range| write_shard(folder, number, &part(range), false).expect("a shard can be written");
    let shards =
        open_shards(folder, &[write(0, 0..5), write(1, 5..12)]).expect("written shards can be opened");
    let model = params.fit_shards(&shards, &labels, None);
    save(&Model::Classifier(model.expect("the rows can be fitted")), folder)
        .expect("a manifest can be written");
}

/// The bytes of rules of each kind, with held-out scores.
pub fn small_rules() -> Vec<u8> {
    let (rows, labels) = rows();
    let model = NuqClassifier::params().n_neighbors(4).fit(&rows, &labels).expect("the rows can be fitted");
    rules_to_bytes(&classifier_rules(&model, &rows, &labels))
}

/// Thresholds with each kind of guarantee, sets with one limit and with limits by class, and a temperature.
fn classifier_rules(model: &NuqClassifier<'_>, rows: &Embeddings<'_>, labels: &[&'static str]) -> Rules {
    let scores: Vec<f64> = (1..=12).map(|score| 0.1 * f64::from(score)).collect();
    let coverage = calibrate(Measure::Epistemic, &scores, None, Target::Coverage(0.5));
    let risk = Target::Risk { risk: 0.5, delta: 0.5 };
    let risk = calibrate(Measure::Total, &scores, Some(&[false; 12]), risk);
    let mut rules = Rules::default();
    rules
        .set_threshold("guard", coverage.expect("the scores are different"), &scores)
        .expect("there is one score per row");
    let risk = risk.expect("no prediction is wrong").of_predictor(Predictor::Network);
    rules.thresholds.insert("risk".to_owned(), risk.on_training_rows(12));
    let probabilities = model.predict_proba(rows).expect("the rows can be predicted");
    for (name, score, by_class) in [("all", SetScore::Lac, false), ("each", SetScore::Aps, true)] {
        let target = SetTarget { coverage: 0.5, score, by_class };
        let rule = SetRule::calibrate(target, rows, &probabilities, model.classes(), labels);
        rules.sets.insert(name.to_owned(), rule.expect("there are twelve rows"));
    }
    rules.set_temperature(Some(1.5)).expect("the temperature is positive");
    rules
}
