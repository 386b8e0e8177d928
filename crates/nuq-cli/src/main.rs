//! The binary `nuq`.

#[cfg(unix)]
mod out_of_memory;

use std::process::ExitCode;

#[cfg(unix)]
#[global_allocator]
static ALLOCATOR: out_of_memory::NotingAllocator = out_of_memory::NotingAllocator;

fn main() -> ExitCode {
    #[cfg(unix)]
    out_of_memory::install_handler();
    nuq_cli::run(std::env::args_os()).into()
}
