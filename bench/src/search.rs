//! Exact search against the peak of the machine and against `IndexFlatL2` of faiss-cpu.

use std::time::Instant;

use nuq_neighbors::{ExactIndex, NeighborIndex};

use crate::data::Source;
use crate::peak::fma_gflops;
use crate::peers::{Python, write_raw};

const K: usize = 20;
const REPEATS: usize = 3;
/// Rows, columns, queries.
const CASES: [(usize, usize, usize); 4] =
    [(50_000, 512, 10_000), (50_000, 2048, 10_000), (200_000, 128, 10_000), (40_000, 50, 10_000)];

const FAISS: &str = r"
import sys, time, faiss, numpy as np
base, queries, dim, k, repeats = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
x = np.fromfile(base, 'f4').reshape(-1, dim); q = np.fromfile(queries, 'f4').reshape(-1, dim)
index = faiss.IndexFlatL2(dim); index.add(x)
best = float('inf')
for _ in range(repeats):
    start = time.perf_counter(); _, ids = index.search(q, k); best = min(best, time.perf_counter() - start)
ids.astype('u4').tofile(base + '.faiss')
print(best, faiss.__version__)
";

pub(crate) fn run() -> Result<(), String> {
    let peak = fma_gflops();
    let python = Python::with(&["numpy", "faiss-cpu"])?;
    println!("Exact search, k = {K}, {} threads, best of {REPEATS} runs", rayon::current_num_threads());
    match peak {
        Some(peak) => println!("multiply-add peak of this machine: {peak:.0} GFLOP/s"),
        None => println!("multiply-add peak of this machine: unknown"),
    }
    println!(
        "{:>8} {:>5} {:>8} {:>8} {:>8} {:>9} {:>9}  agreement",
        "rows", "dim", "queries", "nuq s", "of peak", "faiss s", "× faiss"
    );
    for (rows, dim, queries) in CASES {
        let source = Source::new(dim, 100, 1);
        let ((x, _), (q, _)) = (source.draw(rows, 2), source.draw(queries, 3));
        let index = ExactIndex::new(&x).map_err(|e| e.to_string())?;
        let mut best = f64::INFINITY;
        let mut neighbors = None;
        for _ in 0..REPEATS {
            let start = Instant::now();
            neighbors = Some(index.search(&q, K).map_err(|e| e.to_string())?);
            best = best.min(start.elapsed().as_secs_f64());
        }
        let neighbors = neighbors.expect("REPEATS is not zero");
        let (base, queries_file) =
            (write_raw("base.f32", x.as_slice())?, write_raw("queries.f32", q.as_slice())?);
        let numbers = [dim.to_string(), K.to_string(), REPEATS.to_string()];
        let paths = [base.to_string_lossy(), queries_file.to_string_lossy()];
        let printed = python.script(FAISS, &[&paths[0], &paths[1], &numbers[0], &numbers[1], &numbers[2]])?;
        let faiss: f64 =
            printed.split_whitespace().next().and_then(|s| s.parse().ok()).ok_or("faiss printed no time")?;
        let faiss_ids = std::fs::read(format!("{}.faiss", paths[0])).map_err(|e| e.to_string())?;
        let same = faiss_ids
            .chunks_exact(4 * K)
            .enumerate()
            .map(|(i, row)| {
                let ids = row.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
                ids.filter(|id| neighbors.ids(i).contains(id)).count()
            })
            .sum::<usize>();
        let gflops = 2.0 * (rows * dim * queries) as f64 / best / 1e9;
        let share = peak.map_or("-".to_owned(), |peak| format!("{:.0} %", 100.0 * gflops / peak));
        println!(
            "{rows:>8} {dim:>5} {queries:>8} {best:>8.2} {share:>8} {faiss:>9.2} {:>9.2}  {:.4}",
            faiss / best,
            same as f64 / (queries * K) as f64
        );
    }
    Ok(())
}
