//! Recognition of training rows among held-out rows. A rule that was chosen on training rows has no guarantee for new
//! rows; the text of the rule says so.

use std::fmt;

use nuq_neighbors::{Embeddings, NeighborIndex, Neighbors, Precision};

use crate::dimension::intrinsic_dimension;
use crate::smoother::KernelSmoother;

/// Largest relative change of a coordinate that is written with six significant digits and then divided by the norm of
/// the row. The rounding of the coordinate contributes 5e-6 and the change of the norm as much; the rest is a margin
/// for the rounding of `f32`.
const TEXT_ERROR: f64 = 1.1e-5;
/// The same for a coordinate that is written with six decimals, relative to the largest coordinate of the row, which is
/// assumed to be about one.
const DECIMAL_ERROR: f64 = 1.1e-6;
/// Largest relative change of a coordinate that is stored in `f16`.
const HALF_ERROR: f64 = 5e-4;
/// Upper bound of the probability that a new row is by chance as near to a training row as a rounded copy of this
/// training row. The probability is computed for a locally constant density.
const CHANCE: f64 = 1e-6;
/// Largest distance of a rounded row to its training row, relative to the distance to the last neighbor.
const MAX_RATIO: f64 = 0.1;
/// For an index without a model: the number of neighbors of each row.
const NEIGHBORS: usize = 10;
/// For an index without a model: the number of rows from which the intrinsic dimension is estimated.
const DIMENSION_ROWS: usize = 500;

/// The number of queries that equal a training row, exactly or after its coordinates were rounded to six significant
/// digits or six decimals, as in a text file. `queries` are in the space that the model searches. `neighbors` are the
/// neighbors of the queries.
///
/// Rounded rows can be distinguished from new rows only if the rounding is small relative to the distances between
/// rows. If K neighbors are uniformly distributed in a ball of dimension d, at least one of them is within the share r
/// of the radius with a probability of about `K r^d`. In few dimensions this probability is too large to recognize a
/// single row. Then rounded rows are recognized only together: there must be more of them than chance explains. With
/// K = 1 the distance to the row cannot be compared with the distance to another neighbor, and only exactly equal rows
/// are recognized.
pub(crate) fn equal_training_rows(
    smoother: &KernelSmoother<'_>,
    queries: &Embeddings<'_>,
    neighbors: &Neighbors,
) -> usize {
    equal_rows((&*smoother.index, smoother.dimension), queries, neighbors)
}

/// The number of `queries` that equal a row of an index, exactly or after its coordinates were rounded to six
/// significant digits or six decimals, as in a text file. The same method of a fitted model is
/// [`FittedModel::equal_training_rows`](crate::FittedModel::equal_training_rows).
///
/// ```
/// use nuq::calibrate::rows_in_index;
/// use nuq::{Embeddings, ExactIndex};
/// let rows = Embeddings::from_rows(&[[0.12345678, 1.0], [2.0, 3.0], [4.0, 1.0], [0.0, 7.0]])?;
/// let queries = Embeddings::from_rows(&[[0.123457, 1.0], [2.5, 3.0]])?;
/// assert_eq!(rows_in_index(&ExactIndex::new(&rows)?, &queries)?, 1);
/// # Ok::<(), nuq_neighbors::Error>(())
/// ```
///
/// # Errors
/// The errors of the search, for example for another number of columns.
pub fn rows_in_index(
    index: &dyn NeighborIndex,
    queries: &Embeddings<'_>,
) -> Result<usize, nuq_neighbors::Error> {
    let neighbors = index.search(queries, NEIGHBORS)?;
    let ids = index.rows().live_ids();
    let dimension = match ids.len() {
        0 | 1 => index.dim() as f64,
        len => {
            let sample: Vec<u32> = ids.into_iter().step_by(len.div_ceil(DIMENSION_ROWS)).collect();
            intrinsic_dimension(&index.leave_one_out(&sample, NEIGHBORS)?, index.dim())
        }
    };
    Ok(equal_rows((index, dimension), queries, &neighbors))
}

