//! Registry of the compared methods: selects those that the given arrays allow, fits them and scores all sets.

use nuq_neighbors::cancel::checkpoint;
use nuq_neighbors::{Embeddings, SeededRng};

use super::shared::{Space, training_labels};
use super::{Comparison, MethodId, Rows};
use crate::Error;
use crate::baselines::{
    Batch, CLIP_QUANTILE, Duq, DuqParams, Energy, Ensemble, Entropy, Fdbd, Gen, Head, Huq, Input,
    KnnDistance, LocalOutlierFactor, Mahalanobis, Margin, MaxLogit, MaxProb, NNGUIDE_NEIGHBORS, NnGuide,
    Normalized, React, Reduction, RelativeMahalanobis, Scorer, Sngp, SngpParams, Vim,
};
use crate::error::out_of_range;
use nuq::calibrate::Measure;
use nuq::{ClassGaussians, FittedModel, Label, NuqClassifier, Prediction, Predictions, Shrinkage};

/// A method that was not compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The identity of the method.
    pub id: MethodId,
    /// The title of the method, [`MethodId::title`].
    pub name: String,
    /// The error message of its fit, or the input that is missing for some sets.
    pub reason: String,
}

impl Skipped {
    fn new(id: MethodId, reason: String) -> Self {
        Self { id, name: id.title().to_owned(), reason }
    }
}

/// The scores of one method for all sets.
pub(super) struct Scored {
    pub(super) id: MethodId,
    pub(super) inputs: &'static [Input],
    pub(super) test: Vec<f64>,
    pub(super) ood: Vec<Vec<f64>>,
    pub(super) fit_seconds: Option<f64>,
    pub(super) seconds_per_1000: Option<f64>,
    pub(super) bytes: u64,
}

/// Results of several methods, in the order in which they are displayed.
#[derive(Default)]
struct Methods {
    scored: Vec<Scored>,
    skipped: Vec<Skipped>,
}

impl Methods {
    fn extend(&mut self, others: Self) {
        self.scored.extend(others.scored);
        self.skipped.extend(others.skipped);
    }
}

/// Fits one method to the training rows.
struct ScorerFactory<'t> {
    id: MethodId,
    fit: Fit<'t>,
}

/// Fits a scorer.
type FitScorer<'t> = dyn Fn() -> Result<Box<dyn Scorer + 't>, Error> + 't;

