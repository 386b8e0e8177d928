//! `nuq calibrate --temperature`: fits the temperature of the network's logits.

use nuq::{FittedModel, Label, Model};
use nuq_eval::baselines;
use serde_json::json;

use super::Replacement;
use crate::args::{CalibrateArgs, Common, buffer_stdin};
use crate::error::Error;
use crate::progress::message;
use crate::rows::UnknownLabels;
use crate::{destination, output, rows};

pub(super) fn run(options: &CalibrateArgs, common: &Common) -> Result<(), Error> {
    let (Some(spec), Some(labels_spec)) = (&options.logits, &options.labels) else {
        return Err(Error::Usage("--temperature requires --logits and --labels".to_owned()));
    };
    buffer_stdin([("--logits", spec), ("--labels", labels_spec)])?;
    let (mut opened, replacement) = Replacement::open_model(options, common, "--temperature")?;
    let Model::Classifier(model) = &mut opened.model else {
        return Err(Error::Usage("--temperature requires a classifier".to_owned()));
    };
    rows::check_class_names(model, &options.classes)?;
    let labels = options.input.options().labels(labels_spec)?;
    let labels: Vec<Label> = labels.into_iter().map(|label| model.classes().convert(label)).collect();
    rows::check_labels(labels_spec, &labels, model, common, UnknownLabels::LeaveOut)?;
    let expected_rows = (labels_spec, labels.len());
    let logits = rows::logits(spec, model, &options.classes, expected_rows, options.input.options())?;
    let class_of = |label: &Label| model.classes().labels().binary_search(label).ok();
    let known: Vec<(u32, u32)> = labels
        .iter()
        .enumerate()
        .filter_map(|(row, label)| Some((row as u32, class_of(label)? as u32)))
        .collect();
    let (kept, classes): (Vec<u32>, Vec<u32>) = known.into_iter().unzip();
    let temperature = baselines::temperature(&logits.gather(&kept), &classes)?;
    // `baselines::temperature` searches the range from 0.01 to 100.
    if !(0.0101..99.0).contains(&temperature) {
        let reason = match temperature < 1.0 {
            true => {
                "smaller ones have a higher likelihood. Either the network predicts every held-out row correctly, as it may do with its \
                 training rows, or these are not the logits that it passes to softmax"
            }
            false => {
                "larger ones have a higher likelihood. The logits do not predict the labels: compare the order of their columns with \
                 the classes"
            }
        };
        let text =
            format!("warning: the temperature {temperature:.4} is at the limit of its range; {reason}");
        message(common, &text);
    }
    let rules = model.rules_mut();
    let before = rules.thresholds.len() + rules.sets.len();
    rules.set_temperature(Some(temperature))?;
    let removed = before - rules.thresholds.len() - rules.sets.len();
    let out = replacement.save(&opened.model)?;
    let removed_text = match removed {
        0 => String::new(),
        _ => format!(
            "\nremoved {} that {} chosen with logits at another temperature",
            if removed == 1 {
                "1 threshold or set".to_owned()
            } else {
                format!("{removed} thresholds and sets")
            },
            if removed == 1 { "was" } else { "were" }
        ),
    };
    let text = format!(
        "temperature {temperature:.4}, on {}{removed_text}\nstored in {}\n",
        output::count(classes.len(), "held-out row"),
        destination::name(out)
    );
    let json = json!({
        "temperature": temperature, "rows": classes.len(), "removed": removed, "out": destination::json_name(out)
    });
    output::print_report(common, out, &json, &text)
}
