//! The inputs that runs of the fuzz targets have found, in the repository: `fuzz/corpora/TARGET.tar.gz`.
//!
//! A run begins with these inputs, so that it starts with the coverage of earlier runs. `cargo xtask fuzz corpora` writes the archives: of all
//! known inputs of a target, those that together reach everything that all of them reach.

use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};

use crate::steps::{Failed, root, run};

fn archive(target: &str) -> PathBuf {
    root().join("fuzz/corpora").join(format!("{target}.tar.gz"))
}

/// The folder with the inputs of the archive of a target; `None` if there is no archive. The name of the folder contains a hash of the archive, so
/// that a run never reads the inputs of an older one.
pub(crate) fn unpack(target: &str) -> Result<Option<PathBuf>, Failed> {
    let archive = archive(target);
    if !archive.exists() {
        return Ok(None);
    }
    let failed = |path: &Path, error: std::io::Error| Failed(format!("{}: {error}", path.display()));
    let mut hash = DefaultHasher::new();
    hash.write(&fs::read(&archive).map_err(|error| failed(&archive, error))?);
    let folder = root().join("target/fuzz/unpacked").join(format!("{target}-{:016x}", hash.finish()));
    if folder.exists() {
        return Ok(Some(folder));
    }
    // The folder gets its name when all inputs are in it. Another process may unpack the same archive at the same time.
    let partial = folder.with_extension(std::process::id().to_string());
    fs::create_dir_all(&partial).map_err(|error| failed(&partial, error))?;
    run("tar", &["-xzf", &text(&archive), "-C", &text(&partial)], &[], &root())?;
    match fs::rename(&partial, &folder) {
        Err(_) if folder.exists() => fs::remove_dir_all(&partial).map_err(|error| failed(&partial, error))?,
        renamed => renamed.map_err(|error| failed(&folder, error))?,
    }
    Ok(Some(folder))
}

/// Chooses inputs of the given folders by the program of their target, and writes the archive. Equal inputs give equal bytes of the archive.
/// The temporary files of the program are written to `memory`.
pub(crate) fn pack(target: &str, program: &str, folders: &[PathBuf], memory: &Path) -> Result<(), Failed> {
    let chosen = root().join("target/fuzz/chosen").join(target);
    let failed = |error: std::io::Error| Failed(format!("{}: {error}", chosen.display()));
    if chosen.exists() {
        fs::remove_dir_all(&chosen).map_err(failed)?;
    }
    fs::create_dir_all(&chosen).map_err(failed)?;
    fs::create_dir_all(root().join("fuzz/corpora")).map_err(failed)?;
    let chosen_text = text(&chosen);
    let folders: Vec<String> = folders.iter().map(|folder| text(folder)).collect();
    let mut arguments = vec!["-merge=1", &chosen_text];
    arguments.extend(folders.iter().map(String::as_str));
    run(program, &arguments, &[("RAYON_NUM_THREADS", "1"), ("TMPDIR", &text(memory))], &root())?;
    let options = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "--mode=644"];
    let mut arguments = options.to_vec();
    let archive = archive(target);
    // Another process may read the archive.
    let partial = archive.with_extension("new");
    let partial_text = text(&partial);
    arguments.extend(["--use-compress-program=gzip -9n", "-cf", &partial_text, "-C", &chosen_text]);
    let names = names(&chosen).map_err(failed)?;
    arguments.extend(names.iter().map(String::as_str));
    run("tar", &arguments, &[], &root())?;
    fs::rename(&partial, &archive).map_err(|error| Failed(format!("{}: {error}", archive.display())))
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
