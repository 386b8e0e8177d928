//! `nuq label-issues`: training rows whose label is probably wrong.

use nuq::{FittedModel, Label, Model};
use serde_json::{Value, json};

use crate::args::{Common, LabelIssuesArgs};
use crate::column::Column;
use crate::destination;
use crate::error::Error;
use crate::escape;
use crate::output::{self, count, label_json};
use crate::progress::observe;
use crate::table_file::TableFile;

/// Default of `--count` without `--out`.
const PRINTED: usize = 20;

pub(crate) fn run(options: &LabelIssuesArgs, common: &Common) -> Result<(), Error> {
    let to = options.out.as_deref();
    let to = to.map(|out| TableFile::new(out, &[options.model.path()], common)).transpose()?;
    let opened = nuq_io::open(options.model.path())?;
    opened.require_rows()?;
    let Model::Classifier(model) = &opened.model else {
        return Err(Error::Data(format!(
            "{} was fitted with --targets, it is a regressor: label-issues requires a model that was fitted with --labels",
            options.model.path().display()
        )));
    };
    let issues = observe("label issues", common, || model.label_issues())?;
    let label = |class: u32| model.classes().label(class as usize);
    let listed: Vec<Issue<'_>> = issues
        .iter()
        .take(options.count.unwrap_or(if options.out.is_some() { usize::MAX } else { PRINTED }))
        .map(|issue| Issue {
            row: issue.row,
            label: label(issue.given),
            probability: issue.probability_given,
            predicted_label: label(issue.predicted_label),
            predicted_probability: issue.predicted_probability,
        })
        .collect();
    let rows = model.index().len();
    let summary = format!(
        "{} of {} {} a label that is less probable than another label, given the other rows\n",
        issues.len(),
        count(rows, "row"),
        if issues.len() == 1 { "has" } else { "have" }
    );
    let Some(to) = to else {
        let worst: Vec<Value> = listed.iter().map(Issue::json).collect();
        let json = json!({ "rows": rows, "issues": issues.len(), "worst": worst });
        return output::print_result(common, &json, &(table(&listed) + &summary));
    };
    to.write(&columns(&listed))?;
    let json = json!({ "rows": rows, "issues": issues.len(), "written": listed.len(), "out": destination::json_name(to.path()) });
    let text = format!("{}: {}\n{summary}", destination::name(to.path()), count(listed.len(), "row"));
    output::print_report(common, to.path(), &json, &text)
}

/// A listed row.
struct Issue<'m> {
    row: u32,
    label: &'m Label,
    /// Probability of the label of the row, given the other rows.
    probability: f64,
    /// The most probable label, given the other rows.
    predicted_label: &'m Label,
    predicted_probability: f64,
}

impl Issue<'_> {
    fn json(&self) -> Value {
        json!({
            "row": self.row,
            "label": label_json(self.label),
            "probability": self.probability,
            "predicted_label": label_json(self.predicted_label),
            "predicted_probability": self.predicted_probability,
        })
    }
}

/// The columns of an output file, named as in the JSON output.
fn columns(issues: &[Issue<'_>]) -> [(&'static str, Column); 5] {
    let labels =
        |of: fn(&Issue<'_>) -> Label| Column::Labels(issues.iter().map(|issue| Some(of(issue))).collect());
    let numbers =
        |of: fn(&Issue<'_>) -> f64| Column::Numbers(issues.iter().map(|issue| Some(of(issue))).collect());
    [
        ("row", Column::Integers(issues.iter().map(|issue| Some(i64::from(issue.row))).collect())),
        ("label", labels(|issue| issue.label.clone())),
        ("probability", numbers(|issue| issue.probability)),
        ("predicted_label", labels(|issue| issue.predicted_label.clone())),
        ("predicted_probability", numbers(|issue| issue.predicted_probability)),
    ]
}

fn table(issues: &[Issue<'_>]) -> String {
    let name = |label: &Label| escape::name(&label.to_string()).into_owned();
    let names = issues.iter().flat_map(|issue| [name(issue.label), name(issue.predicted_label)]);
    let width = names.map(|name| name.chars().count()).max().unwrap_or(0).max("predicted".len());
    let mut text = format!(
        "{:>8}  {:<width$} {:>12}  {:<width$} {:>12}\n",
        "row", "label", "probability", "predicted", "probability"
    );
    for issue in issues {
        text += &format!(
            "{:>8}  {:<width$} {:>12.2e}  {:<width$} {:>12.4}\n",
            issue.row,
            name(issue.label),
            issue.probability,
            name(issue.predicted_label),
            issue.predicted_probability
        );
    }
    text
}
