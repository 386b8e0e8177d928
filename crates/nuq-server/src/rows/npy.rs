//! npy data in blocks.

use std::io::Read;

use nuq_io::NpyHeader;

use super::{Blocks, BodyReader, Columns, embeddings};
use crate::batch::Rows;
use crate::error::ApiError;

pub(super) struct NpyBlocks {
    body: BodyReader,
    header: NpyHeader,
    columns: usize,
    /// Number of rows that have been read.
    next: usize,
    /// Whether a block was returned. A body without rows has one empty block.
    is_started: bool,
}

impl NpyBlocks {
    pub(super) fn open(mut body: BodyReader, columns: &Columns) -> Result<Self, ApiError> {
        let header = NpyHeader::read(&mut body)
            .map_err(|error| body.failure().or(ApiError::invalid(format!("the npy data: {error}"))))?;
        let &[_, count] = header.shape() else {
            return Err(ApiError::invalid(format!(
                "the npy array has {} dimensions: send rows × columns",
                header.shape().len()
            )));
        };
        columns.check_count(count)?;
        if header.is_fortran() {
            return Err(ApiError::invalid(
                "the npy array is in Fortran order, whose rows are spread over the file: send numpy.ascontiguousarray(array)",
            ));
        }
        Ok(Self { body, header, columns: count, next: 0, is_started: false })
    }
}

impl Blocks for NpyBlocks {
    fn next(&mut self) -> Result<Option<Rows>, ApiError> {
        let first = self.next;
        let row_bytes = self.columns * self.header.element_size();
        let count = self.body.rows_per_block(row_bytes).min(self.header.shape()[0] - first);
        if count == 0 && self.is_started {
            let mut rest = [0];
            return match self.body.read(&mut rest) {
                Ok(0) => Ok(None),
                Ok(_) => Err(ApiError::invalid("the body continues after the npy array: send one array")),
                Err(_) => Err(self.body.failure().or(ApiError::internal())),
            };
        }
        self.is_started = true;
        self.body.restart();
        let len = count * row_bytes;
        let mut bytes = Vec::new();
        let read = (&mut self.body).take(len as u64).read_to_end(&mut bytes);
        if read.is_err() || bytes.len() < len {
            return Err(self.body.failure().or(ApiError::invalid(format!(
                "the npy array ends too early: its header states {} rows, and the body contains {} of them",
                self.header.shape()[0],
                first + bytes.len() / row_bytes
            ))));
        }
        let values = self.header.values(&bytes).map_err(|(at, value)| {
            let (row, column) = (first + at / self.columns, at % self.columns);
            ApiError::invalid(format!(
                "row {row}, column {column} is {value:e}: it exceeds the range of 32-bit numbers"
            ))
        })?;
        self.next += count;
        Ok(Some(Rows { embeddings: embeddings(values, self.columns, first)?, logits: None }))
    }
}
