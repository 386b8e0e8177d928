//! Exact search against `IndexFlatL2` of faiss-cpu, and with few columns against the k-d trees of scipy and scikit-learn.

use std::path::{Path, PathBuf};
use std::time::Instant;

use nuq_neighbors::{Embeddings, ExactIndex, IndexRequest, NeighborIndex, Neighbors, Pruning, Reason};

use crate::data::{Source, normal, uniform};
use crate::peak::fma_gflops;
use crate::peers::{Python, write_raw};
use crate::results::array;

const K: usize = 20;
const QUERIES: usize = 10_000;
/// Queries that are searched one at a time.
const SINGLE_QUERIES: u32 = 300;
/// A search is repeated at least this often, and short searches until they took a second in total, because their times vary more. No further
/// repetition is started after ten seconds.
const REPEATS: usize = 3;
const MIN_SECONDS: f64 = 1.0;
const MAX_SECONDS: f64 = 10.0;

struct Set {
    title: String,
    rows: Embeddings<'static>,
    queries: Embeddings<'static>,
}

/// Times of one set.
struct Measured {
    /// Seconds of the first search.
    first: f64,
    /// Seconds of the fastest of the later searches.
    best: f64,
    neighbors: Neighbors,
}

/// Measures all sets, or only the sets of many columns whose title contains `title`.
pub(crate) fn run(title: Option<&str>) -> Result<(), String> {
    let mut python = Python::with(&["numpy", "faiss-cpu", "scipy", "scikit-learn"])?;
    println!("Exact search, k = {K}, {} threads", rayon::current_num_threads());
    println!(
        "OpenBLAS kernels of faiss, the fastest on this machine: {}",
        python.choose_blas_core(FAISS_TRIAL)?
    );
    many_columns(&python, title.unwrap_or(""))?;
    if title.is_some() {
        return Ok(());
    }
    single_queries()?;
    few_columns(&python)?;
    leave_one_out()?;
    estimates()
}

fn clusters(rows: usize, dim: usize, classes: usize, latent: usize, noise: f32) -> Set {
    let source = Source::with_latent(latent, dim, classes, 1).noise(noise);
    let title = format!("{classes} clusters of {latent} dimensions, noise {noise}");
    Set { title, rows: source.draw(rows, 2).0, queries: source.draw(QUERIES, 3).0 }
}

fn uniform_set(rows: usize, dim: usize) -> Set {
    Set { title: "uniform".to_owned(), rows: uniform(rows, dim, 2), queries: uniform(QUERIES, dim, 3) }
}

fn noise(rows: usize, dim: usize) -> Set {
    Set { title: "Gaussian noise".to_owned(), rows: normal(rows, dim, 2), queries: normal(QUERIES, dim, 3) }
}

/// Queries whose norm is many times the norm of the rows. Embeddings of inputs of another kind can have such norms.
fn far_queries(rows: usize, dim: usize) -> Set {
    let near = clusters(rows, dim, 10, 32, 0.1);
    let far: Vec<f32> = normal(QUERIES, dim, 5).as_slice().iter().map(|value| 100.0 * value).collect();
    let queries = Embeddings::new(far, dim).expect("finite values");
    Set { title: "10 clusters of 32 dimensions, far queries".to_owned(), queries, ..near }
}

fn cifar10(data: &Path) -> Result<Set, String> {
    let read = |name: &str| array(&data.join("cifar10-resnet18").join(name), "embeddings");
    let title = "CIFAR-10 by a ResNet-18".to_owned();
    Ok(Set { title, rows: read("train.npz")?, queries: read("test.npz")? })
}

/// The folder of real embeddings.
fn data_folder() -> Option<PathBuf> {
    std::env::var_os("NUQ_DATA").map(|data| Path::new(&data).join("data"))
}

