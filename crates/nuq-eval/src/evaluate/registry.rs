//! Which methods the given arrays allow, each fitted and asked.

use nuq_neighbors::SeededRng;

use super::shared::{SharedNeighbors, Training};
use super::{Comparison, MethodKind, Rows};
use crate::Error;
use crate::baselines::{
    Batch, Ddu, Duq, DuqParams, Energy, Ensemble, Entropy, Fdbd, Gen, Head, Huq, Input, KnnDistance,
    LocalOutlierFactor, Mahalanobis, Margin, MaxLogit, MaxProb, NnGuide, Normalized, React, Reduction,
    RelativeMahalanobis, Scorer, Sngp, SngpParams, Vim,
};
use crate::error::out_of_range;
use nuq::Shrinkage;
use nuq::calibrate::Measure;
use nuq::{NuqClassifier, Prediction, Predictions};

/// A method that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// A method's scores of all sets.
pub(super) struct Scored {
    pub(super) name: String,
    pub(super) kind: MethodKind,
    pub(super) inputs: &'static [Input],
    pub(super) test: Vec<f64>,
    pub(super) ood: Vec<Vec<f64>>,
    pub(super) fit_seconds: Option<f64>,
    pub(super) seconds_per_1000: Option<f64>,
    pub(super) bytes: u64,
}

/// How a scorer is made of what there is.
struct Maker<'t> {
    name: String,
    kind: MethodKind,
    /// Whether it looks at rows divided by their length.
    is_normalized: bool,
    /// Whether it reads rows by the head of the network, which logits tell.
    has_head: bool,
    make: Make<'t>,
}

type Make<'t> = Box<dyn Fn() -> Result<Box<dyn Scorer + 't>, Error> + 't>;

/// Runs every method that the arrays allow; the model's predictions are known, and what a thousand of them took.
pub(super) fn score_all(
    comparison: &Comparison<'_>,
    model: &NuqClassifier<'_>,
    training: &Training,
    (test, ood): (&Predictions<'_>, &[Predictions<'_>]),
    seconds: Option<f64>,
) -> Result<(Vec<Scored>, Vec<Skipped>), Error> {
    tell(comparison, "NUQ");
    let mut scored = own(model, test, ood, seconds)?;
    let mut skipped = vec![];
    let head = head(comparison, training);
    tell(comparison, "neighbors of normalized rows");
    let found: Vec<&Predictions<'_>> = std::iter::once(test).chain(ood).collect();
    // What a method saves by taking NUQ's neighbors, nearly all of whose time is their search.
    let shared = SharedNeighbors::find(comparison, model, training, &found, seconds.unwrap_or(0.0))?;
    let batches = shared.batches(comparison);
    for maker in makers(comparison, model, training, &head) {
        tell(comparison, &maker.name);
        let saved = match (maker.is_normalized, training.has_plain_neighbors) {
            (true, _) => shared.normalized_seconds,
            (false, true) => shared.plain_seconds,
            (false, false) => 0.0,
        };
        match score(comparison, &maker, &batches, saved)? {
            Ok(method) => scored.push(method),
            Err(problem) => skipped.push(Skipped { name: maker.name, reason: problem.to_string() }),
        }
    }
    Ok((scored, skipped))
}

fn tell(comparison: &Comparison<'_>, what: &str) {
    if let Some(progress) = comparison.progress {
        progress(what);
    }
}

