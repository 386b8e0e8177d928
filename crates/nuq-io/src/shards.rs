//! The folder of a sharded model: one file per shard of the training rows, and a manifest with everything else.
//!
//! A shard file is named by its number and by the fingerprint of its contents. A new model therefore never overwrites the
//! shards of the previous model, and a renamed or exchanged file is detected and refused. The manifest is written last and replaces the
//! previous manifest atomically: a folder holds either the complete new model or the complete previous model.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nuq::nuq_neighbors::{
    Device, NeighborIndex, RowParts, RowStorage, RowValues, Shard, ShardedIndex, ShardedRows, StoredRows,
};
use nuq::{Embeddings, FittedModel, Model};
use serde::{Deserialize, Serialize};

use crate::container::{self, Container, Section};
use crate::folder::{Folder, folder_of};
use crate::index::{ContainerVerifier, ROWS_F32, restore_error};
use crate::manifest_before::ManifestBefore;
use crate::meta::IndexMeta;
use crate::model::WRITTEN_BY;
use crate::partial_files::{PartialPath, partial_files};
use crate::{Error, check_writable, write_atomically};

/// The file of a sharded model that lists its shards.
const MANIFEST: &str = "manifest.nuq";
/// The section of a manifest with the name and the number of rows of each shard.
pub(crate) const SHARDS: &str = "shards";
/// The section of a shard file with the properties of its rows.
const SHARD: &str = "shard";

/// A written shard of training rows: the result of [`write_shard`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardFile {
    /// The name of the file in the folder of the model; empty if the shard has no rows.
    pub name: String,
    /// The number of rows.
    pub rows: usize,
}

impl ShardFile {
    /// Whether the name has the form `rows-NUMBER-FINGERPRINT.nuq`. A manifest may come from an untrusted source. It must not refer
    /// to other folders or to other files of its folder, because the listed files are read, copied and removed.
    fn has_valid_name(&self) -> bool {
        let numbers = self.name.strip_prefix("rows-").and_then(|rest| rest.strip_suffix(".nuq"));
        numbers.and_then(|numbers| numbers.split_once('-')).is_some_and(|(number, fingerprint)| {
            let is_hexadecimal = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            (5..=10).contains(&number.len())
                && number.bytes().all(|byte| byte.is_ascii_digit())
                && fingerprint.len() == 16
                && fingerprint.bytes().all(is_hexadecimal)
        })
    }

