//! A graph over the rows, compared with a graph over the projections of the rows onto their first principal axes.
//!
//! A search in the projected graph finds candidates, whose distances are then measured in all columns. The candidates of a row beyond K
//! compensate for the error of the projection. Exact search of the same rows is measured, too.

use std::time::Instant;

use nuq_neighbors::{Embeddings, ExactIndex, HnswIndex, HnswParams, NeighborIndex, Neighbors};

use crate::data::Source;
use crate::graph::{Curve, K, QUERIES, REPEATS, TARGETS, recall, time_at};
use crate::peers::{Python, read_raw, write_raw};

const AXES: [usize; 2] = [40, 64];
/// Candidates of a query in the projected graph.
const CANDIDATES: [usize; 3] = [30, 50, 80];
const EFS: [usize; 7] = [40, 60, 100, 150, 200, 300, 400];

pub(crate) fn run(sizes: &[&str]) -> Result<(), String> {
    let sizes: Vec<usize> =
        sizes.iter().map(|size| size.parse().map_err(|_| size.to_string())).collect::<Result<_, _>>()?;
    let sizes = match sizes[..] {
        [] => vec![(50_000, 512), (1_000_000, 128)],
        [rows, dim] => vec![(rows, dim)],
        _ => return Err("give both numbers, ROWS and COLUMNS".to_owned()),
    };
    let python = Python::with(&["numpy"])?;
    println!(
        "Graph over rows and over their first principal axes, k = {K}, {} threads; microseconds per query at a recall",
        rayon::current_num_threads()
    );
    sizes.into_iter().try_for_each(|(rows, dim)| measure(&python, rows, dim))
}

fn measure(python: &Python, len: usize, dim: usize) -> Result<(), String> {
    let source = Source::new(dim, 100, 1).spread(2.0);
    let (rows, queries) = (source.draw(len, 2).0, source.draw(QUERIES, 3).0);
    let exact = ExactIndex::new(&rows).map_err(|e| e.to_string())?;
    let truth = exact.search(&queries, K).map_err(|e| e.to_string())?;
    // The first search has prepared the index.
    let (exact_micros, _) = timed(|| exact.search(&queries, K).map_err(|e| e.to_string()))?;
    println!("\n{len} × {dim}, 100 clusters of 32 dimensions, with noise; exact search {exact_micros:.0} µs");
    println!("{:>16} {:>8} {:>12} {:>8} {:>8}", "", "build s", "candidates", "at .95", "at .99");

    let (seconds, mut graph) = built(&rows)?;
    let of_rows = curve(&mut graph, |graph| graph.search(&queries, K).map_err(|e| e.to_string()), &truth)?;
    print("rows", seconds, K, &of_rows);
    for axes in AXES.into_iter().filter(|axes| *axes < dim) {
        let [rows_on_axes, queries_on_axes] = projected(python, &rows, &queries, axes)?;
        let (seconds, mut graph) = built(&rows_on_axes)?;
        for count in CANDIDATES {
            let search = |graph: &HnswIndex<'_>| {
                let near = graph.search(&queries_on_axes, count).map_err(|e| e.to_string())?;
                let ids: Vec<u32> = (0..near.len()).flat_map(|i| near.ids(i)).copied().collect();
                exact.rows().measure(&queries, count, &ids).map_err(|e| e.to_string())
            };
            let of_axes = curve(&mut graph, search, &truth)?;
            print(&format!("{axes} axes"), seconds, count, &of_axes);
        }
    }
    Ok(())
}

fn built<'a>(rows: &Embeddings<'a>) -> Result<(f64, HnswIndex<'a>), String> {
    let start = Instant::now();
    let index = HnswIndex::new(rows, HnswParams::default()).map_err(|e| e.to_string())?;
    Ok((start.elapsed().as_secs_f64(), index))
}

/// The recall and the time of searches with each value of ef. Rows after the first K of a result are ignored.
fn curve(
    graph: &mut HnswIndex<'_>,
    search: impl Fn(&HnswIndex<'_>) -> Result<Neighbors, String>,
    truth: &Neighbors,
) -> Result<Curve, String> {
    EFS.into_iter()
        .map(|ef| {
            graph.set_ef_search(ef);
            let (micros, found) = timed(|| search(graph))?;
            Ok((ef, recall(truth, |i| found.ids(i)[..K].to_vec()), micros))
        })
        .collect()
}

/// The shortest time of several searches in microseconds per query, and the result.
fn timed(search: impl Fn() -> Result<Neighbors, String>) -> Result<(f64, Neighbors), String> {
    let mut best = f64::INFINITY;
    let mut found = search()?;
    for _ in 0..REPEATS {
        let start = Instant::now();
        found = search()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok((1e6 * best / found.len() as f64, found))
}

fn print(name: &str, seconds: f64, candidates: usize, curve: &Curve) {
    let text = |target| time_at(curve, target).map_or("-".to_owned(), |micros| format!("{micros:.0}"));
    let [usual, high] = TARGETS.map(text);
    println!("{name:>16} {seconds:>8.2} {candidates:>12} {usual:>8} {high:>8}");
}

const PROJECT: &str = r"
import sys, numpy as np
base, queries, dim, axes = *sys.argv[1:3], *map(int, sys.argv[3:5])
x = np.fromfile(base, 'f4').reshape(-1, dim); q = np.fromfile(queries, 'f4').reshape(-1, dim)
center = x[:20000].mean(0)
basis = np.linalg.eigh(np.cov(x[:20000].T.astype('f8')))[1][:, ::-1][:, :axes].astype('f4')
for name, rows in [(base, x), (queries, q)]:
    ((rows - center) @ basis).tofile(name + '.axes')
";

/// The projections of rows and queries onto the first principal axes of the rows.
fn projected(
    python: &Python,
    rows: &Embeddings<'_>,
    queries: &Embeddings<'_>,
    axes: usize,
) -> Result<[Embeddings<'static>; 2], String> {
    let base = write_raw("base.f32", rows.as_slice())?;
    let queries = write_raw("queries.f32", queries.as_slice())?;
    let paths = [&base, &queries].map(|path| path.to_string_lossy().into_owned());
    let [dim, count] = [rows.dim(), axes].map(|n| n.to_string());
    python.script(PROJECT, &[&paths[0], &paths[1], &dim, &count])?;
    let read = |path: &String| {
        Embeddings::new(read_raw(format!("{path}.axes").as_ref())?, axes).map_err(|e| e.to_string())
    };
    Ok([read(&paths[0])?, read(&paths[1])?])
}
