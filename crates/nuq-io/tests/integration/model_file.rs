//! Model files: round trips and damaged files.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use nuq::bandwidth::BandwidthRule;
use nuq::calibrate::{IntervalRule, Measure, Predictor, SetLimits, SetRule, SetScore, Target, calibrate};
use nuq::nuq_neighbors::{Precision, SeededRng};
use nuq::{
    Covariance, Density, DensityBandwidth, Embeddings, FittedModel, HnswParams, IndexKind, Kernel, Label,
    Model, NeighborIndex, NuqClassifier, NuqRegressor, Scale, Shrinkage,
};
use nuq_io::Error;
use nuq_testkit::conformance::{self, Subject};
use nuq_testkit::data;

fn graph(precision: Precision) -> IndexKind {
    IndexKind::Hnsw(HnswParams::default().ef_search(400).precision(precision))
}

/// The bits of the predicted numbers, and for a classifier also the bytes of the predicted labels.
pub(crate) fn prediction_bits(model: &Model<'_>, queries: &Embeddings<'_>) -> Result<Vec<u64>, nuq::Error> {
    Ok(match model {
        Model::Classifier(model) => {
            let predictions = model.predict(queries)?;
            let numbers = predictions
                .iter()
                .flat_map(|p| [p.probability, p.aleatoric, p.log_total, p.log_density, p.log_epistemic]);
            let labels = (0..predictions.len())
                .flat_map(|i| predictions.label(i).to_string().into_bytes())
                .map(f64::from);
            numbers.chain(labels).map(f64::to_bits).collect()
        }
        Model::Regressor(model) => {
            let predictions = model.predict(queries)?;
            predictions
                .iter()
                .flat_map(|p| [p.mean, p.log_aleatoric, p.log_total, p.log_density, p.log_epistemic])
                .map(f64::to_bits)
                .collect()
        }
    })
}

#[test]
fn an_opened_model_predicts_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let (path, again) = (folder.path().join("model.nuq"), folder.path().join("again.nuq"));
    let (x, y) = data::clusters(1200, 40, 4, 0.6, 3);
    let (q, _) = data::clusters(60, 40, 4, 0.6, 4);
    let words: Vec<String> = y.iter().map(|class| format!("class {class} é")).collect();
    let targets: Vec<f64> = y.iter().map(|&class| class as f64 - 0.5).collect();
    let gaussians =
        |covariance| Density::Gmm { covariance, shrinkage: Shrinkage::LedoitWolf, scale_free: false };
    let plain = NuqClassifier::params().selection_rows(200);
    let mut models = Vec::new();
    for params in [
        plain.clone(),
        NuqClassifier::paper().selection_rows(200),
        plain.clone().normalize(true).kernel(Kernel::Logistic),
        plain.clone().bandwidth(BandwidthRule::Scott),
        plain.clone().density(Density::Auto),
        plain.clone().density(Density::Auto).index(graph(Precision::F16)).recall(None),
        plain
            .clone()
            .bandwidth(BandwidthRule::Adaptive { k: Some(3) })
            .index(graph(Precision::F32))
            .recall(None),
        plain.clone().density(gaussians(Covariance::Tied)),
        plain.clone().density(gaussians(Covariance::Full)).index(graph(Precision::F32)),
        plain.clone().bandwidth(BandwidthRule::Silverman).index(graph(Precision::F32)),
    ] {
        models.push(Model::Classifier(params.fit(&x, &words).unwrap()));
    }
    let halves = plain.index(graph(Precision::F16));
    models.push(Model::Classifier(halves.fit(&x, &y).unwrap()));
    models.push(Model::Classifier(halves.density(gaussians(Covariance::Tied)).fit(&x, &y).unwrap()));
    for kind in [IndexKind::Exact, graph(Precision::F32), graph(Precision::F16)] {
        let params = NuqRegressor::params().selection_rows(200).index(kind);
        models.push(Model::Regressor(params.fit(&x, &targets).unwrap()));
    }
    let weights: Vec<f64> = (0..y.len()).map(|i| [1.0, 0.5, 0.0, 3.0][i % 4]).collect();
    let params = NuqClassifier::params().selection_rows(200);
    models.push(Model::Classifier(params.fit_weighted(&x, &words, &weights).unwrap()));
    let params = NuqRegressor::params().selection_rows(200).index(graph(Precision::F16));
    models.push(Model::Regressor(params.fit_weighted(&x, &targets, &weights).unwrap()));
    for (i, model) in models.iter().enumerate() {
        nuq_io::save(model, &path).unwrap();
        let opened = nuq_io::open(&path).unwrap();
        assert_eq!(
            prediction_bits(&opened.model, &q).unwrap(),
            prediction_bits(model, &q).unwrap(),
            "model {i}"
        );
        assert_eq!(opened.model.index().describe(), model.index().describe());
        match (&opened.model, model) {
            (Model::Classifier(opened), Model::Classifier(model)) => {
                assert_eq!(opened.parts(), model.parts())
            }
            (Model::Regressor(opened), Model::Regressor(model)) => assert!(opened.parts() == model.parts()),
            _ => panic!("model {i} has another task"),
        }
        nuq_io::save(&opened.model, &again).unwrap();
        assert_eq!(fs::read(&path).unwrap(), fs::read(&again).unwrap(), "model {i}");
    }
}

