//! `nuq fit`: reads arrays, fits a model, saves it and prints the fitted values.

use std::path::Path;
use std::time::Instant;

use nuq::{
    Density, DensityKind, Embeddings, FittedModel, IndexKind, Model, NamedCriterion, NuqClassifier,
    NuqRegressor, Params, Precision,
};
use nuq_io::{ArraySpec, EmbeddingsFile};

use crate::args::{Common, FitArgs, Preset, buffer_stdin};
use crate::destination;
use crate::error::Error;
use crate::inspect::Summary;
use crate::progress::{device_message, message, observe};
use crate::training_rows::TrainingRows;
use crate::{baseline, output, rows};

pub(crate) fn run(options: &FitArgs, common: &Common) -> Result<(), Error> {
    if let Some(method) = options.method {
        return baseline::fit(method, options, common);
    }
    check_combinations(options)?;
    let task = Task::new(options)?;
    let embeddings = options.embeddings.as_ref();
    let embeddings = embeddings.ok_or_else(|| Error::Usage("--embeddings is required".to_owned()))?;
    let others = options.labels.iter().map(|spec| ("--labels", spec));
    let others = others.chain(options.targets.iter().map(|spec| ("--targets", spec)));
    let others = others.chain(options.weights.iter().map(|spec| ("--weights", spec)));
    let inputs: Vec<_> = std::iter::once(("--embeddings", embeddings)).chain(others).collect();
    buffer_stdin(inputs.iter().copied())?;
    rows::check_not_column(inputs[1..].iter().copied(), embeddings, options.input.options())?;
    let inputs: Vec<&Path> = inputs.into_iter().map(|(_, spec)| spec.path.as_path()).collect();
    TrainingRows::check_out(options, &inputs)?;
    let file = open_rows(embeddings, options)?;
    let column_names = rows::distinct_names(embeddings, &file)?;
    let x = TrainingRows::read(embeddings, file, options)?;
    message(common, &x.message(embeddings));
    let (expected_rows, input) = ((embeddings, x.len()), options.input.options());
    let weights = options.weights.as_ref();
    let weights = weights.map(|spec| rows::numbers(spec, "weights", expected_rows, input)).transpose()?;
    warn_weights(weights.as_deref(), common);
    let warn_truth_column = |first_rows: &Embeddings<'_>, truth: (&str, &ArraySpec, &[Option<f64>])| {
        rows::warn_truth_column((embeddings, column_names.as_deref(), first_rows), truth, common);
    };
    let start = Instant::now();
    let mut model = match task {
        Task::Classification(labels, params) => {
            let y = rows::labels(labels, expected_rows, input)?;
            let first_rows = x.first_rows()?;
            let values = rows::label_numbers(&y[..first_rows.len()]);
            warn_truth_column(&first_rows, ("labels", labels, &values));
            drop(first_rows);
            observe("fitting", common, || x.classifier(&params, &y, weights.as_deref()))?
        }
        Task::Regression(targets, params) => {
            let y = rows::numbers(targets, "targets", expected_rows, input)?;
            let first_rows = x.first_rows()?;
            let values: Vec<Option<f64>> = y[..first_rows.len()].iter().copied().map(Some).collect();
            warn_truth_column(&first_rows, ("targets", targets, &values));
            drop(first_rows);
            observe("fitting", common, || x.regressor(&params, &y, weights.as_deref()))?
        }
    };
    let seconds = start.elapsed().as_secs_f64();
    model.set_column_names(column_names)?;
    warn(options, &model, common);
    x.save(&model, &options.out)?;
    device_message(common, model.index());
    message(common, &format!("fitted in {seconds:.2} s, saved as {}", destination::name(&options.out)));
    let summary = Summary::new(&model);
    output::print_report(common, &options.out, &summary, &summary.text())
}

