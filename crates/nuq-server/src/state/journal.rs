//! The journal: changes of a model's rows and rules, in the order in which they were applied.
//!
//! An entry contains everything that is needed to apply the change again, and to undo it. It is committed before the change is applied,
//! and it is on the disk before the change is acknowledged. Applying an entry is deterministic: the entry contains the ids of inserted
//! rows.

use std::collections::HashSet;

use nuq::calibrate::Rules;
use nuq::{Bandwidth, Embeddings, FittedModel, Label, Model, NeighborIndex};
use nuq_io::{rules_from_bytes, rules_to_bytes};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use serde::{Deserialize, Serialize};

use super::codec::{Decoder, Encoder, f32_bytes, f32s, u32_bytes, u32s};

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Rows were inserted.
    Insert,
    /// Rows were removed.
    Remove,
    /// Rows got other labels.
    Relabel,
    /// A threshold was stored or removed.
    Threshold,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Insert => "insert",
            Kind::Remove => "remove",
            Kind::Relabel => "relabel",
            Kind::Threshold => "threshold",
        }
    }

    fn of(name: &str) -> Option<Self> {
        [Kind::Insert, Kind::Remove, Kind::Relabel, Kind::Threshold]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// The labels of a classifier or the targets of a regressor.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Labels {
    Classes(Vec<Label>),
    Targets(Vec<f64>),
}

impl Labels {
    fn none() -> Self {
        Self::Classes(vec![])
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Labels::Classes(labels) => labels.len(),
            Labels::Targets(targets) => targets.len(),
        }
    }

    fn to_json(&self) -> String {
        let labels: Vec<LabelJson> = match self {
            Labels::Classes(labels) => labels.iter().map(LabelJson::from).collect(),
            Labels::Targets(targets) => targets.iter().map(|&target| LabelJson::Target { target }).collect(),
        };
        serde_json::to_string(&labels).expect("labels have no keys but strings")
    }
}

/// The labels or targets of rows.
fn labels_of(model: &Model<'_>, ids: &[u32]) -> Labels {
    match model {
        Model::Classifier(model) => {
            let label = |id: &u32| model.classes().label(model.training_classes()[*id as usize] as usize);
            Labels::Classes(ids.iter().map(label).cloned().collect())
        }
        Model::Regressor(model) => {
            Labels::Targets(ids.iter().map(|id| model.targets()[*id as usize]).collect())
        }
    }
}

/// A change of a model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Change {
    pub(crate) kind: Kind,
    /// The name of the threshold; empty for changes of rows.
    pub(crate) name: String,
    /// The ids of the inserted, removed or relabeled rows.
    pub(crate) ids: Vec<u32>,
    /// The inserted or removed rows, one after the other.
    pub(crate) rows: Vec<f32>,
    /// The labels or targets of inserted or removed rows; the new labels of relabeled rows.
    pub(crate) labels: Labels,
    /// The former labels of relabeled rows.
    pub(crate) former_labels: Labels,
    /// The sample weights of inserted or removed rows; `None` if all are 1.
    pub(crate) weights: Option<Vec<f64>>,
    /// The rules before the change.
    pub(crate) rules_before: Rules,
    /// The rules after the change. `None` if the change of the rows alone determines them.
    pub(crate) rules_after: Option<Rules>,
    /// The id of the change that this one reverses.
    pub(crate) undoes: Option<u64>,
}

/// A change in the journal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    /// Milliseconds since 1970.
    pub(crate) time_ms: u64,
    pub(crate) change: Change,
    /// The id of the change that reversed this one.
    pub(crate) undone_by: Option<u64>,
}

/// Returns an error for a sharded model, because its rows cannot be changed.
fn check_changeable(model: &Model<'_>) -> Result<(), nuq::Error> {
    match model.index().rows().sharded() {
        Some(_) => Err(nuq_neighbors::Error::FixedShards.into()),
        None => Ok(()),
    }
}

impl Change {
    /// The change that replaces the rules of the model by `rules`, in which the threshold `name` was stored or removed.
    pub(crate) fn rules(model: &Model<'_>, name: &str, rules: Rules) -> Self {
        Self { name: name.to_owned(), rules_after: Some(rules), ..Self::of_rules(model) }
    }

