//! Comparison of a fitted model with every baseline that the given arrays allow, on the same rows.
//!
//! The training rows and labels are part of the model. The caller gives test rows with labels, out-of-distribution sets,
//! and optionally the logits of all these rows.
//!
//! ```
//! use nuq_eval::evaluate::{Comparison, MethodId, Rows};
//! use nuq::{Embeddings, NuqClassifier};
//!
//! let train = Embeddings::from_rows(&[[0.0, 0.0], [0.1, 0.1], [0.0, 0.2], [1.0, 1.0], [1.1, 1.0], [1.0, 1.2]])?;
//! let model = NuqClassifier::params().n_neighbors(3).fit(&train, &["cat", "cat", "cat", "dog", "dog", "dog"])?;
//! let test = Embeddings::from_rows(&[[0.1, 0.0], [1.0, 1.1], [0.2, 0.1], [0.9, 1.0]])?;
//! let outliers = Embeddings::from_rows(&[[9.0, -9.0], [-7.0, 5.0], [8.0, 8.0]])?;
//!
//! let evaluation = Comparison::new(Rows::new(&test), &["cat", "dog", "cat", "dog"])
//!     .ood("outliers", Rows::new(&outliers))
//!     .run(&model)?;
//! let epistemic = evaluation.method(MethodId::NuqEpistemic).expect("NUQ is always evaluated");
//! assert_eq!(epistemic.ood[0].roc_auc.interval.value, 1.0);
//! # Ok::<(), nuq_eval::Error>(())
//! ```

mod column_order;
mod compare;
mod method;
mod projection;
mod registry;
mod shared;

pub use column_order::ColumnOrder;
pub use compare::{DetectionResult, Measured, MethodResult};
pub use method::MethodId;
pub use projection::{Plane, discriminant_plane, principal_plane};
pub use registry::Skipped;

use nuq_neighbors::Embeddings;

use crate::Error;
use crate::baselines::Members;
use crate::error::length_mismatch;
use crate::metrics::{Interval, Resampling};
use nuq::calibrate::binomial_interval;
use nuq::{Label, NuqClassifier, Predictions};

/// The arrays of one set of rows.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'r> {
    /// The embeddings of the rows.
    pub embeddings: &'r Embeddings<'r>,
    /// The logits of the network: one column per class, in the order of the sorted labels.
    pub logits: Option<&'r Embeddings<'r>>,
    /// The logits of the members of an ensemble, each with the columns of `logits`. All sets have the same number of
    /// members.
    pub members: Option<&'r Members>,
}

impl<'r> Rows<'r> {
    /// Rows with embeddings only.
    #[must_use]
    pub fn new(embeddings: &'r Embeddings<'r>) -> Self {
        Self { embeddings, logits: None, members: None }
    }

    /// Adds the logits of the network.
    #[must_use]
    pub fn logits(self, logits: &'r Embeddings<'r>) -> Self {
        Self { logits: Some(logits), ..self }
    }

    /// Adds the logits of several ensemble members.
    #[must_use]
    pub fn members(self, members: &'r Members) -> Self {
        Self { members: Some(members), ..self }
    }

    /// The predictions of the network, with uncertainties by the model; `None` without logits.
    fn with_logits<'m>(
        &self,
        model: &'m NuqClassifier<'_>,
        predictions: &Predictions<'_>,
    ) -> Result<Option<Predictions<'m>>, Error> {
        let Some(logits) = self.logits else { return Ok(None) };
        Ok(Some(model.with_network(predictions, &model.network(logits)?)?))
    }

    fn check(&self, n_classes: usize) -> Result<(), Error> {
        let columns = [
            ("columns of logits", self.logits.map(Embeddings::dim)),
            ("columns of the members' logits", self.members.map(Members::n_classes)),
        ];
        for (what, got) in columns {
            if let Some(got) = got.filter(|got| *got != n_classes) {
                return Err(length_mismatch(what, got, "classes of the model", n_classes));
            }
        }
        let expected = self.embeddings.len();
        let counts = [
            ("rows of logits", self.logits.map(Embeddings::len)),
            ("rows of the members' logits", self.members.map(Members::len)),
        ];
        for (what, got) in counts {
            if let Some(got) = got.filter(|got| *got != expected) {
                return Err(length_mismatch(what, got, "embeddings", expected));
            }
        }
        if expected == 0 { Err(nuq::Error::NoRows { what: "rows to evaluate" }.into()) } else { Ok(()) }
    }
}

