//! Parameters of graph construction and search.

use crate::{Error, Precision};

/// Parameters of [`HnswIndex`](super::HnswIndex), with the names that Malkov and Yashunin use.
///
/// ```
/// use nuq_neighbors::HnswParams;
/// let params = HnswParams::default().ef_search(200).seed(7);
/// assert_eq!(params, HnswParams { ef_search: 200, seed: 7, ..HnswParams::default() });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HnswParams {
    /// M, from 2 to 512. A node has at most 2M links on the bottom layer and at most M links on each layer above it. More
    /// links increase recall, memory and construction time.
    pub m: usize,
    /// The number of candidates for the links of a new node; at least 1.
    pub ef_construction: usize,
    /// The number of candidates of a search; at least 1, and raised to k when it is smaller. More candidates increase
    /// recall and search time.
    pub ef_search: usize,
    /// The seed of the layers of the nodes and of the order of insertion.
    pub seed: u64,
    /// The precision of the stored rows. Rows in `f32` are borrowed or shared; if codes of one byte per coordinate
    /// preserve the neighbors, walks (searches along the links) read such codes. Rows in `f16` are a rounded copy, which walks read
    /// directly unless the index divides the coordinates by a scale.
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

    /// Sets M, from 2 to 512.
    #[must_use]
    pub fn m(mut self, m: usize) -> Self {
        self.m = m;
        self
    }

    /// Sets the number of candidates during construction.
    #[must_use]
    pub fn ef_construction(mut self, ef: usize) -> Self {
        self.ef_construction = ef;
        self
    }

    /// Sets the number of candidates during search.
    #[must_use]
    pub fn ef_search(mut self, ef: usize) -> Self {
        self.ef_search = ef;
        self
    }

    /// Sets the seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the precision of the stored rows.
    #[must_use]
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let error = |name, value, range| Err(Error::BadGraphParameter { name, value, range });
        match *self {
            Self { m, .. } if !(2..=512).contains(&m) => error("m", m, "from 2 to 512"),
            Self { ef_construction: 0, .. } => error("ef_construction", 0, "at least 1"),
            Self { ef_search: 0, .. } => error("ef_search", 0, "at least 1"),
            _ => Ok(()),
        }
    }
}
