//! The training rows of `nuq fit`: in memory, or in the shards of a folder.

use std::path::Path;

use nuq::nuq_neighbors::RowStorage;
use nuq::{Classification, Embeddings, Label, Model, Params, Regression, ShardedRows};
use nuq_io::{ArraySpec, EmbeddingsFile, ShardWriter};

use crate::args::FitArgs;
use crate::error::Error;
use crate::output::{self, count};
use crate::{bad_rows, destination, rows};

pub(crate) enum TrainingRows {
    Memory(Embeddings<'static>),
    Shards { rows: ShardedRows, writer: ShardWriter },
}

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

    /// Reads all rows. With `--shards` they are written to the folder of the model, one shard at a time.
    pub(crate) fn read(spec: &ArraySpec, mut file: EmbeddingsFile, options: &FitArgs) -> Result<Self, Error> {
        let Some(shards) = options.shards else { return Ok(Self::Memory(rows::read(spec, file)?)) };
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
            Self::Memory(rows) => rows.len(),
            Self::Shards { rows, .. } => rows.len(),
        }
    }

    /// States how many rows were read.
    pub(crate) fn message(&self, spec: &ArraySpec) -> String {
        match self {
            Self::Memory(rows) => rows::read_message(spec, rows),
            Self::Shards { rows, .. } => format!(
                "read {} of {} from {spec}, in {}",
                count(rows.len(), "row"),
                count(rows.dim(), "column"),
                count(rows.shards().len(), "shard")
            ),
        }
    }

    /// The rows in memory, or a copy of the first shard.
    pub(crate) fn first_rows(&self) -> Result<Embeddings<'static>, Error> {
        match self {
            Self::Memory(rows) => Ok(rows.clone()),
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
            (Self::Memory(rows), None) => params.fit(rows, labels)?,
            (Self::Memory(rows), Some(weights)) => params.fit_weighted(rows, labels, weights)?,
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
            (Self::Memory(rows), None) => params.fit(rows, targets)?,
            (Self::Memory(rows), Some(weights)) => params.fit_weighted(rows, targets, weights)?,
            (Self::Shards { rows, .. }, weights) => params.fit_shards(rows, targets, weights)?,
        }))
    }

    /// Saves the model as a file, or in the folder of the shards.
    pub(crate) fn save(self, model: &Model<'_>, out: &Path) -> Result<(), Error> {
        match self {
            Self::Memory(_) => destination::save(model, out),
            Self::Shards { writer, .. } => Ok(writer.save(model)?),
        }
    }
}