/// Functions that read or draw the sets. They are called one after the other, because all sets together need too much memory.
fn sets_of_many_columns() -> Vec<Box<dyn Fn() -> Result<Set, String>>> {
    let mut sets: Vec<Box<dyn Fn() -> Result<Set, String>>> = Vec::new();
    match data_folder() {
        Some(data) => {
            let text = data.join("text/cola_1.npz");
            sets.push(Box::new(move || cifar10(&data)));
            sets.push(Box::new(move || {
                let title = "CoLA by MiniLM".to_owned();
                Ok(Set { title, rows: array(&text, "train_feat")?, queries: array(&text, "test_feat")? })
            }));
        }
        None => println!("real embeddings: skipped, NUQ_DATA is not set"),
    }
    sets.push(Box::new(|| Ok(clusters(50_000, 512, 100, 32, 0.1))));
    sets.push(Box::new(|| Ok(clusters(50_000, 512, 100, 32, 0.5))));
    sets.push(Box::new(|| Ok(clusters(50_000, 2048, 1000, 64, 0.5))));
    sets.push(Box::new(|| Ok(clusters(200_000, 128, 100, 32, 0.1))));
    sets.push(Box::new(|| Ok(clusters(40_000, 50, 100, 32, 0.1))));
    sets.push(Box::new(|| Ok(noise(50_000, 512))));
    sets.push(Box::new(|| Ok(far_queries(10_000, 2048))));
    sets
}

fn many_columns(python: &Python, title_part: &str) -> Result<(), String> {
    let peak = fma_gflops();
    let text = peak.map_or("unknown".to_owned(), |peak| format!("{peak:.0} GFLOP/s"));
    println!("multiply-add peak of this machine: {text}");
    println!(
        "\n{:<42} {:>7} {:>5} {:>7} {:>7} {:>7} {:>10} {:>7} {:>7} {:>7}  agreement",
        "", "rows", "dim", "queries", "first s", "nuq s", "all rows s", "of peak", "faiss s", "× faiss"
    );
    for set in sets_of_many_columns() {
        let Set { title, rows, queries } = set()?;
        if !title.contains(title_part) {
            continue;
        }
        let all = measure(&rows, &queries, Pruning::Off)?;
        let ours = measure(&rows, &queries, Pruning::Auto)?;
        let (faiss, ids) = peer(python, FAISS, &rows, &queries)?;
        let gflops = 2.0 * (rows.len() * rows.dim() * queries.len()) as f64 / all.best / 1e9;
        println!(
            "{title:<42} {:>7} {:>5} {:>7} {:>7.3} {:>7.3} {:>10.3} {:>7} {:>7.3} {:>7.2}  {:.4}",
            rows.len(),
            rows.dim(),
            queries.len(),
            ours.first,
            ours.best,
            all.best,
            peak.map_or("-".to_owned(), |peak| format!("{:.0} %", 100.0 * gflops / peak)),
            faiss[0],
            faiss[0] / ours.best,
            agreement(&ours.neighbors, &ids),
        );
    }
    Ok(())
}

fn single_queries() -> Result<(), String> {
    println!(
        "\nOne query at a time\n{:<42} {:>7} {:>5} {:>7} {:>11} {:>6}",
        "", "rows", "dim", "nuq µs", "all rows µs", "×"
    );
    for set in [clusters(50_000, 512, 100, 32, 0.1), clusters(50_000, 512, 100, 32, 0.5)] {
        let Set { title, rows, queries } = set;
        let time = |pruning| -> Result<f64, String> {
            let index = ExactIndex::new(&rows).map_err(|e| e.to_string())?.pruning(pruning);
            // This search of all queries prepares the index and is not timed.
            index.search(&queries, K).map_err(|e| e.to_string())?;
            let start = Instant::now();
            for query in 0..SINGLE_QUERIES {
                index.search(&queries.gather(&[query]), K).map_err(|e| e.to_string())?;
            }
            Ok(1e6 * start.elapsed().as_secs_f64() / f64::from(SINGLE_QUERIES))
        };
        let (ours, all) = (time(Pruning::Auto)?, time(Pruning::Off)?);
        let (len, dim) = (rows.len(), rows.dim());
        println!("{title:<42} {len:>7} {dim:>5} {ours:>7.0} {all:>11.0} {:>6.2}", all / ours);
    }
    Ok(())
}

