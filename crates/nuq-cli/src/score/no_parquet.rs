//! What stands in for parquet files where nuq was built without them: nothing is ever written here.

use std::io::{self, Write};

use super::columns::Columns;

/// Whether parquet files can be written.
pub(super) const IS_THERE: bool = false;

/// Never filled: a name that ends in `.parquet` was refused.
#[derive(Default)]
pub(super) struct Groups {}

impl Groups {
    pub(super) fn append(&mut self, _: &Columns, _: &mut dyn Write) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn finish(self, _: &mut dyn Write) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