    /// The change that inserts rows, with the ids that the rows will get. The model is not changed yet.
    ///
    /// # Errors
    /// Rows or labels that the model does not accept.
    pub(crate) fn insert(
        model: &Model<'_>,
        rows: &Embeddings<'_>,
        labels: Labels,
        weights: Option<Vec<f64>>,
    ) -> Result<Self, nuq::Error> {
        let (got, expected) = (rows.dim(), model.index().dim());
        if got != expected {
            return Err(nuq_neighbors::Error::DimensionMismatch { got, expected }.into());
        }
        if rows.is_empty() {
            return Err(nuq::Error::NoRows { what: "rows" });
        }
        check_changeable(model)?;
        if matches!(model.bandwidth(), Bandwidth::PerPoint(_)) {
            return Err(nuq::Error::PerPointBandwidthFixed);
        }
        let (got, expected) = (labels.len(), rows.len());
        if got != expected {
            return Err(nuq::Error::LengthMismatch { what: "labels", got, counterpart: "rows", expected });
        }
        let (ids, rows) = (next_ids(model.index(), rows.len()), rows.as_slice().to_vec());
        Ok(Self { kind: Kind::Insert, ids, rows, labels, weights, ..Self::of_rules(model) })
    }

    /// The change that removes rows. The model is not changed yet.
    ///
    /// # Errors
    /// An id that names no row or is listed twice, no ids, or the removal of all rows.
    pub(crate) fn remove(model: &Model<'_>, ids: &[u32]) -> Result<Self, nuq::Error> {
        check_changeable(model)?;
        let rows = model.index().rows();
        if let Some(position) = ids.iter().position(|&id| !rows.contains(id)) {
            let (id, problem) = (ids[position], "which names no row");
            return Err(nuq_neighbors::Error::CannotRemove { position, id, problem }.into());
        }
        let mut listed = HashSet::new();
        if let Some(position) = ids.iter().position(|id| !listed.insert(id)) {
            let (id, problem) = (ids[position], "which is listed twice");
            return Err(nuq_neighbors::Error::CannotRemove { position, id, problem }.into());
        }
        // An undo inserts the rows in ascending order of their former ids. If no other ids are free, each row gets its former id.
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        if ids.is_empty() {
            return Err(nuq::Error::NoRows { what: "ids" });
        }
        if ids.len() >= model.index().len() {
            return Err(nuq::Error::NoRows { what: "training rows left" });
        }
        let weights =
            model.sample_weights().map(|weights| ids.iter().map(|&id| weights[id as usize]).collect());
        let labels = labels_of(model, &ids);
        let rows = rows.gather(&ids)?.as_slice().to_vec();
        Ok(Self { kind: Kind::Remove, ids, rows, labels, weights, ..Self::of_rules(model) })
    }

    /// The change that replaces the labels of rows. The model is not changed yet.
    ///
    /// # Errors
    /// The model is a regressor, an id names no row, there are no ids, or the numbers of labels and ids differ.
    pub(crate) fn relabel(model: &Model<'_>, ids: &[u32], labels: Labels) -> Result<Self, nuq::Error> {
        if matches!(model, Model::Regressor(_)) {
            return Err(nuq::Error::NoRows { what: "class labels" });
        }
        let (got, expected) = (labels.len(), ids.len());
        if got != expected {
            return Err(nuq::Error::LengthMismatch { what: "labels", got, counterpart: "ids", expected });
        }
        if ids.is_empty() {
            return Err(nuq::Error::NoRows { what: "ids" });
        }
        let rows = model.index().rows();
        if let Some(position) = ids.iter().position(|&id| !rows.contains(id)) {
            let (id, problem) = (ids[position], "which names no row");
            return Err(nuq::Error::CannotRelabel { position, id, problem });
        }
        let former_labels = labels_of(model, ids);
        Ok(Self { kind: Kind::Relabel, ids: ids.to_vec(), labels, former_labels, ..Self::of_rules(model) })
    }

    /// A change without rows, in which `rules_before` are the current rules. The other constructors set the fields that differ.
    fn of_rules(model: &Model<'_>) -> Self {
        Self {
            kind: Kind::Threshold,
            name: String::new(),
            ids: vec![],
            rows: vec![],
            labels: Labels::none(),
            former_labels: Labels::none(),
            weights: None,
            rules_before: model.rules().clone(),
            rules_after: None,
            undoes: None,
        }
    }