    /// Whether a manifest may list the shard. A shard without rows has no file.
    fn is_valid(&self) -> bool {
        self.has_valid_name() || self.rows == 0 && self.name.is_empty()
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct ShardMeta {
    written_by: String,
    dim: usize,
    normalized: bool,
}

/// Writes shard number `number` of a sharded model into a folder, atomically. With `normalize`, each row is first divided by its
/// Euclidean norm; the model must then be fitted with that option. Equal rows give equal files. Without rows no file is written.
///
/// [`open_shards`] opens the shards; the order of its list of files is the order of the rows. `fit_shards` of the builder
/// `NuqClassifier::params()` or `NuqRegressor::params()` fits a model to them, and [`save`](crate::save) with the path of the folder
/// writes the manifest, which completes the sharded model.
///
/// ```
/// use nuq::{Embeddings, Model, NuqClassifier};
///
/// let folder = std::env::temp_dir().join(format!("nuq-shards-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// let (a, b) = (Embeddings::from_rows(&[[0.0], [0.1]])?, Embeddings::from_rows(&[[1.0], [1.1]])?);
/// let files = [nuq_io::write_shard(&folder, 0, &a, false)?, nuq_io::write_shard(&folder, 1, &b, false)?];
/// let shards = nuq_io::open_shards(&folder, &files)?;
/// let model = NuqClassifier::params().n_neighbors(2).fit_shards(&shards, &["a", "a", "b", "b"], None)?;
/// nuq_io::save(&Model::Classifier(model), &folder)?;
///
/// let Model::Classifier(opened) = nuq_io::open(&folder)?.model else { unreachable!() };
/// assert_eq!(opened.predict(&b)?.label(0), "b");
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Write`].
pub fn write_shard(
    folder: &Path,
    number: u32,
    rows: &Embeddings<'_>,
    normalize: bool,
) -> Result<ShardFile, Error> {
    write_file(folder, number, rows, normalize, |_| Ok(()))
}

/// Calls `before` with the path of a shard, and then writes the shard.
fn write_file(
    folder: &Path,
    number: u32,
    rows: &Embeddings<'_>,
    normalize: bool,
    before: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<ShardFile, Error> {
    if rows.is_empty() {
        return Ok(ShardFile { name: String::new(), rows: 0 });
    }
    let normalized = normalize.then(|| rows.l2_normalized());
    let rows = normalized.as_ref().unwrap_or(rows);
    let meta = ShardMeta { written_by: WRITTEN_BY.to_owned(), dim: rows.dim(), normalized: normalize };
    let json = serde_json::to_vec(&meta).expect("the metadata has string keys only");
    let sections = [
        Section { name: SHARD, bytes: &json },
        Section { name: ROWS_F32, bytes: bytemuck::cast_slice(rows.as_slice()) },
    ];
    let name = format!("rows-{number:05}-{:016x}.nuq", container::fingerprint(&sections));
    let path = folder.join(&name);
    before(&path).map_err(|source| Error::Write { path: path.clone(), source })?;
    write_atomically(&path, |file| container::write(file, &sections))?;
    Ok(ShardFile { name, rows: rows.len() })
}

/// Writes the shards of a model one after the other into a folder, and then its manifest. If the writer is dropped without a
/// successful [`save`](Self::save), or if the process is interrupted before `save`, the new shards are removed; a model that the folder
/// held before remains. If another process has saved a model into the folder in the meantime, the shards remain too, because this model may
/// have the same shards.
///
/// ```
/// use nuq::{Embeddings, Model, NuqRegressor};
///
/// let folder = std::env::temp_dir().join(format!("nuq-writer-{}", std::process::id()));
/// let mut writer = nuq_io::ShardWriter::new(&folder, false)?;
/// writer.write(&Embeddings::from_rows(&[[0.0], [0.1]])?)?;
/// writer.write(&Embeddings::from_rows(&[[1.0], [1.1]])?)?;
/// let model = NuqRegressor::params().n_neighbors(2).fit_shards(&writer.open()?, &[0.0, 0.2, 1.0, 1.2], None)?;
/// writer.save(&Model::Regressor(model))?;
/// assert_eq!(nuq_io::open(&folder)?.written_by.split(' ').next(), Some("nuq"));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ShardWriter {
    folder: PathBuf,
    normalize: bool,
    files: Vec<ShardFile>,
    /// The written files that did not exist before.
    new: Vec<PathBuf>,
    /// Shared with the list of partial files.
    before: Arc<ManifestBefore>,
    /// Whether the folder was created by the writer and holds no model.
    is_new_folder: bool,
}

impl ShardWriter {
    /// A writer into a folder, which is created if it does not exist. With `normalize`, each row is divided by its Euclidean norm.
    ///
    /// # Errors
    /// [`Error::Write`] if the folder cannot be created or written.
    pub fn new(folder: &Path, normalize: bool) -> Result<Self, Error> {
        let created = fs::create_dir(folder);
        let is_new_folder = created.is_ok();
        match created {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::Write { path: folder.to_owned(), source: error });
            }
            Err(_) if !folder.is_dir() => {
                let text = "it is a file, and a sharded model is a folder: choose another name";
                let source = io::Error::new(io::ErrorKind::NotADirectory, text);
                return Err(Error::Write { path: folder.to_owned(), source });
            }
            _ => {}
        }
        let before = ManifestBefore::read(folder, MANIFEST).map_err(|source| {
            if is_new_folder {
                let _ = fs::remove_dir(folder);
            }
            Error::Write { path: folder.to_owned(), source }
        })?;
        if is_new_folder {
            partial_files().push(PartialPath::always(folder.to_owned()));
        }
        let writer = Self {
            folder: folder.to_owned(),
            normalize,
            files: vec![],
            new: vec![],
            before: Arc::new(before),
            is_new_folder,
        };
        if is_new_folder {
            let synced = Folder::open(folder_of(folder)).and_then(|parent| parent.sync());
            synced.map_err(|source| Error::Write { path: folder.to_owned(), source })?;
        }
        check_writable(&folder.join(MANIFEST))?;
        Ok(writer)
    }

    /// Writes the next rows as one shard.
    ///
    /// # Errors
    /// The errors of [`write_shard`].
    pub fn write(&mut self, rows: &Embeddings<'_>) -> Result<(), Error> {
        let number = self.files.len() as u32;
        let shard = write_file(&self.folder, number, rows, self.normalize, |path| {
            // After an error, new files are removed. A file that may belong to the model of the folder must not count as new.
            if !path.try_exists()? {
                partial_files().push(PartialPath::shard(path.to_owned(), &self.before));
                self.new.push(path.to_owned());
            }
            Ok(())
        })?;
        self.files.push(shard);
        Ok(())
    }

    /// Opens the shards that were written, as [`open_shards`] does.
    ///
    /// # Errors
    /// The errors of [`open_shards`].
    pub fn open(&self) -> Result<ShardedRows, Error> {
        open_shards(&self.folder, &self.files)
    }

    /// Writes the manifest of a model that was fitted to the shards.
    ///
    /// # Errors
    /// The errors of [`save`](crate::save).
    pub fn save(mut self, model: &Model<'_>) -> Result<(), Error> {
        // From here on an interrupt must not remove the shards, because the manifest may list them.
        self.keep_on_exit();
        let saved = crate::save(model, &self.folder);
        if saved.is_ok() {
            self.new.clear();
            self.is_new_folder = false;
        }
        saved
    }

    fn keep_on_exit(&self) {
        partial_files().retain(|other| !self.new.contains(&other.path) && other.path != self.folder);
    }
}