fn few_columns(python: &Python) -> Result<(), String> {
    println!(
        "\n{:<42} {:>7} {:>5} {:>7} {:>7} {:>7} {:>11} {:>9} {:>9} {:>10} {:>10}  agreement",
        "Few columns",
        "rows",
        "dim",
        "queries",
        "first s",
        "nuq s",
        "scipy build",
        "scipy s",
        "× scipy",
        "sklearn s",
        "× sklearn"
    );
    for dim in [2, 8] {
        for set in [uniform_set(1_000_000, dim), clusters(1_000_000, dim, 100, dim, 0.05)] {
            let Set { title, rows, queries } = set;
            let ours = measure(&rows, &queries, Pruning::Auto)?;
            let (times, ids) = peer(python, TREES, &rows, &queries)?;
            let [build, scipy, sklearn] = times[..] else { return Err("three times expected".to_owned()) };
            println!(
                "{title:<42} {:>7} {:>5} {:>7} {:>7.3} {:>7.3} {build:>11.3} {scipy:>9.3} {:>9.2} {sklearn:>10.3} {:>10.2}  {:.4}",
                rows.len(),
                rows.dim(),
                queries.len(),
                ours.first,
                ours.best,
                scipy / ours.best,
                sklearn / ours.best,
                agreement(&ours.neighbors, &ids),
            );
        }
    }
    Ok(())
}

fn leave_one_out() -> Result<(), String> {
    println!(
        "\n{:<43} {:>7} {:>5} {:>7}",
        "Leave-one-out of all rows, with preparation", "rows", "dim", "nuq s"
    );
    let sets = [("uniform".to_owned(), uniform(1_000_000, 8, 2)), {
        let set = clusters(1_000_000, 8, 100, 8, 0.05);
        (set.title, set.rows)
    }];
    for (title, rows) in sets {
        let start = Instant::now();
        let index = ExactIndex::new(&rows).map_err(|e| e.to_string())?;
        index.leave_one_out(&index.rows().live_ids(), K).map_err(|e| e.to_string())?;
        println!("{title:<43} {:>7} {:>5} {:>7.2}", rows.len(), rows.dim(), start.elapsed().as_secs_f64());
    }
    Ok(())
}

/// The estimates by which `index = auto` chooses between exact search and a graph, and measured times.
fn estimates() -> Result<(), String> {
    println!(
        "\n{:<42} {:>7} {:>5} {:>7} {:>10} {:>10} {:>6}",
        "First search of one core, with preparation",
        "rows",
        "dim",
        "queries",
        "estimate s",
        "measured s",
        "ratio"
    );
    let few = [2, 8].into_iter().flat_map(|dim| [(100_000, dim), (1_000_000, dim)]);
    for (rows, dim) in few {
        print_estimate(&uniform_set(rows, dim))?;
        print_estimate(&clusters(rows, dim, 100, dim, 0.05))?;
    }
    if let Some(data) = data_folder() {
        print_estimate(&cifar10(&data)?)?;
    }
    print_estimate(&noise(50_000, 512))
}

