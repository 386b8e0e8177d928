//! Labels and targets in the bodies of requests.

use axum::http::StatusCode;
use nuq::{Classes, Label, Model};
use serde::Deserialize;

use crate::error::ApiError;
use crate::results::label_json;
use crate::state::Labels;

/// Largest number of classes that a message lists.
const LISTED: usize = 20;

/// A label or a target in a body.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum LabelValue {
    Bool(bool),
    Int(i64),
    LargeInt(u64),
    Float(f64),
    Text(String),
}

impl LabelValue {
    fn label(self) -> Option<Label> {
        match self {
            Self::Bool(value) => Some(Label::Bool(value)),
            Self::Int(value) => Some(Label::Int(value.into())),
            Self::LargeInt(value) => Some(Label::Int(value.into())),
            Self::Text(text) => Some(Label::Text(text)).filter(|label| !label.is_missing()),
            Self::Float(_) => None,
        }
    }

    fn target(&self) -> Option<f64> {
        match *self {
            Self::Int(value) => Some(value as f64),
            Self::LargeInt(value) => Some(value as f64),
            Self::Float(value) => Some(value),
            Self::Bool(_) | Self::Text(_) => None,
        }
    }
}

/// Converts the labels of a body to classes or to targets, depending on the model.
pub(super) fn labels(model: &Model<'_>, values: Vec<LabelValue>) -> Result<Labels, ApiError> {
    match model {
        Model::Classifier(model) => Ok(Labels::Classes(class_labels(model.classes(), values, "labels")?)),
        Model::Regressor(_) => {
            let target = |(row, value): (usize, &LabelValue)| {
                value.target().ok_or_else(|| invalid("labels", row, "a number"))
            };
            Ok(Labels::Targets(values.iter().enumerate().map(target).collect::<Result<_, ApiError>>()?))
        }
    }
}

/// Converts labels to the type of the classes. `field` is the name that messages use.
fn class_labels(
    classes: &Classes,
    values: Vec<LabelValue>,
    field: &'static str,
) -> Result<Vec<Label>, ApiError> {
    let are_integers = classes.labels().iter().all(|label| matches!(label, Label::Int(_)));
    let convert = |(row, value): (usize, LabelValue)| {
        let expected = "a text, an integer or a boolean (a text such as “NA” is a missing label)";
        let label = value.label().ok_or_else(|| invalid(field, row, expected))?;
        // Forms of web pages send only text, so digits become an integer if the classes are integers.
        Ok(match &label {
            Label::Text(digits) if are_integers => digits.trim().parse().map_or(label, Label::Int),
            _ => classes.convert(label),
        })
    };
    let labels: Vec<Label> = values.into_iter().enumerate().map(convert).collect::<Result<_, ApiError>>()?;
    classes.check_kind(&labels)?;
    Ok(labels)
}

/// The error of a label that is not of the expected kind.
fn invalid(field: &str, row: usize, expected: &str) -> ApiError {
    ApiError::invalid(format!("{field}[{row}] is not {expected}"))
}

/// Converts the labels of training rows. A label that is not a class of the model may be a typing error, so it is refused unless
/// `new_classes` lists it.
pub(super) fn training_labels(
    model: &Model<'_>,
    values: Vec<LabelValue>,
    new_classes: Option<Vec<LabelValue>>,
) -> Result<Labels, ApiError> {
    let Model::Classifier(classifier) = model else {
        return match new_classes {
            Some(_) => {
                Err(ApiError::invalid("new_classes requires a classifier: a regressor has no classes"))
            }
            None => labels(model, values),
        };
    };
    let classes = classifier.classes();
    let labels = class_labels(classes, values, "labels")?;
    let allowed = class_labels(classes, new_classes.unwrap_or_default(), "new_classes")?;
    let is_known = |label: &Label| classes.labels().binary_search(label).is_ok() || allowed.contains(label);
    match labels.iter().position(|label| !is_known(label)) {
        None => Ok(Labels::Classes(labels)),
        Some(row) => Err(new_class(classes, row, &labels[row])),
    }
}

/// The error of a label that is not a class of the model.
fn new_class(classes: &Classes, row: usize, label: &Label) -> ApiError {
    let listed = classes.labels().iter().take(LISTED).map(|label| format!("“{label}”"));
    let mut listed = listed.collect::<Vec<_>>().join(", ");
    if classes.len() > LISTED {
        listed += &format!(" and {} more", classes.len() - LISTED);
    }
    let message = format!(
        "labels[{row}] is “{label}”, which is not a class of the model: correct the label, or add \"new_classes\": [{}] to the body to \
         create this class; the classes are {listed}",
        label_json(label)
    );
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "new_class", message)
}
