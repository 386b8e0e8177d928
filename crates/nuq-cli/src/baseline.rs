//! `nuq fit --method`: fits a baseline and saves it.

use std::path::Path;
use std::time::Instant;

use nuq_eval::baselines::{FitInputs, Uses, fit as fit_method};
use nuq_eval::evaluate::MethodId;
use nuq_io::{ArraySpec, BaselineDetails, MappedInput, TrainingRows};

use crate::args::{Common, FitArgs, buffer_stdin};
use crate::error::Error;
use crate::inspect::BaselineSummary;
use crate::progress::{message, observe};
use crate::{destination, output, rows};

pub(crate) fn fit(method: MethodId, options: &FitArgs, common: &Common) -> Result<(), Error> {
    check_options(method, options)?;
    let arrays =
        [("--embeddings", &options.embeddings), ("--labels", &options.labels), ("--logits", &options.logits)];
    let given = || arrays.iter().filter_map(|(name, spec)| spec.as_ref().map(|spec| (*name, spec)));
    buffer_stdin(given())?;
    if let Some(embeddings) = &options.embeddings {
        let labels = options.labels.iter().map(|spec| ("--labels", spec));
        rows::check_not_column(labels, embeddings, options.input.options())?;
    }
    let inputs: Vec<&Path> = given().map(|(_, spec)| &*spec.path).collect();
    output::check_out(&options.out, &inputs)?;
    destination::check_binary(&options.out)?;
    let others: Vec<&ArraySpec> = options.labels.iter().collect();
    let (mut training, mut mapped) = (None, None);
    let embeddings = match &options.embeddings {
        Some(spec) => {
            let file = options.input.options().embeddings(spec, &others)?;
            let column_names = rows::distinct_names(spec, &file)?;
            let (rows, mapped_file) = rows::map(spec, file)?;
            mapped = mapped_file;
            training = Some(TrainingRows { rows: rows.len(), columns: rows.dim(), column_names });
            message(common, &rows::read_message(spec, &rows));
            Some((spec, rows))
        }
        None => None,
    };
    let (mut labels, mut logits) = (None, None);
    if let Some((x_spec, x)) = &embeddings {
        if let Some(spec) = &options.labels {
            let y = rows::labels(spec, (x_spec, x.len()), options.input.options())?;
            let names = training.as_ref().and_then(|training| training.column_names.as_deref());
            rows::warn_truth_column((x_spec, names, x), ("labels", spec, &rows::label_numbers(&y)), common);
            labels = Some(y);
        }
        if let Some(spec) = &options.logits {
            let z = rows::read(spec, options.input.options().embeddings(spec, &[])?)?;
            rows::check_length(spec, z.len(), "rows of logits", (x_spec, x.len()))?;
            logits = Some(z);
        }
    }
    let start = Instant::now();
    let inputs = FitInputs {
        embeddings: embeddings.as_ref().map(|(_, rows)| rows),
        labels: labels.as_deref(),
        logits: logits.as_ref(),
        n_neighbors: options.n_neighbors,
        shrinkage: options.shrinkage.unwrap_or_default(),
        seed: options.seed,
    };
    let scorer = observe("fitting", common, || fit_method(method, &inputs))?;
    let seconds = start.elapsed().as_secs_f64();
    rows::warn_neighbors(options.n_neighbors, training.as_ref().map_or(0, |training| training.rows), common);
    let details = BaselineDetails { training, ..BaselineDetails::default() };
    mapped.as_ref().map_or(Ok(()), MappedInput::verify_unchanged)?;
    destination::save_baseline(&*scorer, &details, &options.out)?;
    message(common, &format!("fitted in {seconds:.2} s, saved as {}", destination::name(&options.out)));
    let params = scorer.parts().map(|parts| parts.params).unwrap_or_default();
    let summary = BaselineSummary::new(method, &*scorer, &params, &details);
    output::print_report(common, &options.out, &summary, &summary.text())
}

/// Rejects methods that are computed from the predictions of a NUQ model, missing arrays, and arrays and options that the method does
/// not use.
fn check_options(method: MethodId, options: &FitArgs) -> Result<(), Error> {
    let usage = |text: String| Err(Error::Usage(text));
    let Some(uses) = Uses::of(method) else {
        return usage(format!(
            "--method {method}: it is computed from the predictions of a NUQ model, omit --method"
        ));
    };
    let arrays = [
        ("--embeddings", options.embeddings.is_some(), uses.embeddings),
        ("--labels", options.labels.is_some(), uses.labels),
        ("--logits", options.logits.is_some(), uses.logits),
    ];
    let unused = [
        ("--n-neighbors", options.n_neighbors.is_some() && !uses.n_neighbors),
        ("--shrinkage", options.shrinkage.is_some() && !uses.shrinkage),
        ("--seed", options.seed != 0 && !uses.seed),
    ];
    if let Some((name, ..)) = arrays.iter().find(|(_, is_given, is_used)| *is_used && !is_given) {
        return usage(format!("--method {method} requires {name}"));
    }
    let unused_array =
        arrays.iter().find(|(_, is_given, is_used)| *is_given && !is_used).map(|(name, ..)| name);
    let unused_option = unused.iter().find(|(_, is_unused)| *is_unused).map(|(name, _)| name);
    match unused_array.or(unused_option) {
        Some(name) => usage(format!("{name} is not used by --method {method}")),
        None => Ok(()),
    }
}
