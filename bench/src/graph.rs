//! Graph search against hnswlib, usearch and faiss from PyPI and ann-search-rs from crates.io (feature `peers`, which `cargo xtask
//! bench` enables), on the same rows, queries and threads.
//!
//! Every index is built with the same parameters of HNSW: M = 16 (links per row) and ef_construction = 200 (candidates of a search while
//! the graph is built). It is searched with several values of ef, the number of candidates of a search. The table compares the recall at
//! the same ef, and the time at the same recall.

use std::path::Path;
use std::time::Instant;

use nuq_neighbors::{Embeddings, ExactIndex, HnswIndex, HnswParams, NeighborIndex, Neighbors, Precision};

use crate::data::Source;
use crate::peers::{Python, folder, read_raw, write_raw};

pub(crate) const K: usize = 20;
pub(crate) const REPEATS: usize = 3;
pub(crate) const QUERIES: usize = 2000;
const EFS: [usize; 9] = [20, 30, 40, 60, 100, 150, 200, 300, 400];
/// The ef at which recalls are compared.
const COMMON_EF: usize = 100;
pub(crate) const TARGETS: [f64; 2] = [0.95, 0.99];

/// ef, recall and microseconds per query of several searches.
pub(crate) type Curve = Vec<(usize, f64, f64)>;

/// Measurements of one index on one data set.
struct Measured {
    name: String,
    /// Seconds of the build.
    build: f64,
    curve: Curve,
    /// Bytes of the stored rows, if known.
    row_bytes: Option<usize>,
}

struct Case {
    title: String,
    rows: Embeddings<'static>,
    queries: Embeddings<'static>,
}

pub(crate) fn run() -> Result<(), String> {
    let python = Python::with(&["numpy", "faiss-cpu", "hnswlib", "usearch"])?;
    println!(
        "\nGraph search, k = {K}, M = 16, ef_construction = 200, {} threads, best of {REPEATS} runs",
        rayon::current_num_threads()
    );
    for case in cases(&python)? {
        let truth = ExactIndex::new(&case.rows)
            .and_then(|exact| exact.search(&case.queries, K))
            .map_err(|e| e.to_string())?;
        let mut all = vec![
            measure_ours("nuq f32", &case, &truth, Precision::F32)?,
            measure_ours("nuq f16", &case, &truth, Precision::F16)?,
        ];
        all.extend(from_python(&python, &case, &truth)?);
        #[cfg(feature = "peers")]
        all.extend(from_cargo::ann_search(&case, &truth)?);
        print(&case, &all);
    }
    println!(
        "times are microseconds per query at that recall (- if it is not reached); × is the time relative to nuq f32"
    );
    println!(
        "nuq f32 searches with codes of one byte per coordinate and ranks the candidates by the f32 rows."
    );
    Ok(())
}

fn cases(python: &Python) -> Result<Vec<Case>, String> {
    let drawn = |rows: usize, dim: usize| {
        // Overlapping clusters: with well-separated ones, every index reaches a recall of 1.
        let source = Source::new(dim, 100, 1).spread(2.0);
        let title = format!("{rows} × {dim}, 100 clusters of 32 dimensions, with noise");
        Case { title, rows: source.draw(rows, 2).0, queries: source.draw(QUERIES, 3).0 }
    };
    let mut cases = vec![drawn(50_000, 512), drawn(200_000, 128)];
    match std::env::var_os("NUQ_DATA") {
        Some(data) => cases.push(embeddings(python, &Path::new(&data).join("data/cifar10-resnet18"))?),
        None => println!("real embeddings: skipped, NUQ_DATA is not set"),
    }
    Ok(cases)
}

const NPZ_TO_RAW_F32: &str = r"
import sys, numpy as np
rows = np.load(sys.argv[1])['embeddings'].astype('f4'); rows.tofile(sys.argv[2]); print(rows.shape[1])
";

/// Embeddings of a network on CIFAR-10, from npz files.
fn embeddings(python: &Python, from: &Path) -> Result<Case, String> {
    let read = |name: &str| {
        let (npz, raw) = (from.join(name), folder()?.join("real.f32"));
        let printed = python.script(NPZ_TO_RAW_F32, &[&npz.to_string_lossy(), &raw.to_string_lossy()])?;
        let dim = printed.trim().parse::<usize>();
        let dim = dim.map_err(|_| format!("cannot read the number of columns of {}", npz.display()))?;
        Embeddings::new(read_raw(&raw)?, dim).map_err(|e| e.to_string())
    };
    let (rows, queries) = (read("train.npz")?, read("test.npz")?);
    let queries = queries.gather(&(0..QUERIES.min(queries.len()) as u32).collect::<Vec<_>>());
    let title = format!("{} × {}, CIFAR-10 by a ResNet-18", rows.len(), rows.dim());
    Ok(Case { title, rows, queries })
}