/// A file contains the Gaussians of the density if they are small and the rows were not changed after the fit. After a change, the
/// Gaussians are fitted again when they are first used.
#[test]
fn small_gaussians_are_stored_beside_the_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.nuq");
    let (x, y) = data::clusters(1200, 40, 4, 0.6, 3);
    let stored = |density: Density, change: fn(&mut NuqClassifier<'_>)| -> bool {
        let mut model = NuqClassifier::params().selection_rows(200).density(density).fit(&x, &y).unwrap();
        change(&mut model);
        nuq_io::save(&Model::Classifier(model), &path).unwrap();
        let opened = nuq_io::open(&path).unwrap();
        opened.sections.iter().any(|section| section.name == "gaussians.factors")
    };
    let gaussians =
        |covariance| Density::Gmm { covariance, shrinkage: Shrinkage::LedoitWolf, scale_free: false };
    assert!(stored(gaussians(Covariance::Tied), |_| ()));
    assert!(
        !stored(gaussians(Covariance::Full), |_| ()),
        "they take more than an eighth of the bytes of the rows"
    );
    assert!(!stored(Density::Kde { bandwidth: DensityBandwidth::Same }, |_| ()));
    assert!(!stored(gaussians(Covariance::Tied), |model| model.remove(&[0]).unwrap()));
}

/// A file contains the order of the rows if exact searches of the fit have put the rows into an order. The order makes searches of the
/// opened model faster and does not change their results.
#[test]
fn the_order_of_the_rows_is_stored_if_the_fit_has_computed_it() {
    let folder = tempfile::tempdir().unwrap();
    let (path, again) = (folder.path().join("model.nuq"), folder.path().join("again.nuq"));
    let (x, y) = data::clusters(5000, 80, 4, 0.6, 3);
    let queries = x.gather(&(0..3000).collect::<Vec<u32>>());
    let fit = |selection_rows| {
        let params = NuqClassifier::params().index(IndexKind::Exact).selection_rows(selection_rows);
        Model::Classifier(params.fit(&x, &y).unwrap())
    };
    let order_of = |path: &Path| {
        let opened = nuq_io::open(path).unwrap();
        opened.sections.iter().filter(|section| section.name.starts_with("index.order.")).count()
    };
    let model = fit(5000);
    nuq_io::save(&model, &path).unwrap();
    assert_eq!(order_of(&path), 3);
    let opened = nuq_io::open(&path).unwrap();
    for _ in 0..3 {
        assert_eq!(prediction_bits(&opened.model, &queries), prediction_bits(&model, &queries));
    }
    nuq_io::save(&opened.model, &again).unwrap();
    assert_eq!(fs::read(&path).unwrap(), fs::read(&again).unwrap());

    // The file does not depend on earlier predictions.
    let model = fit(20);
    nuq_io::save(&model, &path).unwrap();
    assert_eq!(order_of(&path), 0);
    for _ in 0..5 {
        prediction_bits(&model, &queries).unwrap();
    }
    nuq_io::save(&model, &again).unwrap();
    assert_eq!(fs::read(&path).unwrap(), fs::read(&again).unwrap());
}

