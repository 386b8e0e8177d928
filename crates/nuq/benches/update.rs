//! Measures the time to insert one row into a fitted classifier, and to insert and remove one, for several numbers of training rows.
//!
//! `cargo bench -p nuq --bench update`

use nuq::{Density, Embeddings, IndexKind, NuqClassifier, Scale};
use nuq_testkit::data;

const DIM: usize = 8;
const CLASSES: usize = 10;

fn main() {
    divan::main();
}

fn model(rows: usize) -> NuqClassifier<'static> {
    let (x, y) = data::clusters(rows, DIM, CLASSES, 1.0, 1);
    let params = NuqClassifier::params().index(IndexKind::Exact).bandwidth(1.0).scale(Scale::Ambient);
    let density = Density::Kde { bandwidth: nuq::DensityBandwidth::Same };
    params.density(density).fit(&x, &y).expect("valid training data")
}

fn row() -> Embeddings<'static> {
    data::clusters(1, DIM, CLASSES, 1.0, 2).0
}

#[divan::bench(args = [1_000, 10_000, 100_000, 1_000_000], sample_count = 20)]
fn insert_one_row_of_a_known_class(bencher: divan::Bencher<'_, '_>, rows: usize) {
    let (mut model, row) = (model(rows), row());
    // The first insertion reallocates the arrays that contain the training rows, so it is not measured.
    model.insert(&row, &[3i64]).expect("a finite row");
    bencher.bench_local(move || model.insert(&row, &[3i64]).expect("a finite row"));
}

#[divan::bench(args = [1_000, 10_000, 100_000, 1_000_000], sample_count = 20)]
fn insert_and_remove_one_row(bencher: divan::Bencher<'_, '_>, rows: usize) {
    let (mut model, row) = (model(rows), row());
    model.insert(&row, &[3i64]).expect("a finite row");
    bencher.bench_local(move || {
        let ids = model.insert(&row, &[3i64]).expect("a finite row");
        model.remove(&ids).expect("the row was inserted above");
    });
}
