//! Shards of training rows: files that workers of a cluster write and search, and a search by a Python function.

use std::path::PathBuf;
use std::sync::Arc;

use nuq::nuq_neighbors::{AddTable, Device, Error, NeighborIndex, ShardSearch, ShardedIndex};
use nuq::{Embeddings, Neighbors, ShardedRows};
use nuq_io::{ShardFile, open_shards};
use pyo3::prelude::*;

use crate::arrays::{NeighborArrays, column, embeddings, matrix, neighbor_table};
use crate::errors::Failure;
use crate::work;

/// Name and number of rows of a shard file.
pub(crate) type File = (String, usize);

/// Writes one shard into the folder of a model. Returns its file.
#[pyfunction]
fn write_shard(
    py: Python<'_>,
    folder: PathBuf,
    number: u32,
    x: &Bound<'_, PyAny>,
    normalize: bool,
    n_jobs: Option<usize>,
) -> PyResult<File> {
    let x = embeddings(x)?;
    work::run(py, n_jobs, None, move || {
        let file = nuq_io::write_shard(&folder, number, &x, normalize)?;
        Ok((file.name, file.rows))
    })
}

/// Ids and squared distances of the `k` nearest rows of a shard, for each query. The ids begin with 0.
#[pyfunction]
fn search_shard<'py>(
    py: Python<'py>,
    folder: PathBuf,
    file: File,
    queries: &Bound<'_, PyAny>,
    k: usize,
    scale: Option<Vec<f64>>,
    n_jobs: Option<usize>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let queries = embeddings(queries)?;
    let table = work::run(py, n_jobs, None, move || {
        let rows = opened(&folder, vec![file])?;
        let rows = scale.map_or(Ok(rows.clone()), |scale| rows.scaled(scale))?;
        Ok(ShardedIndex::new(rows, Device::Auto).search(&queries, k)?)
    })?;
    let ids: Vec<i64> = (0..table.len()).flat_map(|i| table.ids(i)).map(|&id| id.into()).collect();
    let sq: Vec<f64> = (0..table.len()).flat_map(|i| table.sq_distances(i)).copied().collect();
    Ok((matrix(py, &ids, table.k())?.into_any(), matrix(py, &sq, table.k())?.into_any()))
}

fn opened(folder: &std::path::Path, files: Vec<File>) -> Result<ShardedRows, Failure> {
    let files: Vec<ShardFile> = files.into_iter().map(|(name, rows)| ShardFile { name, rows }).collect();
    Ok(open_shards(folder, &files)?)
}

/// The shards of a fit. They are searched by the function `search` if there is one, and by this process otherwise.
pub(crate) fn training_rows(
    folder: &std::path::Path,
    files: Vec<File>,
    search: Option<Py<PyAny>>,
) -> Result<ShardedRows, Failure> {
    let rows = opened(folder, files)?;
    Ok(match search {
        Some(search) => rows.searched_by(Arc::new(PythonSearch(search))),
        None => rows,
    })
}

/// A Python function that searches all shards. Its arguments are the queries, the number of neighbors and the divisors of the columns or
/// `None`. Its result is an iterable, in any order, of the number of a shard and the result of [`search_shard`].
struct PythonSearch(Py<PyAny>);

impl ShardSearch for PythonSearch {
    fn search(
        &self,
        queries: &Embeddings<'_>,
        k: usize,
        scale: Option<&[f64]>,
        add: &mut AddTable<'_>,
    ) -> Result<(), Error> {
        let failed = |error: PyErr| Error::ShardSearch { problem: error.to_string() };
        let start = |py: Python<'_>| -> PyResult<Py<PyAny>> {
            let queries = matrix(py, queries.as_slice(), queries.dim())?;
            let scale = scale.map(|scale| column(py, scale));
            Ok(self.0.call1(py, (queries, k, scale))?.bind(py).try_iter()?.into_any().unbind())
        };
        // Tables are merged without the interpreter lock: the thread pool works on them.
        let next = |py: Python<'_>, results: &Py<PyAny>| -> PyResult<Option<(usize, Neighbors)>> {
            let Some(result) = results.bind(py).try_iter()?.next() else { return Ok(None) };
            let (number, table): (usize, NeighborArrays<'_>) = result?.extract()?;
            Ok(Some((number, neighbor_table(table)?)))
        };
        let results = Python::attach(start).map_err(failed)?;
        while let Some((number, table)) = Python::attach(|py| next(py, &results)).map_err(failed)? {
            add(number, &table)?;
        }
        Ok(())
    }
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(write_shard, module)?)?;
    module.add_function(wrap_pyfunction!(search_shard, module)?)
}