#[test]
fn boolean_labels_are_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.nuq");
    let (x, y) = data::clusters(60, 3, 2, 0.6, 3);
    let flags: Vec<bool> = y.iter().map(|&class| class == 1).collect();
    let model = Model::Classifier(NuqClassifier::params().fit(&x, &flags).unwrap());
    nuq_io::save(&model, &path).unwrap();
    let Model::Classifier(opened) = nuq_io::open(&path).unwrap().model else { unreachable!() };
    assert_eq!(opened.classes().labels(), [false, true].map(Label::Bool));
}

#[test]
fn column_names_are_stored_and_their_number_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.nuq");
    let (x, y) = data::clusters(60, 3, 2, 0.6, 3);
    let mut model = Model::Classifier(NuqClassifier::params().fit(&x, &y).unwrap());
    nuq_io::save(&model, &path).unwrap();
    assert_eq!(nuq_io::open(&path).unwrap().model.column_names(), None);
    let names: Vec<String> = ["é", "b", "a b"].map(str::to_owned).to_vec();
    assert!(model.set_column_names(Some(names[1..].to_vec())).is_err());
    model.set_column_names(Some(names.clone())).unwrap();
    nuq_io::save(&model, &path).unwrap();
    let opened = nuq_io::open(&path).unwrap().model;
    assert_eq!(opened.column_names(), Some(&names[..]));
    assert!(opened.check_column_names(&["b", "é", "a b"]).is_err());
    let Model::Classifier(opened) = opened else { unreachable!() };
    let mut parts = opened.parts();
    parts.smoother.column_names = Some(names[1..].to_vec());
    let index = Model::Classifier(opened).into_index();
    assert!(NuqClassifier::from_parts(parts, index).is_err());
}

/// The index of a model that was saved and opened again.
fn reopened<'x>(x: &Embeddings<'_>, kind: IndexKind) -> Box<dyn NeighborIndex + 'x> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.nuq");
    let model = NuqRegressor::params()
        .bandwidth(1.0)
        .density(Density::Kde { bandwidth: DensityBandwidth::Fixed(1.0) })
        .scale(Scale::Ambient)
        .index(kind)
        .recall(None)
        .fit(x, &vec![0.0; x.len()])
        .unwrap();
    nuq_io::save(&Model::Regressor(model), &path).unwrap();
    nuq_io::open(&path).unwrap().model.into_index()
}

#[test]
fn reopened_indexes_pass_the_conformance_tests() {
    conformance::run(&|x| reopened(x, IndexKind::Exact), 1.0);
    conformance::run(&|x| reopened(x, graph(Precision::F32)), 0.99);
    conformance::run(&|x| conformance::updated(&|x| reopened(x, graph(Precision::F32)), x), 0.99);
    let stored: fn(Embeddings<'static>) -> Option<Embeddings<'static>> = |x| {
        // Half precision represents multiples of 1/64 below 16 exactly.
        let rounded = x.as_slice().iter().map(|v| (v.clamp(-15.0, 15.0) * 64.0).round() / 64.0).collect();
        Embeddings::new(rounded, x.dim()).ok()
    };
    conformance::run_on(&Subject { build: &|x| reopened(x, graph(Precision::F16)), recall: 0.99, stored });
}

#[test]
fn missing_files_folders_other_files_and_newer_formats_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.nuq");
    let open_error = |path: &Path| nuq_io::open(path).unwrap_err().to_string();
    assert!(open_error(&path).starts_with(&format!("cannot read {}", path.display())));
    assert!(open_error(folder.path()).contains("it is a folder without manifest.nuq"));
    fs::write(&path, b"").unwrap();
    assert!(open_error(&path).contains("model.nuq is not a nuq model"), "{}", open_error(&path));
    fs::write(&path, b"PK\x03\x04 the beginning of a zip archive, long enough").unwrap();
    assert!(open_error(&path).ends_with("is not a nuq model: it does not begin with the bytes NUQMODEL"));
    small_model(&path);
    let mut bytes = fs::read(&path).unwrap();
    bytes[8] = 9;
    fs::write(&path, &bytes).unwrap();
    assert!(open_error(&path).ends_with("has model format 9, this nuq reads up to 4: use a newer nuq"));
}

fn small_model(path: &Path) -> (Embeddings<'static>, Vec<u64>) {
    let (x, y) = data::clusters(40, 3, 2, 1.0, 1);
    let model = Model::Classifier(NuqClassifier::params().fit(&x, &y).unwrap());
    nuq_io::save(&model, path).unwrap();
    let expected = prediction_bits(&model, &x).unwrap();
    (x, expected)
}

