//! Which unlabeled rows are worth a label: those that the model knows least about, and not all from one place.

use nuq_neighbors::{Embeddings, sq_distance};
use rayon::prelude::*;

/// Candidates for each row that is asked for.
const POOL: usize = 10;

/// The rows to label next, most wanted first: of the most uncertain, ten for each one asked for, the most uncertain and then
/// again and again the one farthest from all taken so far (Gonzalez 1985), so that a hundred of one kind are not all asked
/// for. `uncertainty` holds a number for each row, higher for less certain; NaN is never taken.
///
/// ```
/// use nuq::{Embeddings, suggest};
/// let x = Embeddings::from_rows(&[[0.0], [0.1], [9.0], [4.0]])?;
/// // Rows 0 and 1 are twins; the second of them can wait.
/// assert_eq!(suggest(&x, &[3.0, 2.9, 2.0, 1.0], 2), [0, 2]);
/// # Ok::<(), nuq::Error>(())
/// ```
pub fn suggest(rows: &Embeddings<'_>, uncertainty: &[f64], count: usize) -> Vec<usize> {
    assert_eq!(rows.len(), uncertainty.len(), "an uncertainty for each row");
    let mut pool: Vec<usize> = (0..rows.len()).filter(|&i| !uncertainty[i].is_nan()).collect();
    pool.sort_by(|&a, &b| uncertainty[b].total_cmp(&uncertainty[a]).then(a.cmp(&b)));
    pool.truncate(count.saturating_mul(POOL));
    let mut nearest = vec![f64::INFINITY; pool.len()];
    let mut taken = Vec::with_capacity(count.min(pool.len()));
    while taken.len() < count.min(pool.len()) {
        // The first of all is the most uncertain: every distance is infinite then, and ties go to the more uncertain.
        let next = (0..pool.len()).reduce(|best, i| if nearest[i] > nearest[best] { i } else { best });
        let Some(next) = next else { break };
        taken.push(pool[next]);
        let row = rows.row(pool[next]);
        nearest.par_iter_mut().zip(&pool).for_each(|(nearest, &i)| {
            *nearest = nearest.min(sq_distance(rows.row(i), row));
        });
        // Never again, also among twins.
        nearest[next] = f64::NEG_INFINITY;
    }
    taken
}