/// The labels or targets of a fit, and the parameters.
enum Task<'o> {
    Classification(&'o ArraySpec, Params<nuq::Classification>),
    Regression(&'o ArraySpec, Params<nuq::Regression>),
}

impl<'o> Task<'o> {
    /// Checks the values of all options, so that an invalid one is reported before data are read.
    fn new(options: &'o FitArgs) -> Result<Self, Error> {
        match (&options.labels, &options.targets) {
            (Some(labels), _) => {
                let params = classifier(options)?;
                params.check()?;
                Ok(Self::Classification(labels, params))
            }
            (None, Some(targets)) => {
                let params = regressor(options)?;
                params.check()?;
                Ok(Self::Regression(targets, params))
            }
            (None, None) => Err(Error::Usage("--labels or --targets is required".to_owned())),
        }
    }
}

fn open_rows(embeddings: &ArraySpec, options: &FitArgs) -> Result<EmbeddingsFile, Error> {
    let others: Vec<&ArraySpec> =
        options.labels.iter().chain(&options.targets).chain(&options.weights).collect();
    let ids: Vec<String> = options.id_column.iter().cloned().collect();
    Ok(options.input.options().embeddings_keeping(embeddings, &others, &ids)?)
}

/// Reports properties of the data that limit the model.
fn warn(options: &FitArgs, model: &Model<'_>, common: &Common) {
    rows::warn_neighbors(options.n_neighbors, model.index().len(), common);
    match model {
        Model::Classifier(model) if model.classes().len() == 1 => {
            let text = "all labels are equal: only log_density and the epistemic uncertainty are informative";
            message(common, text);
        }
        Model::Classifier(model) if model.classes().look_like_targets() => {
            let (classes, rows) = (model.classes().len(), model.index().len());
            let text = format!(
                "warning: {classes} classes in {rows} rows, and all labels are integers: if they are quantities, fit a regressor with \
                 --targets in place of --labels"
            );
            message(common, &text);
        }
        _ => {}
    }
}

/// Prints a warning if the weights seem to be shares instead of numbers of rows, for example if their sum is 1.
fn warn_weights(weights: Option<&[f64]>, common: &Common) {
    let (sum, rows) = (weights.unwrap_or_default().iter().sum::<f64>(), weights.map_or(0, <[f64]>::len));
    if sum > 0.0 && sum < 0.1 * rows as f64 {
        let equivalent = rounded(sum);
        let text = format!(
            "warning: the weights of {} have the sum {equivalent}: a row with weight w counts as w identical rows, so the model has \
             the equivalent of only {equivalent} row{}; multiply the weights by {} for a mean of 1",
            output::count(rows, "row"),
            if equivalent == 1.0 { "" } else { "s" },
            rounded(rows as f64 / sum)
        );
        message(common, &text);
    }
}

/// A number rounded to six significant digits, which removes the rounding error of a sum.
fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().expect("a formatted number is a number")
}

/// Rejects options that have no effect with the other options.
fn check_combinations(options: &FitArgs) -> Result<(), Error> {
    let usage = |text: &str| Err(Error::Usage(text.to_owned()));
    let density = options.density;
    if density != Some(DensityKind::Gmm) && options.covariance.is_some() {
        return usage("--covariance requires --density gmm");
    }
    if density != Some(DensityKind::Gmm) && options.shrinkage.is_some() {
        return usage("--shrinkage requires --density gmm");
    }
    if density != Some(DensityKind::Gmm) && options.scale_free {
        return usage("--scale-free requires --density gmm");
    }
    if density.is_some_and(|density| density != DensityKind::Kde) && options.density_bandwidth.is_some() {
        return usage("--density-bandwidth requires --density kde");
    }
    if options.targets.is_some() && options.variance.is_some() {
        return usage(
            "--variance requires --labels: the variance of a regressor is the variance of its targets",
        );
    }
    if options.targets.is_some() && matches!(options.preset, Preset::Paper) {
        return usage("--preset paper requires --labels: the algorithm of the paper is a classifier");
    }
    if options.index == IndexKind::Exact && options.recall.is_some() {
        return usage("--recall requires --index hnsw or auto: exact search finds all neighbors");
    }
    if options.index != IndexKind::Auto && options.expected_queries.is_some() {
        return usage("--expected-queries requires --index auto");
    }
    if options.shards.is_some() && matches!(options.index, IndexKind::Hnsw(_)) {
        return usage("--shards requires --index exact or auto: shards are searched exactly");
    }
    if options.shards.is_some() && options.recall.is_some() {
        return usage("--recall cannot be used with --shards: shards are searched exactly");
    }
    if options.shards.is_some() && options.expected_queries.is_some() {
        return usage("--expected-queries cannot be used with --shards: shards are searched exactly");
    }
    if !matches!(options.index, IndexKind::Hnsw(_)) && options.precision.is_some() {
        return usage("--precision requires --index hnsw");
    }
    Ok(())
}

