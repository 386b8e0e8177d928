//! How far a training point's word carries: the bandwidth $h$ of the kernel $K((x - x_i)/h)$.
//!
//! [`Bandwidth`] is a value, [`BandwidthRule`] a way to find one: by leave-one-out over a grid
//! (`leave_one_out.rs`), by a rule of thumb per dimension (`plug_in.rs`, `sheather_jones.rs`), or from each
//! training point's distance to its k-th neighbor.

mod leave_one_out;
mod plug_in;
mod sheather_jones;

pub use leave_one_out::{Criterion, CurvePoint, SelectionCurve, SquaredError};
pub use plug_in::{scott, silverman};
pub use sheather_jones::{improved_sheather_jones, improved_sheather_jones_kdepy};

use std::str::FromStr;

use nuq_neighbors::{Embeddings, NeighborIndex, UnknownChoice, normalized};

use crate::Error;

/// A bandwidth, given or learned.
#[derive(Debug, Clone, PartialEq)]
pub enum Bandwidth {
    /// One $h$ for all.
    Scalar(f64),
    /// One $h_j$ per column. Neighbors are searched in the space so scaled.
    PerDimension(Vec<f64>),
    /// One $h_i$ per training point: wide where data are sparse.
    PerPoint(Vec<f64>),
}

impl Bandwidth {
    pub(crate) fn check(&self, rows: usize, dim: usize) -> Result<(), Error> {
        let (values, kind, expected) = match self {
            Bandwidth::Scalar(h) => return check_scalar(*h, "bandwidth"),
            Bandwidth::PerDimension(values) => (values, "per-dimension", dim),
            Bandwidth::PerPoint(values) => (values, "per-point", rows),
        };
        if values.len() != expected {
            return Err(Error::BandwidthCount { kind, got: values.len(), expected });
        }
        match values.iter().position(|&h| !is_usable(h)) {
            Some(at) => {
                Err(Error::BadBandwidth { what: format!("{kind} bandwidth {at}"), value: values[at] })
            }
            None => Ok(()),
        }
    }
}

pub(crate) fn check_scalar(h: f64, what: &str) -> Result<(), Error> {
    if is_usable(h) { Ok(()) } else { Err(Error::BadBandwidth { what: what.to_owned(), value: h }) }
}

/// Positive, and far enough from the ends of `f64` that squared ratios of any two `f32` to it stay finite.
fn is_usable(h: f64) -> bool {
    (1e-100..=1e100).contains(&h)
}

/// How the posterior's bandwidth is found. `C` is what leave-one-out optimizes: [`Criterion`] for a
/// classifier, [`SquaredError`] for a regressor.
#[derive(Debug, Clone, PartialEq)]
pub enum BandwidthRule<C> {
    /// Leave-one-out over a geometric grid of `points` values between the smallest positive and the largest
    /// neighbor distance.
    LeaveOneOut {
        /// What is optimized.
        criterion: C,
        /// Values of h that are tried, at least 2.
        points: usize,
    },
    /// A bandwidth that the user knows.
    Fixed(Bandwidth),
    /// Silverman's rule of thumb, one bandwidth per dimension.
    ///
    /// This rule and the next two fit each column by itself, as the authors' package does. In tens of dimensions the
    /// product of such narrow kernels hardly reaches the nearest neighbor and predictions fall back to the prior:
    /// they are for few dimensions, and for reproduction.
    Silverman,
    /// Scott's rule of thumb, one bandwidth per dimension.
    Scott,
    /// The diffusion estimator of Botev, Grotowski and Kroese (2010), one bandwidth per dimension.
    ImprovedSheatherJones,
    /// One bandwidth per training row: its distance to its `k`-th neighbor.
    Adaptive {
        /// The rank of the neighbor; `None` for the number of neighbors of the model.
        k: Option<usize>,
    },
}

/// A criterion of leave-one-out selection, with its word.
pub trait NamedCriterion: Copy + 'static {
    /// All criteria of a task.
    const ALL: &'static [Self];

    /// The word for the criterion on the command line, in Python and in files.
    fn name(self) -> &'static str;
}

impl NamedCriterion for Criterion {
    const ALL: &'static [Self] = Criterion::ALL;

    fn name(self) -> &'static str {
        Criterion::name(self)
    }
}

impl NamedCriterion for SquaredError {
    const ALL: &'static [Self] = &[SquaredError];

    fn name(self) -> &'static str {
        "squared_error"
    }
}

