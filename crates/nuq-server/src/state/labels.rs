//! Labels of a classifier or targets of a regressor, and their JSON in the journal.

use nuq::{Label, Model};
use serde::{Deserialize, Serialize};

/// The labels of a classifier or the targets of a regressor.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Labels {
    Classes(Vec<Label>),
    Targets(Vec<f64>),
}

impl Labels {
    pub(super) fn none() -> Self {
        Self::Classes(vec![])
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Labels::Classes(labels) => labels.len(),
            Labels::Targets(targets) => targets.len(),
        }
    }

    pub(super) fn to_json(&self) -> String {
        let labels: Vec<LabelJson> = match self {
            Labels::Classes(labels) => labels.iter().map(LabelJson::from).collect(),
            Labels::Targets(targets) => targets.iter().map(|&target| LabelJson::Target { target }).collect(),
        };
        serde_json::to_string(&labels).expect("labels have no keys but strings")
    }
}

/// The labels or targets of rows.
pub(super) fn labels_of(model: &Model<'_>, ids: &[u32]) -> Labels {
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

/// Reads labels that [`Labels::to_json`] wrote; `None` if the text is not valid.
pub(super) fn labels_of_json(json: &str) -> Option<Labels> {
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