/// The share of the true neighbors among the given ids.
pub(crate) fn recall(truth: &Neighbors, ids: impl Fn(usize) -> Vec<u32>) -> f64 {
    let hits = |i: usize| ids(i).iter().filter(|id| truth.ids(i).contains(id)).count();
    (0..truth.len()).map(hits).sum::<usize>() as f64 / (truth.len() * K) as f64
}

fn measure_ours(
    name: &str,
    case: &Case,
    truth: &Neighbors,
    precision: Precision,
) -> Result<Measured, String> {
    let start = Instant::now();
    let mut index =
        HnswIndex::new(&case.rows, HnswParams::default().precision(precision)).map_err(|e| e.to_string())?;
    let build = start.elapsed().as_secs_f64();
    let mut curve = Vec::new();
    for ef in EFS {
        index.set_ef_search(ef);
        let (mut best, mut share) = (f64::INFINITY, 0.0);
        for _ in 0..REPEATS {
            let start = Instant::now();
            let neighbors = index.search(&case.queries, K).map_err(|e| e.to_string())?;
            best = best.min(start.elapsed().as_secs_f64());
            share = recall(truth, |i| neighbors.ids(i).to_vec());
        }
        curve.push((ef, share, 1e6 * best / truth.len() as f64));
    }
    Ok(Measured { name: name.to_owned(), build, curve, row_bytes: Some(index.bytes().rows) })
}

const PEERS: &str = r"
import sys, time, faiss, hnswlib, numpy as np
from importlib.metadata import version
from usearch.index import Index
base, queries, out = sys.argv[1:4]
dim, k, repeats, threads = map(int, sys.argv[4:8])
efs = list(map(int, sys.argv[8:]))
x = np.fromfile(base, 'f4').reshape(-1, dim); q = np.fromfile(queries, 'f4').reshape(-1, dim)

def measure(name, build, search):
    start = time.perf_counter(); index = build(); print('index', name, time.perf_counter() - start)
    for ef in efs:
        best = float('inf')
        for _ in range(repeats):
            start = time.perf_counter(); ids = search(index, ef); best = min(best, time.perf_counter() - start)
        file = f'{out}.{name}.{ef}'; np.ascontiguousarray(ids, dtype='u4').tofile(file)
        print('ef', ef, 1e6 * best / len(q), file)

def build_hnswlib():
    index = hnswlib.Index('l2', dim); index.init_index(len(x), M=16, ef_construction=200)
    index.add_items(x, num_threads=threads); return index
def search_hnswlib(index, ef):
    index.set_ef(ef); return index.knn_query(q, k, num_threads=threads)[0]
measure('hnswlib-' + version('hnswlib'), build_hnswlib, search_hnswlib)

def build_usearch():
    index = Index(ndim=dim, metric='l2sq', dtype='f32', connectivity=16, expansion_add=200)
    index.add(np.arange(len(x)), x, threads=threads); return index
def search_usearch(index, ef):
    index.expansion_search = ef; return index.search(q, k, threads=threads).keys
measure('usearch-' + version('usearch'), build_usearch, search_usearch)

def build_faiss():
    index = faiss.IndexHNSWFlat(dim, 16); index.hnsw.efConstruction = 200; index.add(x); return index
def search_faiss(index, ef):
    index.hnsw.efSearch = ef; return index.search(q, k)[1]
measure('faiss-' + version('faiss-cpu'), build_faiss, search_faiss)
";

fn from_python(python: &Python, case: &Case, truth: &Neighbors) -> Result<Vec<Measured>, String> {
    let base = write_raw("base.f32", case.rows.as_slice())?;
    let queries = write_raw("queries.f32", case.queries.as_slice())?;
    let out = folder()?.join("neighbors");
    let paths = [&base, &queries, &out].map(|path| path.to_string_lossy().into_owned());
    let numbers = [case.rows.dim(), K, REPEATS, rayon::current_num_threads()];
    let numbers: Vec<String> = numbers.iter().chain(&EFS).map(usize::to_string).collect();
    let arguments: Vec<&str> = paths.iter().chain(&numbers).map(String::as_str).collect();
    let printed = python.script(PEERS, &arguments)?;
    let mut measured: Vec<Measured> = Vec::new();
    for line in printed.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |i: usize| words.get(i).and_then(|w| w.parse::<f64>().ok()).unwrap_or(f64::NAN);
        match (words.first(), measured.last_mut()) {
            (Some(&"index"), _) => {
                let name = words[1].replace('-', " ");
                measured.push(Measured { name, build: number(2), curve: vec![], row_bytes: None });
            }
            (Some(&"ef"), Some(peer)) => {
                let bytes = std::fs::read(words[3]).map_err(|e| e.to_string())?;
                let ids: Vec<u32> =
                    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
                std::fs::remove_file(words[3]).map_err(|e| e.to_string())?;
                let share = recall(truth, |i| ids[i * K..][..K].to_vec());
                peer.curve.push((number(1) as usize, share, number(2)));
            }
            _ => return Err(format!("unexpected output of a peer: {line:?}")),
        }
    }
    Ok(measured)
}