    /// The change that reverses this one. `id` is the id of this change, and `is_last` says whether there is no later change.
    ///
    /// # Errors
    /// The reversal does not fit the model.
    pub(super) fn inverse(&self, id: u64, model: &Model<'_>, is_last: bool) -> Result<Self, nuq::Error> {
        let mut inverse = match self.kind {
            Kind::Insert => Self::remove(model, &self.ids)?,
            Kind::Remove => {
                let rows = Embeddings::new(self.rows.clone(), model.index().dim())?;
                Self::insert(model, &rows, self.labels.clone(), self.weights.clone())?
            }
            Kind::Relabel => Self::relabel(model, &self.ids, self.former_labels.clone())?,
            Kind::Threshold => {
                let mut rules = model.rules().clone();
                rules.copy_threshold(&self.name, &self.rules_before);
                Self::rules(model, &self.name, rules)
            }
        };
        // The rows are the same as before the change, so the former rules are valid again.
        if is_last && self.kind != Kind::Threshold {
            inverse.rules_after = Some(self.rules_before.clone());
        }
        inverse.undoes = Some(id);
        Ok(inverse)
    }

    /// Applies the change to a model.
    ///
    /// # Errors
    /// The change does not fit the model. The model is then unchanged.
    pub(super) fn apply(&self, model: &mut Model<'_>) -> Result<(), nuq::Error> {
        match self.kind {
            Kind::Insert => {
                let ids = self.insert_into(model)?;
                assert_eq!(ids, self.ids, "inserted rows get the free ids, ascending, and then new ones");
            }
            Kind::Remove => match model {
                Model::Classifier(model) => model.remove(&self.ids)?,
                Model::Regressor(model) => model.remove(&self.ids)?,
            },
            Kind::Relabel => match (&mut *model, &self.labels) {
                (Model::Classifier(model), Labels::Classes(labels)) => model.relabel(&self.ids, labels)?,
                _ => return Err(nuq::Error::NoRows { what: "class labels" }),
            },
            Kind::Threshold => {}
        }
        if let Some(rules) = &self.rules_after {
            *model.rules_mut() = rules.clone();
        }
        Ok(())
    }

    fn insert_into(&self, model: &mut Model<'_>) -> Result<Vec<u32>, nuq::Error> {
        let rows = Embeddings::new(self.rows.clone(), model.index().dim())?;
        match (model, &self.labels, &self.weights) {
            (Model::Classifier(model), Labels::Classes(labels), None) => model.insert(&rows, labels),
            (Model::Classifier(model), Labels::Classes(labels), Some(weights)) => {
                model.insert_weighted(&rows, labels, weights)
            }
            (Model::Regressor(model), Labels::Targets(targets), None) => model.insert(&rows, targets),
            (Model::Regressor(model), Labels::Targets(targets), Some(weights)) => {
                model.insert_weighted(&rows, targets, weights)
            }
            (Model::Classifier(_), Labels::Targets(_), _) => Err(nuq::Error::NoRows { what: "class labels" }),
            (Model::Regressor(_), Labels::Classes(_), _) => Err(nuq::Error::NoRows { what: "targets" }),
        }
    }

    /// The number of bytes in the journal, approximately.
    pub(super) fn bytes(&self) -> u64 {
        let rules = [Some(&self.rules_before), self.rules_after.as_ref()].into_iter().flatten();
        let rules: usize = rules.map(|rules| rules_to_bytes(rules).len()).sum();
        (100 + 4 * self.rows.len() + 24 * self.ids.len() + self.labels.to_json().len() + rules) as u64
    }
}

/// The ids that inserted rows will get: free ids, ascending, and then new ones.
fn next_ids(index: &dyn NeighborIndex, count: usize) -> Vec<u32> {
    let rows = index.rows();
    let bound = rows.id_bound();
    let is_free = |id: &u32| !rows.contains(*id);
    // Most models have no free ids.
    let free = if rows.len() < bound { 0..bound as u32 } else { 0..0 };
    free.filter(is_free).chain(bound as u32..).take(count).collect()
}

/// A label or target in the journal. Integers are written as strings, because JSON readers may round large numbers.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum LabelJson {
    Bool(bool),
    Int { int: String },
    Target { target: f64 },
    Text(String),
}

impl From<&Label> for LabelJson {
    fn from(label: &Label) -> Self {
        match label {
            Label::Bool(value) => Self::Bool(*value),
            Label::Int(value) => Self::Int { int: value.to_string() },
            Label::Text(text) => Self::Text(text.clone()),
        }
    }
}

