//! The report as JSON.

use serde_json::Value;

use crate::report::Report;

/// Fields that contain only the data of figures and of the list of the most uncertain rows.
const FIGURE_FIELDS: [&str; 7] =
    ["risk_coverage", "roc", "counts", "histograms", "bandwidth", "map", "most_uncertain"];

impl Report {
    /// Summary, model, sets, methods, skipped methods and provenance as indented JSON, without the data of figures and
    /// without the most uncertain rows.
    #[must_use]
    pub fn json(&self) -> String {
        let mut value = serde_json::to_value(self).expect("a report serializes without errors");
        if let Value::Object(fields) = &mut value {
            fields.retain(|name, _| !FIGURE_FIELDS.contains(&name.as_str()));
        }
        serde_json::to_string_pretty(&value).expect("a JSON value serializes without errors") + "\n"
    }
}
