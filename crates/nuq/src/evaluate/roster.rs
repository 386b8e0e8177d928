//! Which methods the given arrays allow, each fitted and asked.

use nuq_neighbors::{Embeddings, SeededRng};

use super::{Comparison, Rows, batch};
use crate::baselines::{
    Batch, Ddu, Energy, Ensemble, Entropy, Fdbd, Gen, Head, Huq, Input, KnnDistance, LocalOutlierFactor,
    Mahalanobis, Margin, MaxLogit, MaxProb, NnGuide, Normalized, React, Reduction, RelativeMahalanobis,
    Scorer, Vim,
};
use crate::calibrate::Measure;
use crate::density::Shrinkage;
use crate::{Error, Label, NuqClassifier, Prediction, Predictions};

/// The training rows and labels that a model holds.
pub(super) struct Training {
    rows: Embeddings<'static>,
    labels: Vec<Label>,
    /// Whether the rows were divided by their length when the model was fitted.
    is_normalized: bool,
    /// Whether the model's neighbors are those of the rows as they are.
    has_plain_neighbors: bool,
}

impl Training {
    pub(super) fn of(model: &NuqClassifier<'_>) -> Result<Self, Error> {
        let index = model.index();
        let ids = index.live_ids();
        let label = |&id: &u32| model.classes().label(model.training_classes()[id as usize] as usize).clone();
        Ok(Self {
            labels: ids.iter().map(label).collect(),
            rows: index.rows_of(&ids)?,
            is_normalized: model.parts().smoother.normalize,
            // Rows that were removed leave gaps in the ids.
            has_plain_neighbors: index.scale().is_none() && index.len() == index.ids(),
        })
    }
}

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
    pub(super) inputs: &'static [Input],
    pub(super) test: Vec<f64>,
    pub(super) ood: Vec<Vec<f64>>,
    pub(super) fit_seconds: Option<f64>,
    pub(super) seconds_per_1000: Option<f64>,
    pub(super) bytes: u64,
}

/// How a scorer is made of what there is.
type Maker<'t> = (String, Box<dyn Fn() -> Result<Box<dyn Scorer + 't>, Error> + 't>);