fn equal_rows(
    (index, dimension): (&dyn NeighborIndex, f64),
    queries: &Embeddings<'_>,
    neighbors: &Neighbors,
) -> usize {
    let stored = index.rows();
    let relative = match stored.precision() {
        Precision::F16 => HALF_ERROR,
        _ => TEXT_ERROR,
    };
    let k = neighbors.k().max(1) as f64;
    let ratio = (CHANCE / k).powf(1.0 / dimension.max(1.0)).min(MAX_RATIO);
    let tolerance = |row: &[f32]| {
        let largest = row.iter().fold(0.0, |largest: f32, value| largest.max(value.abs()));
        let absolute = DECIMAL_ERROR * f64::from(largest);
        move |value: f32| relative * f64::from(value.abs()) + absolute
    };
    let is_rounded = |query: &[f32], row: &[f32]| {
        let tolerance = tolerance(row);
        query.iter().zip(row).all(|(&a, &b)| (f64::from(a) - f64::from(b)).abs() <= tolerance(b))
    };
    let (mut certain, mut possible, mut expected) = (0, 0, 0.0);
    for i in 0..neighbors.len() {
        let (query, distances) = (queries.row(i), neighbors.sq_distances(i));
        if let [0.0, ..] = distances {
            certain += 1;
            continue;
        }
        let [nearest, .., last] = distances else { continue };
        // If the index does not store its rows, only exactly equal rows are recognized.
        if !stored.is_stored() {
            continue;
        }
        let of_value = tolerance(query);
        let sq_tolerance: f64 = query.iter().map(|&value| of_value(value).powi(2)).sum();
        let is_near = *nearest <= MAX_RATIO * MAX_RATIO * last && *nearest <= 1.01 * sq_tolerance;
        let is_possible = is_near && is_rounded(query, &stored.row(neighbors.ids(i)[0]));
        match is_possible && *nearest <= ratio * ratio * last {
            true => certain += 1,
            false => {
                possible += usize::from(is_possible);
                expected += (k * (sq_tolerance / last).powf(0.5 * dimension)).min(1.0);
            }
        }
    }
    if is_unlikely(possible, expected) { certain + possible } else { certain }
}

/// Whether the probability that `count` or more independent events occur is at most [`CHANCE`], if `expected` of them
/// occur on average (Chernoff's bound).
fn is_unlikely(count: usize, expected: f64) -> bool {
    let count = count as f64;
    count > expected && count - expected - count * (count / expected).ln() <= CHANCE.ln()
}

/// A rule is chosen on `rows` rows, and `training_rows` of them are training rows. Returns `training_rows` if it is at
/// least a tenth of `rows`; otherwise 0, because a smaller share can be due to new rows that equal training rows by
/// chance.
#[must_use]
pub fn relevant_training_rows(training_rows: usize, rows: usize) -> usize {
    if 10 * training_rows >= rows.max(1) { training_rows } else { 0 }
}

/// Writes the first sentence of the text of a rule that was chosen on training rows. Writes nothing for held-out rows.
pub(super) fn write_sentence(f: &mut fmt::Formatter<'_>, training_rows: usize, rows: usize) -> fmt::Result {
    match training_rows {
        0 => Ok(()),
        _ => write!(
            f,
            "Chosen on training rows ({training_rows} of {rows}), so that the following is not guaranteed for new rows. "
        ),
    }
}

/// The words that follow a number of rows: "held-out rows", "training rows", or "rows" if there are rows of both kinds.
#[must_use]
pub fn kind_of_rows(training_rows: usize, rows: usize) -> &'static str {
    match (training_rows, rows) {
        (0, 1) => "held-out row",
        (0, _) => "held-out rows",
        (1, 1) => "training row",
        _ if training_rows < rows => "rows",
        _ => "training rows",
    }
}