/// Makes a scorer and asks it about all sets; the inner error says why it could not be made. Taking neighbors saved it a search
/// of `saved` seconds for a thousand rows.
fn score(
    comparison: &Comparison<'_>,
    maker: &Maker<'_>,
    batches: &[Batch<'_>],
    saved: f64,
) -> Result<Result<Scored, Error>, Error> {
    let start = comparison.clock.map(|clock| clock());
    let scorer = match (maker.make)() {
        Ok(scorer) => scorer,
        Err(problem) => return Ok(Err(problem)),
    };
    let fitted = comparison.clock.map(|clock| clock());
    let mut scores = batches.iter().map(|batch| scorer.score(batch)).collect::<Result<Vec<_>, _>>()?;
    let rows: usize = scores.iter().map(Vec::len).sum();
    let seconds = comparison.clock.zip(fitted).map(|(clock, fitted)| clock() - fitted);
    let test = scores.remove(0);
    let saved = if scorer.takes_neighbors() { saved } else { 0.0 };
    Ok(Ok(Scored {
        name: maker.name.clone(),
        kind: maker.kind,
        inputs: if maker.has_head { &[Input::Embeddings, Input::Logits] } else { scorer.inputs() },
        test,
        ood: scores,
        fit_seconds: fitted.zip(start).map(|(fitted, start)| fitted - start),
        seconds_per_1000: seconds.map(|seconds| 1000.0 * seconds / rows as f64 + saved),
        bytes: scorer.bytes(),
    }))
}

/// NUQ's own uncertainties, which prediction has given already.
fn own(
    model: &NuqClassifier<'_>,
    test: &Predictions<'_>,
    ood: &[Predictions<'_>],
    seconds_per_1000: Option<f64>,
) -> Result<Vec<Scored>, Error> {
    let scored = |name: &str, measure: Measure| Scored {
        name: name.to_owned(),
        kind: MethodKind::Nuq(measure),
        inputs: &[Input::Embeddings],
        test: test.iter().map(|prediction| measure.of(prediction)).collect(),
        ood: ood.iter().map(|set| set.iter().map(|prediction| measure.of(prediction)).collect()).collect(),
        fit_seconds: None,
        seconds_per_1000,
        bytes: 0,
    };
    let mut own = vec![
        scored("NUQ epistemic", Measure::Epistemic),
        scored("NUQ total", Measure::Total),
        scored("NUQ aleatoric", Measure::Aleatoric),
        scored("NUQ density", Measure::Density),
    ];
    let huq = huq(model)?;
    let hybrid = |found: &[Prediction]| {
        let of = |measure: Measure| -> Vec<f64> { found.iter().map(|p| measure.of(p)).collect() };
        huq.score(&of(Measure::Aleatoric), &of(Measure::Epistemic))
    };
    own.push(Scored {
        name: "HUQ".to_owned(),
        kind: MethodKind::Huq,
        inputs: &[Input::Embeddings],
        test: hybrid(test)?,
        ood: ood.iter().map(|found| hybrid(found)).collect::<Result<_, _>>()?,
        fit_seconds: None,
        seconds_per_1000,
        bytes: 0,
    });
    Ok(own)
}

/// Training rows that tell HUQ what is usual, each left out of its own neighbors.
const REFERENCE_ROWS: usize = 2000;

fn huq(model: &NuqClassifier<'_>) -> Result<Huq, Error> {
    let index = model.index();
    let known = index.live_ids();
    let sample = SeededRng::new(0).sample(known.len(), REFERENCE_ROWS);
    let ids: Vec<u32> = sample.into_iter().map(|at| known[at as usize]).collect();
    let found =
        model.predict_from(&index.rows_of(&ids)?, &index.leave_one_out(&ids, model.n_neighbors())?)?;
    let of = |measure: Measure| -> Vec<f64> { found.iter().map(|p| measure.of(p)).collect() };
    Huq::fit(&of(Measure::Aleatoric), &of(Measure::Epistemic), 0.2, 0.95, 0.9)
}

/// The head of the network, from the first set whose logits are known and which has rows enough; or why there is none.
fn head(comparison: &Comparison<'_>, training: &Training) -> Result<Head, Error> {
    let needed = training.rows.dim() + 1;
    let mut known = comparison.sets().filter_map(|rows| rows.logits.map(|logits| (rows.embeddings, logits)));
    let mut most = 0;
    let enough = known.find(|(rows, _)| {
        most = most.max(rows.len());
        rows.len() >= needed
    });
    match enough {
        Some((rows, logits)) => Head::fit(rows, logits),
        None if most == 0 => {
            Err(Error::MissingInput { scorer: "the head of the network".to_owned(), input: "logits" })
        }
        None => Err(Error::FewRows { what: "the head of the network", got: most, needed }),
    }
}

/// Whether every set has what `of` looks for.
fn all_have<'c, T>(comparison: &'c Comparison<'_>, of: impl Fn(&Rows<'c>) -> Option<T>) -> bool {
    comparison.sets().all(|rows| of(rows).is_some())
}

fn makers<'t>(
    comparison: &Comparison<'_>,
    model: &'t NuqClassifier<'_>,
    training: &'t Training,
    head: &'t Result<Head, Error>,
) -> Vec<Maker<'t>> {
    let mut makers: Vec<Maker<'t>> = vec![];
    let logits = all_have(comparison, |rows| rows.logits);
    if logits {
        makers.extend(from_logits());
    }
    if all_have(comparison, |rows| rows.members) {
        makers.extend(from_members());
    }
    if !training.is_normalized {
        makers.extend(from_embeddings(training, false, model));
    }
    makers.extend(from_embeddings(training, true, model));
    makers.extend(trained(training, model.classes().len()));
    if logits && !training.is_normalized {
        makers.extend(from_both(training, head));
    }
    makers
}

