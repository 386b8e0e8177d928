//! `nuq label-issues`: training rows whose label is probably wrong.

use nuq::{FittedModel, Model};
use serde_json::json;

use crate::args::{Common, LabelIssuesArgs};
use crate::error::Error;
use crate::output::{self, label_json};

pub(crate) fn run(options: &LabelIssuesArgs, common: &Common) -> Result<(), Error> {
    let opened = nuq_io::open(&options.model)?;
    let Model::Classifier(model) = &opened.model else {
        return Err(Error::Data(format!(
            "{} is a regressor: label-issues requires a classifier",
            options.model.display()
        )));
    };
    let issues = model.label_issues()?;
    let label = |class: u32| model.classes().label(class as usize);
    let listed = issues.iter().take(options.count);
    if common.json {
        let list: Vec<_> = listed
            .map(|issue| {
                json!({
                    "row": issue.row,
                    "label": label_json(label(issue.given)),
                    "probability": issue.probability_given,
                    "likeliest": label_json(label(issue.likeliest)),
                    "probability_of_likeliest": issue.probability_likeliest,
                })
            })
            .collect();
        let page = json!({ "rows": model.index().len(), "issues": issues.len(), "worst": list });
        return output::print(
            &(serde_json::to_string_pretty(&page).expect("the result has only string keys") + "\n"),
        );
    }
    let mut text = format!(
        "{:>8}  {:<20} {:>12}  {:<20} {:>12}\n",
        "row", "label", "probability", "likeliest", "probability"
    );
    for issue in listed {
        text += &format!(
            "{:>8}  {:<20} {:>12.2e}  {:<20} {:>12.4}\n",
            issue.row,
            label(issue.given).to_string(),
            issue.probability_given,
            label(issue.likeliest).to_string(),
            issue.probability_likeliest
        );
    }
    text += &format!(
        "{} of {} rows have a label that is less probable than another, given the other rows\n",
        issues.len(),
        model.index().len()
    );
    output::print(&text)
}
