//! The GPU of the tests, their data, and the comparison of search results.

use std::path::{Path, PathBuf};

use nuq_cuda::{CudaDevice, CudaIndex};
use nuq_io::{ArraySpec, EmbeddingsFile};
use nuq_neighbors::{Embeddings, NeighborIndex, Neighbors};
use nuq_testkit::data;

/// The first GPU. Without a GPU, prints a notice that the test is skipped and returns `None`, or panics if `NUQ_REQUIRE_CUDA` is set.
pub(crate) fn device() -> Option<CudaDevice> {
    match CudaDevice::open(0) {
        Ok(device) => Some(device),
        Err(error) if std::env::var_os("NUQ_REQUIRE_CUDA").is_some() => panic!("{error}"),
        Err(error) => {
            eprintln!("SKIPPED, this test needs a GPU: {error}");
            None
        }
    }
}

/// Asserts that GPU and CPU find the same neighbors and distances, and returns the share of queries that the GPU answered.
pub(crate) fn check(
    name: &str,
    gpu: &CudaIndex<'_>,
    cpu: &dyn NeighborIndex,
    queries: &Embeddings<'_>,
    k: usize,
) -> f64 {
    let before = gpu.queries_on_cpu();
    let (found, expected) = (gpu.search(queries, k).unwrap(), cpu.search(queries, k).unwrap());
    assert_equal(name, &found, &expected);
    let share = 1.0 - (gpu.queries_on_cpu() - before) as f64 / queries.len() as f64;
    println!("{name}: equal, {:.1} % of {} queries on the GPU", 100.0 * share, queries.len());
    share
}

pub(crate) fn assert_equal(name: &str, found: &Neighbors, expected: &Neighbors) {
    assert_eq!((found.k(), found.len()), (expected.k(), expected.len()), "{name}");
    for i in 0..found.len() {
        assert_eq!(found.ids(i), expected.ids(i), "{name}: ids of query {i}");
        let bits = |all: &Neighbors| all.sq_distances(i).iter().map(|d| d.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(found), bits(expected), "{name}: distances of query {i}");
    }
}

/// Rows with 20 latent dimensions in 400 columns, and noise: a few principal axes account for most of the distance between two rows.
pub(crate) fn low_rank(rows: usize, offset: f32, seed: u64) -> Embeddings<'static> {
    let (latent, _) = data::clusters(rows, 20, 30, 3.0, seed);
    let (basis, noise) = (data::normal(20, 400, 99), data::normal(rows, 400, seed + 1));
    let mut values: Vec<f32> = noise.as_slice().iter().map(|v| 0.05 * v + offset).collect();
    for (row, z) in values.chunks_exact_mut(400).zip(latent.rows()) {
        for (&z, axis) in z.iter().zip(basis.rows()) {
            row.iter_mut().zip(axis).for_each(|(v, a)| *v += z * a);
        }
    }
    Embeddings::new(values, 400).unwrap()
}

/// A set of the example embeddings of the repository: `train`, `test`, `svhn` or `textures`.
pub(crate) fn cifar10(set: &str) -> Embeddings<'static> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/cifar10");
    // A test binary that was copied to another machine runs in the root of the repository there.
    let folder = if built.is_dir() { built } else { PathBuf::from("examples/cifar10") };
    let path = folder.join(format!("{set}.npz"));
    let spec = ArraySpec { path, name: Some("embeddings".to_owned()) };
    EmbeddingsFile::open(&spec).and_then(EmbeddingsFile::read).unwrap()
}