/// Builder of an [`Evaluation`].
#[derive(Clone)]
pub struct Comparison<'c> {
    test: Rows<'c>,
    labels: Vec<Label>,
    ood: Vec<(String, Rows<'c>)>,
    resampling: Resampling,
    clock: Option<&'c (dyn Fn() -> f64 + Sync)>,
    progress: Option<&'c (dyn Fn(&str) + Sync)>,
}

impl<'c> Comparison<'c> {
    /// Compares methods on test rows with their true labels.
    #[must_use]
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

    /// Adds an out-of-distribution set.
    #[must_use]
    pub fn ood(mut self, name: impl Into<String>, rows: Rows<'c>) -> Self {
        self.ood.push((name.into(), rows));
        self
    }

    /// Sets the parameters of the bootstrap, which gives intervals and tests of differences.
    #[must_use]
    pub fn resampling(self, resampling: Resampling) -> Self {
        Self { resampling, ..self }
    }

    /// Sets a clock that returns the time in seconds. It measures how long the methods take. The crate reads no clock
    /// itself, so that its results depend only on its input.
    #[must_use]
    pub fn clock(self, clock: &'c (dyn Fn() -> f64 + Sync)) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// Sets a callback that receives the name of each step before it runs. Most steps are methods, named by their title.
    #[must_use]
    pub fn progress(self, progress: &'c (dyn Fn(&str) + Sync)) -> Self {
        Self { progress: Some(progress), ..self }
    }

    /// Fits every method that the arrays allow, scores all rows with each, and compares them. All methods
    /// use the same neighbors: those among L2-normalized rows are searched once, and those among the rows of the model are taken from
    /// its predictions (unless its distance has a scale per column or rows were removed).
    ///
    /// # Errors
    /// Arrays of unequal lengths, logits (also of members) whose number of columns is not the number of classes of the
    /// model, [`Error::MemberCount`], labels of another kind than the classes (for example text instead of integers),
    /// empty sets, and rows with another number of columns than the training rows. A method that cannot be fitted is not
    /// an error: it is listed in [`Evaluation::skipped`].
    pub fn run<'m>(&self, model: &'m NuqClassifier<'_>) -> Result<Evaluation<'m>, Error> {
        let n_classes = model.classes().len();
        self.test.check(n_classes)?;
        self.ood.iter().try_for_each(|(_, rows)| rows.check(n_classes))?;
        self.check_member_counts()?;
        if self.labels.len() != self.test.embeddings.len() {
            let (got, expected) = (self.labels.len(), self.test.embeddings.len());
            return Err(length_mismatch("labels", got, "test rows", expected));
        }
        model.classes().check_kind(&self.labels)?;
        let start = self.clock.map(|clock| clock());
        let test = model.predict(self.test.embeddings)?;
        let seconds = self.clock.zip(start).map(|(clock, start)| (clock() - start) / test.len() as f64);
        let ood: Vec<Predictions<'_>> =
            self.ood.iter().map(|(_, rows)| model.predict(rows.embeddings)).collect::<Result<_, _>>()?;
        let test_with_logits = self.test.with_logits(model, &test)?;
        let pairs = self.ood.iter().zip(&ood);
        let ood_with_logits =
            pairs.map(|((_, rows), set)| rows.with_logits(model, set)).collect::<Result<Vec<_>, _>>()?;
        let (is_error, predictor) = self.errors(model, &test);
        let correct = is_error.iter().filter(|wrong| !**wrong).count();
        let (low, high) = binomial_interval(correct, is_error.len());
        let accuracy = Interval { value: correct as f64 / is_error.len() as f64, low, high };
        let predictions = registry::AllPredictions {
            nuq: std::iter::once(&test).chain(&ood).collect(),
            with_logits: std::iter::once(&test_with_logits)
                .chain(&ood_with_logits)
                .map(Option::as_ref)
                .collect(),
        };
        let (scored, skipped) = registry::score_all(self, model, &predictions, seconds.map(|s| 1000.0 * s))?;
        let methods = compare::compare(scored, &is_error, &self.ood, self.resampling)?;
        let logits = self.test.logits;
        let column_order = logits
            .and_then(|logits| column_order::suspected_order(logits, &self.labels, model.classes().labels()));
        Ok(Evaluation {
            accuracy,
            predictor,
            is_error,
            test,
            ood,
            test_with_logits,
            ood_with_logits,
            methods,
            skipped,
            column_order,
        })
    }

    /// Rejects sets with another number of members than the test rows. The disagreement of members grows with their
    /// number, so scores of such sets would not be comparable.
    fn check_member_counts(&self) -> Result<(), Error> {
        let Some(expected) = self.test.members.map(Members::count) else { return Ok(()) };
        for (name, rows) in &self.ood {
            if let Some(got) = rows.members.map(Members::count).filter(|got| *got != expected) {
                return Err(Error::MemberCount { set: name.clone(), got, expected });
            }
        }
        Ok(())
    }

    /// The test rows.
    #[must_use]
    pub fn test(&self) -> Rows<'c> {
        self.test
    }

