//! The journal: changes of a model's rows and rules (thresholds, prediction sets and prediction intervals), in the order in which they
//! were applied.
//!
//! An entry contains everything that is needed to apply the change again, and to undo it. It is committed before the change is applied,
//! and it is on the disk before the change is acknowledged. Applying an entry is deterministic: the entry contains the ids of inserted
//! rows.

use nuq_io::{rules_from_bytes, rules_to_bytes};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::StateError;
use super::change::{Change, Kind};
use super::codec::{Decoder, Encoder, f32_bytes, f32s, u32_bytes, u32s};
use super::database::Database;
use super::labels::{Labels, labels_of_json};
use super::obstacle::{Obstacle, find_obstacles};

/// A change in the journal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    /// Milliseconds since 1970.
    pub(crate) time_ms: u64,
    pub(crate) change: Change,
}

/// Appends a change and returns its id.
pub(super) fn append(
    to: &Transaction<'_>,
    model: &str,
    time_ms: u64,
    change: &Change,
) -> rusqlite::Result<u64> {
    let weights = change.weights.as_ref().map(|weights| {
        let mut encoder = Encoder::default();
        encoder.f64s(weights);
        encoder.finish()
    });
    to.prepare_cached(
        "INSERT INTO changes
             (model, time_ms, kind, name, ids, rows, labels, former_labels, weights, rules_before, rules_after, undoes)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )?
    .execute(params![
        model,
        time_ms as i64,
        change.kind.name(),
        change.name,
        u32_bytes(&change.ids),
        f32_bytes(&change.rows),
        change.labels.to_json(),
        change.former_labels.to_json(),
        weights,
        rules_to_bytes(&change.rules_before),
        change.rules_after.as_ref().map(rules_to_bytes),
        change.undoes.map(|id| id as i64),
    ])?;
    let id = to.last_insert_rowid() as u64;
    if let Some(undone) = change.undoes {
        to.execute("UPDATE changes SET undone_by = ?1 WHERE id = ?2", params![id as i64, undone as i64])?;
    }
    Ok(id)
}

/// Marks a change that could not be applied.
pub(super) fn mark_failed(to: &Transaction<'_>, id: u64) -> rusqlite::Result<()> {
    to.execute("UPDATE changes SET failed = 1 WHERE id = ?1", [id as i64])?;
    to.execute("UPDATE changes SET undone_by = NULL WHERE undone_by = ?1", [id as i64])?;
    Ok(())
}

const COLUMNS: &str =
    "id, time_ms, kind, name, ids, rows, labels, weights, rules_before, rules_after, undoes, former_labels";

/// The error of a value that this program did not write.
fn invalid(column: usize) -> rusqlite::Error {
    rusqlite::Error::InvalidColumnType(column, "changes".to_owned(), Type::Blob)
}

fn optional_id(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(|id| id as u64))
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    let weights = match row.get::<_, Option<Vec<u8>>>(7)? {
        Some(bytes) => Some(Decoder::new(&bytes).f64s().ok_or_else(|| invalid(7))?),
        None => None,
    };
    let rules = |column: usize, bytes: &[u8]| rules_from_bytes(bytes).ok_or_else(|| invalid(column));
    let rules_after = match row.get::<_, Option<Vec<u8>>>(9)? {
        Some(bytes) => Some(rules(9, &bytes)?),
        None => None,
    };
    let change = Change {
        kind: Kind::of(&row.get::<_, String>(2)?).ok_or_else(|| invalid(2))?,
        name: row.get(3)?,
        ids: u32s(&row.get::<_, Vec<u8>>(4)?),
        rows: f32s(&row.get::<_, Vec<u8>>(5)?),
        labels: labels_of_json(&row.get::<_, String>(6)?).ok_or_else(|| invalid(6))?,
        former_labels: labels_of_json(&row.get::<_, String>(11)?).ok_or_else(|| invalid(11))?,
        weights,
        rules_before: rules(8, &row.get::<_, Vec<u8>>(8)?)?,
        rules_after,
        undoes: optional_id(row, 10)?,
    };
    let (id, time_ms) = (row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64);
    Ok(Entry { id, time_ms, change })
}

