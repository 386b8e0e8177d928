//! Checks of opened models and baselines.

use std::fs;
use std::path::Path;

use nuq::calibrate::{Measure, Rules, Target, calibrate};
use nuq::nuq_neighbors::{
    self, CodeBlock, CodeParts, GraphParts, HnswParams, IndexKind, IndexParts, LinkParts, OrderParts,
    Precision, Verifier,
};
use nuq::{
    BandwidthRule, Classification, Covariance, Density, Embeddings, FittedModel, Model, NuqClassifier,
    NuqRegressor, Params, Shrinkage,
};
use nuq_eval::baselines::{Batch, Mahalanobis, Scorer};
use nuq_io::{
    BaselineDetails, BaselineFile, Contents, ModelFile, TrainingRows, open_any, open_shards, rules_to_bytes,
    save, save_without_rows, write_baseline, write_model, write_shard,
};

use crate::file;

/// Largest number of columns of the queries. A model or baseline with more columns is opened, but not used.
const MAX_COLUMNS: usize = 4096;

/// Opens a model or a baseline. If its checksums are correct, it is used, saved, opened again, used again and saved again. Both saved
/// files must have the same bytes, and both uses must give the same predictions or scores.
pub fn check(path: &Path) {
    match open_any(path) {
        Ok(Contents::Model(file)) if file.verify().is_ok() => check_model(&file),
        Ok(Contents::Baseline(file)) if file.verify().is_ok() => check_baseline(&file),
        _ => {}
    }
}

fn check_model(opened: &ModelFile) {
    let Some(queries) = queries(opened.model.index().dim()) else { return };
    let predictions = predictions(&opened.model, &queries);
    let Ok(bytes) = model_bytes(&opened.model) else { return };
    let again = nuq_io::open(&file::write("written.nuq", &bytes)).expect("a saved model can be opened");
    again.verify().expect("a saved model has correct checksums");
    assert_eq!(bytes, model_bytes(&again.model).expect("an opened model can be saved"), "bytes differ");
    // The manifest of a sharded model contains Gaussians. A file with few rows does not: they are fitted to its rows when it is opened, and an
    // altered manifest may have had others.
    let has_gaussians = |file: &ModelFile| file.sections.iter().any(|section| section.name == "gaussians.means");
    if has_gaussians(opened) == has_gaussians(&again) {
        assert_eq!(predictions, self::predictions(&again.model, &queries), "predictions differ");
    }
}

fn model_bytes(model: &Model<'_>) -> Result<Vec<u8>, nuq_io::Error> {
    let mut bytes = vec![];
    write_model(model, &mut bytes).map(|()| bytes)
}

/// The predictions as text with all digits; if the prediction fails, the message of the error.
fn predictions(model: &Model<'_>, queries: &Embeddings<'_>) -> String {
    match model {
        Model::Classifier(model) => match model.predict(queries) {
            Ok(predictions) => format!("{:?}", &predictions[..]),
            Err(error) => error.to_string(),
        },
        Model::Regressor(model) => match model.predict(queries) {
            Ok(estimates) => format!("{:?}", &estimates[..]),
            Err(error) => error.to_string(),
        },
    }
}

fn check_baseline(opened: &BaselineFile) {
    let columns = opened.details.training.as_ref().map_or(2, |training| training.columns);
    let Some(queries) = queries(columns) else { return };
    let scores = scores(&*opened.scorer, &queries);
    let Ok(bytes) = baseline_bytes(opened) else { return };
    let again =
        nuq_io::open_baseline(&file::write("written.nuq", &bytes)).expect("a saved baseline can be opened");
    again.verify().expect("a saved baseline has correct checksums");
    assert_eq!(bytes, baseline_bytes(&again).expect("an opened baseline can be saved"), "bytes differ");
    assert_eq!(scores, self::scores(&*again.scorer, &queries), "scores differ");
}

fn baseline_bytes(file: &BaselineFile) -> Result<Vec<u8>, nuq_io::Error> {
    let mut bytes = vec![];
    write_baseline(&*file.scorer, &file.details, &mut bytes).map(|()| bytes)
}

