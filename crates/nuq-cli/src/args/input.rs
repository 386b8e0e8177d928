//! Options that describe how arrays are read, and the arrays of standard input.

use std::ffi::OsString;

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

/// Options of every command that reads rows for a model.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct RowArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Accept columns with other names, or in another order, than the columns of the training rows; columns are then matched by position
    #[arg(long)]
    pub(crate) ignore_column_names: bool,
}

impl RowArgs {
    pub(crate) fn options(self) -> ReadOptions {
        self.input.options()
    }
}

/// Reads standard input into memory if several arrays come from it. Each array is given with its option. Two options that select
/// the same array of standard input are an error.
pub(crate) fn buffer_stdin<'a>(
    arrays: impl IntoIterator<Item = (&'a str, &'a ArraySpec)>,
) -> Result<(), Error> {
    let arrays: Vec<(&str, &ArraySpec)> = arrays.into_iter().filter(|(_, spec)| spec.is_stdin()).collect();
    for (i, (option, spec)) in arrays.iter().enumerate() {
        if let Some((other, _)) = arrays[..i].iter().find(|(_, other)| other == spec) {
            return Err(Error::Usage(match spec.name {
                Some(_) => format!(
                    "{other} and {option} both select {spec}: select a different array for one of them"
                ),
                None => format!(
                    "{other} and {option} both read all of standard input: select a column or an array of it as -:NAME, or save \
                     one of them to a file"
                ),
            }));
        }
    }
    if arrays.len() > 1 {
        nuq_io::buffer_stdin()?;
    }
    Ok(())
}

/// Joins an option with a value such as `-:NAME`, an array of standard input: `-l -:NAME` becomes `-l=-:NAME`. Without this, the
/// value would be parsed as an option, because it begins with a hyphen.
pub(crate) fn join_stdin_values(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    for word in words {
        let is_option = |word: &OsString| {
            let word = word.to_string_lossy();
            word.len() > 1 && word.starts_with('-') && word != "--" && !word.contains('=')
        };
        match joined.last_mut().filter(|last| is_option(last)) {
            Some(option) if word.to_string_lossy().starts_with("-:") => {
                option.push("=");
                option.push(word);
            }
            _ => joined.push(word),
        }
    }
    joined
}
