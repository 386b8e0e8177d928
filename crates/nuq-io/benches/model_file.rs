//! Measures the time of operations on a saved model of 100,000 rows with 64 columns: opening the file, one prediction, row lookups,
//! distances, and reading one option.
//!
//! `cargo bench -p nuq-io --bench model_file`

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use nuq::{Embeddings, FittedModel, IndexKind, Model, NuqClassifier, Scale};
use nuq_testkit::data;

const ROWS: usize = 100_000;
const DIM: usize = 64;

/// The path of a saved model.
static SAVED: LazyLock<PathBuf> = LazyLock::new(|| {
    let path = std::env::temp_dir().join(format!("nuq-bench-{}.nuq", std::process::id()));
    let (x, y) = data::clusters(ROWS, DIM, 10, 0.6, 1);
    let params = NuqClassifier::params().index(IndexKind::Exact).bandwidth(1.0).scale(Scale::Ambient);
    let model = params.selection_rows(100).fit(&x, &y).expect("valid training data");
    nuq_io::save(&Model::Classifier(model), &path).expect("the temporary folder is writable");
    path
});

fn open(path: &Path) -> NuqClassifier<'static> {
    match nuq_io::open(path).expect("the file was saved above").model {
        Model::Classifier(model) => model,
        Model::Regressor(_) => unreachable!("a classifier was saved"),
    }
}

/// The opened model after its first search, which verifies the mapped rows.
static OPENED: LazyLock<NuqClassifier<'static>> = LazyLock::new(|| {
    let model = open(&SAVED);
    model.predict(&query()).expect("the file is not damaged");
    model
});

fn query() -> Embeddings<'static> {
    data::clusters(1, DIM, 10, 0.6, 2).0
}

fn main() {
    divan::main();
    std::fs::remove_file(&*SAVED).expect("the saved model exists");
}

#[divan::bench]
fn open_model(bencher: divan::Bencher<'_, '_>) {
    let path = &*SAVED;
    bencher.bench(|| open(path));
}

#[divan::bench]
fn predict_one_row(bencher: divan::Bencher<'_, '_>) {
    let (model, query) = (&*OPENED, query());
    bencher.bench(|| black_box(model.predict(&query).expect("a finite query").len()));
}

/// Dereferences the mapped array once per row.
#[divan::bench]
fn read_100_000_rows(bencher: divan::Bencher<'_, '_>) {
    let index = OPENED.index();
    bencher.bench(|| (0..ROWS as u32).map(|id| index.rows().row(id)[0]).sum::<f32>());
}

#[divan::bench]
fn measure_10_000_distances(bencher: divan::Bencher<'_, '_>) {
    let (model, query) = (&*OPENED, query());
    let ids: Vec<u32> = (0..ROWS as u32).step_by(10).collect();
    bencher.bench(|| model.measure(&query, ids.len(), &ids).expect("the ids are rows"));
}

#[divan::bench]
fn read_variance(bencher: divan::Bencher<'_, '_>) {
    let model = &*OPENED;
    bencher.bench(|| black_box(model.variance()));
}
