//! The choice between the device and the CPU by the expected times.

use std::fmt;

use crate::Error;
use crate::bound::MAX_DIM;
use crate::search::MAX_NEIGHBORS;

/// Why a search was on the CPU.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OnCpu {
    /// The device is not expected to be faster. The fields are the expected times in seconds.
    NotFaster { cpu: f64, gpu: f64 },
    /// There are too many neighbors or columns.
    TooLarge,
    /// There is no device, or it cannot be used.
    Unusable(Error),
}

impl fmt::Display for OnCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFaster { cpu, gpu } => {
                write!(
                    f,
                    "the search takes about {cpu:.2} s on the CPU and {gpu:.2} s on a GPU, with the copy of the rows"
                )
            }
            Self::TooLarge => {
                write!(f, "a GPU searches at most {MAX_NEIGHBORS} neighbors in at most {MAX_DIM} columns")
            }
            Self::Unusable(error) => write!(f, "{error}"),
        }
    }
}

/// The expected time of a search on a device in seconds, including the copy of `copied` rows and queries to the device and, unless the
/// device is already open, the time to open it.
pub(crate) fn gpu_seconds(rows: usize, dim: usize, queries: usize, copied: usize, is_open: bool) -> f64 {
    // The constants assume a device with a tenth of the speed of a data-center GPU.
    const OPEN: f64 = 0.5;
    const BYTES_PER_SECOND: f64 = 5e9;
    const TERMS_PER_SECOND: f64 = 2e13;
    const SEARCH: f64 = 5e-3;
    let (rows, dim, queries, copied) = (rows as f64, dim as f64, queries as f64, copied as f64);
    let opening = if is_open { 0.0 } else { OPEN };
    opening
        + SEARCH
        + 4.0 * copied * dim / BYTES_PER_SECOND
        + rows * queries * (dim + 16.0) / TERMS_PER_SECOND
}

#[cfg(test)]
mod tests {
    use nuq_neighbors::device::cpu_seconds;

    use super::*;

    #[test]
    fn a_device_is_expected_to_be_faster_for_large_searches_only() {
        let is_faster = |rows, dim, queries, copied| {
            gpu_seconds(rows, dim, queries, copied, true) < cpu_seconds(rows, dim, queries, 20)
        };
        assert!(is_faster(1_281_167, 2048, 50_000, 1_331_167));
        assert!(is_faster(50_000, 512, 10_000, 60_000));
        assert!(!is_faster(1000, 16, 100, 0));
        assert!(!is_faster(1_281_167, 2048, 1, 1_281_168));
    }
}
