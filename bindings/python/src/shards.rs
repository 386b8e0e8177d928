//! Shards of training rows: files with a part of the rows each. Workers of a cluster write and search them; in a fit, a Python function
//! starts the searches.

use std::path::PathBuf;
use std::sync::Arc;

use numpy::PyReadonlyArray2;
use nuq::nuq_neighbors::{AddTable, Device, Error, HeldShards, ShardSearch};
use nuq::{Embeddings, Neighbors, ShardedRows};
use nuq_io::{ShardFile, open_shards};
use pyo3::prelude::*;

use crate::arrays::{column, embeddings, matrix, row_major};
use crate::errors::Failure;
use crate::work;

/// Name and number of rows of a shard file.
pub(crate) type File = (String, usize);

/// Writes one shard into the folder of a model. Returns the name and the number of rows of its file.
#[pyfunction]
fn write_shard(
    py: Python<'_>,
    folder: PathBuf,
    number: u32,
    x: &Bound<'_, PyAny>,
    normalize: bool,
    n_jobs: Option<usize>,
) -> PyResult<File> {
    let x = embeddings(x, n_jobs)?;
    work::run(py, n_jobs, None, move || {
        let file = nuq_io::write_shard(&folder, number, &x, normalize)?;
        Ok((file.name, file.rows))
    })
}

/// Result of a search: ids and squared distances of neighbors, 12 bytes per neighbor.
type Table<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// The arrays of a [`Table`] that another process sent.
type TableArrays<'py> = (PyReadonlyArray2<'py, u32>, PyReadonlyArray2<'py, f64>);

fn to_python<'py>(py: Python<'py>, table: &Neighbors) -> PyResult<Table<'py>> {
    let ids: Vec<u32> = (0..table.len()).flat_map(|i| table.ids(i)).copied().collect();
    let sq: Vec<f64> = (0..table.len()).flat_map(|i| table.sq_distances(i)).copied().collect();
    Ok((matrix(py, &ids, table.k())?.into_any(), matrix(py, &sq, table.k())?.into_any()))
}

fn from_python((ids, sq_distances): TableArrays<'_>) -> PyResult<Neighbors> {
    let (ids, k) = row_major(&ids)?;
    Ok(Neighbors::new(k, ids.to_vec(), row_major(&sq_distances)?.0.to_vec()).map_err(Failure::from)?)
}

/// Some shards of a model in the memory of a worker. Searches return the ids that the rows have in the whole model.
#[pyclass(frozen, name = "Shards", module = "nuq._nuq")]
pub(crate) struct PyShards {
    held: Arc<HeldShards>,
}

#[pymethods]
impl PyShards {
    /// Opens shards of a folder. `firsts` contains the id of the first row of each shard, and `scale` the divisor of each column; `None`
    /// if the columns are not divided.
    #[new]
    fn new(
        py: Python<'_>,
        folder: PathBuf,
        files: Vec<File>,
        firsts: Vec<u32>,
        scale: Option<Vec<f64>>,
    ) -> PyResult<Self> {
        let held = work::run(py, None, None, move || {
            let rows = opened(&folder, files)?;
            let rows = scale.map_or(Ok(rows.clone()), |scale| rows.scaled(scale))?;
            Ok(HeldShards::new(&rows, &firsts, Device::Auto)?)
        })?;
        Ok(Self { held: Arc::new(held) })
    }

    /// Ids and squared distances of the `k` nearest rows of each query. With `normalize`, the queries are first divided by their norm.
    fn search<'py>(
        &self,
        py: Python<'py>,
        queries: &Bound<'_, PyAny>,
        k: usize,
        normalize: bool,
        n_jobs: Option<usize>,
    ) -> PyResult<Table<'py>> {
        let (queries, held) = (embeddings(queries, n_jobs)?, self.held.clone());
        let table = work::run(py, n_jobs, None, move || {
            let queries = if normalize { queries.l2_normalized() } else { queries };
            Ok(held.search(&queries, k)?)
        })?;
        to_python(py, &table)
    }
}

/// The `k` nearest rows of each query among the rows of several search results.
#[pyfunction]
fn merge_tables<'py>(
    py: Python<'py>,
    tables: Vec<TableArrays<'_>>,
    k: usize,
    n_jobs: Option<usize>,
) -> PyResult<Table<'py>> {
    let tables: Vec<Neighbors> = tables.into_iter().map(from_python).collect::<PyResult<_>>()?;
    let merged = work::run(py, n_jobs, None, move || Ok(HeldShards::merge(&tables, k)?))?;
    to_python(py, &merged)
}

/// The parts of a manifest: the model without rows, the shard files, and the divisor of each column.
type ManifestParts = (Py<PyAny>, Vec<File>, Option<Vec<f64>>);

/// Opens the manifest of a sharded model without its shards.
#[pyfunction]
fn load_manifest(py: Python<'_>, path: PathBuf) -> PyResult<ManifestParts> {
    let manifest = work::run(py, None, None, move || Ok(nuq_io::open_manifest(&path)?))?;
    let files = manifest.shards.into_iter().map(|shard| (shard.name, shard.rows)).collect();
    Ok((crate::model::opened(py, manifest.model)?, files, manifest.scale))
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

/// A Python function that searches all shards. Its arguments are the queries, the number of neighbors, and the divisor of each column or
/// `None`. Its result is an iterable with one pair per shard, in any order: the number of the shard, and a [`Table`] in which the ids of
/// the shard begin with 0.
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
        // The interpreter lock is held only while a result is received. The results are merged without it, because the merge uses the
        // thread pool.
        let next = |py: Python<'_>, results: &Py<PyAny>| -> PyResult<Option<(usize, Neighbors)>> {
            let Some(result) = results.bind(py).try_iter()?.next() else { return Ok(None) };
            let (number, table): (usize, TableArrays<'_>) = result?.extract()?;
            Ok(Some((number, from_python(table)?)))
        };
        let results = Python::attach(start).map_err(failed)?;
        while let Some((number, table)) = Python::attach(|py| next(py, &results)).map_err(failed)? {
            add(number, &table)?;
        }
        Ok(())
    }
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyShards>()?;
    module.add_function(wrap_pyfunction!(write_shard, module)?)?;
    module.add_function(wrap_pyfunction!(merge_tables, module)?)?;
    module.add_function(wrap_pyfunction!(load_manifest, module)?)
}
