//! The trait of uncertainty scores and the arrays that it reads.

use nuq::calibrate::rows_in_index;
use nuq_neighbors::{Embeddings, NeighborIndex, Neighbors};

use super::{BaselineParts, Members};
use crate::Error;
use crate::error::length_mismatch;

/// Computes an uncertainty score for each row of a batch. **A higher score means a higher uncertainty**, for every scorer.
pub trait Scorer: Send + Sync {
    /// The name for tables and error messages.
    fn name(&self) -> String;

    /// The arrays that a batch must contain.
    fn inputs(&self) -> &'static [Input];

    /// One score per row.
    ///
    /// # Errors
    /// The batch lacks an array, or an array has a wrong shape or an invalid value.
    fn score(&self, batch: &Batch<'_>) -> Result<Vec<f64>, Error>;

    /// Whether the scorer uses the neighbors of a batch instead of searching for them.
    fn takes_neighbors(&self) -> bool {
        false
    }

    /// Bytes of memory in addition to the training embeddings.
    fn bytes(&self) -> u64 {
        0
    }

    /// The fitted score as named parameters and arrays, as a file stores it. `None` for a scorer that is not one of the
    /// methods of this crate.
    fn parts(&self) -> Option<BaselineParts> {
        None
    }

    /// The index over training rows that the score searches, if there is one. A file stores it with the parts.
    fn index(&self) -> Option<&dyn NeighborIndex> {
        None
    }

    /// The number of rows that equal training rows, exactly or up to the rounding of a text file. `None` for a score
    /// without an index, because equal rows are found by a search in the index.
    ///
    /// # Errors
    /// The errors of the search, for example for another number of columns.
    fn equal_training_rows(&self, rows: &Embeddings<'_>) -> Result<Option<usize>, Error> {
        match self.index() {
            Some(index) => Ok(Some(rows_in_index(index, rows)?)),
            None => Ok(None),
        }
    }
}

/// An array that a scorer needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// The embeddings.
    Embeddings,
    /// The logits of the network.
    Logits,
    /// The logits of several networks, or of several forward passes of one network.
    Members,
    /// Aleatoric and epistemic uncertainties.
    Uncertainties,
}

nuq_neighbors::choices!(Input, "input", {
    Embeddings => "embeddings",
    Logits => "logits",
    Members => "members",
    Uncertainties => "uncertainties",
});

/// Rows to be scored, as arrays with one entry per row, all in the same order.
///
/// ```
/// use nuq::Embeddings;
/// use nuq_eval::baselines::{Batch, Energy, MaxProb, Scorer};
///
/// // Two rows of logits: the first has a clear maximum.
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
    /// One embedding per row.
    pub embeddings: Option<&'b Embeddings<'b>>,
    /// One row of logits per row.
    pub logits: Option<&'b Embeddings<'b>>,
    /// The logits of several members (networks or forward passes) for each row.
    pub members: Option<&'b Members>,
    /// The nearest training rows of each row, without L2 normalization, if known. Scorers that need neighbors use them instead of
    /// searching.
    pub neighbors: Option<&'b Neighbors>,
    /// The nearest training rows of each row, after L2 normalization of the training rows and of the batch, if known.
    pub normalized_neighbors: Option<&'b Neighbors>,
    /// Two uncertainties of each row.
    pub uncertainties: Option<Uncertainties<'b>>,
}

/// Two uncertainties of each row, as arrays of equal length.
#[derive(Debug, Clone, Copy)]
pub struct Uncertainties<'b> {
    /// Aleatoric uncertainties.
    pub aleatoric: &'b [f64],
    /// Epistemic uncertainties.
    pub epistemic: &'b [f64],
}

impl<'b> Batch<'b> {
    /// The embeddings.
    ///
    /// # Errors
    /// [`Error::MissingInput`] if the batch does not contain them.
    pub fn need_embeddings(&self, scorer: &dyn Scorer) -> Result<&'b Embeddings<'b>, Error> {
        self.embeddings.ok_or_else(|| missing(scorer, Input::Embeddings))
    }

    /// The logits.
    ///
    /// # Errors
    /// [`Error::MissingInput`] if the batch does not contain them.
    pub fn need_logits(&self, scorer: &dyn Scorer) -> Result<&'b Embeddings<'b>, Error> {
        self.logits.ok_or_else(|| missing(scorer, Input::Logits))
    }

    /// The logits of several members.
    ///
    /// # Errors
    /// [`Error::MissingInput`] if the batch does not contain them.
    pub fn need_members(&self, scorer: &dyn Scorer) -> Result<&'b Members, Error> {
        self.members.ok_or_else(|| missing(scorer, Input::Members))
    }

    /// Aleatoric and epistemic uncertainties.
    ///
    /// # Errors
    /// [`Error::MissingInput`] if the batch does not contain them.
    pub fn need_uncertainties(&self, scorer: &dyn Scorer) -> Result<Uncertainties<'b>, Error> {
        self.uncertainties.ok_or_else(|| missing(scorer, Input::Uncertainties))
    }

    /// Embeddings and logits of equal length.
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

/// Rejects rows whose number of columns is not `expected`, the number of columns of the training rows.
pub(super) fn check_columns(rows: &Embeddings<'_>, expected: usize) -> Result<(), Error> {
    match rows.dim() {
        got if got != expected => Err(nuq_neighbors::Error::DimensionMismatch { got, expected }.into()),
        _ => Ok(()),
    }
}

/// Rejects logits whose number of columns is not `expected`, the number of classes of the fit.
pub(super) fn check_classes(logits: &Embeddings<'_>, expected: usize) -> Result<(), Error> {
    match logits.dim() {
        got if got != expected => Err(length_mismatch("logits per row", got, "classes", expected)),
        _ => Ok(()),
    }
}

fn missing(scorer: &dyn Scorer, input: Input) -> Error {
    let input = match input {
        Input::Members => "logits of several members",
        Input::Uncertainties => "aleatoric and epistemic uncertainties",
        Input::Embeddings | Input::Logits => input.name(),
    };
    Error::MissingInput { scorer: scorer.name(), input }
}
