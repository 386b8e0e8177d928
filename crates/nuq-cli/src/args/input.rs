//! Options that describe how arrays are read.

use nuq_io::{ArraySpec, Format, Header, ReadOptions};

use super::choice::choice;
use crate::error::Error;

/// Options of every command that reads arrays.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct InputArgs {
    /// Format of every array file that the command reads [default: recognized by the contents of each file]
    #[arg(long, value_parser = choice::<Format>())]
    format: Option<Format>,
    /// Whether the first line of csv and tsv files is a header; auto decides from the contents
    #[arg(long, value_parser = choice::<Header>(), default_value = "auto")]
    header: Header,
}

impl InputArgs {
    pub(crate) fn options(self) -> ReadOptions {
        let options = ReadOptions::new().header(self.header);
        self.format.map_or(options, |format| options.format(format))
    }
}

/// Rejects two arrays from standard input. Each array comes with its option.
pub(crate) fn check_stdin<'a>(
    arrays: impl IntoIterator<Item = (&'a str, &'a ArraySpec)>,
) -> Result<(), Error> {
    let mut options = arrays.into_iter().filter(|(_, spec)| spec.is_stdin()).map(|(option, _)| option);
    match (options.next(), options.next()) {
        (Some(first), Some(second)) => Err(Error::Usage(format!(
            "{first} and {second} both read standard input, which holds one array: save one of them to a file"
        ))),
        _ => Ok(()),
    }
}
