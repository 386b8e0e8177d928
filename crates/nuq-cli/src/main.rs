//! The binary `nuq`.

use std::process::ExitCode;

fn main() -> ExitCode {
    nuq_cli::run(std::env::args_os()).into()
}
