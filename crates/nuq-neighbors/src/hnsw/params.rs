//! How a graph is built and searched.

use crate::{Error, Precision};

/// Parameters of [`HnswIndex`](super::HnswIndex), with Malkov and Yashunin's names.
///
/// ```
/// use nuq_neighbors::HnswParams;
/// let params = HnswParams::default().ef_search(200).seed(7);
/// assert_eq!(params, HnswParams { ef_search: 200, seed: 7, ..HnswParams::default() });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HnswParams {
    /// $M$: links of a point on each layer, twice as many on the bottom one. More links find more neighbors and take more
    /// memory and time to build.
    pub m: usize,
    /// How many candidates are considered for the links of a new point.
    pub ef_construction: usize,
    /// How many candidates a search keeps; at least k. More find more of the true neighbors, and take longer.
    pub ef_search: usize,
    /// Decides the layers of the points and the order in which they are inserted.
    pub seed: u64,
    /// How the rows are kept. In `f32` they are borrowed or shared, and walks read codes of a byte a coordinate beside
    /// them where codes tell the rows apart; in `f16` the index keeps its own rounded rows, half as large, and nothing
    /// else.
    pub precision: Precision,
}

impl Default for HnswParams {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl HnswParams {
    /// The default parameters, as a constant.
    pub const DEFAULT: Self =
        Self { m: 16, ef_construction: 200, ef_search: 100, seed: 0, precision: Precision::F32 };

    /// Sets $M$, from 2 to 512.
    pub fn m(mut self, m: usize) -> Self {
        self.m = m;
        self
    }

    /// Sets the candidates of construction.
    pub fn ef_construction(mut self, ef: usize) -> Self {
        self.ef_construction = ef;
        self
    }

    /// Sets the candidates of search.
    pub fn ef_search(mut self, ef: usize) -> Self {
        self.ef_search = ef;
        self
    }

    /// Sets the seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets how the rows are kept.
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let refuse = |name, value, range| Err(Error::BadGraphParameter { name, value, range });
        match *self {
            Self { m, .. } if !(2..=512).contains(&m) => refuse("m", m, "from 2 to 512"),
            Self { ef_construction: 0, .. } => refuse("ef_construction", 0, "at least 1"),
            Self { ef_search: 0, .. } => refuse("ef_search", 0, "at least 1"),
            _ => Ok(()),
        }
    }
}
