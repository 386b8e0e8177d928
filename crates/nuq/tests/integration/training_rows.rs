//! Queries that equal training rows, also after rounding in a text file.

use nuq::nuq_neighbors::{HnswParams, Precision};
use nuq::{Classification, Embeddings, FittedModel, IndexKind, NuqClassifier, Params};
use nuq_testkit::data;

/// The rows after each number was written by `format` and read again, as in a text file.
fn written(x: &Embeddings<'_>, format: impl Fn(f32) -> String) -> Embeddings<'static> {
    let values = x.rows().flatten().map(|&value| format(value).parse::<f32>().unwrap()).collect();
    Embeddings::new(values, x.dim()).unwrap()
}

fn moved(x: &Embeddings<'_>, factor: f32, offset: f32) -> Embeddings<'static> {
    let values = x.rows().flatten().map(|&value| factor * value + offset).collect();
    Embeddings::new(values, x.dim()).unwrap()
}

fn count(
    params: Params<Classification>,
    train: &Embeddings<'_>,
    y: &[i64],
    queries: &Embeddings<'_>,
) -> usize {
    let model = params.fit(train, y).unwrap();
    let neighbors = model.neighbors_of(queries, model.n_neighbors()).unwrap();
    model.equal_training_rows(queries, &neighbors)
}

#[test]
fn rounded_training_rows_equal_training_rows() {
    let graph = IndexKind::Hnsw(HnswParams { precision: Precision::F16, ..HnswParams::default() });
    for dim in [1, 2, 3, 16] {
        let (x, y) = data::clusters(500, dim, 3, 1.0, 7);
        for queries in [
            x.clone(),
            written(&x, |value| format!("{value:.5e}")),
            written(&x, |value| format!("{value:.6}")),
        ] {
            let params = NuqClassifier::params;
            // In few dimensions some rows are as near to other rows as to their rounded values.
            let least = if dim <= 2 { 490 } else { 500 };
            assert!(count(params(), &x, &y, &queries) >= least, "{dim}");
            if dim == 16 {
                assert_eq!(count(params().index(graph), &x, &y, &queries), 500, "half precision");
            }
            if dim > 2 {
                assert_eq!(count(params().normalize(true), &x, &y, &queries), 500, "{dim}, normalized");
            }
        }
    }
}

#[test]
fn new_rows_do_not_equal_training_rows() {
    for dim in [1, 2, 3, 16] {
        let (all, y) = data::clusters(3000, dim, 3, 1.0, 8);
        for (factor, offset) in [(1.0, 0.0), (1e-3, 0.0), (1.0, 1000.0), (0.1, 1000.0)] {
            let all = moved(&all, factor, offset);
            let (train, new) = (
                all.gather(&(0..2000).collect::<Vec<u32>>()),
                all.gather(&(2000..3000).collect::<Vec<u32>>()),
            );
            let equal = count(NuqClassifier::params(), &train, &y[..2000], &new);
            // In one dimension, and far from the origin, some new rows equal training rows exactly in f32.
            let exact = new.rows().filter(|row| train.rows().any(|other| other == *row)).count();
            assert_eq!(equal, exact, "{dim} columns, {factor} x + {offset}");
        }
    }
}
