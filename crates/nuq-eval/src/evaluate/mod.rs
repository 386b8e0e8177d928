//! One call that compares all: a fitted model and every rival that the given arrays allow, on the same rows.
//!
//! The model brings the training rows and labels, so that no rival needs more than what is asked about: test rows with
//! labels, sets of rows that are unlike the training data, and, where there are any, the logits of all of them.
//!
//! ```
//! use nuq_eval::evaluate::{Comparison, Rows};
//! use nuq::{Embeddings, NuqClassifier};
//!
//! let train = Embeddings::from_rows(&[[0.0, 0.0], [0.1, 0.1], [0.0, 0.2], [1.0, 1.0], [1.1, 1.0], [1.0, 1.2]])?;
//! let model = NuqClassifier::params().n_neighbors(3).fit(&train, &["cat", "cat", "cat", "dog", "dog", "dog"])?;
//! let test = Embeddings::from_rows(&[[0.1, 0.0], [1.0, 1.1], [0.2, 0.1], [0.9, 1.0]])?;
//! let strange = Embeddings::from_rows(&[[9.0, -9.0], [-7.0, 5.0], [8.0, 8.0]])?;
//!
//! let found = Comparison::new(Rows::new(&test), &["cat", "dog", "cat", "dog"])
//!     .ood("strange", Rows::new(&strange))
//!     .run(&model)?;
//! let epistemic = &found.methods[0];
//! assert_eq!((&*epistemic.name, epistemic.ood[0].roc_auc.interval.value), ("NUQ epistemic", 1.0));
//! # Ok::<(), nuq_eval::Error>(())
//! ```

mod compare;
mod projection;
mod registry;
mod shared;

pub use compare::{DetectionResult, Measured, MethodResult};
pub use projection::{Plane, principal_plane};
pub use registry::Skipped;

use nuq_neighbors::Embeddings;

use crate::Error;
use crate::baselines::Members;
use crate::error::length_mismatch;
use crate::metrics::{Interval, Resampling};
use nuq::calibrate::{Measure, binomial_interval};
use nuq::{Label, NuqClassifier, Predictions};
use shared::Training;

/// Rows with what is known of them.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'r> {
    /// Their embeddings.
    pub embeddings: &'r Embeddings<'r>,
    /// What the network said of them: a column per class, in the order of the sorted labels.
    pub logits: Option<&'r Embeddings<'r>>,
    /// What several networks said of them.
    pub members: Option<&'r Members>,
}

impl<'r> Rows<'r> {
    /// Embeddings alone.
    pub fn new(embeddings: &'r Embeddings<'r>) -> Self {
        Self { embeddings, logits: None, members: None }
    }

    /// With the network's logits.
    pub fn logits(self, logits: &'r Embeddings<'r>) -> Self {
        Self { logits: Some(logits), ..self }
    }

    /// With the logits of several members.
    pub fn members(self, members: &'r Members) -> Self {
        Self { members: Some(members), ..self }
    }

    fn check(&self) -> Result<(), Error> {
        let expected = self.embeddings.len();
        let counts = [
            ("rows of logits", self.logits.map(Embeddings::len)),
            ("rows of the members' logits", self.members.map(Members::len)),
        ];
        for (what, got) in counts {
            match got {
                Some(got) if got != expected => {
                    return Err(length_mismatch(what, got, "embeddings", expected));
                }
                _ => {}
            }
        }
        if expected == 0 { Err(nuq::Error::NoRows { what: "rows to evaluate" }.into()) } else { Ok(()) }
    }
}

/// What is to be compared.
pub struct Comparison<'c> {
    test: Rows<'c>,
    labels: Vec<Label>,
    ood: Vec<(String, Rows<'c>)>,
    resampling: Resampling,
    clock: Option<&'c (dyn Fn() -> f64 + Sync)>,
    progress: Option<&'c (dyn Fn(&str) + Sync)>,
}

impl<'c> Comparison<'c> {
    /// Of test rows and their labels.
    pub fn new<'l, L>(test: Rows<'c>, labels: &'l [L]) -> Self
    where
        Label: From<&'l L>,
    {
        Self {
            test,
            labels: labels.iter().map(Label::from).collect(),
            ood: vec![],
            resampling: Resampling::default(),
            clock: None,
            progress: None,
        }
    }

    /// With a set that is unlike the training data.
    pub fn ood(mut self, name: impl Into<String>, rows: Rows<'c>) -> Self {
        self.ood.push((name.into(), rows));
        self
    }

    /// How intervals and differences are found.
    pub fn resampling(self, resampling: Resampling) -> Self {
        Self { resampling, ..self }
    }

