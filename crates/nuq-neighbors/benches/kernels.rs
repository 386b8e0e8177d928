//! Times the hot loops: squared distances, the distance kernels of graph search, exact search and HNSW search.
//!
//! `cargo bench -p nuq-neighbors --bench kernels`

use std::hint::black_box;
use std::sync::LazyLock;

use divan::counter::ItemsCount;
use divan::{Bencher, bench};
use nuq_neighbors::bench_kernels::{code_distances, float_distances, half_distances};
use nuq_neighbors::{
    CodeBlock, Embeddings, ExactIndex, HnswIndex, HnswParams, NeighborIndex, SeededRng, sq_distance,
};

const DIMS: [usize; 3] = [64, 512, 2048];
/// Rows per call of a kernel: about the number of links of a node in the graph.
const LIST: usize = 32;
const ROWS: usize = 20_000;
const ROW_DIM: usize = 128;
const K: usize = 20;

fn main() {
    divan::main();
}

fn normal(rows: usize, dim: usize, seed: u64) -> Embeddings<'static> {
    let mut rng = SeededRng::new(seed);
    Embeddings::new((0..rows * dim).map(|_| rng.normal() as f32).collect(), dim).expect("finite values")
}

static TRAIN: LazyLock<Embeddings<'static>> = LazyLock::new(|| normal(ROWS, ROW_DIM, 1));
static EXACT: LazyLock<ExactIndex<'static>> = LazyLock::new(|| ExactIndex::new(&TRAIN).expect("valid rows"));
static HNSW: LazyLock<HnswIndex<'static>> =
    LazyLock::new(|| HnswIndex::new(&TRAIN, HnswParams::default().ef_construction(50)).expect("valid rows"));

/// Computes the distances of a query to the rows with the given ids. The arguments are the query, all rows, the ids and the distances.
type Kernel<T> = fn(&[T], &[T], &[u32], &mut [f32]);

/// Times a kernel on a list of rows in random order.
fn time_kernel<T: Copy>(
    bencher: Bencher<'_, '_>,
    width: usize,
    element: impl Fn(&mut SeededRng) -> T,
    kernel: Kernel<T>,
) {
    let mut rng = SeededRng::new(2);
    let query: Vec<T> = (0..width).map(|_| element(&mut rng)).collect();
    let rows: Vec<T> = (0..4 * LIST * width).map(|_| element(&mut rng)).collect();
    let ids: Vec<u32> = (0..LIST).map(|_| rng.below(4 * LIST) as u32).collect();
    let mut distances = [0f32; LIST];
    bencher.counter(ItemsCount::new(LIST)).bench_local(|| {
        kernel(black_box(&query), &rows, &ids, &mut distances);
        distances[0]
    });
}

#[bench(args = DIMS)]
fn squared_distance_f64(bencher: Bencher<'_, '_>, dim: usize) {
    let x = normal(2, dim, 3);
    bencher.bench(|| sq_distance(black_box(x.row(0)), black_box(x.row(1))));
}

#[bench(args = DIMS)]
fn code_kernel(bencher: Bencher<'_, '_>, dim: usize) {
    let block = |rng: &mut SeededRng| CodeBlock(std::array::from_fn(|_| rng.below(128) as u8));
    time_kernel(bencher, dim / 64, block, code_distances);
}

#[bench(args = DIMS)]
fn half_kernel(bencher: Bencher<'_, '_>, dim: usize) {
    // `f16` numbers between 1 and 2.
    time_kernel(bencher, dim, |rng| 0x3C00 | rng.below(1024) as u16, half_distances);
}

#[bench(args = DIMS)]
fn float_kernel(bencher: Bencher<'_, '_>, dim: usize) {
    time_kernel(bencher, dim, |rng| rng.normal() as f32, float_distances);
}

/// On processors without instructions for products of bytes, a single query is compared with the rows by direct distances, and a batch
/// of queries by matrix products. On other processors, the index computes codes of one byte per coordinate after its first searches,
/// and then compares a single query and a batch by these codes.
#[bench(args = [1, 256])]
fn exact_search(bencher: Bencher<'_, '_>, queries: usize) {
    let queries = normal(queries, ROW_DIM, 4);
    EXACT.search(&normal(8, ROW_DIM, 5), K).expect("a valid search");
    bencher.counter(ItemsCount::new(queries.len())).bench_local(|| EXACT.search(&queries, K));
}

#[bench(args = [1, 256])]
fn hnsw_search(bencher: Bencher<'_, '_>, queries: usize) {
    let queries = normal(queries, ROW_DIM, 4);
    LazyLock::force(&HNSW);
    bencher.counter(ItemsCount::new(queries.len())).bench_local(|| HNSW.search(&queries, K));
}
