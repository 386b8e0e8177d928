//! The training rows of `nuq fit`: one matrix, or several shards in a folder.

use std::path::Path;

use nuq::nuq_neighbors::RowStorage;
use nuq::{Classification, Embeddings, Label, Model, Params, Regression, ShardedRows};
use nuq_io::{ArraySpec, EmbeddingsFile, MappedInput, ShardWriter};

use crate::args::FitArgs;
use crate::error::Error;
use crate::output::{self, count};
use crate::{bad_rows, destination, rows};

pub(crate) enum TrainingRows {
    /// One matrix, in memory or in a mapped file.
    Matrix {
        rows: Embeddings<'static>,
        mapped: Option<MappedInput>,
        /// The first rows as they are in the file, not normalized.
        first: Embeddings<'static>,
    },
    Shards {
        rows: ShardedRows,
        writer: ShardWriter,
    },
}

/// Number of first rows of which an unchanged copy is kept if all rows are normalized in place.
const FIRST: usize = 4096;

impl TrainingRows {
    /// Checks that the model can be written to `--out`: a file, or a folder of shards.
    pub(crate) fn check_out(options: &FitArgs, inputs: &[&Path]) -> Result<(), Error> {
        match options.shards {
            None => {
                output::check_out(&options.out, inputs)?;
                destination::check_binary(&options.out)
            }
            Some(_) if destination::is_stdout(&options.out) => {
                Err(Error::Usage("--shards writes a folder: name one with --out".to_owned()))
            }
            Some(_) => Ok(()),
        }
    }

    /// Reads or maps all rows. With `--shards` they are written to the folder of the model, one shard at a time.
    pub(crate) fn read(spec: &ArraySpec, mut file: EmbeddingsFile, options: &FitArgs) -> Result<Self, Error> {
        let Some(shards) = options.shards else {
            if options.normalize {
                // The rows are normalized in place, because only the first of them are needed unchanged, see `first_rows`.
                let rows = rows::read(spec, file)?;
                let first = rows.gather(&(0..FIRST.min(rows.len()) as u32).collect::<Vec<u32>>());
                return Ok(Self::Matrix { rows: rows.into_l2_normalized(), mapped: None, first });
            }
            let (rows, mapped) = rows::map(spec, file)?;
            return Ok(Self::Matrix { first: rows.clone(), rows, mapped });
        };
        let mut writer = ShardWriter::new(&options.out, options.normalize)?;
        let (len, dim) = (file.len(), file.dim());
        let size = len.div_ceil(shards as usize).max(1);
        for first in (0..len).step_by(size) {
            let values = file.values(first..len.min(first + size))?;
            let bad = bad_rows::find(&values, dim);
            if !bad.is_empty() {
                return Err(bad_rows::error(spec, first, &bad, "remove them from all arrays"));
            }
            writer.write(&Embeddings::new(values, dim)?)?;
        }
        Ok(Self::Shards { rows: writer.open()?, writer })
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Matrix { rows, .. } => rows.len(),
            Self::Shards { rows, .. } => rows.len(),
        }
    }

    /// States how many rows were read.
    pub(crate) fn message(&self, spec: &ArraySpec) -> String {
        match self {
            Self::Matrix { rows, .. } => rows::read_message(spec, rows),
            Self::Shards { rows, .. } => format!(
                "read {} of {} from {spec}, in {}",
                count(rows.len(), "row"),
                count(rows.dim(), "column"),
                count(rows.shards().len(), "shard")
            ),
        }
    }

    /// The first rows. They are compared with the labels or targets, because a coordinate that equals these is probably a mistake. A matrix
    /// returns unchanged rows of the file: all of them, or the first [`FIRST`] with `--normalize`. Shards return the rows of the first
    /// shard, which are divided by their norms with `--normalize`.
    pub(crate) fn first_rows(&self) -> Result<Embeddings<'static>, Error> {
        match self {
            Self::Matrix { first, .. } => Ok(first.clone()),
            Self::Shards { rows, .. } => {
                let first = rows.shards().next().map_or(0, |(_, shard)| shard.rows.len());
                Ok(rows.gather(&(0..first as u32).collect::<Vec<u32>>())?)
            }
        }
    }

    pub(crate) fn classifier(
        &self,
        params: &Params<Classification>,
        labels: &[Label],
        weights: Option<&[f64]>,
    ) -> Result<Model<'static>, nuq::Error> {
        Ok(Model::Classifier(match (self, weights) {
            (Self::Matrix { rows, .. }, None) => params.fit(rows, labels)?,
            (Self::Matrix { rows, .. }, Some(weights)) => params.fit_weighted(rows, labels, weights)?,
            (Self::Shards { rows, .. }, weights) => params.fit_shards(rows, labels, weights)?,
        }))
    }

    pub(crate) fn regressor(
        &self,
        params: &Params<Regression>,
        targets: &[f64],
        weights: Option<&[f64]>,
    ) -> Result<Model<'static>, nuq::Error> {
        Ok(Model::Regressor(match (self, weights) {
            (Self::Matrix { rows, .. }, None) => params.fit(rows, targets)?,
            (Self::Matrix { rows, .. }, Some(weights)) => params.fit_weighted(rows, targets, weights)?,
            (Self::Shards { rows, .. }, weights) => params.fit_shards(rows, targets, weights)?,
        }))
    }

    /// Saves the model as a file, or in the folder of the shards.
    pub(crate) fn save(self, model: &Model<'_>, out: &Path) -> Result<(), Error> {
        match self {
            Self::Matrix { mapped, .. } => {
                mapped.as_ref().map_or(Ok(()), MappedInput::verify_unchanged)?;
                destination::save(model, out)
            }
            Self::Shards { writer, .. } => Ok(writer.save(model)?),
        }
    }
}