    /// A clock in seconds, by which the methods are timed. This crate has none of its own: its results depend on nothing but
    /// its input.
    pub fn clock(self, clock: &'c (dyn Fn() -> f64 + Sync)) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// Told the name of each method before it runs.
    pub fn progress(self, progress: &'c (dyn Fn(&str) + Sync)) -> Self {
        Self { progress: Some(progress), ..self }
    }

    /// Fits every method that the arrays allow, scores all rows with each, and compares them. Neighbors are searched once
    /// for rows as they are, and once for rows divided by their length.
    pub fn run<'m>(&self, model: &'m NuqClassifier<'_>) -> Result<Evaluation<'m>, Error> {
        self.test.check()?;
        self.ood.iter().try_for_each(|(_, rows)| rows.check())?;
        if self.labels.len() != self.test.embeddings.len() {
            let (got, expected) = (self.labels.len(), self.test.embeddings.len());
            return Err(length_mismatch("labels", got, "test rows", expected));
        }
        let start = self.clock.map(|clock| clock());
        let test = model.predict(self.test.embeddings)?;
        let seconds = self.clock.zip(start).map(|(clock, start)| (clock() - start) / test.len() as f64);
        let ood: Vec<Predictions<'_>> =
            self.ood.iter().map(|(_, rows)| model.predict(rows.embeddings)).collect::<Result<_, _>>()?;
        let (is_error, errors_of) = self.errors(model, &test);
        let right = is_error.iter().filter(|wrong| !**wrong).count();
        let (low, high) = binomial_interval(right, is_error.len());
        let accuracy = Interval { value: right as f64 / is_error.len() as f64, low, high };
        let training = Training::of(model)?;
        let (scored, skipped) =
            registry::score_all(self, model, &training, (&test, &ood), seconds.map(|s| 1000.0 * s))?;
        let methods = compare::compare(scored, &is_error, &self.ood, self.resampling)?;
        Ok(Evaluation { accuracy, errors_of, is_error, test, ood, methods, skipped })
    }

    /// The test rows.
    pub fn test(&self) -> Rows<'c> {
        self.test
    }

    /// The labels of the test rows.
    pub fn labels(&self) -> &[Label] {
        &self.labels
    }

    /// The out-of-distribution sets with their names.
    pub fn ood_sets(&self) -> &[(String, Rows<'c>)] {
        &self.ood
    }

    /// The bootstrap parameters.
    pub fn bootstrap(&self) -> Resampling {
        self.resampling
    }

    /// The test rows, then the other sets.
    fn sets(&self) -> impl Iterator<Item = &Rows<'c>> {
        std::iter::once(&self.test).chain(self.ood.iter().map(|(_, rows)| rows))
    }

    /// Which test predictions are wrong, and whose they are: the network's where its logits are known.
    fn errors(&self, model: &NuqClassifier<'_>, test: &Predictions<'_>) -> (Vec<bool>, Predictor) {
        let classes = model.classes();
        match self.test.logits {
            Some(logits) if logits.dim() == classes.len() => {
                // The first of equal ones, as numpy takes it.
                let said =
                    |row: &[f32]| (1..row.len()).fold(0, |best, c| if row[c] > row[best] { c } else { best });
                let wrong = |(row, truth): (&[f32], &Label)| classes.label(said(row)) != truth;
                (logits.rows().zip(&self.labels).map(wrong).collect(), Predictor::Network)
            }
            _ => {
                let wrong = |(i, truth): (usize, &Label)| test.label(i) != truth;
                (self.labels.iter().enumerate().map(wrong).collect(), Predictor::Nuq)
            }
        }
    }
}

/// Whose predictions are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Predictor {
    /// The network's, by its logits.
    Network,
    /// The model's own.
    Nuq,
}

/// Kind of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MethodKind {
    /// An uncertainty of NUQ.
    Nuq(Measure),
    /// HUQ, which combines NUQ's aleatoric and epistemic uncertainty.
    Huq,
    /// The maximum softmax probability, the usual reference baseline.
    MaxProb,
    /// Any other baseline.
    Baseline,
}

/// What a comparison found.
#[derive(Debug, Clone)]
pub struct Evaluation<'m> {
    /// The share of right test predictions, with its 95 % interval.
    pub accuracy: Interval,
    /// Whose predictions they are. Every method is asked to find the same errors.
    pub errors_of: Predictor,
    /// Which test predictions are wrong.
    pub is_error: Vec<bool>,
    /// The model's predictions for the test rows.
    pub test: Predictions<'m>,
    /// The model's predictions for each of the other sets.
    pub ood: Vec<Predictions<'m>>,
    /// The methods: NUQ's own first, then as the registry has them.
    pub methods: Vec<MethodResult>,
    /// Methods that were left out, and why.
    pub skipped: Vec<Skipped>,
}