impl<C: NamedCriterion> BandwidthRule<C> {
    /// One value of each rule that has a word.
    fn named() -> impl Iterator<Item = Self> {
        let criterion = |&criterion: &C| BandwidthRule::LeaveOneOut { criterion, points: GRID_POINTS };
        let others = [
            BandwidthRule::Silverman,
            BandwidthRule::Scott,
            BandwidthRule::ImprovedSheatherJones,
            BandwidthRule::Adaptive { k: None },
        ];
        C::ALL.iter().map(criterion).chain(others)
    }

    /// The words of the rules that this task offers.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        Self::named().map(|rule| rule.name()).collect()
    }

    /// The word for the rule on the command line, in Python and in files.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            BandwidthRule::LeaveOneOut { criterion, .. } => criterion.name(),
            BandwidthRule::Fixed(Bandwidth::Scalar(_)) => "scalar",
            BandwidthRule::Fixed(Bandwidth::PerDimension(_)) => "per_dimension",
            BandwidthRule::Fixed(Bandwidth::PerPoint(_)) => "per_point",
            BandwidthRule::Silverman => "silverman",
            BandwidthRule::Scott => "scott",
            BandwidthRule::ImprovedSheatherJones => "isj",
            BandwidthRule::Adaptive { .. } => "adaptive",
        }
    }
}

/// The word of a rule, or a number for one bandwidth.
impl<C: NamedCriterion> FromStr for BandwidthRule<C> {
    type Err = UnknownChoice;

    fn from_str(word: &str) -> Result<Self, UnknownChoice> {
        let name = normalized(word);
        match (Self::named().find(|rule| rule.name() == name), word.trim().parse::<f64>()) {
            (Some(rule), _) => Ok(rule),
            (None, Ok(h)) => Ok(h.into()),
            _ => Err(UnknownChoice::new("bandwidth", word, Self::names()).or_number()),
        }
    }
}

/// Grid points of leave-one-out when nothing else is said: neighboring values differ by some 10 to 30 % on
/// real embeddings, finer than the curve is known.
const GRID_POINTS: usize = 40;

impl<C: Default> Default for BandwidthRule<C> {
    fn default() -> Self {
        BandwidthRule::LeaveOneOut { criterion: C::default(), points: GRID_POINTS }
    }
}

impl<C> From<f64> for BandwidthRule<C> {
    fn from(h: f64) -> Self {
        BandwidthRule::Fixed(Bandwidth::Scalar(h))
    }
}

impl<C> From<Bandwidth> for BandwidthRule<C> {
    fn from(bandwidth: Bandwidth) -> Self {
        BandwidthRule::Fixed(bandwidth)
    }
}

impl From<Criterion> for BandwidthRule<Criterion> {
    fn from(criterion: Criterion) -> Self {
        BandwidthRule::LeaveOneOut { criterion, points: GRID_POINTS }
    }
}

/// Each training point's distance to its k-th neighbor. A point with k duplicates takes the smallest positive
/// distance of all.
pub(crate) fn kth_neighbor_distances(index: &dyn NeighborIndex, k: usize) -> Result<Vec<f64>, Error> {
    // Blocks, because the table of all points at once would be larger than the embeddings.
    const ROWS: usize = 8192;
    let rows = index.len();
    if rows < 2 {
        return Err(Error::NoSpread { rows });
    }
    let ids: Vec<u32> = (0..rows as u32).collect();
    let mut distances = Vec::with_capacity(rows);
    for block in ids.chunks(ROWS) {
        let table = index.leave_one_out(block, k)?;
        distances.extend((0..block.len()).map(|i| table.sq_distances(i)[table.k() - 1].sqrt()));
    }
    let smallest = distances.iter().copied().filter(|&h| h > 0.0).fold(f64::INFINITY, f64::min);
    if smallest.is_infinite() {
        return Err(Error::NoSpread { rows });
    }
    distances.iter_mut().for_each(|h| *h = h.max(smallest));
    Ok(distances)
}

/// A one-dimensional rule on every column. A column on which it has nothing to say (a constant one, such as
/// a unit that never fires) takes the geometric mean of the others, which neither counts nor discounts it.
pub(crate) fn per_dimension(
    embeddings: &Embeddings<'_>,
    rule: impl Fn(&[f64]) -> Option<f64> + Sync,
) -> Result<Vec<f64>, Error> {
    use rayon::prelude::*;
    let found: Vec<Option<f64>> =
        (0..embeddings.dim()).into_par_iter().map(|j| rule(&embeddings.column(j))).collect();
    let known = || found.iter().flatten().filter(|h| is_usable(**h));
    let count = known().count();
    if count == 0 {
        return Err(Error::NoSpread { rows: embeddings.len() });
    }
    let typical = (known().map(|h| h.ln()).sum::<f64>() / count as f64).exp();
    Ok(found.into_iter().map(|h| h.filter(|&h| is_usable(h)).unwrap_or(typical)).collect())
}
