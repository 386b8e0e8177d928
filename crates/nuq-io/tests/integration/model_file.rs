//! Model files: what was saved is what is opened, and nothing else is.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use nuq::bandwidth::BandwidthRule;
use nuq::nuq_neighbors::{Precision, SeededRng};
use nuq::{
    Covariance, Density, DensityBandwidth, Dimension, Embeddings, HnswParams, IndexKind, Kernel, Model,
    NeighborIndex, NuqClassifier, NuqRegressor, Shrinkage,
};
use nuq_io::Error;
use nuq_testkit::battery::{self, Subject};
use nuq_testkit::data;

fn graph(precision: Precision) -> IndexKind {
    IndexKind::Hnsw(HnswParams::default().ef_search(400).precision(precision))
}

/// The numbers of every prediction, bit for bit.
fn answers(model: &Model<'_>, queries: &Embeddings<'_>) -> Result<Vec<u64>, nuq::Error> {
    Ok(match model {
        Model::Classifier(model) => {
            let found = model.predict(queries)?;
            let numbers = found.iter().flat_map(|p| [p.log_total, p.log_density, p.log_epistemic]);
            let labels =
                (0..found.len()).flat_map(|i| found.label(i).to_string().into_bytes()).map(f64::from);
            numbers.chain(labels).map(f64::to_bits).collect()
        }
        Model::Regressor(model) => {
            let found = model.predict(queries)?;
            found.iter().flat_map(|p| [p.mean, p.log_total, p.log_density]).map(f64::to_bits).collect()
        }
    })
}

#[test]
fn a_model_that_was_opened_answers_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let (path, again) = (folder.path().join("model.nuq"), folder.path().join("again.nuq"));
    let (x, y) = data::clusters(1200, 40, 4, 0.6, 3);
    let (q, _) = data::clusters(60, 40, 4, 0.6, 4);
    let words: Vec<String> = y.iter().map(|class| format!("class {class} é")).collect();
    let targets: Vec<f64> = y.iter().map(|&class| class as f64 - 0.5).collect();
    let gaussians = |covariance| Density::Gmm { covariance, shrinkage: Shrinkage::LedoitWolf };
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
    for (i, model) in models.iter().enumerate() {
        nuq_io::save(model, &path).unwrap();
        let opened = nuq_io::open(&path).unwrap();
        assert_eq!(answers(&opened.model, &q).unwrap(), answers(model, &q).unwrap(), "model {i}");
        assert_eq!(opened.model.index().describe(), model.index().describe());
        match (&opened.model, model) {
            (Model::Classifier(opened), Model::Classifier(model)) => {
                assert_eq!(opened.parts(), model.parts())
            }
            (Model::Regressor(opened), Model::Regressor(model)) => assert!(opened.parts() == model.parts()),
            _ => panic!("model {i} changed its kind"),
        }
        nuq_io::save(&opened.model, &again).unwrap();
        assert_eq!(fs::read(&path).unwrap(), fs::read(&again).unwrap(), "model {i}");
    }
}

/// An index that went through a file.
fn reopened<'x>(x: &Embeddings<'_>, kind: IndexKind) -> Box<dyn NeighborIndex + 'x> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.nuq");
    let model = NuqRegressor::params()
        .bandwidth(1.0)
        .density(Density::Kde { bandwidth: DensityBandwidth::Fixed(1.0) })
        .dimension(Dimension::Ambient)
        .index(kind)
        .recall(None)
        .fit(x, &vec![0.0; x.len()])
        .unwrap();
    nuq_io::save(&Model::Regressor(model), &path).unwrap();
    nuq_io::open(&path).unwrap().model.into_index()
}

#[test]
fn reopened_indexes_pass_the_battery() {
    battery::run(&|x| reopened(x, IndexKind::Exact), 1.0);
    battery::run(&|x| reopened(x, graph(Precision::F32)), 0.99);
    battery::run(&|x| battery::churned(&|x| reopened(x, graph(Precision::F32)), x), 0.99);
    let keeps: fn(Embeddings<'static>) -> Option<Embeddings<'static>> = |x| {
        // Rows that halves hold exactly: multiples of 1/64 below 16.
        let rounded = x.as_slice().iter().map(|v| (v.clamp(-15.0, 15.0) * 64.0).round() / 64.0).collect();
        Embeddings::new(rounded, x.dim()).ok()
    };
    battery::run_on(&Subject { build: &|x| reopened(x, graph(Precision::F16)), recall: 0.99, keeps });
}

#[test]
fn a_file_that_is_no_model_is_named_and_explained() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.nuq");
    let say = |path: &Path| nuq_io::open(path).unwrap_err().to_string();
    assert!(say(&path).starts_with(&format!("cannot read {}", path.display())));
    assert!(say(folder.path()).ends_with("it is a folder"), "{}", say(folder.path()));
    fs::write(&path, b"").unwrap();
    assert!(say(&path).contains("model.nuq is not a nuq model"), "{}", say(&path));
    fs::write(&path, b"PK\x03\x04 and so on, for a while, as other files do").unwrap();
    assert!(say(&path).ends_with("is not a nuq model: it does not begin with the bytes NUQMODEL"));
    small_model(&path);
    let mut bytes = fs::read(&path).unwrap();
    bytes[8] = 9;
    fs::write(&path, &bytes).unwrap();
    assert!(say(&path).ends_with("has model format 9, this nuq reads up to 2: use a newer nuq"));
}