fn labels_of_json(json: &str) -> Option<Labels> {
    let labels: Vec<LabelJson> = serde_json::from_str(json).ok()?;
    let label = |label: &LabelJson| match label {
        LabelJson::Bool(value) => Some(Label::Bool(*value)),
        LabelJson::Int { int } => int.parse().ok().map(Label::Int),
        LabelJson::Text(text) => Some(Label::Text(text.clone())),
        LabelJson::Target { .. } => None,
    };
    let target = |label: &LabelJson| match label {
        LabelJson::Target { target } => Some(*target),
        _ => None,
    };
    match labels.first() {
        Some(LabelJson::Target { .. }) => {
            labels.iter().map(target).collect::<Option<_>>().map(Labels::Targets)
        }
        _ => labels.iter().map(label).collect::<Option<_>>().map(Labels::Classes),
    }
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

const COLUMNS: &str = "id, time_ms, kind, name, ids, rows, labels, weights, rules_before, rules_after, undoes, undone_by, former_labels";

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
        former_labels: labels_of_json(&row.get::<_, String>(12)?).ok_or_else(|| invalid(12))?,
        weights,
        rules_before: rules(8, &row.get::<_, Vec<u8>>(8)?)?,
        rules_after,
        undoes: optional_id(row, 10)?,
    };
    let (id, time_ms) = (row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64);
    Ok(Entry { id, time_ms, change, undone_by: optional_id(row, 11)? })
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

/// A change without its rows.
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
}

/// Up to `limit` changes, newest first.
pub(super) fn newest(from: &Connection, model: &str, limit: usize) -> rusqlite::Result<Vec<Summary>> {
    let mut statement = from.prepare_cached(
        "SELECT id, time_ms, kind, name, ids, labels, undoes, undone_by
         FROM changes WHERE model = ?1 AND failed = 0 ORDER BY id DESC LIMIT ?2",
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
        })
    };
    statement.query_map(params![model, limit.min(i64::MAX as usize) as i64], summary)?.collect()
}

/// One change; `None` if it is not stored.
pub(super) fn get(from: &Connection, model: &str, id: u64) -> rusqlite::Result<Option<Entry>> {
    let query = format!("SELECT {COLUMNS} FROM changes WHERE model = ?1 AND id = ?2 AND failed = 0");
    from.prepare_cached(&query)?.query_row(params![model, id as i64], entry).optional()
}

/// The changes that follow a change.
pub(super) struct Later {
    /// Whether there is no later change.
    pub(super) is_last: bool,
    /// The id of the first later change of the same rows.
    pub(super) same_rows: Option<u64>,
    /// The id of the first later change of any rows.
    pub(super) rows: Option<u64>,
    /// The id of the first later change of the same threshold.
    pub(super) same_threshold: Option<u64>,
}

/// The changes after `first`. A change and its reversal are both ignored if they have the same ids of rows.
pub(super) fn later(from: &Connection, model: &str, first: &Entry) -> rusqlite::Result<Later> {
    /// The part of a change that is compared. Rows and rules may be large.
    struct Remaining {
        id: u64,
        kind: Kind,
        name: String,
        ids: Vec<u32>,
    }
    let mut remaining: Vec<Remaining> = vec![];
    for_each_after(from, model, first.id, |entry| {
        let Change { kind, name, ids, undoes, .. } = entry.change;
        match remaining.iter().position(|other| Some(other.id) == undoes && other.ids == ids) {
            Some(at) => drop(remaining.remove(at)),
            None => remaining.push(Remaining { id: entry.id, kind, name, ids }),
        }
        Ok(())
    })?;
    let find =
        |is: &dyn Fn(&Remaining) -> bool| remaining.iter().find(|change| is(change)).map(|change| change.id);
    let is_threshold = |change: &Remaining| change.kind == Kind::Threshold;
    Ok(Later {
        is_last: remaining.is_empty(),
        same_rows: find(&|change| change.ids.iter().any(|id| first.change.ids.contains(id))),
        rows: find(&|change| !is_threshold(change)),
        same_threshold: find(&|change| is_threshold(change) && change.name == first.change.name),
    })
}

/// Removes changes that a snapshot contains, except the newest ones: up to `count` changes whose rows and rules have up to `bytes` bytes.
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