/// Opens a file and predicts. Returns the section that the error names as damaged. Without an error, the predictions must equal
/// `expected`, and the result is `None`.
fn damaged_section(path: &Path, queries: &Embeddings<'_>, expected: &[u64], what: &str) -> Option<String> {
    let model = match nuq_io::open(path) {
        Ok(opened) => opened.model,
        Err(Error::Damaged { section, .. }) => return Some(section),
        Err(Error::NotAModel { .. } | Error::NewerFormat { .. }) => return Some("header".to_owned()),
        Err(other) => panic!("{what}: {other}"),
    };
    match prediction_bits(&model, queries) {
        Ok(bits) => {
            assert_eq!(bits, expected, "{what}: wrong predictions");
            None
        }
        Err(nuq::Error::Neighbors(nuq::nuq_neighbors::Error::Damaged { section, .. })) => Some(section),
        Err(other) => panic!("{what}: {other}"),
    }
}

/// Opens 10,000 files that are truncated or have one changed bit. `cargo xtask fuzz model` opens more.
#[test]
fn damaged_files_are_errors_or_predict_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.nuq");
    let (queries, expected) = small_model(&path);
    let whole = fs::read(&path).unwrap();
    let mut rng = SeededRng::new(5);
    let mut undetected = 0;
    for i in 0..10_000 {
        let mut bytes = whole.clone();
        let what = if i % 4 == 0 {
            bytes.truncate(rng.below(whole.len()));
            format!("truncated to {}", bytes.len())
        } else {
            let (at, bit) = (rng.below(whole.len()), rng.below(8));
            bytes[at] ^= 1 << bit;
            format!("bit {bit} of byte {at}")
        };
        fs::write(&path, &bytes).unwrap();
        let detected = damaged_section(&path, &queries, &expected, &what);
        assert!(detected.is_some() || bytes.len() == whole.len(), "{what} was not detected");
        undetected += usize::from(detected.is_none());
    }
    // Only the padding between sections has no checksum.
    assert!(undetected < 1000, "{undetected} changes were not detected");
}

/// Damaged arrays are not saved with new checksums, and every operation that reads rows detects them.
#[test]
fn damaged_arrays_are_not_saved_again() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("model.nuq"), folder.path().join("copy.nuq"));
    let (x, y) = data::clusters(1100, 33, 2, 1.0, 1);
    // With the logistic kernel, predictions from given neighbors also read rows.
    for rule in [BandwidthRule::Silverman, BandwidthRule::Fixed(nuq::Bandwidth::Scalar(1.0))] {
        let params = NuqClassifier::params().bandwidth(rule).kernel(Kernel::Logistic).selection_rows(50);
        let model = params.index(graph(Precision::F32)).fit(&x, &y).unwrap();
        let table = model.predict(&x.gather(&[1])).unwrap().neighbors().clone();
        nuq_io::save(&Model::Classifier(model), &path).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        let row: Vec<u8> = x.row(7).iter().flat_map(|v| v.to_le_bytes()).collect();
        let at = bytes.windows(row.len()).position(|window| window == row).unwrap();
        bytes[at..at + 8].fill(0xFF);
        fs::write(&path, &bytes).unwrap();
        let opened = nuq_io::open(&path).unwrap();
        assert!(opened.verify().unwrap_err().to_string().contains("section `index.rows.f32` is damaged"));
        let error = nuq_io::save(&opened.model, &copy).unwrap_err().to_string();
        assert!(error.contains("section `index.rows.f32` is damaged") && !copy.exists(), "{error}");
        let Model::Classifier(model) = &opened.model else { panic!("the saved model is a classifier") };
        for result in [
            model.predict_from(&x.gather(&[1]), &table).map(|_| ()),
            model.predict(&x.gather(&[1])).map(|_| ()),
            model.label_issues().map(|_| ()),
        ] {
            assert!(result.unwrap_err().to_string().contains("section `index.rows.f32` is damaged"));
        }
    }
}