fn scores(scorer: &dyn Scorer, queries: &Embeddings<'_>) -> String {
    match scorer.score(&Batch { embeddings: Some(queries), ..Batch::default() }) {
        Ok(scores) => format!("{scores:?}"),
        Err(error) => error.to_string(),
    }
}

/// Three rows: zeros, small values, and a row far away. `None` if there are no columns or more than [`MAX_COLUMNS`].
fn queries(columns: usize) -> Option<Embeddings<'static>> {
    let columns = (1..=MAX_COLUMNS).contains(&columns).then_some(columns)?;
    let row = |scale: f32| (0..columns).map(move |column| scale * (1.0 + column as f32));
    Embeddings::new(row(0.0).chain(row(0.1)).chain(row(1e6)).collect::<Vec<f32>>(), columns).ok()
}

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

/// The bytes of small classifiers with other sections and other metadata than [`small_model`]: Gaussians, bandwidths per column and per row, sample
/// weights, rules with held-out scores, no rows. Each has a name.
pub fn other_models() -> Vec<(&'static str, Vec<u8>)> {
    let (rows, labels) = rows();
    let params = || NuqClassifier::params().n_neighbors(4);
    let fitted = |params: Params<Classification>| params.fit(&rows, &labels).expect("the rows can be fitted");
    let weights: Vec<f64> = (0..12).map(|i| 0.5 + f64::from(i % 3)).collect();
    let weighted = params().fit_weighted(&rows, &labels, &weights).expect("the rows can be fitted");
    let mut with_rules = fitted(params());
    *with_rules.rules_mut() = rules();
    let bytes = |model| model_bytes(&Model::Classifier(model)).expect("writing to memory cannot fail");
    let path = file::path("without-rows.nuq");
    save_without_rows(&Model::Classifier(fitted(params().density(gaussians()))), &path)
        .expect("a file can be written");
    vec![
        ("gaussians", bytes(fitted(params().density(gaussians())))),
        ("per-column", bytes(fitted(params().bandwidth(BandwidthRule::Silverman)))),
        ("per-row", bytes(fitted(params().bandwidth(BandwidthRule::Adaptive { k: None })))),
        ("weights", bytes(weighted)),
        ("rules", bytes(with_rules)),
        ("without-rows", fs::read(&path).expect("the file was written")),
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

/// The bytes of a small regressor.
pub fn small_regressor() -> Vec<u8> {
    let (rows, _) = rows();
    let targets: Vec<f64> = (0..12).map(|i| f64::from(i) * 0.5).collect();
    let model = NuqRegressor::params().n_neighbors(4).fit(&rows, &targets).expect("the rows can be fitted");
    model_bytes(&Model::Regressor(model)).expect("writing to memory cannot fail")
}

/// The bytes of a small baseline.
pub fn small_baseline() -> Vec<u8> {
    let (rows, labels) = rows();
    let fitted = Mahalanobis::fit(&rows, &labels, Shrinkage::LedoitWolf).expect("the rows can be fitted");
    let training = TrainingRows { rows: 12, columns: 2, column_names: None };
    let details = BaselineDetails { training: Some(training), ..BaselineDetails::default() };
    let mut bytes = vec![];
    write_baseline(&fitted, &details, &mut bytes).expect("writing to memory cannot fail");
    bytes
}

/// Parameters of small sharded classifiers, each with a name.
pub fn sharded_params() -> [(&'static str, Params<Classification>); 2] {
    let params = || NuqClassifier::params().n_neighbors(4);
    [("two-shards", params()), ("two-shards-gaussians", params().density(gaussians()))]
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

/// The bytes of a threshold with its held-out scores.
pub fn small_rules() -> Vec<u8> {
    rules_to_bytes(&rules())
}

fn rules() -> Rules {
    let scores = [0.1, 0.2, 0.3, 0.4];
    let threshold = calibrate(Measure::Epistemic, &scores, None, Target::Coverage(0.5));
    let mut rules = Rules::default();
    rules
        .set_threshold("guard", threshold.expect("the scores are different"), &scores)
        .expect("there is one score per row");
    rules
}
