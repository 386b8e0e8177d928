//! Methods that classifiers and regressors share, and functions that open model files and exchange folders.

use std::io::Write;
use std::path::PathBuf;

use nuq::{Device, Model};
use nuq_io::Contents;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::classifier::PyClassifier;
use crate::errors::Failure;
use crate::params::parse;
use crate::regressor::PyRegressor;
use crate::shared::Shared;
use crate::work::without_gil;
use crate::{baselines, work};

/// Methods that both kinds of models share.
macro_rules! common_methods {
    ($class:ident, $save:path) => {
        #[pymethods]
        impl $class {
            /// Distances and ids of the nearest training rows. Without `x`, the queries are the training rows, and the
            /// neighbors of each are searched among the other training rows.
            fn kneighbors<'py>(
                &self,
                py: Python<'py>,
                x: Option<&Bound<'_, PyAny>>,
                k: usize,
                n_jobs: Option<usize>,
            ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
                let x = x.map(|x| $crate::arrays::embeddings(x, n_jobs)).transpose()?;
                let neighbors = self.model.query(py, n_jobs, move |model| match x {
                    Some(x) => Ok(model.neighbors_of(&x, k)?),
                    None => Ok(model.index().leave_one_out(&model.index().rows().live_ids(), k)?),
                })?;
                let (rows, k) = (neighbors.len(), neighbors.k());
                let distances: Vec<f64> =
                    (0..rows).flat_map(|i| neighbors.sq_distances(i)).map(|sq| sq.sqrt()).collect();
                let ids: Vec<i64> = (0..rows).flat_map(|i| neighbors.ids(i)).map(|&id| id.into()).collect();
                let (distances, ids) =
                    ($crate::arrays::matrix(py, &distances, k)?, $crate::arrays::matrix(py, &ids, k)?);
                Ok((distances.into_any(), ids.into_any()))
            }

            /// Number of rows of `x` that equal a training row, exactly or up to the rounding of numbers in a text file.
            fn equal_training_rows(
                &self,
                py: Python<'_>,
                x: &Bound<'_, PyAny>,
                n_jobs: Option<usize>,
            ) -> PyResult<usize> {
                let x = $crate::arrays::embeddings(x, n_jobs)?;
                self.model.query(py, n_jobs, move |model| {
                    let neighbors = model.neighbors_of(&x, model.n_neighbors())?;
                    Ok(model.equal_training_rows(&x, &neighbors))
                })
            }

            /// Positions of rows of `x` to label next. `uncertainty` has one value per row.
            fn suggest<'py>(
                &self,
                py: Python<'py>,
                x: &Bound<'_, PyAny>,
                uncertainty: numpy::PyReadonlyArray1<'_, f64>,
                count: usize,
                n_jobs: Option<usize>,
            ) -> PyResult<Bound<'py, PyAny>> {
                let x = $crate::arrays::embeddings(x, n_jobs)?;
                let uncertainty = uncertainty.as_slice()?.to_vec();
                let chosen = self
                    .model
                    .query(py, n_jobs, move |model| Ok(model.suggest(&x, &uncertainty, count)?))?;
                let chosen: Vec<i64> = chosen.into_iter().map(|row| row as i64).collect();
                Ok($crate::arrays::column(py, &chosen).into_any())
            }

            /// Ids of the training rows in ascending order.
            fn ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                let ids = self.model.read(py)?.index().rows().live_ids();
                let ids: Vec<i64> = ids.into_iter().map(i64::from).collect();
                Ok($crate::arrays::column(py, &ids).into_any())
            }

            /// The ids that the next `n` inserted rows get: those of removed rows first, then new ids.
            fn next_ids<'py>(&self, py: Python<'py>, n: usize) -> PyResult<Bound<'py, PyAny>> {
                let model = self.model.read(py)?;
                let rows = model.index().rows();
                let bound = rows.id_bound() as i64;
                let has_removed = rows.len() < rows.id_bound();
                let removed = if has_removed { rows.parts().removed } else { vec![] };
                let ids: Vec<i64> = removed.into_iter().map(i64::from).chain(bound..).take(n).collect();
                Ok($crate::arrays::column(py, &ids).into_any())
            }

            /// Squared distances from each row of `x` to `k` training rows. `ids` contains `k` ids per row of `x`, and the distances
            /// are in the same order.
            fn measure<'py>(
                &self,
                py: Python<'py>,
                x: &Bound<'_, PyAny>,
                k: usize,
                ids: Vec<u32>,
                n_jobs: Option<usize>,
            ) -> PyResult<Bound<'py, PyAny>> {
                let x = $crate::arrays::embeddings(x, n_jobs)?;
                let distances = self.model.query(py, n_jobs, move |model| {
                    Ok($crate::arrays::in_order_of(&ids, &model.measure(&x, k, &ids)?))
                })?;
                Ok($crate::arrays::matrix(py, &distances, k)?.into_any())
            }

            /// The stored training rows with these ids. They have norm one if the model normalizes rows, and are not divided by bandwidths
            /// per column. An unknown id is an error.
            #[pyo3(signature = (ids, n_jobs=None))]
            fn training_rows<'py>(
                &self,
                py: Python<'py>,
                ids: Vec<u32>,
                n_jobs: Option<usize>,
            ) -> PyResult<Bound<'py, PyAny>> {
                let rows = self.model.query(py, n_jobs, move |model| {
                    let rows = model.index().rows();
                    rows.check_ids(&ids, 1)?;
                    Ok(rows.gather(&ids)?)
                })?;
                Ok($crate::arrays::matrix(py, rows.as_slice(), rows.dim())?.into_any())
            }

            /// Names of the columns of the training rows.
            fn column_names(&self, py: Python<'_>) -> PyResult<Option<Vec<String>>> {
                Ok(self.model.read(py)?.column_names().map(<[String]>::to_vec))
            }

            /// Description of the difference between `names` and the column names of the training rows; `None` if the names are
            /// accepted.
            fn different_names(&self, py: Python<'_>, names: Vec<String>) -> PyResult<Option<String>> {
                Ok(match self.model.read(py)?.check_column_names(&names) {
                    Err(nuq::Error::ColumnNames(difference)) => Some(difference.to_string()),
                    _ => None,
                })
            }

            /// Removes rows by id.
            fn remove(&self, py: Python<'_>, ids: Vec<u32>, n_jobs: Option<usize>) -> PyResult<()> {
                self.model.update(py, n_jobs, move |model| Ok(model.remove(&ids)?))
            }

            /// Writes the model file, with or without the training rows. Before that, the arrays of the file from which the model was
            /// opened are verified, and for a file without rows the Gaussians of the density are fitted if necessary. Both steps use
            /// `n_jobs` threads.
            #[pyo3(signature = (path, rows=true, n_jobs=None))]
            fn save(
                &self,
                py: Python<'_>,
                path: std::path::PathBuf,
                rows: bool,
                n_jobs: Option<usize>,
            ) -> PyResult<()> {
                let rows = if rows { nuq_io::Rows::Stored } else { nuq_io::Rows::Absent };
                self.model.query(py, n_jobs, move |model| Ok($save(model, &path, rows)?))
            }

            /// Stores a threshold under a name.
            fn set_threshold(
                &self,
                py: Python<'_>,
                name: String,
                threshold: &$crate::calibrate::PyThreshold,
            ) -> PyResult<()> {
                let (threshold, scores) = (threshold.inner, threshold.scores.clone());
                self.model.update(py, Some(1), move |model| {
                    match scores {
                        Some(scores) => model.rules_mut().set_threshold(&name, threshold, &scores)?,
                        None => model.set_threshold(&name, threshold),
                    };
                    Ok(())
                })
            }

            /// Removes a threshold. Returns whether there was one with this name.
            fn remove_threshold(&self, py: Python<'_>, name: String) -> PyResult<bool> {
                self.model.update(py, Some(1), move |model| Ok(model.remove_threshold(&name).is_some()))
            }

            /// Stored thresholds by name.
            fn thresholds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyDict>> {
                let values = pyo3::types::PyDict::new(py);
                for (name, threshold) in self.model.read(py)?.thresholds() {
                    values
                        .set_item(name, $crate::calibrate::PyThreshold { inner: *threshold, scores: None })?;
                }
                Ok(values)
            }

            /// Bandwidth: a number, or one per dimension or per training row.
            fn bandwidth<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                Ok(match self.model.read(py)?.bandwidth() {
                    nuq::Bandwidth::Scalar(h) => h.into_pyobject(py)?.into_any(),
                    nuq::Bandwidth::PerDimension(many) | nuq::Bandwidth::PerPoint(many) => {
                        $crate::arrays::column(py, many).into_any()
                    }
                })
            }

            /// Values that the fit has determined.
            fn learned<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyDict>> {
                let model = self.model.read(py)?;
                let values = pyo3::types::PyDict::new(py);
                values.set_item("density_bandwidth", model.density_bandwidth())?;
                values.set_item("dimension", model.dimension())?;
                values.set_item("effective_neighbors", model.scale().sample_size())?;
                values.set_item("density", $crate::params::density_text(&*model))?;
                values.set_item("index", model.index().describe().to_string())?;
                values.set_item("index_reason", model.index_choice().reason.to_string())?;
                values.set_item("device", model.index().device().unwrap_or_else(|| "cpu".to_owned()))?;
                values.set_item("n_rows", model.index().len())?;
                values.set_item("has_rows", model.index().rows().is_stored())?;
                values.set_item("n_columns", model.index().dim())?;
                values.set_item("n_neighbors", model.n_neighbors())?;
                Ok(values)
            }

            /// Parameters of the constructor, as far as the model file contains them.
            fn params<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyDict>> {
                let model = self.model.read(py)?;
                $crate::params::to_python(py, &*model)
            }
        }
    };
}
pub(crate) use common_methods;

