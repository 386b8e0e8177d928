//! `nuq man`: the help texts as manual pages.

use clap::CommandFactory;
use clap_mangen::Man;

use crate::args::{Args, ManArgs};
use crate::error::Error;
use crate::output;

pub(crate) fn run(options: &ManArgs) -> Result<(), Error> {
    output::make_folder(&options.out)?;
    let mut nuq = Args::command().disable_help_subcommand(true);
    // Gives each command its full name, `nuq-fit`.
    nuq.build();
    let commands: Vec<clap::Command> = nuq.get_subcommands().cloned().chain([nuq.clone()]).collect();
    for command in &commands {
        let page = Man::new(command.clone()).manual("nuq").source(concat!("nuq ", env!("CARGO_PKG_VERSION")));
        let mut text = Vec::new();
        let path = options.out.join(page.get_filename());
        page.render(&mut text).map_err(|source| Error::Write { path: path.clone(), source })?;
        output::write_file(&path, &text)?;
    }
    output::print(&format!("{}: {} pages\n", options.out.display(), commands.len()))
}