#[test]
fn errors_name_the_damaged_section_of_rows_links_codes_or_classes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.nuq");
    let (x, y) = data::clusters(1100, 33, 2, 1.0, 1);
    let model = NuqClassifier::params().selection_rows(100).index(graph(Precision::F32)).fit(&x, &y).unwrap();
    let model = Model::Classifier(model);
    nuq_io::save(&model, &path).unwrap();
    let queries = x.gather(&[0, 1, 2]);
    let expected = prediction_bits(&model, &queries).unwrap();
    let whole = fs::read(&path).unwrap();
    let mut file = OpenOptions::new().write(true).open(&path).unwrap();
    let mut write_byte = |at: usize, byte: u8| {
        file.seek(SeekFrom::Start(at as u64)).unwrap();
        file.write_all(&[byte]).unwrap();
    };
    let mut rng = SeededRng::new(6);
    let mut sections = std::collections::BTreeSet::new();
    for _ in 0..3000 {
        let (at, bit) = (rng.below(whole.len()), rng.below(8));
        write_byte(at, whole[at] ^ 1 << bit);
        sections.extend(damaged_section(&path, &queries, &expected, &format!("bit {bit} of byte {at}")));
        write_byte(at, whole[at]);
    }
    for section in ["index.rows.f32", "index.links.bottom", "index.codes", "classes"] {
        assert!(sections.contains(section), "{section} is not among {sections:?}");
    }
}

#[test]
fn calibrated_rules_and_scores_of_held_out_rows_are_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.nuq");
    let x = Embeddings::from_rows(&[[0.0], [0.1], [1.0], [1.1]]).unwrap();
    let mut model =
        NuqClassifier::params().n_neighbors(2).bandwidth(0.3).fit(&x, &["a", "a", "b", "b"]).unwrap();
    let rules = model.rules_mut();
    rules.set_temperature(Some(1.25)).unwrap();
    let by_class = SetRule {
        coverage: 0.9,
        score: SetScore::Aps,
        limits: SetLimits::ByClass(vec![0.25, f64::INFINITY]),
        rows: 30,
        predictor: Predictor::Network,
        training_rows: 30,
    };
    let all = SetRule { score: SetScore::Lac, limits: SetLimits::All(f64::INFINITY), ..by_class.clone() };
    rules.sets.insert("by class".to_owned(), by_class);
    rules.sets.insert("all".to_owned(), all);
    let threshold = calibrate(Measure::Total, &[1.0, 2.0, 3.0], None, Target::Coverage(0.5)).unwrap();
    rules
        .thresholds
        .insert("network".to_owned(), threshold.of_predictor(Predictor::Network).on_training_rows(3));
    nuq_io::save_classifier(&model, &path, nuq_io::Rows::Stored).unwrap();
    let without_scores = nuq_io::open(&path).unwrap();
    assert_eq!(without_scores.model.rules(), model.rules());
    assert!(without_scores.sections.iter().all(|section| section.name != "held_out_scores"));

    // Two of three thresholds have scores of held-out rows, some of them infinite.
    let scores = [f64::INFINITY, 2.0, f64::NEG_INFINITY];
    let threshold = calibrate(Measure::Epistemic, &scores, None, Target::Coverage(0.5)).unwrap();
    for name in ["b", "a"] {
        model.rules_mut().set_threshold(name, threshold, &scores).unwrap();
    }
    nuq_io::save_classifier(&model, &path, nuq_io::Rows::Stored).unwrap();
    let opened = nuq_io::open(&path).unwrap();
    assert_eq!(opened.model.rules(), model.rules());
    assert_eq!(opened.model.rules().held_out_scores("b"), Some(&[f64::NEG_INFINITY, 2.0, f64::INFINITY][..]));
    assert_eq!(opened.model.rules().held_out_scores("network"), None);
    assert_ne!(opened.fingerprint(), without_scores.fingerprint());
    let bytes = nuq_io::rules_to_bytes(model.rules());
    assert_eq!(nuq_io::rules_from_bytes(&bytes).as_ref(), Some(model.rules()));
    assert_eq!(nuq_io::rules_from_bytes(&bytes[..bytes.len() - 8]), None);

    let mut model =
        NuqRegressor::params().n_neighbors(2).bandwidth(0.3).fit(&x, &[0.0, 1.0, 2.0, 3.0]).unwrap();
    for (name, factor) in [("finite", 1.5), ("infinite", f64::INFINITY)] {
        model
            .rules_mut()
            .intervals
            .insert(name.to_owned(), IntervalRule { coverage: 0.9, factor, rows: 20, training_rows: 2 });
    }
    nuq_io::save_regressor(&model, &path, nuq_io::Rows::Stored).unwrap();
    assert_eq!(nuq_io::open(&path).unwrap().model.rules(), model.rules());
}