/// Opens the file of a model or of a baseline. `device` is the device of its neighbor search. With `verify`, the whole file is read and its
/// checksums are verified.
#[pyfunction]
#[pyo3(signature = (path, device, n_jobs=None, verify=false))]
fn load(
    py: Python<'_>,
    path: PathBuf,
    device: &Bound<'_, PyAny>,
    n_jobs: Option<usize>,
    verify: bool,
) -> PyResult<Py<PyAny>> {
    let device: Device = parse("device", device)?;
    let open = move || {
        let contents = device.scope(|| nuq_io::open_any(&path))?;
        match &contents {
            Contents::Model(file) if verify => file.verify()?,
            Contents::Baseline(file) if verify => file.verify()?,
            _ => {}
        }
        Ok(contents)
    };
    let opened = match work::run(py, n_jobs, None, open)? {
        Contents::Model(file) => file,
        Contents::Baseline(file) => return baselines::opened(py, file),
    };
    self::opened(py, opened.model)
}

/// A model as a Python object.
pub(crate) fn opened(py: Python<'_>, model: Model<'static>) -> PyResult<Py<PyAny>> {
    Ok(match model {
        Model::Classifier(model) => Py::new(py, PyClassifier { model: Shared::new(model) })?.into_any(),
        Model::Regressor(model) => Py::new(py, PyRegressor { model: Shared::new(model) })?.into_any(),
    })
}

/// Exchanges the names of two folders in one step. Returns False, and changes nothing, if the system cannot do this.
#[pyfunction]
fn exchange_paths(py: Python<'_>, first: PathBuf, second: PathBuf) -> bool {
    py.detach(|| nuq_io::exchange_paths(&first, &second))
}

/// Writes a file. If that fails, the former file is kept.
#[pyfunction]
fn write_file(py: Python<'_>, path: PathBuf, content: PyBackedBytes) -> PyResult<()> {
    without_gil(py, None, || nuq_io::write_atomically(&path, |file| file.write_all(&content)))?
        .map_err(|error| Failure::from(error).into())
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(write_file, module)?)?;
    module.add_function(wrap_pyfunction!(load, module)?)?;
    module.add_function(wrap_pyfunction!(exchange_paths, module)?)
}
