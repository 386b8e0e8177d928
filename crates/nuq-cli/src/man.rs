//! `nuq man`: the help texts as manual pages.

use clap::CommandFactory;
use clap_mangen::Man;
use serde_json::json;

use crate::args::{Args, Common, ManArgs};
use crate::error::Error;
use crate::output;

pub(crate) fn run(options: &ManArgs, common: &Common) -> Result<(), Error> {
    output::make_folder(&options.out)?;
    let mut nuq = Args::command().disable_help_subcommand(true);
    // Gives each command its full name, such as `nuq-fit`.
    nuq.build();
    let commands: Vec<clap::Command> = nuq.get_subcommands().cloned().chain([nuq.clone()]).collect();
    for command in &commands {
        let page = Man::new(command.clone()).manual("nuq").source(concat!("nuq ", env!("CARGO_PKG_VERSION")));
        let mut text = Vec::new();
        let path = options.out.join(page.get_filename());
        page.render(&mut text).map_err(|source| Error::Write { path: path.clone(), source })?;
        output::write_file(&path, &text)?;
    }
    let (out, pages) = (options.out.display().to_string(), commands.len());
    output::print_summary(common, &json!({ "pages": pages, "out": out }), &format!("{out}: {pages} pages\n"))
}