enum Fit<'t> {
    /// A scorer that is fitted once and then scores all sets.
    Scorer(Box<FitScorer<'t>>),
    /// [`Ddu`](crate::baselines::Ddu), which is fitted in parts of a few classes. Each part scores all sets before the next part is
    /// fitted, because the covariances of all classes can take more memory than the rows.
    Ddu { space: &'t Space<'t>, labels: &'t [Label] },
}

/// The predictions of all sets, the test rows first.
pub(super) struct AllPredictions<'p, 'm> {
    pub(super) nuq: Vec<&'p Predictions<'m>>,
    /// The predictions of the network; `None` for a set without logits.
    pub(super) with_logits: Vec<Option<&'p Predictions<'m>>>,
}

/// Runs every method that the arrays allow. `seconds` is the time that NUQ took to predict 1000 rows.
pub(super) fn score_all(
    comparison: &Comparison<'_>,
    model: &NuqClassifier<'_>,
    predictions: &AllPredictions<'_, '_>,
    seconds: Option<f64>,
) -> Result<(Vec<Scored>, Vec<Skipped>), Error> {
    report_progress(comparison, "NUQ");
    let (scored, skipped_huq) = nuq_scores(comparison, model, predictions, seconds);
    let mut skipped = without_inputs(comparison, model);
    skipped.extend(skipped_huq);
    let mut methods = Methods { scored, skipped };
    let (labels, head) = (training_labels(model), fit_head(comparison, model));
    // The time of the neighbor search is estimated by NUQ's prediction time, nearly all of which is the search.
    let space = Space::of_model(model, &predictions.nuq, seconds.unwrap_or(0.0))?;
    let has_logits = all_have(comparison, |rows| rows.logits);
    let mut first = vec![];
    if has_logits {
        first.extend(from_logits());
    }
    if all_have(comparison, |rows| rows.members) {
        first.extend(from_members());
    }
    if !model.is_normalized() {
        first.extend(from_embeddings(&space, &labels, model));
    }
    methods.extend(score_each(comparison, &space, first)?);
    let mut last = trained(&space, &labels, model);
    if has_logits && !model.is_normalized() {
        last.extend(from_both(&space.rows, &head));
    }
    let last = score_each(comparison, &space, last)?;
    // The methods of normalized rows run after all other methods, so that rows in memory can be normalized in place.
    report_progress(comparison, "normalized rows");
    let space = space.into_normalized();
    report_progress(comparison, "neighbors of normalized rows");
    let space = space.with_neighbors(comparison)?;
    methods.extend(score_each(comparison, &space, from_embeddings(&space, &labels, model))?);
    methods.extend(last);
    Ok((methods.scored, methods.skipped))
}

/// Runs methods one after the other. The model of a method is dropped before the next method is fitted.
fn score_each(
    comparison: &Comparison<'_>,
    space: &Space<'_>,
    factories: Vec<ScorerFactory<'_>>,
) -> Result<Methods, Error> {
    let batches = space.batches(comparison);
    let mut methods = Methods::default();
    for ScorerFactory { id, fit } in factories {
        report_progress(comparison, id.title());
        let scored = match fit {
            Fit::Scorer(fit) => score(comparison, (id, &*fit), &batches, space.search_seconds)?,
            Fit::Ddu { space, labels } => score_ddu(comparison, id, (space, labels), &batches),
        };
        match scored {
            Ok(scored) => methods.scored.push(scored),
            Err(error) => methods.skipped.push(Skipped::new(id, error.to_string())),
        }
    }
    Ok(methods)
}

fn report_progress(comparison: &Comparison<'_>, step: &str) {
    checkpoint();
    if let Some(progress) = comparison.progress {
        progress(step);
    }
}

/// Fits a scorer and scores all sets. The inner error is an error of the fit; the outer error is an error of the
/// scores. `search_seconds` is the time of the shared neighbor search per 1000 rows. It is added to the time of scorers
/// that use the result of this search.
fn score<'t>(
    comparison: &Comparison<'_>,
    (id, fit): (MethodId, &FitScorer<'t>),
    batches: &[Batch<'_>],
    search_seconds: f64,
) -> Result<Result<Scored, Error>, Error> {
    let start = comparison.clock.map(|clock| clock());
    let scorer = match fit() {
        Ok(scorer) => scorer,
        Err(error) => return Ok(Err(error)),
    };
    debug_assert_eq!(scorer.name(), id.title(), "a scorer's name is the title of its id");
    let fitted = comparison.clock.map(|clock| clock());
    let mut scores = batches.iter().map(|batch| scorer.score(batch)).collect::<Result<Vec<_>, _>>()?;
    let rows: usize = scores.iter().map(Vec::len).sum();
    let seconds = comparison.clock.zip(fitted).map(|(clock, fitted)| clock() - fitted);
    let test = scores.remove(0);
    let search_seconds = if scorer.takes_neighbors() { search_seconds } else { 0.0 };
    Ok(Ok(Scored {
        id,
        inputs: match FROM_BOTH.contains(&id) {
            true => &[Input::Embeddings, Input::Logits],
            false => scorer.inputs(),
        },
        test,
        ood: scores,
        fit_seconds: fitted.zip(start).map(|(fitted, start)| fitted - start),
        seconds_per_1000: seconds.map(|seconds| 1000.0 * seconds / rows as f64 + search_seconds),
        bytes: scorer.bytes(),
    }))
}

/// Fits DDU in parts and scores all sets, with the same results as [`Ddu`](crate::baselines::Ddu).
fn score_ddu(
    comparison: &Comparison<'_>,
    id: MethodId,
    (space, labels): (&Space<'_>, &[Label]),
    batches: &[Batch<'_>],
) -> Result<Scored, Error> {
    let now = || comparison.clock.map(|clock| clock());
    let sets: Vec<&Embeddings<'_>> = batches.iter().filter_map(|batch| batch.embeddings).collect();
    let mut scores: Vec<Vec<f64>> = sets.iter().map(|rows| vec![f64::NEG_INFINITY; rows.len()]).collect();
    let (mut score_seconds, mut bytes) = (0.0, 0);
    let start = now();
    ClassGaussians::fit_in_parts(&space.rows, labels, SHRINKAGE, |part| {
        let fitted = now();
        for (rows, log_densities) in sets.iter().zip(&mut scores) {
            // The rows are normalized again for each part. This takes less time than the density of one class, and no second copy of
            // all sets is needed.
            match space.is_normalized {
                true => part.add_density(&rows.l2_normalized(), log_densities)?,
                false => part.add_density(rows, log_densities)?,
            }
        }
        score_seconds += now().zip(fitted).map_or(0.0, |(now, fitted)| now - fitted);
        bytes += 8 * part.n_values() as u64;
        Ok::<(), Error>(())
    })?;
    let seconds = now().zip(start).map(|(now, start)| now - start);
    scores.iter_mut().flatten().for_each(|score| *score = -*score);
    let rows: usize = scores.iter().map(Vec::len).sum();
    Ok(Scored {
        id,
        inputs: &[Input::Embeddings],
        test: scores.remove(0),
        ood: scores,
        fit_seconds: seconds.map(|seconds| seconds - score_seconds),
        seconds_per_1000: seconds.map(|_| 1000.0 * score_seconds / rows as f64),
        bytes,
    })
}

/// The uncertainties in the predictions of NUQ. If all sets have logits, also the uncertainties about the predictions
/// of the network. The last method is HUQ, which combines two uncertainties of NUQ; it is skipped if its fit fails.
fn nuq_scores(
    comparison: &Comparison<'_>,
    model: &NuqClassifier<'_>,
    predictions: &AllPredictions<'_, '_>,
    seconds_per_1000: Option<f64>,
) -> (Vec<Scored>, Option<Skipped>) {
    let scored = |id: MethodId, mut sets: Vec<Vec<f64>>| Scored {
        id,
        inputs: match WITH_LOGITS.iter().any(|(with_logits, _)| *with_logits == id) {
            true => &[Input::Embeddings, Input::Logits],
            false => &[Input::Embeddings],
        },
        test: sets.remove(0),
        ood: sets,
        fit_seconds: None,
        seconds_per_1000,
        bytes: 0,
    };
    let of_sets = |sets: &[&Predictions<'_>], measure: Measure| -> Vec<Vec<f64>> {
        sets.iter().map(|set| values(set, measure)).collect()
    };
    let measures = [
        (MethodId::NuqEpistemic, Measure::Epistemic),
        (MethodId::NuqTotal, Measure::Total),
        (MethodId::NuqAleatoric, Measure::Aleatoric),
        (MethodId::NuqDensity, Measure::Density),
    ];
    let sets = &predictions.nuq;
    let mut methods: Vec<Scored> =
        measures.into_iter().map(|(id, measure)| scored(id, of_sets(sets, measure))).collect();
    if let Some(sets) = predictions.with_logits.iter().copied().collect::<Option<Vec<_>>>() {
        methods.extend(WITH_LOGITS.map(|(id, measure)| scored(id, of_sets(&sets, measure))));
    }
    let start = comparison.clock.map(|clock| clock());
    let huq = fit_huq(model).and_then(|huq| {
        let fit_seconds = comparison.clock.zip(start).map(|(clock, start)| clock() - start);
        let score = |set: &&Predictions<'_>| {
            huq.score(&values(set, Measure::Aleatoric), &values(set, Measure::Epistemic))
        };
        let scores = sets.iter().map(score).collect::<Result<Vec<_>, _>>()?;
        Ok(Scored { fit_seconds, bytes: huq.bytes(), ..scored(MethodId::Huq, scores) })
    });
    match huq {
        Ok(huq) => {
            methods.push(huq);
            (methods, None)
        }
        Err(error) => (methods, Some(Skipped::new(MethodId::Huq, error.to_string()))),
    }
}

/// Uncertainties about the network's predictions.
const WITH_LOGITS: [(MethodId, Measure); 2] =
    [(MethodId::NuqEpistemicWithLogits, Measure::Epistemic), (MethodId::NuqTotalWithLogits, Measure::Total)];

fn values(predictions: &[Prediction], measure: Measure) -> Vec<f64> {
    predictions.iter().map(|prediction| measure.of(prediction)).collect()
}

/// Largest number of training rows that are HUQ's reference rows. A reference row is not one of its own neighbors.
const REFERENCE_ROWS: usize = 2000;

fn fit_huq(model: &NuqClassifier<'_>) -> Result<Huq, Error> {
    let index = model.index();
    let live_ids = index.rows().live_ids();
    let sample = SeededRng::new(0).sample(live_ids.len(), REFERENCE_ROWS);
    let ids: Vec<u32> = sample.into_iter().map(|at| live_ids[at as usize]).collect();
    let reference =
        model.predict_from(&index.rows().gather(&ids)?, &index.leave_one_out(&ids, model.n_neighbors())?)?;
    Huq::fit(&values(&reference, Measure::Aleatoric), &values(&reference, Measure::Epistemic), 0.2, 0.95, 0.9)
}

/// The last layer of the network, estimated from the first set that has logits and more rows than columns.
fn fit_head(comparison: &Comparison<'_>, model: &NuqClassifier<'_>) -> Result<Head, Error> {
    let needed = model.index().dim() + 1;
    let mut with_logits =
        comparison.sets().filter_map(|rows| rows.logits.map(|logits| (rows.embeddings, logits)));
    let mut most = 0;
    let large_enough = with_logits.find(|(rows, _)| {
        most = most.max(rows.len());
        rows.len() >= needed
    });
    match large_enough {
        Some((rows, logits)) => Head::fit(rows, logits),
        None if most == 0 => {
            Err(Error::MissingInput { scorer: "the last layer of the network".to_owned(), input: "logits" })
        }
        None => Err(Error::FewRows { what: "the last layer of the network", got: most, needed }),
    }
}

/// Methods whose input is given for some sets but not for all. If an input is given for no set, its methods are not listed.
fn without_inputs(comparison: &Comparison<'_>, model: &NuqClassifier<'_>) -> Vec<Skipped> {
    let ids = |factories: Vec<ScorerFactory<'_>>| factories.iter().map(|factory| factory.id).collect();
    let mut from_logits: Vec<MethodId> = WITH_LOGITS.iter().map(|(id, _)| *id).collect();
    from_logits.extend(ids(self::from_logits()));
    if !model.is_normalized() {
        from_logits.extend(FROM_BOTH);
    }
    let mut skipped = vec![];
    let inputs: [(&str, HasInput, Vec<MethodId>); 2] = [
        ("logits", |rows| rows.logits.is_some(), from_logits),
        ("members' logits", |rows| rows.members.is_some(), ids(from_members())),
    ];
    for (input, has_input, methods) in inputs {
        let test = ("the test rows", &comparison.test);
        let sets = std::iter::once(test).chain(comparison.ood.iter().map(|(name, rows)| (&**name, rows)));
        let missing: Vec<&str> = sets.filter(|(_, rows)| !has_input(rows)).map(|(name, _)| name).collect();
        if missing.is_empty() || missing.len() == comparison.ood.len() + 1 {
            continue;
        }
        let reason = format!("{input} are missing for {}", missing.join(", "));
        skipped.extend(methods.into_iter().map(|id| Skipped::new(id, reason.clone())));
    }
    skipped
}

/// Whether a set has one kind of input.
type HasInput = fn(&Rows<'_>) -> bool;

/// Whether `array` is present in every set.
fn all_have<'c, T>(comparison: &'c Comparison<'_>, array: impl Fn(&Rows<'c>) -> Option<T>) -> bool {
    comparison.sets().all(|rows| array(rows).is_some())
}

fn factory<'t, S: Scorer + 't>(id: MethodId, fit: impl Fn() -> Result<S, Error> + 't) -> ScorerFactory<'t> {
    let fit = move || fit().map(|scorer| Box::new(scorer) as Box<dyn Scorer + 't>);
    ScorerFactory { id, fit: Fit::Scorer(Box::new(fit)) }
}

/// A factory of a scorer that normalizes the rows of each batch. `fit` fits the inner scorer to normalized rows.
fn normalized<'t, S: Scorer + 't>(
    id: MethodId,
    fit: impl Fn() -> Result<S, Error> + 't,
) -> ScorerFactory<'t> {
    factory(id, move || fit().map(Normalized::new))
}

fn from_logits<'t>() -> Vec<ScorerFactory<'t>> {
    vec![
        factory(MethodId::MaxProb, || Ok(MaxProb)),
        factory(MethodId::Entropy, || Ok(Entropy)),
        factory(MethodId::Margin, || Ok(Margin)),
        factory(MethodId::Energy, || Ok(Energy::default())),
        factory(MethodId::MaxLogit, || Ok(MaxLogit)),
        factory(MethodId::Gen, || Ok(Gen::default())),
    ]
}

fn from_members<'t>() -> Vec<ScorerFactory<'t>> {
    let methods = Reduction::ALL.iter();
    methods.map(|&reduction| factory(reduction.into(), move || Ok(Ensemble(reduction)))).collect()
}

/// Methods that use embeddings only, for the rows of a space.
fn from_embeddings<'t>(
    space: &'t Space<'t>,
    labels: &'t [Label],
    model: &'t NuqClassifier<'_>,
) -> Vec<ScorerFactory<'t>> {
    let (rows, k) = (&space.rows, model.n_neighbors());
    macro_rules! factories {
        ($($plain:ident, $l2:ident: $fit:expr),* $(,)?) => {
            if space.is_normalized {
                vec![$(normalized(MethodId::$l2, $fit)),*]
            } else {
                vec![$(factory(MethodId::$plain, $fit)),*]
            }
        };
    }
    let id = if space.is_normalized { MethodId::DduL2 } else { MethodId::Ddu };
    let mut methods = vec![ScorerFactory { id, fit: Fit::Ddu { space, labels } }];
    methods.extend(factories![
        Mahalanobis, MahalanobisL2: move || Mahalanobis::fit(rows, labels, SHRINKAGE),
        RelativeMahalanobis, RelativeMahalanobisL2: move || RelativeMahalanobis::fit(rows, labels, SHRINKAGE),
        KnnDistance, KnnDistanceL2: move || KnnDistance::kth(rows, k),
        Lof, LofL2: move || LocalOutlierFactor::from_neighbors(rows, &space.neighbors_of_rows(k)?),
    ]);
    methods
}

/// Shrinkage of covariances.
const SHRINKAGE: Shrinkage = Shrinkage::LedoitWolf;

/// Largest number of classes × columns for which layers are trained. With more weights, training would take longer than
/// all other methods together.
const MAX_WEIGHTS: usize = 100_000;

/// Methods that train a layer, on the rows as the model stores them.
fn trained<'t>(
    space: &'t Space<'_>,
    labels: &'t [Label],
    model: &NuqClassifier<'_>,
) -> Vec<ScorerFactory<'t>> {
    let rows = &space.rows;
    let weights = model.classes().len() * rows.dim();
    let check = move || match weights {
        ..=MAX_WEIGHTS => Ok(()),
        _ => {
            let range = "an evaluation trains layers of at most 100000 weights; fit this method separately";
            Err(out_of_range("classes times columns", weights as f64, range))
        }
    };
    let sngp = move || check().and_then(|()| Sngp::fit(rows, labels, SngpParams::default()));
    let duq = move || check().and_then(|()| Duq::fit(rows, labels, DuqParams::default()));
    if model.is_normalized() {
        vec![normalized(MethodId::SngpL2, sngp), normalized(MethodId::DuqL2, duq)]
    } else {
        vec![factory(MethodId::Sngp, sngp), factory(MethodId::Duq, duq)]
    }
}

