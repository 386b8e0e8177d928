//! Histograms of live rows (rows that clients have scored) and of the held-out or training rows with which they are compared. Both
//! histograms have the same bins.

use serde_json::{Value, json};

/// Number of bins.
const BINS: usize = 30;
/// The quantiles `TAIL` and `1 − TAIL` are computed for each of the two kinds of rows. The bins cover the range from the smaller lower
/// quantile to the larger upper quantile. Values outside this range are counted in the first or the last bin.
const TAIL: f64 = 0.005;

/// The histograms as JSON: `edges`, `live`, and `held_out` or `training`. `sorted` contains the values of the held-out or training rows.
pub(super) fn of(sorted: &[f64], mut live: Vec<f64>, is_held_out: bool) -> Value {
    live.retain(|value| !value.is_nan());
    live.sort_by(f64::total_cmp);
    let ends = |values: &[f64]| -> Option<(f64, f64)> {
        let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        let last = finite.len().checked_sub(1)?;
        let tail = (TAIL * last as f64) as usize;
        Some((finite[tail], finite[last - tail]))
    };
    let (low, high) = match (ends(sorted), ends(&live)) {
        (Some(a), Some(b)) => (a.0.min(b.0), a.1.max(b.1)),
        (Some(ends), None) | (None, Some(ends)) => ends,
        (None, None) => (0.0, 1.0),
    };
    let width = ((high - low) / BINS as f64).max(1e-9 * (1.0 + low.abs()));
    let edges: Vec<f64> = (0..=BINS).map(|i| low + i as f64 * width).collect();
    let counts = |values: &[f64]| {
        let mut counts = [0u32; BINS];
        for value in values {
            // Because the index is clamped, infinite values are also counted in the first or the last bin.
            counts[(((value - low) / width).max(0.0) as usize).min(BINS - 1)] += 1;
        }
        counts.to_vec()
    };
    let name = if is_held_out { "held_out" } else { "training" };
    json!({ "edges": edges, "live": counts(&live), name: counts(sorted) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_except_nan_is_counted_once() {
        let sorted: Vec<f64> = (0..1000).map(f64::from).collect();
        let live = vec![f64::NAN, f64::NEG_INFINITY, f64::INFINITY, -5.0, 499.9, 2e9];
        let value = of(&sorted, live, true);
        let sum =
            |name: &str| value[name].as_array().unwrap().iter().map(|v| v.as_u64().unwrap()).sum::<u64>();
        assert_eq!((sum("live"), sum("held_out")), (5, 1000));
        assert_eq!(value["edges"].as_array().unwrap().len(), BINS + 1);
        assert!(value.get("training").is_none());
    }

    #[test]
    fn edges_ascend_if_values_are_equal_or_absent() {
        for (sorted, live) in [(vec![], vec![]), (vec![2.0; 5], vec![]), (vec![], vec![f64::INFINITY])] {
            let value = of(&sorted, live, false);
            let edges: Vec<f64> =
                value["edges"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
            assert!(edges.windows(2).all(|pair| pair[0] < pair[1]), "{edges:?}");
        }
    }
}