/// Calls `each` with the changes after the change `after`, in their order, without those that could not be applied.
pub(super) fn for_each_after(
    from: &Connection,
    model: &str,
    after: u64,
    mut each: impl FnMut(Entry) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let query =
        format!("SELECT {COLUMNS} FROM changes WHERE model = ?1 AND id > ?2 AND failed = 0 ORDER BY id");
    let mut statement = from.prepare_cached(&query)?;
    let mut rows = statement.query(params![model, after as i64])?;
    while let Some(row) = rows.next()? {
        each(entry(row)?)?;
    }
    Ok(())
}

/// A change without its rows and rules, which may be large.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Summary {
    pub(crate) id: u64,
    /// Milliseconds since 1970.
    pub(crate) time_ms: u64,
    pub(crate) kind: Kind,
    /// The name of the threshold; empty for changes of rows.
    pub(crate) name: String,
    pub(crate) ids: Vec<u32>,
    pub(crate) labels: Labels,
    pub(crate) undoes: Option<u64>,
    pub(crate) undone_by: Option<u64>,
    /// Why the change cannot be undone; `None` if no other change prevents it.
    pub(crate) obstacle: Option<Obstacle>,
    /// Whether there are no later changes. A later change and its reversal are not counted if they have the same
    /// ids of rows.
    pub(super) is_last: bool,
}

/// Up to `limit` changes whose ids are at least `first`, newest first, without those that could not be applied.
pub(super) fn newest(
    from: &Database,
    model: &str,
    (first, limit): (u64, usize),
) -> Result<Vec<Summary>, StateError> {
    let mut changes = from.read(|connection| select(connection, model, (first, limit)))?;
    // The changes are compared after the connection is released, because other requests and the recorder wait for it.
    find_obstacles(&mut changes);
    Ok(changes)
}

/// The changes of [`newest`], not yet compared with each other.
fn select(from: &Connection, model: &str, (first, limit): (u64, usize)) -> rusqlite::Result<Vec<Summary>> {
    let mut statement = from.prepare_cached(
        "SELECT id, time_ms, kind, name, ids, labels, undoes, undone_by
         FROM changes WHERE model = ?1 AND id >= ?2 AND failed = 0 ORDER BY id DESC LIMIT ?3",
    )?;
    let summary = |row: &Row<'_>| {
        Ok(Summary {
            id: row.get::<_, i64>(0)? as u64,
            time_ms: row.get::<_, i64>(1)? as u64,
            kind: Kind::of(&row.get::<_, String>(2)?).ok_or_else(|| invalid(2))?,
            name: row.get(3)?,
            ids: u32s(&row.get::<_, Vec<u8>>(4)?),
            labels: labels_of_json(&row.get::<_, String>(5)?).ok_or_else(|| invalid(5))?,
            undoes: optional_id(row, 6)?,
            undone_by: optional_id(row, 7)?,
            obstacle: None,
            is_last: false,
        })
    };
    let limit = limit.min(i64::MAX as usize) as i64;
    statement.query_map(params![model, first as i64, limit], summary)?.collect()
}

/// One change; `None` if it is not stored or could not be applied.
pub(super) fn get(from: &Connection, model: &str, id: u64) -> rusqlite::Result<Option<Change>> {
    let query = format!("SELECT {COLUMNS} FROM changes WHERE model = ?1 AND id = ?2 AND failed = 0");
    let change = |row: &Row<'_>| Ok(entry(row)?.change);
    from.prepare_cached(&query)?.query_row(params![model, id as i64], change).optional()
}

/// Removes changes up to the id `snapshot_change`. The newest changes of the model stay: up to `count` changes whose rows and rules have up
/// to `bytes` bytes together.
pub(super) fn prune(
    from: &Transaction<'_>,
    model: &str,
    (snapshot_change, count, bytes): (u64, usize, u64),
) -> rusqlite::Result<()> {
    let mut statement = from.prepare_cached(
        "SELECT id, length(rows) + length(rules_before) + coalesce(length(rules_after), 0)
         FROM changes WHERE model = ?1 ORDER BY id DESC",
    )?;
    let mut rows = statement.query([model])?;
    let (mut kept, mut sum) = (0, 0);
    while let Some(row) = rows.next()? {
        kept += 1;
        sum += row.get::<_, i64>(1)? as u64;
        if kept > count || sum > bytes {
            let last = row.get::<_, i64>(0)?.min(snapshot_change.min(i64::MAX as u64) as i64);
            from.execute("DELETE FROM changes WHERE model = ?1 AND id <= ?2", params![model, last])?;
            break;
        }
    }
    Ok(())
}