fn small_model(path: &Path) -> (Embeddings<'static>, Vec<u64>) {
    let (x, y) = data::clusters(40, 3, 2, 1.0, 1);
    let model = Model::Classifier(NuqClassifier::params().fit(&x, &y).unwrap());
    nuq_io::save(&model, path).unwrap();
    let right = answers(&model, &x).unwrap();
    (x, right)
}

/// Opens and asks: the right answers, or an error that says what is damaged. Returns its section.
fn is_right_or_says_why(path: &Path, queries: &Embeddings<'_>, right: &[u64], what: &str) -> Option<String> {
    let model = match nuq_io::open(path) {
        Ok(opened) => opened.model,
        Err(Error::Damaged { section, .. }) => return Some(section),
        Err(Error::NotAModel { .. } | Error::NewerFormat { .. }) => return Some("header".to_owned()),
        Err(other) => panic!("{what}: {other}"),
    };
    match answers(&model, queries) {
        Ok(found) => {
            assert_eq!(found, right, "{what}: a wrong answer");
            None
        }
        Err(nuq::Error::Neighbors(nuq::nuq_neighbors::Error::Damaged { section, .. })) => Some(section),
        Err(other) => panic!("{what}: {other}"),
    }
}

/// A hundred thousand files with one byte changed or the end missing.
#[test]
fn damage_is_never_more_than_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.nuq");
    let (queries, right) = small_model(&path);
    let whole = fs::read(&path).unwrap();
    let mut rng = SeededRng::new(5);
    let mut unnoticed = 0;
    for i in 0..100_000 {
        let mut bytes = whole.clone();
        let what = if i % 4 == 0 {
            bytes.truncate(rng.below(whole.len()));
            format!("cut to {}", bytes.len())
        } else {
            let (at, bit) = (rng.below(whole.len()), rng.below(8));
            bytes[at] ^= 1 << bit;
            format!("bit {bit} of byte {at}")
        };
        fs::write(&path, &bytes).unwrap();
        let noticed = is_right_or_says_why(&path, &queries, &right, &what);
        assert!(noticed.is_some() || bytes.len() == whole.len(), "{what} was not noticed");
        unnoticed += usize::from(noticed.is_none());
    }
    // Only the padding between sections is under no checksum.
    assert!(unnoticed < 10_000, "{unnoticed} changes were not noticed");
}

/// What is damaged gets no new checksums, and is noticed wherever rows are read first.
#[test]
fn damage_does_not_spread() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("model.nuq"), folder.path().join("copy.nuq"));
    let (x, y) = data::clusters(1100, 33, 2, 1.0, 1);
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
        let refused = nuq_io::save(&opened.model, &copy).unwrap_err().to_string();
        assert!(refused.contains("section `index.rows.f32` is damaged") && !copy.exists(), "{refused}");
        let Model::Classifier(model) = &opened.model else { panic!("a classifier was saved") };
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
fn damaged_links_codes_and_rows_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.nuq");
    let (x, y) = data::clusters(1100, 33, 2, 1.0, 1);
    let model = NuqClassifier::params().selection_rows(100).index(graph(Precision::F32)).fit(&x, &y).unwrap();
    let model = Model::Classifier(model);
    nuq_io::save(&model, &path).unwrap();
    let queries = x.gather(&[0, 1, 2]);
    let right = answers(&model, &queries).unwrap();
    let whole = fs::read(&path).unwrap();
    let mut file = OpenOptions::new().write(true).open(&path).unwrap();
    let mut put = |at: usize, byte: u8| {
        file.seek(SeekFrom::Start(at as u64)).unwrap();
        file.write_all(&[byte]).unwrap();
    };
    let mut rng = SeededRng::new(6);
    let mut sections = std::collections::BTreeSet::new();
    for _ in 0..3000 {
        let (at, bit) = (rng.below(whole.len()), rng.below(8));
        put(at, whole[at] ^ 1 << bit);
        sections.extend(is_right_or_says_why(&path, &queries, &right, &format!("bit {bit} of byte {at}")));
        put(at, whole[at]);
    }
    for section in ["index.rows.f32", "index.links.bottom", "index.codes", "classes"] {
        assert!(sections.contains(section), "{section} is not among {sections:?}");
    }
}
