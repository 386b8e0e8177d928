//! What every scorer is asked, and what it is asked about.

use nuq_neighbors::{Embeddings, Neighbors};

use super::Members;
use crate::Error;
use crate::error::length_mismatch;

/// Says of each row of a batch how uncertain it is. **Higher is less certain**, for every scorer.
pub trait Scorer: Send + Sync {
    /// Its name, as a table shows it.
    fn name(&self) -> String;

    /// What a batch must hold.
    fn inputs(&self) -> &'static [Input];

    /// A score per row.
    fn score(&self, batch: &Batch<'_>) -> Result<Vec<f64>, Error>;

    /// Whether it takes the neighbors that a batch brings along, and saves a search.
    fn takes_neighbors(&self) -> bool {
        false
    }

    /// Bytes that it keeps beside the training embeddings.
    fn bytes(&self) -> u64 {
        0
    }
}

/// Something that a scorer looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// The rows themselves.
    Embeddings,
    /// What the network said of them.
    Logits,
    /// What several networks, or one network several times, said of them.
    Members,
}

impl Input {
    fn name(self) -> &'static str {
        match self {
            Input::Embeddings => "embeddings",
            Input::Logits => "logits",
            Input::Members => "predictions of several members",
        }
    }
}

/// Rows to be scored, with all that is known of them.
///
/// ```
/// use nuq::Embeddings;
/// use nuq_eval::baselines::{Batch, Energy, MaxProb, Scorer};
///
/// // Two rows of logits: the first is sure.
/// let logits = Embeddings::from_rows(&[[9.0, 0.0], [0.1, 0.0]])?;
/// let batch = Batch { logits: Some(&logits), ..Batch::default() };
/// for scorer in [&MaxProb as &dyn Scorer, &Energy::default()] {
///     let scores = scorer.score(&batch)?;
///     assert!(scores[1] > scores[0], "{}", scorer.name());
/// }
/// # Ok::<(), nuq_eval::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Batch<'b> {
    /// The rows.
    pub embeddings: Option<&'b Embeddings<'b>>,
    /// A row of logits for each.
    pub logits: Option<&'b Embeddings<'b>>,
    /// Predictions of several members for each.
    pub members: Option<&'b Members>,
    /// The nearest training rows of each, where they are known: a scorer that would search for them takes these. They are
    /// those of the rows as they are, not normalized.
    pub neighbors: Option<&'b Neighbors>,
    /// The same of the rows divided by their length, among training rows divided by theirs.
    pub normalized_neighbors: Option<&'b Neighbors>,
}

impl<'b> Batch<'b> {
    /// The rows, for a scorer that cannot do without.
    pub fn need_embeddings(&self, scorer: &dyn Scorer) -> Result<&'b Embeddings<'b>, Error> {
        self.embeddings.ok_or_else(|| missing(scorer, Input::Embeddings))
    }

    /// The logits, for a scorer that cannot do without.
    pub fn need_logits(&self, scorer: &dyn Scorer) -> Result<&'b Embeddings<'b>, Error> {
        self.logits.ok_or_else(|| missing(scorer, Input::Logits))
    }

    /// The members' predictions, for a scorer that cannot do without.
    pub fn need_members(&self, scorer: &dyn Scorer) -> Result<&'b Members, Error> {
        self.members.ok_or_else(|| missing(scorer, Input::Members))
    }

    /// Both embeddings and logits, one row each.
    pub(super) fn need_both(
        &self,
        scorer: &dyn Scorer,
    ) -> Result<(&'b Embeddings<'b>, &'b Embeddings<'b>), Error> {
        let (embeddings, logits) = (self.need_embeddings(scorer)?, self.need_logits(scorer)?);
        if embeddings.len() != logits.len() {
            let (got, expected) = (logits.len(), embeddings.len());
            return Err(length_mismatch("rows of logits", got, "embeddings", expected));
        }
        Ok((embeddings, logits))
    }
}

/// Refuses rows of another width than the scorer was fitted to.
pub(super) fn check_columns(rows: &Embeddings<'_>, expected: usize) -> Result<(), Error> {
    match rows.dim() {
        got if got != expected => Err(nuq_neighbors::Error::DimensionMismatch { got, expected }.into()),
        _ => Ok(()),
    }
}

/// Refuses logits of other classes than the scorer was fitted to.
pub(super) fn check_classes(logits: &Embeddings<'_>, expected: usize) -> Result<(), Error> {
    match logits.dim() {
        got if got != expected => Err(length_mismatch("logits a row", got, "classes", expected)),
        _ => Ok(()),
    }
}

fn missing(scorer: &dyn Scorer, input: Input) -> Error {
    Error::MissingInput { scorer: scorer.name(), input: input.name() }
}