fn print_estimate(set: &Set) -> Result<(), String> {
    let Set { title, rows, queries } = set;
    let request = IndexRequest { queries: queries.len() as u64, n_neighbors: K, ..IndexRequest::default() };
    let Reason::LowerCost { exact_seconds, .. } = request.choose(rows.len(), rows.dim()).reason else {
        return Err("the choice has no estimates".to_owned());
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().map_err(|e| e.to_string())?;
    let start = Instant::now();
    let index = ExactIndex::new(rows).map_err(|e| e.to_string())?;
    pool.install(|| index.search(queries, K)).map_err(|e| e.to_string())?;
    let measured = start.elapsed().as_secs_f64();
    println!(
        "{title:<42} {:>7} {:>5} {:>7} {exact_seconds:>10.3} {measured:>10.3} {:>6.2}",
        rows.len(),
        rows.dim(),
        queries.len(),
        exact_seconds / measured,
    );
    Ok(())
}

fn measure(rows: &Embeddings<'_>, queries: &Embeddings<'_>, pruning: Pruning) -> Result<Measured, String> {
    let index = ExactIndex::new(rows).map_err(|e| e.to_string())?.pruning(pruning);
    let search = || -> Result<(f64, Neighbors), String> {
        let start = Instant::now();
        let neighbors = index.search(queries, K).map_err(|e| e.to_string())?;
        Ok((start.elapsed().as_secs_f64(), neighbors))
    };
    let (first, neighbors) = search()?;
    let mut measured = Measured { first, best: f64::INFINITY, neighbors };
    let (mut runs, mut total) = (0, 0.0);
    while (runs < REPEATS || total < MIN_SECONDS) && total < MAX_SECONDS {
        let (seconds, neighbors) = search()?;
        measured = Measured { first, best: measured.best.min(seconds), neighbors };
        (runs, total) = (runs + 1, total + seconds);
    }
    Ok(measured)
}

const LOAD: &str = r"
import sys, time, numpy as np
base, queries, dim, k, repeats, least, most, threads = *sys.argv[1:3], *map(int, sys.argv[3:9])
x = np.fromfile(base, 'f4').reshape(-1, dim); q = np.fromfile(queries, 'f4').reshape(-1, dim)

def best(search):
    times = []
    while (len(times) < repeats or sum(times) < least) and sum(times) < most:
        start = time.perf_counter(); ids = search(); times.append(time.perf_counter() - start)
    return min(times), ids
";

const FAISS: &str = r"
import faiss
index = faiss.IndexFlatL2(dim); index.add(x)
seconds, ids = best(lambda: index.search(q, k)[1])
ids.astype('u4').tofile(base + '.ids')
print(seconds)
";

/// Prints the time of a search in random rows.
const FAISS_TRIAL: &str = r"
import time, faiss, numpy as np
x = np.random.default_rng(0).standard_normal((20000, 512), dtype='f4')
index = faiss.IndexFlatL2(512); index.add(x)
def seconds():
    start = time.perf_counter(); index.search(x[:2000], 20); return time.perf_counter() - start
print(min(seconds() for _ in range(3)))
";

const TREES: &str = r"
from scipy.spatial import cKDTree
from sklearn.neighbors import NearestNeighbors
start = time.perf_counter(); tree = cKDTree(x); build = time.perf_counter() - start
seconds, ids = best(lambda: tree.query(q, k, workers=threads)[1])
ids.astype('u4').tofile(base + '.ids')
other = NearestNeighbors(n_neighbors=k, algorithm='kd_tree', n_jobs=threads).fit(x)
print(build, seconds, best(lambda: other.kneighbors(q, return_distance=False))[0])
";

/// Runs the script of a peer. Returns the printed times and the ids of the neighbors.
fn peer(
    python: &Python,
    script: &str,
    rows: &Embeddings<'_>,
    queries: &Embeddings<'_>,
) -> Result<(Vec<f64>, Vec<u32>), String> {
    let base = write_raw("base.f32", rows.as_slice())?.to_string_lossy().into_owned();
    let queries = write_raw("queries.f32", queries.as_slice())?.to_string_lossy().into_owned();
    let seconds = [MIN_SECONDS as usize, MAX_SECONDS as usize];
    let numbers = [rows.dim(), K, REPEATS, seconds[0], seconds[1], rayon::current_num_threads()];
    let numbers = numbers.map(|n| n.to_string());
    let arguments: Vec<&str> = [&base, &queries].into_iter().chain(&numbers).map(String::as_str).collect();
    let printed = python.script(&format!("{LOAD}{script}"), &arguments)?;
    let times: Option<Vec<f64>> = printed.split_whitespace().map(|word| word.parse().ok()).collect();
    let ids = std::fs::read(format!("{base}.ids")).map_err(|e| e.to_string())?;
    let ids = ids.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    Ok((times.ok_or("a peer printed no times")?, ids))
}

/// The share of the ids of a peer that are among our neighbors.
fn agreement(neighbors: &Neighbors, ids: &[u32]) -> f64 {
    let rows = ids.chunks_exact(K).enumerate();
    let common = rows.map(|(i, row)| row.iter().filter(|id| neighbors.ids(i).contains(id)).count());
    common.sum::<usize>() as f64 / ids.len() as f64
}