/// Runs every method that the arrays allow.
pub(super) fn score_all(
    comparison: &Comparison<'_>,
    model: &NuqClassifier<'_>,
    training: &Training,
    test: &Predictions<'_>,
    ood: &[Predictions<'_>],
) -> Result<(Vec<Scored>, Vec<Skipped>), Error> {
    let mut scored = own(comparison, model, test, ood)?;
    // What a method saves by taking NUQ's neighbors, nearly all of whose time is their search.
    let search = scored.first().and_then(|nuq| nuq.seconds_per_1000).unwrap_or(0.0);
    let mut skipped = vec![];
    let head = head(comparison, training);
    let batches: Vec<Batch<'_>> = std::iter::once((&comparison.test, test))
        .chain(comparison.ood.iter().map(|(_, rows)| rows).zip(ood))
        .map(|(rows, found)| batch(rows, found, training.has_plain_neighbors))
        .collect();
    for (name, make) in makers(comparison, model, training, &head) {
        if let Some(progress) = comparison.progress {
            progress(&name);
        }
        let start = comparison.clock.map(|clock| clock());
        let scorer = match make() {
            Ok(scorer) => scorer,
            Err(problem) => {
                skipped.push(Skipped { name, reason: problem.to_string() });
                continue;
            }
        };
        let fit_seconds = comparison.clock.zip(start).map(|(clock, start)| clock() - start);
        let start = comparison.clock.map(|clock| clock());
        let mut scores = batches.iter().map(|batch| scorer.score(batch)).collect::<Result<Vec<_>, _>>()?;
        let rows: usize = scores.iter().map(Vec::len).sum();
        let seconds = comparison.clock.zip(start).map(|(clock, start)| clock() - start);
        let test = scores.remove(0);
        scored.push(Scored {
            name,
            inputs: scorer.inputs(),
            test,
            ood: scores,
            fit_seconds,
            seconds_per_1000: seconds.map(|seconds| {
                let saves = training.has_plain_neighbors && scorer.takes_neighbors();
                1000.0 * seconds / rows as f64 + if saves { search } else { 0.0 }
            }),
            bytes: scorer.bytes(),
        });
    }
    Ok((scored, skipped))
}

/// NUQ's own uncertainties, which prediction has given already; asked again where there is a clock, to be timed.
fn own(
    comparison: &Comparison<'_>,
    model: &NuqClassifier<'_>,
    test: &Predictions<'_>,
    ood: &[Predictions<'_>],
) -> Result<Vec<Scored>, Error> {
    if let Some(progress) = comparison.progress {
        progress("NUQ");
    }
    let start = comparison.clock.map(|clock| clock());
    if start.is_some() {
        model.predict(comparison.test.embeddings)?;
    }
    let seconds = comparison.clock.zip(start).map(|(clock, start)| clock() - start);
    let seconds_per_1000 = seconds.map(|seconds| 1000.0 * seconds / test.len() as f64);
    let scored = |name: &str, of: &dyn Fn(&Prediction) -> f64| Scored {
        name: name.to_owned(),
        inputs: &[Input::Embeddings],
        test: test.iter().map(of).collect(),
        ood: ood.iter().map(|found| found.iter().map(of).collect()).collect(),
        fit_seconds: None,
        seconds_per_1000,
        bytes: 0,
    };
    let mut own = vec![
        scored("NUQ epistemic", &|found| Measure::Epistemic.of(found)),
        scored("NUQ total", &|found| Measure::Total.of(found)),
        scored("NUQ aleatoric", &|found| Measure::Aleatoric.of(found)),
        scored("NUQ density", &|found| Measure::Density.of(found)),
    ];
    let huq = huq(model)?;
    let hybrid = |found: &[Prediction]| {
        let of = |measure: Measure| -> Vec<f64> { found.iter().map(|p| measure.of(p)).collect() };
        huq.score(&of(Measure::Aleatoric), &of(Measure::Epistemic))
    };
    own.push(Scored {
        name: "HUQ".to_owned(),
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
    let found = model.predict_from(&index.rows_of(&ids)?, &index.leave_one_out(&ids, model.neighbors())?)?;
    let of = |measure: Measure| -> Vec<f64> { found.iter().map(|p| measure.of(p)).collect() };
    Huq::fit(&of(Measure::Aleatoric), &of(Measure::Epistemic), 0.2, 0.95, 0.9)
}

/// The head of the network, from the first set whose logits are known and which has rows enough; or why there is none.
fn head(comparison: &Comparison<'_>, training: &Training) -> Result<Head, Error> {
    let needed = training.rows.dim() + 1;
    let sets = std::iter::once(&comparison.test).chain(comparison.ood.iter().map(|(_, rows)| rows));
    let mut known = sets.filter_map(|rows| rows.logits.map(|logits| (rows.embeddings, logits)));
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
    of(&comparison.test).is_some() && comparison.ood.iter().all(|(_, rows)| of(rows).is_some())
}

fn makers<'t>(
    comparison: &Comparison<'_>,
    model: &NuqClassifier<'_>,
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
        makers.extend(from_embeddings(training, None, model.neighbors()));
    }
    makers.extend(from_embeddings(training, Some(training.rows.l2_normalized()), model.neighbors()));
    if logits && !training.is_normalized {
        makers.extend(from_both(training, head));
    }
    makers
}

fn maker<'t, S: Scorer + 't>(name: &str, make: impl Fn() -> Result<S, Error> + 't) -> Maker<'t> {
    (name.to_owned(), Box::new(move || make().map(|scorer| Box::new(scorer) as Box<dyn Scorer + 't>)))
}

fn from_logits<'t>() -> Vec<Maker<'t>> {
    vec![
        maker("MaxProb", || Ok(MaxProb)),
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
    normalized: Option<Embeddings<'static>>,
    k: usize,
) -> Vec<Maker<'t>> {
    let is_normalized = normalized.is_some();
    let rows = normalized.unwrap_or_else(|| training.rows.clone());
    let labels = &training.labels;
    let shrinkage = Shrinkage::LedoitWolf;
    macro_rules! both_forms {
        ($($name:literal: $fit:expr),* $(,)?) => {
            vec![$({
                let rows = rows.clone();
                let fit = $fit;
                if is_normalized {
                    maker(concat!($name, ", L2"), move || Ok(Normalized::new(fit(&rows)?)))
                } else {
                    maker($name, move || fit(&rows))
                }
            }),*]
        };
    }
    both_forms![
        "DDU": move |rows: &Embeddings<'static>| Ddu::fit(rows, labels, shrinkage),
        "Mahalanobis": move |rows: &Embeddings<'static>| Mahalanobis::fit(rows, labels, shrinkage),
        "relative Mahalanobis": move |rows: &Embeddings<'static>| RelativeMahalanobis::fit(rows, labels, shrinkage),
        "kNN distance": move |rows: &Embeddings<'static>| KnnDistance::kth(rows, k),
        "LOF": move |rows: &Embeddings<'static>| LocalOutlierFactor::fit(rows, k),
    ]
}

/// Neighbors that guide the energy, as its authors take them.
const GUIDES: usize = 10;

fn from_both<'t>(training: &'t Training, head: &'t Result<Head, Error>) -> Vec<Maker<'t>> {
    let rows = &training.rows;
    let head = || head.as_ref().map_err(Error::clone);
    vec![
        maker("ViM", move || Vim::fit(rows, head()?, None)),
        maker("fDBD", move || Fdbd::fit(rows, head()?)),
        maker("NNGuide", move || NnGuide::fit(rows, &head()?.logits(rows)?, GUIDES)),
        maker("ReAct", move || React::fit(rows, head()?, 0.9)),
    ]
}