    /// The labels of the test rows.
    #[must_use]
    pub fn labels(&self) -> &[Label] {
        &self.labels
    }

    /// The out-of-distribution sets with their names.
    #[must_use]
    pub fn ood_sets(&self) -> &[(String, Rows<'c>)] {
        &self.ood
    }

    /// The parameters of the bootstrap.
    #[must_use]
    pub fn resampling_params(&self) -> Resampling {
        self.resampling
    }

    /// The test rows, followed by the out-of-distribution sets.
    fn sets(&self) -> impl Iterator<Item = &Rows<'c>> {
        std::iter::once(&self.test).chain(self.ood.iter().map(|(_, rows)| rows))
    }

    /// Whether each test prediction is wrong. The network makes the predictions if its logits are given, otherwise the model
    /// does.
    fn errors(&self, model: &NuqClassifier<'_>, test: &Predictions<'_>) -> (Vec<bool>, Predictor) {
        let classes = model.classes();
        match self.test.logits {
            Some(logits) => {
                let wrong = |(row, truth): (&[f32], &Label)| classes.label(argmax(row)) != truth;
                (logits.rows().zip(&self.labels).map(wrong).collect(), Predictor::Network)
            }
            None => {
                let wrong = |(i, truth): (usize, &Label)| test.label(i) != truth;
                (self.labels.iter().enumerate().map(wrong).collect(), Predictor::Nuq)
            }
        }
    }
}

pub use nuq::calibrate::Predictor;

/// The column with the largest value. If several columns have it, the first of them, as in numpy.
fn argmax(row: &[f32]) -> usize {
    (1..row.len()).fold(0, |best, c| if row[c] > row[best] { c } else { best })
}

/// The result of a [`Comparison`].
#[derive(Debug, Clone)]
pub struct Evaluation<'m> {
    /// Accuracy of the test predictions, with its 95 % interval.
    pub accuracy: Interval,
    /// The predictor that made the test predictions. All methods are compared on the same errors.
    pub predictor: Predictor,
    /// Whether the test prediction of each row is wrong.
    pub is_error: Vec<bool>,
    /// The model's predictions for the test rows.
    pub test: Predictions<'m>,
    /// The model's predictions for each out-of-distribution set.
    pub ood: Vec<Predictions<'m>>,
    /// The network's predictions for the test rows, with uncertainties by the model; `None` without logits.
    pub test_with_logits: Option<Predictions<'m>>,
    /// The network's predictions for each out-of-distribution set; `None` for a set without logits.
    pub ood_with_logits: Vec<Option<Predictions<'m>>>,
    /// The methods: first the uncertainties of NUQ, then the baselines.
    pub methods: Vec<MethodResult>,
    /// Methods that were not compared, with the reason.
    pub skipped: Vec<Skipped>,
    /// Another order of the columns of the test logits, if it explains the labels much better than the order of the classes.
    pub column_order: Option<ColumnOrder>,
}

impl Evaluation<'_> {
    /// The result of a method; `None` if the arrays did not allow it or it was skipped.
    #[must_use]
    pub fn method(&self, id: MethodId) -> Option<&MethodResult> {
        self.methods.iter().find(|method| method.id == id)
    }
}
