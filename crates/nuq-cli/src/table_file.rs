//! A table of results that is written to a file or to standard output.

use std::path::Path;

use crate::args::Common;
use crate::column::Column;
use crate::destination::Destination;
use crate::error::Error;
use crate::output;
use crate::table_format::TableFormat;

pub(crate) struct TableFile<'p> {
    to: Destination<'p>,
    format: TableFormat,
}

impl<'p> TableFile<'p> {
    /// Checks the value of `--out`, before any work is done.
    pub(crate) fn new(out: &'p Path, inputs: &[&Path], common: &Common) -> Result<Self, Error> {
        let to = Destination::new(out)?;
        let format = match to.has_no_format() {
            true => Some(TableFormat::of_stdout(common.json)),
            false => to.extension().as_deref().and_then(TableFormat::of_extension),
        };
        let format = format.ok_or_else(|| {
            let path = out.display();
            Error::Usage(format!("--out {path}: the output must be a .csv, .tsv, .jsonl or .ndjson file, also compressed (.gz or .zst), or -"))
        })?;
        output::check_out(out, inputs)?;
        Ok(Self { to, format })
    }

    pub(crate) fn path(&self) -> &Path {
        self.to.path()
    }

    pub(crate) fn write(&self, columns: &[(&str, Column)]) -> Result<(), Error> {
        self.to.write(|to| self.format.write(to, columns))
    }
}
