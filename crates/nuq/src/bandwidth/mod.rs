//! The bandwidth `h` of the kernel `K((x − x_i)/h)`.
//!
//! [`Bandwidth`] is a value. [`BandwidthRule`] is a method to compute one: leave-one-out over a grid, a rule of thumb per
//! dimension (`plug_in.rs`, `sheather_jones.rs`), or the distance of each training row to its k-th neighbor.

mod leave_one_out;
mod plug_in;
mod sheather_jones;

pub(crate) use leave_one_out::Selector;
pub use leave_one_out::{Criterion, CurvePoint, SelectionCurve, SquaredError};
pub use plug_in::{scott, silverman};
pub use sheather_jones::{improved_sheather_jones, improved_sheather_jones_kdepy};

use std::str::FromStr;

use nuq_neighbors::cancel::Checkpoint;
use nuq_neighbors::{NeighborIndex, UnknownChoice, normalized, progress};

use crate::Error;
use crate::error::{check_lengths, no_bandwidth};
use crate::row_source::RowSource;

/// A given or learned bandwidth.
#[derive(Debug, Clone, PartialEq)]
pub enum Bandwidth {
    /// One `h` for all rows and dimensions.
    Scalar(f64),
    /// One `h_j` per column. Neighbors are searched in the space whose coordinates are divided by `h_j`.
    PerDimension(Vec<f64>),
    /// One `h_i` per training row, for example larger in sparse regions.
    PerPoint(Vec<f64>),
}

impl Bandwidth {
    /// The name of this kind of bandwidth in files and in the output of `nuq inspect`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Bandwidth::Scalar(_) => "scalar",
            Bandwidth::PerDimension(_) => "per_dimension",
            Bandwidth::PerPoint(_) => "per_point",
        }
    }

    pub(crate) fn check(&self, rows: usize, dim: usize) -> Result<(), Error> {
        match self {
            Bandwidth::Scalar(_) => {}
            Bandwidth::PerDimension(values) => {
                check_lengths(("bandwidths", values.len()), ("columns", dim))?;
            }
            Bandwidth::PerPoint(values) => {
                check_lengths(("bandwidths", values.len()), ("training rows", rows))?;
            }
        }
        self.check_values()
    }

    /// Checks that each value is usable. The number of values is not checked, because this needs the data.
    pub(crate) fn check_values(&self) -> Result<(), Error> {
        let (values, of) = match self {
            Bandwidth::Scalar(h) => return check_scalar(*h, "bandwidth"),
            Bandwidth::PerDimension(values) => (values, "column"),
            Bandwidth::PerPoint(values) => (values, "training row"),
        };
        match values.iter().position(|&h| !is_usable(h)) {
            Some(at) => {
                Err(Error::BadBandwidth { what: format!("bandwidth of {of} {at}"), value: values[at] })
            }
            None => Ok(()),
        }
    }
}

pub(crate) fn check_scalar(h: f64, what: &str) -> Result<(), Error> {
    if is_usable(h) { Ok(()) } else { Err(Error::BadBandwidth { what: what.to_owned(), value: h }) }
}

/// Whether `h` is in a range for which `(x/h)²` is finite and positive for every nonzero `f32` value `x`.
fn is_usable(h: f64) -> bool {
    (1e-100..=1e100).contains(&h)
}

/// The method that determines the bandwidth of the posterior. `C` is the criterion of leave-one-out: [`Criterion`] for a
/// classifier, [`SquaredError`] for a regressor.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum BandwidthRule<C> {
    /// Leave-one-out over a geometric grid of `points` values, then over a finer grid around the best value.
    ///
    /// At the lower end of the grid even the nearest neighbor of most rows has a smaller weight than the prior. At the
    /// upper end all neighbors have nearly equal weights.
    LeaveOneOut {
        /// The optimized criterion.
        criterion: C,
        /// The number of grid values, at least 2.
        points: usize,
    },
    /// A given bandwidth.
    Fixed(Bandwidth),
    /// Silverman's rule of thumb, one bandwidth per dimension.
    ///
    /// This rule and the next two fit each column separately, as the package of the paper's authors does. In tens of
    /// dimensions the weight of the nearest neighbor under the product of such narrow kernels is nearly zero, and
    /// predictions equal the prior. The rules are meant for few dimensions, and to reproduce results of that package.
    Silverman,
    /// Scott's rule of thumb, one bandwidth per dimension.
    Scott,
    /// The diffusion estimator of Botev, Grotowski and Kroese (2010), one bandwidth per dimension. Silverman's rule is
    /// used for a column for which the estimator has no value.
    ImprovedSheatherJones,
    /// One bandwidth per training row: its distance to its `k`-th neighbor.
    Adaptive {
        /// The rank of the neighbor; `None` for the number of neighbors of the model.
        k: Option<usize>,
    },
}