#[cfg(feature = "peers")]
mod from_cargo {
    use ann_search_rs::prelude::Verbosity;
    use ann_search_rs::{build_hnsw_index, query_hnsw_index};
    use faer::MatRef;

    use super::{Case, EFS, Instant, K, Measured, Neighbors, REPEATS, recall};

    pub(super) fn ann_search(case: &Case, truth: &Neighbors) -> Result<Option<Measured>, String> {
        let (rows, queries) = (&case.rows, &case.queries);
        let matrix = |x: &'_ nuq_neighbors::Embeddings<'static>| {
            MatRef::from_row_major_slice(x.as_slice(), x.len(), x.dim()).to_owned()
        };
        let (base, queries) = (matrix(rows), matrix(queries));
        let start = Instant::now();
        let index = build_hnsw_index(base.as_ref(), 16, 200, "euclidean", 1, Verbosity::Quiet)
            .map_err(|e| format!("{e:?}"))?;
        let build = start.elapsed().as_secs_f64();
        let mut curve = Vec::new();
        for ef in EFS {
            let (mut best, mut share) = (f64::INFINITY, 0.0);
            for _ in 0..REPEATS {
                let start = Instant::now();
                let (ids, _) = query_hnsw_index(queries.as_ref(), &index, K, ef, false, Verbosity::Quiet)
                    .map_err(|e| format!("{e:?}"))?;
                best = best.min(start.elapsed().as_secs_f64());
                share = recall(truth, |i| ids[i].iter().map(|&id| id as u32).collect());
            }
            curve.push((ef, share, 1e6 * best / truth.len() as f64));
        }
        Ok(Some(Measured { name: "ann-search-rs".to_owned(), build, curve, row_bytes: None }))
    }
}

/// Microseconds per query at a recall, interpolated along the curve; the time at the smallest ef if its recall is already as high.
/// `None` if the recall is not reached.
pub(crate) fn time_at(curve: &Curve, target: f64) -> Option<f64> {
    let above = curve.iter().position(|&(_, share, _)| share >= target)?;
    let (_, high, slow) = curve[above];
    let Some(&(_, low, fast)) = above.checked_sub(1).and_then(|below| curve.get(below)) else {
        return Some(slow);
    };
    Some(fast + (slow - fast) * (target - low) / (high - low))
}

impl Measured {
    fn recall_at(&self, ef: usize) -> f64 {
        self.curve.iter().find(|point| point.0 == ef).map_or(f64::NAN, |point| point.1)
    }
}

fn print(case: &Case, all: &[Measured]) {
    println!("\n{}", case.title);
    println!(
        "{:>16} {:>8} {:>6} {:>14} {:>10} {:>6} {:>10} {:>6} {:>9}",
        "", "build s", "×", "recall, ef 100", "at .95", "×", "at .99", "×", "rows MB"
    );
    let ours = &all[0];
    for index in all {
        let ratio = |time: Option<f64>, of_ours: Option<f64>| match (time, of_ours) {
            (Some(time), Some(of_ours)) => format!("{:.2}", time / of_ours),
            _ => "-".to_owned(),
        };
        let [usual, high] = TARGETS.map(|target| time_at(&index.curve, target));
        let text = |time: Option<f64>| time.map_or("-".to_owned(), |t| format!("{t:.0}"));
        println!(
            "{:>16} {:>8.2} {:>6.2} {:>14.4} {:>10} {:>6} {:>10} {:>6} {:>9}",
            index.name,
            index.build,
            index.build / ours.build,
            index.recall_at(COMMON_EF),
            text(usual),
            ratio(usual, time_at(&ours.curve, TARGETS[0])),
            text(high),
            ratio(high, time_at(&ours.curve, TARGETS[1])),
            index.row_bytes.map_or(String::new(), |bytes| format!("{:.0}", bytes as f64 / 1e6)),
        );
    }
}
