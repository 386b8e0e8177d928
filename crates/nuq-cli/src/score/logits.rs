//! Logits of the network for the scored rows, read block by block.

use std::ops::Range;

use nuq::NuqClassifier;
use nuq_io::{ArraySpec, EmbeddingsFile};

use crate::args::ScoreArgs;
use crate::error::Error;
use crate::rows;

/// A file of logits with one column per class of the model.
pub(super) struct LogitsFile<'o> {
    pub(super) spec: &'o ArraySpec,
    file: EmbeddingsFile,
    /// For each class of the model, its column in the file. `None` if the columns have the model's order.
    order: Option<Vec<usize>>,
}

impl<'o> LogitsFile<'o> {
    /// Opens the file of `--logits`, if it is given. `expected_rows` is the array of embeddings and its number of rows.
    pub(super) fn open(
        options: &'o ScoreArgs,
        model: &NuqClassifier<'_>,
        expected_rows: (&ArraySpec, usize),
    ) -> Result<Option<Self>, Error> {
        let order = rows::class_order(model, &options.classes)?;
        let Some(spec) = &options.logits else { return Ok(None) };
        let read_options = options.input.options().in_blocks();
        let file = rows::open_logits(spec, model, &options.classes, expected_rows, read_options)?;
        Ok(Some(Self { spec, file, order }))
    }

    /// The logits of some rows, with the columns in the order of the model's classes.
    pub(super) fn values(&mut self, rows: Range<usize>) -> Result<Vec<f32>, Error> {
        let values = self.file.values(rows)?;
        Ok(match &self.order {
            Some(order) => rows::reordered(values.chunks_exact(order.len()), order),
            None => values,
        })
    }
}