/// A criterion of leave-one-out selection with a name.
pub trait NamedCriterion: Copy + 'static {
    /// All criteria of a task.
    const ALL: &'static [Self];

    /// The name of the criterion on the command line, in Python and in files.
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
    /// One value of each named rule.
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

    /// The names of the rules of this task.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        Self::named().map(|rule| rule.name()).collect()
    }

    /// The name of the rule on the command line, in Python and in files. For a given bandwidth it is the kind of the bandwidth
    /// ([`Bandwidth::name`]), which is not the name of a rule.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            BandwidthRule::LeaveOneOut { criterion, .. } => criterion.name(),
            BandwidthRule::Fixed(bandwidth) => bandwidth.name(),
            BandwidthRule::Silverman => "silverman",
            BandwidthRule::Scott => "scott",
            BandwidthRule::ImprovedSheatherJones => "isj",
            BandwidthRule::Adaptive { .. } => "adaptive",
        }
    }
}

/// Parses the name of a rule, or a number for one bandwidth.
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

/// Default number of grid points. Adjacent values differ by about 10 to 30 % on real embeddings. A denser grid gives
/// the same result within the standard error of the scores.
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

/// The distance of each training row to its k-th neighbor, or to its last one if there are fewer than k. The position in the list is the id
/// of the row. A row with k duplicates, and an id without a row, get the smallest positive distance of all rows.
pub(crate) fn kth_neighbor_distances(index: &dyn NeighborIndex, k: usize) -> Result<Vec<f64>, Error> {
    // Rows are searched in blocks, because the neighbors of all rows together could need more memory than the
    // embeddings.
    const ROWS: usize = 8192;
    let rows = index.len();
    if rows < 2 {
        return Err(no_bandwidth(rows));
    }
    let ids = index.rows().live_ids();
    let mut distances = vec![0.0; index.rows().id_bound()];
    progress::start("searching neighbors of training rows", rows);
    for block in ids.chunks(ROWS) {
        let neighbors = index.leave_one_out(block, k)?;
        for (i, &id) in block.iter().enumerate() {
            distances[id as usize] = neighbors.sq_distances(i)[neighbors.k() - 1].sqrt();
        }
    }
    let smallest = distances.iter().copied().filter(|&h| h > 0.0).fold(f64::INFINITY, f64::min);
    if smallest.is_infinite() {
        return Err(no_bandwidth(rows));
    }
    distances.iter_mut().for_each(|h| *h = h.max(smallest));
    Ok(distances)
}

/// Applies a one-dimensional rule to every column, without the rows in `removed` (ascending row numbers). A column
/// without a result, for example a constant one, gets the geometric mean of the bandwidths of the other columns, so
/// that its weight in distances is typical.
pub(crate) fn per_dimension(
    rows: &RowSource<'_>,
    removed: &[u32],
    rule: impl Fn(&[f64]) -> Option<f64> + Sync,
) -> Result<Vec<f64>, Error> {
    use rayon::prelude::*;
    let here = Checkpoint::current();
    let is_used = |row: u32| removed.binary_search(&row).is_err();
    let of_column = |j: usize| here.enter(|| rule(&rows.column(j, is_used)));
    let per_column: Vec<Option<f64>> = (0..rows.dim()).into_par_iter().map(of_column).collect();
    let known = || per_column.iter().flatten().filter(|h| is_usable(**h));
    let count = known().count();
    if count == 0 {
        return Err(no_bandwidth(rows.len() - removed.len()));
    }
    let typical = (known().map(|h| h.ln()).sum::<f64>() / count as f64).exp();
    Ok(per_column.into_iter().map(|h| h.filter(|&h| is_usable(h)).unwrap_or(typical)).collect())
}
