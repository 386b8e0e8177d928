//! The inputs that runs of the fuzz targets have found, in the repository: `fuzz/corpora/TARGET.tar.gz`.
//!
//! A run begins with these inputs, so that it starts with the coverage of earlier runs. `cargo xtask fuzz corpora` writes the archives: of the inputs
//! in `target/fuzz/corpus/TARGET` and `fuzz/seeds/TARGET`, those that together reach everything that all of them reach.

use std::fs;
use std::path::{Path, PathBuf};

use crate::steps::{Failed, root, run};

fn archive(target: &str) -> PathBuf {
    root().join("fuzz/corpora").join(format!("{target}.tar.gz"))
}

/// Copies the inputs of the archive of a target, if there is one, into a folder. Inputs are named by their contents, so existing files are
/// kept; another run may unpack the same archive at the same time.
pub(crate) fn unpack(target: &str, folder: &Path) -> Result<(), Failed> {
    let archive = archive(target);
    match archive.exists() {
        true => run("tar", &["--skip-old-files", "-xzf", &text(&archive), "-C", &text(folder)], &[], &root()),
        false => Ok(()),
    }
}

/// Chooses inputs of a corpus and of the seeds by the program of their target, and writes the archive. Equal inputs give equal bytes of the archive.
pub(crate) fn pack(target: &str, program: &str, corpus: &Path) -> Result<(), Failed> {
    let chosen = root().join("target/fuzz/chosen").join(target);
    let failed = |error: std::io::Error| Failed(format!("{}: {error}", chosen.display()));
    if chosen.exists() {
        fs::remove_dir_all(&chosen).map_err(failed)?;
    }
    fs::create_dir_all(&chosen).map_err(failed)?;
    fs::create_dir_all(root().join("fuzz/corpora")).map_err(failed)?;
    let seeds = root().join("fuzz/seeds").join(target);
    run(
        program,
        &["-merge=1", &text(&chosen), &text(corpus), &text(&seeds)],
        &[("RAYON_NUM_THREADS", "1")],
        &root(),
    )?;
    let options = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "--mode=644"];
    let mut arguments = options.to_vec();
    let (archive, folder) = (text(&archive(target)), text(&chosen));
    arguments.extend(["--use-compress-program=gzip -9n", "-cf", &archive, "-C", &folder]);
    let names = names(&chosen).map_err(failed)?;
    arguments.extend(names.iter().map(String::as_str));
    run("tar", &arguments, &[], &root())
}

/// The names of the files of a folder, in ascending order.
fn names(folder: &Path) -> std::io::Result<Vec<String>> {
    let entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let mut names: Vec<String> =
        entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
