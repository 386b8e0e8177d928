//! Changes of a model's rows and rules (thresholds, prediction sets and prediction intervals). A change is prepared for a model, applied to
//! it, and reversed by another change.

use std::collections::HashSet;

use nuq::calibrate::Rules;
use nuq::{Bandwidth, Embeddings, FittedModel, Model, NeighborIndex};
use nuq_io::rules_to_bytes;

use super::labels::{Labels, labels_of};

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

    pub(super) fn of(name: &str) -> Option<Self> {
        [Kind::Insert, Kind::Remove, Kind::Relabel, Kind::Threshold]
            .into_iter()
            .find(|kind| kind.name() == name)
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
    /// The rules after the change. `None` for a change of rows after which there are none: the model removes them when its rows change.
    pub(crate) rules_after: Option<Rules>,
    /// The id of the change that this one reverses.
    pub(crate) undoes: Option<u64>,
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
    /// No rows, a wrong number of columns or labels, or a model that cannot insert rows: it is sharded, or has one bandwidth per row.
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
    /// The model is sharded, an id names no row or is listed twice, there are no ids, or all rows would be removed.
    pub(crate) fn remove(model: &Model<'_>, ids: &[u32]) -> Result<Self, nuq::Error> {
        check_changeable(model)?;
        let rows = model.index().rows();
        if let Some(position) = ids.iter().position(|&id| !rows.contains(id)) {
            let (id, problem) = (ids[position], "which names no row");
            return Err(nuq_neighbors::Error::CannotRemove { position, id, problem }.into());
        }
        if let Some(position) = repeated(ids) {
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
    /// The model is a regressor, an id names no row or is listed twice, there are no ids, or the numbers of labels and ids differ.
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
        if let Some(position) = repeated(ids) {
            let (id, problem) = (ids[position], "which is listed twice");
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

/// The position of the first id that is also at an earlier position.
fn repeated(ids: &[u32]) -> Option<usize> {
    let mut listed = HashSet::new();
    ids.iter().position(|id| !listed.insert(id))
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
