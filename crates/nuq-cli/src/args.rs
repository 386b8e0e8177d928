//! What can be typed.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// When not to trust a network: uncertainty from its embeddings.
///
/// Exit codes: 0 done; 1 the data or their numbers were refused; 2 the command line was not understood; 3 a file
/// could not be read or written.
#[derive(Debug, Parser)]
#[command(name = "nuq", version, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See it work: fit Two Moons, print a table, draw the uncertainty maps
    ///
    /// Fits NUQ to Two Moons of 200 and of 2000 points, prints what it learned and how uncertain it is inside the
    /// moons, between them and far away, and draws the maps as SVG and PNG.
    Demo(DemoArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Folder for the figure; made when it is not there
    #[arg(long, value_name = "DIR", default_value = "nuq-demo")]
    pub(crate) out: PathBuf,
}