impl Drop for ShardWriter {
    fn drop(&mut self) {
        if !self.new.is_empty() {
            // If only writing the folder to the disk has failed, the new manifest has its final name, and its shards are kept.
            self.before.unless_replaced(
                |folder| folder.lock().ok(),
                || {
                    for path in &self.new {
                        let _ = fs::remove_file(path);
                    }
                },
            );
        }
        self.keep_on_exit();
        if self.is_new_folder {
            // This fails if the folder is not empty.
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

/// Opens shards that [`write_shard`] wrote. Their rows have consecutive ids in the order of `files`. Shards without rows are skipped.
/// Rows are mapped, not read.
///
/// # Errors
/// [`Error::Read`], [`Error::Damaged`] for a missing, renamed or damaged shard or if some shards are normalized and others are not,
/// [`Error::Model`] if no shard has rows or the numbers of columns differ.
pub fn open_shards(folder: &Path, files: &[ShardFile]) -> Result<ShardedRows, Error> {
    let (shards, _) = open_files(folder, files)?;
    Ok(shards)
}

fn open_files(folder: &Path, files: &[ShardFile]) -> Result<(ShardedRows, Vec<Container>), Error> {
    let (mut shards, mut containers, mut is_normalized) = (vec![], vec![], None);
    for file in files.iter().filter(|file| file.rows > 0) {
        let (shard, container, normalized) = open_file(folder, file)?;
        if *is_normalized.get_or_insert(normalized) != normalized {
            let problem = "its rows are normalized and those of other shards are not, or the reverse";
            return Err(Error::damaged(container.path(), SHARD, problem));
        }
        shards.push(shard);
        containers.push(container);
    }
    let rows = ShardedRows::new(shards, is_normalized.unwrap_or(false));
    let rows = rows.map_err(|source| Error::Model { path: folder.to_owned(), source: source.into() })?;
    Ok((rows, containers))
}

/// Opens one shard. The last value is whether its rows are normalized.
fn open_file(folder: &Path, file: &ShardFile) -> Result<(Shard, Container, bool), Error> {
    let path = folder.join(&file.name);
    let damaged = |problem: &str| Error::damaged(&path, SHARD, problem);
    if !file.has_valid_name() {
        return Err(damaged("it is not the name of a file of rows in the folder of the model"));
    }
    if !path.exists() {
        return Err(damaged(
            "the file is missing; restore it from a copy of the folder, or fit the model again",
        ));
    }
    let container = Container::open(&path)?;
    if !file.name.ends_with(&format!("-{:016x}.nuq", container.fingerprint())) {
        return Err(damaged("it holds other rows than its name states; restore the file from a copy"));
    }
    let meta: ShardMeta =
        serde_json::from_slice(container.read(SHARD)?).map_err(|problem| damaged(&problem.to_string()))?;
    let values = RowValues::F32(container.values(ROWS_F32)?);
    let parts = RowParts { dim: meta.dim, values, removed: vec![], scale: None };
    let rows = StoredRows::restore(parts, Box::new(ContainerVerifier(container.clone())))
        .map_err(|source| restore_error(&container, source))?;
    if rows.len() != file.rows {
        return Err(damaged("it has another number of rows than the manifest states"));
    }
    Ok((Shard { name: file.name.clone(), rows }, container, meta.normalized))
}

/// The manifest of a folder that holds a sharded model; other paths are returned unchanged.
pub(crate) fn manifest_of(path: &Path) -> PathBuf {
    let manifest = path.join(MANIFEST);
    if path.is_dir() && manifest.exists() { manifest } else { path.to_owned() }
}

/// The error of a folder without a manifest.
pub(crate) fn no_manifest(folder: &Path) -> io::Error {
    let text = if folder.join("guard.json").exists() {
        "it is the folder of a guard: open it with nuq.load_guard or nuq.torch.load_guard in Python, or use its file model.nuq".to_owned()
    } else if folder.join("MLmodel").exists() {
        "it is the folder of an MLflow model: open it with nuq.mlflow.load_model in Python".to_owned()
    } else {
        format!(
            "it is a folder without {MANIFEST}: it holds no sharded model, or `nuq fit --shards` did not finish; run it again"
        )
    };
    io::Error::new(io::ErrorKind::IsADirectory, text)
}

/// The section `shards` of the manifest of a model.
pub(crate) fn section(shards: &ShardedRows) -> Vec<u8> {
    let file = |(_, shard): (u32, &Shard)| ShardFile { name: shard.name.clone(), rows: shard.rows.len() };
    let files: Vec<ShardFile> = shards.shards().map(file).collect();
    serde_json::to_vec(&files).expect("the metadata has string keys only")
}

/// The shards that a manifest lists. Their names are valid.
pub(crate) fn listed(container: &Container) -> Result<Vec<ShardFile>, Error> {
    let damaged = |problem: String| Error::damaged(container.path(), SHARDS, problem);
    let files: Vec<ShardFile> =
        serde_json::from_slice(container.read(SHARDS)?).map_err(|problem| damaged(problem.to_string()))?;
    match files.iter().find(|file| !file.is_valid()) {
        Some(file) => Err(damaged(format!("{:?} is not the name of a file of rows", file.name))),
        None => Ok(files),
    }
}

/// Restores the index of a sharded model from its manifest. Returns the index and the opened shard files.
pub(crate) fn restore(
    container: &Container,
    meta: &IndexMeta,
) -> Result<(Box<dyn NeighborIndex + 'static>, Vec<Container>), Error> {
    let folder = container.path().parent().unwrap_or(Path::new(""));
    let (rows, files) = open_files(folder, &listed(container)?)?;
    let rows = match &meta.scale {
        Some(scale) => rows.scaled(scale.clone()).map_err(|source| restore_error(container, source))?,
        None => rows,
    };
    if rows.dim() != meta.dim {
        let problem = "the shards have another number of columns than the manifest states";
        return Err(Error::damaged(container.path(), SHARDS, problem));
    }
    Ok((Box::new(ShardedIndex::new(rows, Device::current())), files))
}

/// Calls `write` with the path of the manifest to write the sharded model `model` into `folder`, which must hold its shards. Shards of
/// the model that the folder held before are removed afterwards.
pub(crate) fn replace_manifest(
    model: &impl FittedModel,
    folder: &Path,
    write: impl FnOnce(&Path) -> Result<(), Error>,
) -> Result<(), Error> {
    let Some(shards) = model.index().rows().sharded() else {
        let text = "it is a folder, and only a sharded model is written to a folder: give the name of a file";
        let source = io::Error::new(io::ErrorKind::IsADirectory, text);
        return Err(Error::Write { path: folder.to_owned(), source });
    };
    // Another process may write a model into the same folder, and then removes the shards of the former model. The lock ensures that the shards of this
    // model exist when its manifest is written.
    let failed = |source| Error::Write { path: folder.to_owned(), source };
    let locked = Folder::open(folder).map_err(failed)?;
    let _lock = locked.lock().map_err(failed)?;
    for (_, shard) in shards.shards() {
        open_file(folder, &ShardFile { name: shard.name.clone(), rows: shard.rows.len() })?;
    }
    let manifest = folder.join(MANIFEST);
    // If the previous manifest is damaged, the shards that it listed are not known, and remain.
    let previous = match Container::open(&manifest).and_then(|container| listed(&container)) {
        Err(Error::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => vec![],
        Err(error) if error.is_io() => return Err(error),
        previous => previous.unwrap_or_default(),
    };
    write(&manifest)?;
    let is_used = |file: &ShardFile| shards.shards().any(|(_, shard)| shard.name == file.name);
    for file in previous.iter().filter(|file| file.has_valid_name() && !is_used(file)) {
        // A file that remains does not affect the model.
        let _ = fs::remove_file(folder.join(&file.name));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use nuq::NuqClassifier;

    use super::*;
    use crate::partial_files::remove_paths;

    /// A folder with a sharded model of two shards.
    fn sharded_model() -> (tempfile::TempDir, Vec<ShardFile>) {
        let folder = tempfile::tempdir().unwrap();
        let writer = write_rows(folder.path());
        let files = writer.files.clone();
        let model = fit(&writer);
        writer.save(&model).unwrap();
        (folder, files)
    }

    /// Replaces the list of shards in the manifest of a folder, with valid checksums.
    fn list(folder: &Path, files: &[ShardFile]) {
        let path = folder.join(MANIFEST);
        let container = Container::open(&path).unwrap();
        let json = serde_json::to_vec(files).unwrap();
        let sections: Vec<Section<'_>> = container
            .sections()
            .iter()
            .map(|section| match section.name.as_str() {
                SHARDS => Section { name: SHARDS, bytes: &json },
                name => Section { name, bytes: container.read(name).unwrap() },
            })
            .collect();
        write_atomically(&path, |file| container::write(file, &sections)).unwrap();
    }

    /// Writes two shards. Every call writes the same rows.
    fn write_rows(folder: &Path) -> ShardWriter {
        let mut writer = ShardWriter::new(folder, false).unwrap();
        writer.write(&Embeddings::from_rows(&[[0.0], [0.1]]).unwrap()).unwrap();
        writer.write(&Embeddings::from_rows(&[[1.0], [1.1]]).unwrap()).unwrap();
        writer
    }

    fn fit(writer: &ShardWriter) -> Model<'static> {
        let model = NuqClassifier::params().n_neighbors(2);
        Model::Classifier(model.fit_shards(&writer.open().unwrap(), &["a", "a", "b", "b"], None).unwrap())
    }

    #[test]
    fn new_shards_are_removed_unless_another_model_may_list_them() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("model");
        drop(write_rows(&folder));
        assert!(!folder.exists(), "the new shards and the new folder are removed");
        for ends_by_signal in [false, true] {
            let failed = write_rows(&folder);
            let saved = write_rows(&folder);
            let model = fit(&saved);
            saved.save(&model).unwrap();
            if ends_by_signal {
                let is_own = |path: &&PartialPath| path.path.starts_with(&folder);
                let own: Vec<PartialPath> = partial_files().iter().filter(is_own).cloned().collect();
                assert_eq!(own.len(), 2, "the new shards");
                remove_paths(&own);
            } else {
                drop(failed);
            }
            crate::open(&folder).unwrap();
            fs::remove_dir_all(&folder).unwrap();
        }
    }

    /// While the manifest is written, its model may already have found its shards in the folder.
    #[cfg(unix)]
    #[test]
    fn a_signal_removes_no_shards_while_another_process_writes_the_manifest() {
        let folder = tempfile::tempdir().unwrap();
        let writer = write_rows(folder.path());
        let own: Vec<PartialPath> =
            writer.new.iter().map(|path| PartialPath::shard(path.clone(), &writer.before)).collect();
        let other = Folder::open(folder.path()).unwrap();
        let lock = other.lock().unwrap();
        remove_paths(&own);
        assert!(own.iter().all(|shard| shard.path.exists()));
        drop(lock);
        remove_paths(&own);
        assert!(!own.iter().any(|shard| shard.path.exists()));
    }

    #[test]
    fn a_manifest_lists_only_files_of_rows() {
        let (folder, files) = sharded_model();
        let valid = files[1].name.as_str();
        let (absolute, above) = (folder.path().join(valid), format!("../{valid}"));
        let below = format!("sub/{valid}");
        let slash = format!("{valid}/");
        for name in [
            "../x.nuq",
            above.as_str(),
            below.as_str(),
            slash.as_str(),
            absolute.to_str().unwrap(),
            "/etc/passwd",
            "C:\\x.nuq",
            "..\\x.nuq",
            "..",
            ".",
            "",
            MANIFEST,
            "notes.txt",
            "rows-00001-0123456789ABCDEF.nuq",
            "rows-1-0123456789abcdef.nuq",
            "rows-00001-0123456789abcdef.nuq\0",
            "rows-00001-..-0123456789abcdef.nuq",
        ] {
            // The name of a shard without rows is checked too: such a shard is never opened, but listed files are also copied
            // and removed.
            for rows in [0, 2] {
                let changed = ShardFile { name: name.to_owned(), rows };
                assert_eq!(changed.is_valid(), rows == 0 && name.is_empty(), "{name}");
                list(folder.path(), &[files[0].clone(), changed]);
                for error in [crate::open(folder.path()).err(), crate::open_manifest(folder.path()).err()] {
                    let is_valid = rows == 0 && name.is_empty();
                    assert!(
                        is_valid
                            || matches!(&error, Some(Error::Damaged { section, .. }) if section == SHARDS),
                        "{name:?} with {rows} rows: {error:?}"
                    );
                }
            }
        }
        list(folder.path(), &files);
        crate::open(folder.path()).unwrap();
    }

    #[test]
    fn a_manifest_that_lists_too_many_rows_is_damaged() {
        let (folder, files) = sharded_model();
        let many = ShardFile { rows: usize::MAX, ..files[1].clone() };
        list(folder.path(), &[files[0].clone(), many]);
        for error in [crate::open(folder.path()).err(), crate::open_manifest(folder.path()).err()] {
            assert!(matches!(error, Some(Error::Damaged { .. })), "{error:?}");
        }
        let error = crate::open_manifest(folder.path()).unwrap_err().to_string();
        assert!(
            error.ends_with("manifest.nuq: section `shards` is damaged: it lists too many rows"),
            "{error}"
        );
    }

    #[test]
    fn a_new_model_removes_no_other_file_than_shards() {
        let (folder, files) = sharded_model();
        let model = crate::open(folder.path()).unwrap().model;
        let notes = folder.path().join("notes.txt");
        fs::write(&notes, "of the user").unwrap();
        let hostile = |name: &str| ShardFile { name: name.to_owned(), rows: 2 };
        list(folder.path(), &[hostile("notes.txt"), hostile(MANIFEST)]);
        crate::save(&model, folder.path()).unwrap();
        assert_eq!(fs::read_to_string(&notes).unwrap(), "of the user");
        assert_eq!(crate::open_manifest(folder.path()).unwrap().shards, files);
    }

    #[cfg(unix)]
    #[test]
    fn a_linked_shard_must_have_the_contents_of_its_name() {
        use std::os::unix::fs::symlink;
        let (folder, files) = sharded_model();
        let elsewhere = tempfile::tempdir().unwrap();
        let (shard, moved) = (folder.path().join(&files[0].name), elsewhere.path().join("blob"));
        // Caches of downloaded files consist of links.
        fs::rename(&shard, &moved).unwrap();
        symlink(&moved, &shard).unwrap();
        crate::open(folder.path()).unwrap();
        let error_with = |target: &Path| {
            fs::remove_file(&shard).unwrap();
            symlink(target, &shard).unwrap();
            crate::open(folder.path()).unwrap_err().to_string()
        };
        let other = error_with(&folder.path().join(&files[1].name));
        assert!(other.contains("it holds other rows than its name states"), "{other}");
        let text = error_with(Path::new("/proc/self/status"));
        assert!(text.contains(&files[0].name), "{text}");
        let pipe = elsewhere.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let pipe = error_with(&pipe);
        assert!(pipe.contains("it is not a regular file"), "{pipe}");
    }
}
