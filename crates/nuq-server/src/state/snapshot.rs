//! Snapshots: a snapshot is the model after a change, as a model file in the state folder. Recovery starts from the last snapshot.

use std::fs;
use std::path::{Path, PathBuf};

use nuq::Model;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::StateError;

/// The state of a model in the database.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Base {
    /// Identifies the model file that the changes belong to.
    pub(super) fingerprint: u64,
    /// The name of the snapshot in the state folder; `None` if there is no snapshot.
    pub(super) snapshot: Option<String>,
    /// The id of the last change that the snapshot contains; 0 if there is no snapshot.
    pub(super) change: u64,
    /// The version of the model. It increases by one with each change and each replacement of the file, and never decreases.
    pub(super) version: u64,
}

pub(super) fn read(from: &Connection, model: &str) -> rusqlite::Result<Option<Base>> {
    from.query_row(
        "SELECT fingerprint, snapshot, snapshot_change, version FROM models WHERE name = ?1",
        [model],
        |row| {
            Ok(Base {
                fingerprint: row.get::<_, i64>(0)? as u64,
                snapshot: row.get(1)?,
                change: row.get::<_, i64>(2)? as u64,
                version: row.get::<_, i64>(3)? as u64,
            })
        },
    )
    .optional()
}

pub(super) fn write(to: &Transaction<'_>, model: &str, base: &Base) -> rusqlite::Result<()> {
    to.execute(
        "INSERT OR REPLACE INTO models (name, fingerprint, snapshot, snapshot_change, version) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![model, base.fingerprint as i64, base.snapshot, base.change as i64, base.version as i64],
    )?;
    Ok(())
}

pub(super) fn write_version(to: &Transaction<'_>, model: &str, version: u64) -> rusqlite::Result<()> {
    let mut update = to.prepare_cached("UPDATE models SET version = ?2 WHERE name = ?1")?;
    update.execute(params![model, version as i64])?;
    Ok(())
}

/// The beginning of the names of a model's snapshots. It contains no character that has a special meaning in paths. The first word
/// distinguishes snapshots from model files that lie in the same folder, because former snapshots are removed.
fn prefix(model: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
        other => format!("%{other:02x}"),
    };
    format!("nuq-snapshot-{}-", model.bytes().map(escape).collect::<String>())
}

/// Writes the file of a snapshot and returns its name. When this returns, the file is on the disk.
pub(super) fn save(model: &Model<'_>, folder: &Path, name: &str, change: u64) -> Result<String, StateError> {
    let file = format!("{}{change}.nuq", prefix(name));
    match nuq_io::save(model, &folder.join(&file)) {
        Ok(()) => Ok(file),
        Err(nuq_io::Error::Write { source, .. }) if source.kind() == std::io::ErrorKind::StorageFull => {
            Err(StateError::Full { folder: folder.to_owned(), problem: source.to_string() })
        }
        Err(error) => Err(error.into()),
    }
}

/// Removes all snapshots of a model except `current`: former snapshots, and files that a killed process has left, complete or not. Errors
/// are ignored, because these files are never read. The caller ensures that no snapshot of the model is being written; other processes do
/// not use the folder.
pub(super) fn remove_others(folder: &Path, model: &str, current: Option<&str>) {
    let (prefix, Ok(entries)) = (prefix(model), fs::read_dir(folder)) else { return };
    let is_other = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some((change, rest)) = name.strip_prefix(&prefix).and_then(|rest| rest.split_once(".nuq")) else {
            return false;
        };
        let is_snapshot = rest.is_empty() || rest.starts_with('.') && rest.ends_with(".partial");
        is_snapshot && change.parse::<u64>().is_ok() && Some(name.as_str()) != current
    };
    for path in entries.flatten().map(|entry| entry.path()).filter(is_other) {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_snapshots_of_the_same_model_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let removed = ["a-1.nuq", "a-2.nuq.71-0.partial", "a-12.nuq.71-0.partial"]
            .map(|name| format!("nuq-snapshot-{name}"));
        let snapshots = [
            "a-12.nuq",
            "a-b.nuq",
            "ab-1.nuq",
            "ab-1.nuq.71-0.partial",
            "a%2db-1.nuq",
            "a-1.txt",
            "a-1.nuqs",
        ];
        // Model files that lie in the folder are no snapshots, whatever their names.
        let files = ["a.nuq", "a-1.nuq", "a-20240101.nuq", "state.sqlite"].map(str::to_owned);
        let kept: Vec<String> =
            snapshots.iter().map(|name| format!("nuq-snapshot-{name}")).chain(files).collect();
        let path = |name: &String| folder.path().join(name);
        removed.iter().chain(&kept).for_each(|name| fs::write(path(name), "").unwrap());
        remove_others(folder.path(), "a", Some("nuq-snapshot-a-12.nuq"));
        assert_eq!(removed.iter().filter(|name| path(name).exists()).count(), 0);
        assert_eq!(kept.iter().filter(|name| path(name).exists()).count(), kept.len());
        assert_eq!(prefix("../x y"), "nuq-snapshot-%2e%2e%2fx%20y-");
    }
}