fn classifier(options: &FitArgs) -> Result<Params<nuq::Classification>, Error> {
    let mut params = match options.preset {
        Preset::Default => NuqClassifier::params(),
        Preset::Paper => NuqClassifier::paper(),
    };
    if let Some(variance) = options.variance {
        params = params.variance(variance);
    }
    shared(params, options)
}

fn regressor(options: &FitArgs) -> Result<Params<nuq::Regression>, Error> {
    shared(NuqRegressor::params(), options)
}

/// Sets the options that both tasks have.
fn shared<T>(mut params: Params<T>, options: &FitArgs) -> Result<Params<T>, Error>
where
    T: nuq::Task<Criterion: NamedCriterion>,
{
    if let Some(word) = &options.bandwidth {
        let rule = word.rule::<T::Criterion>().map_err(|unknown| {
            let data = if options.targets.is_some() { "--targets" } else { "--labels" };
            Error::Usage(format!("--bandwidth {} with {data}: choose {}", unknown.given, unknown.list()))
        })?;
        params = params.bandwidth(rule);
    }
    if let Some(k) = options.n_neighbors {
        params = params.n_neighbors(k);
    }
    if let Some(kernel) = options.kernel {
        params = params.kernel(kernel);
    }
    if let Some(weight) = options.prior_weight {
        params = params.prior_weight(weight);
    }
    if let Some(scale) = options.scale {
        params = params.scale(scale);
    }
    if let Some(density) = density(options) {
        params = params.density(density);
    }
    if options.normalize {
        params = params.normalize(true);
    }
    if let Some(recall) = options.recall {
        params = params.recall(recall);
    }
    if let Some(queries) = options.expected_queries {
        params = params.expected_queries(queries);
    }
    if let Some(rows) = options.selection_rows {
        params = params.selection_rows(rows);
    }
    let index = match options.index {
        IndexKind::Hnsw(graph) => {
            let precision = options.precision.unwrap_or(Precision::F32);
            IndexKind::Hnsw(graph.seed(options.seed).precision(precision))
        }
        other => other,
    };
    Ok(params.seed(options.seed).index(index))
}

/// The density if an option sets any part of it; `None` if the density of the preset applies.
fn density(options: &FitArgs) -> Option<Density> {
    match options.density {
        Some(DensityKind::Gmm) => Some(Density::Gmm {
            covariance: options.covariance.unwrap_or_default(),
            shrinkage: options.shrinkage.unwrap_or_default(),
            scale_free: options.scale_free,
        }),
        Some(DensityKind::Auto) => Some(Density::Auto),
        Some(DensityKind::Kde) if matches!(options.preset, Preset::Default) => {
            Some(Density::Kde { bandwidth: options.density_bandwidth.unwrap_or_default() })
        }
        // The preset `paper` has a kernel density. `--density kde` does not change it.
        Some(DensityKind::Kde) | None => {
            options.density_bandwidth.map(|bandwidth| Density::Kde { bandwidth })
        }
    }
}