fn maker<'t, S: Scorer + 't>(name: &str, make: impl Fn() -> Result<S, Error> + 't) -> Maker<'t> {
    let make: Make<'t> = Box::new(move || make().map(|scorer| Box::new(scorer) as Box<dyn Scorer + 't>));
    Maker { name: name.to_owned(), kind: MethodKind::Baseline, is_normalized: false, has_head: false, make }
}

/// The same for a scorer of normalized rows.
fn normalized<'t, S: Scorer + 't>(name: &str, make: impl Fn() -> Result<S, Error> + 't) -> Maker<'t> {
    Maker { is_normalized: true, ..maker(&format!("{name}, L2"), move || make().map(Normalized::new)) }
}

fn from_logits<'t>() -> Vec<Maker<'t>> {
    vec![
        Maker { kind: MethodKind::MaxProb, ..maker("MaxProb", || Ok(MaxProb)) },
        maker("Entropy", || Ok(Entropy)),
        maker("Margin", || Ok(Margin)),
        maker("Energy", || Ok(Energy::default())),
        maker("MaxLogit", || Ok(MaxLogit)),
        maker("GEN", || Ok(Gen::default())),
    ]
}

fn from_members<'t>() -> Vec<Maker<'t>> {
    let reductions = [
        Reduction::Entropy,
        Reduction::MutualInformation,
        Reduction::MeanEntropy,
        Reduction::Std,
        Reduction::MaxProb,
    ];
    reductions.map(|reduction| maker(&Ensemble(reduction).name(), move || Ok(Ensemble(reduction)))).into()
}

/// Of the rows as they are, or of their normalized form.
fn from_embeddings<'t>(
    training: &'t Training,
    is_normalized: bool,
    model: &'t NuqClassifier<'_>,
) -> Vec<Maker<'t>> {
    let rows = if is_normalized { &training.normalized } else { &training.rows };
    let (labels, k, shrinkage) = (&training.labels, model.n_neighbors(), Shrinkage::LedoitWolf);
    macro_rules! makers {
        ($($name:literal: $fit:expr),* $(,)?) => {
            if is_normalized { vec![$(normalized($name, $fit)),*] } else { vec![$(maker($name, $fit)),*] }
        };
    }
    makers![
        "DDU": move || Ddu::fit(rows, labels, shrinkage),
        "Mahalanobis": move || Mahalanobis::fit(rows, labels, shrinkage),
        "relative Mahalanobis": move || RelativeMahalanobis::fit(rows, labels, shrinkage),
        "kNN distance": move || KnnDistance::kth(rows, k),
        "LOF": move || {
            if training.has_plain_neighbors && is_normalized == training.is_normalized {
                // The model's own index: where it is a graph, comparing all rows with all others would take days.
                let index = model.index();
                return LocalOutlierFactor::from_neighbors(rows, &index.leave_one_out(&index.live_ids(), k)?);
            }
            LocalOutlierFactor::fit(rows, k)
        },
    ]
}

/// Classes times columns up to which layers are trained: beyond, they would take longer than all other methods together.
const MOST_WEIGHTS: usize = 100_000;

/// Layers that are trained, on the rows as the model has them.
fn trained<'t>(training: &'t Training, classes: usize) -> Vec<Maker<'t>> {
    let (rows, labels) = (&training.rows, &training.labels);
    let weights = classes * rows.dim();
    let check = move || match weights {
        ..=MOST_WEIGHTS => Ok(()),
        _ => {
            let range = "beyond 100000 training takes long and is left to who asks for this method alone";
            Err(out_of_range("classes times columns", weights as f64, range))
        }
    };
    let sngp = move || check().and_then(|()| Sngp::fit(rows, labels, SngpParams::default()));
    let duq = move || check().and_then(|()| Duq::fit(rows, labels, DuqParams::default()));
    if training.is_normalized {
        vec![normalized("SNGP", sngp), normalized("DUQ", duq)]
    } else {
        vec![maker("SNGP", sngp), maker("DUQ", duq)]
    }
}

/// Neighbors that guide the energy, as its authors take them.
const GUIDES: usize = 10;

fn from_both<'t>(training: &'t Training, head: &'t Result<Head, Error>) -> Vec<Maker<'t>> {
    let rows = &training.rows;
    let head = || head.as_ref().map_err(Error::clone);
    let makers = vec![
        maker("ViM", move || Vim::fit(rows, head()?, None)),
        maker("fDBD", move || Fdbd::fit(rows, head()?)),
        maker("NNGuide", move || NnGuide::fit(rows, &head()?.logits(rows)?, GUIDES)),
        maker("ReAct", move || React::fit(rows, head()?, 0.9)),
    ];
    makers.into_iter().map(|maker| Maker { has_head: true, ..maker }).collect()
}