/// Methods that use embeddings and the last layer of the network, which is estimated from logits.
const FROM_BOTH: [MethodId; 4] = [MethodId::Vim, MethodId::Fdbd, MethodId::NnGuide, MethodId::React];

fn from_both<'t>(rows: &'t Embeddings<'_>, head: &'t Result<Head, Error>) -> Vec<ScorerFactory<'t>> {
    let head = || head.as_ref().map_err(Error::clone);
    vec![
        factory(MethodId::Vim, move || Vim::fit(rows, head()?, None)),
        factory(MethodId::Fdbd, move || Fdbd::fit(rows, head()?)),
        factory(MethodId::NnGuide, move || NnGuide::fit(rows, &head()?.logits(rows)?, NNGUIDE_NEIGHBORS)),
        factory(MethodId::React, move || React::fit(rows, head()?, CLIP_QUANTILE)),
    ]
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use nuq_testkit::data;

    use super::*;
    use crate::metrics::Resampling;

    #[test]
    fn huq_has_the_time_of_its_fit_and_its_memory() {
        let (train, test) = (data::normal(60, 4, 1), data::normal(12, 4, 2));
        let labels: Vec<i64> = (0..60).map(|i| i % 3).collect();
        let model = NuqClassifier::params().n_neighbors(5).bandwidth(1.0).fit(&train, &labels).unwrap();
        // One second passes between two readings of this clock.
        let readings = AtomicU32::new(0);
        let clock = || f64::from(readings.fetch_add(1, Ordering::Relaxed));
        let comparison = Comparison::new(Rows::new(&test), &labels[..12]).clock(&clock);
        let resampling = Resampling { resamples: 20, seed: 0 };
        let evaluation = comparison.resampling(resampling).run(&model).unwrap();
        let huq = evaluation.method(MethodId::Huq).unwrap();
        assert_eq!(huq.fit_seconds, Some(1.0));
        // Two uncertainties of each of the 60 reference rows, and one of the rows that are in distribution.
        assert!((8 * 120..=8 * 180).contains(&huq.bytes), "{}", huq.bytes);
        assert_eq!(evaluation.method(MethodId::NuqTotal).unwrap().fit_seconds, None);
    }
}
