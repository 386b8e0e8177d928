//! The rows of a csv or tsv table of embeddings: in memory, or read again from the file in blocks.

use std::collections::HashSet;
use std::ops::Range;

use nuq::Label;

use super::input::Input;
use super::records::{Record, Records};
use super::source::out_of_memory;
use super::{ArraySpec, KeptColumn};
use crate::Error;

/// The rows of a table of embeddings. All lines were parsed once, so their number is known and their cells are valid.
pub(crate) struct TableRows {
    pub(super) rows: usize,
    pub(super) columns: CoordinateColumns,
    /// The names of the coordinates; `None` without a header.
    pub(super) column_names: Option<Vec<String>>,
    /// `None` if the values are in memory.
    pub(super) file: Option<TableFile>,
    /// All rows, or the block that was read last.
    pub(super) block: Block,
}

/// Which columns are coordinates, and which are copied to the results.
pub(super) struct CoordinateColumns {
    /// The columns that are not coordinates, including the kept ones.
    pub(super) excluded: HashSet<usize>,
    /// The columns that are copied to the results.
    pub(super) kept: Vec<usize>,
    /// The number of coordinates.
    pub(super) dim: usize,
}

/// Values and kept cells of some rows.
pub(super) struct Block {
    /// The position of the first row in the table.
    first: usize,
    /// The number of rows.
    rows: usize,
    /// The coordinates in row-major order.
    values: Vec<f32>,
    /// The cells of each kept column.
    kept: Vec<Vec<String>>,
}

impl Block {
    pub(super) fn new(first: usize, columns: &CoordinateColumns) -> Self {
        Self { first, rows: 0, values: vec![], kept: vec![vec![]; columns.kept.len()] }
    }

    pub(super) fn clear(&mut self) {
        self.rows = 0;
        self.values.clear();
        self.kept.iter_mut().for_each(Vec::clear);
    }

    /// Adds a row. If a cell is not a number in the range of `f32`, `bad` is called with its column and its text, and returns the error.
    pub(super) fn push(
        &mut self,
        spec: &ArraySpec,
        columns: &CoordinateColumns,
        record: &Record,
        bad: impl Fn(usize, &str) -> Error,
    ) -> Result<(), Error> {
        let no_memory = |_| out_of_memory(spec);
        self.values.try_reserve(columns.dim).map_err(no_memory)?;
        let cells = record.cells.iter().enumerate();
        for (column, cell) in cells.filter(|(column, _)| !columns.excluded.contains(column)) {
            self.values.push(match cell.trim() {
                // A missing value is NaN, which is rejected or skipped later.
                cell if Label::MISSING.contains(&cell) => f32::NAN,
                cell => coordinate(cell).ok_or_else(|| bad(column, cell))?,
            });
        }
        for (&column, cells) in columns.kept.iter().zip(&mut self.kept) {
            cells.try_reserve(1).map_err(no_memory)?;
            cells.push(record.cells.get(column).unwrap_or_default().to_owned());
        }
        self.rows += 1;
        Ok(())
    }
}

/// The number in a cell. `None` for other text, and for a number beyond the range of `f32`, which would become infinite.
fn coordinate(cell: &str) -> Option<f32> {
    cell.parse().ok().filter(|value: &f32| !value.is_infinite() || !is_beyond_range(cell))
}

/// Whether a cell is a number beyond the range of `f32`, and not the word for infinity.
pub(super) fn is_beyond_range(cell: &str) -> bool {
    cell.parse().is_ok_and(f32::is_infinite) && cell.contains(|character: char| character.is_ascii_digit())
}

/// A table that is read again, from front to back.
pub(super) struct TableFile {
    pub(super) spec: ArraySpec,
    pub(super) delimiter: u8,
    pub(super) has_header: bool,
    /// The reader and the number of its next row; `None` before the first block.
    pub(super) reader: Option<(Records, usize)>,
}

impl TableFile {
    /// Opens the file at its first row. Blank lines before the first line are ignored.
    fn open_rows(&self) -> Result<Records, Error> {
        let mut records = Records::open(&self.spec, Input::open(&self.spec)?, self.delimiter);
        match self.has_header {
            true => drop(records.next()?),
            false => records.skip_blank_lines()?,
        }
        Ok(records)
    }

    /// Reads some rows. If they begin before the next row of the reader, the file is opened again.
    fn read(&mut self, columns: &CoordinateColumns, rows: Range<usize>) -> Result<Block, Error> {
        let reader = self.reader.take().filter(|(_, next)| *next <= rows.start);
        let (mut records, mut next) = match reader {
            Some(reader) => reader,
            None => (self.open_rows()?, 0),
        };
        let mut block = Block::new(rows.start, columns);
        // The first pass has parsed every line, so other cells, or another number of them, mean that the file has changed.
        let changed = || Error::BadFile {
            spec: self.spec.clone(),
            problem: "it was changed while it was read: run the command again".to_owned(),
        };
        while next < rows.end {
            let record = records.next_row()?.ok_or_else(changed)?;
            if record.cells.len() != columns.dim + columns.excluded.len() {
                return Err(changed());
            }
            if next >= rows.start {
                block.push(&self.spec, columns, &record, |_, _| changed())?;
            }
            next += 1;
        }
        self.reader = Some((records, next));
        Ok(block)
    }
}

impl TableRows {
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    pub(crate) fn dim(&self) -> usize {
        self.columns.dim
    }

    /// Reads the block with these rows, unless they are in memory.
    fn load(&mut self, rows: &Range<usize>) -> Result<(), Error> {
        let is_loaded = self.block.first <= rows.start && rows.end <= self.block.first + self.block.rows;
        match &mut self.file {
            Some(file) if !is_loaded => self.block = file.read(&self.columns, rows.clone())?,
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn values(&mut self, rows: Range<usize>) -> Result<Vec<f32>, Error> {
        self.load(&rows)?;
        let (first, dim) = (self.block.first, self.columns.dim);
        Ok(self.block.values[(rows.start - first) * dim..(rows.end - first) * dim].to_vec())
    }

    /// The values of all rows, without a second copy of them.
    pub(crate) fn into_values(mut self) -> Result<Vec<f32>, Error> {
        self.load(&(0..self.rows))?;
        Ok(self.block.values)
    }

    pub(crate) fn kept(&mut self, rows: Range<usize>) -> Result<Vec<KeptColumn>, Error> {
        self.load(&rows)?;
        let (start, end) = (rows.start - self.block.first, rows.end - self.block.first);
        let cell = |cell: &String| (!cell.is_empty()).then(|| cell.clone());
        let column = |cells: &Vec<String>| KeptColumn::Strings(cells[start..end].iter().map(cell).collect());
        Ok(self.block.kept.iter().map(column).collect())
    }
}
