//! The queries of a search: values on the host, an array on the device, or rows of the index.

use crate::array::Floats;

/// The queries of a search.
#[derive(Clone, Copy)]
pub(crate) enum Queries<'q> {
    /// Values on the host, row-major.
    Values(&'q [f32]),
    /// All rows of an array on the device.
    Device { floats: &'q Floats, len: usize },
    /// The rows `ids` of the array `floats` on the device. If `floats` is `None`, the rows `ids` of the shard.
    Gathered { floats: Option<&'q Floats>, ids: &'q [u32] },
}

/// Memory for the queries that [`Queries::choose`] returns.
#[derive(Default)]
pub(crate) struct Chosen {
    values: Vec<f32>,
    ids: Vec<u32>,
}

impl<'q> Queries<'q> {
    pub(crate) fn len(&self, dim: usize) -> usize {
        match self {
            Self::Values(values) => values.len() / dim,
            Self::Device { len, .. } => *len,
            Self::Gathered { ids, .. } => ids.len(),
        }
    }

    /// The queries with the given numbers.
    pub(crate) fn choose<'c>(self, numbers: &[u32], dim: usize, chosen: &'c mut Chosen) -> Queries<'c>
    where
        'q: 'c,
    {
        match self {
            Self::Values(all) => {
                let row = |&i: &u32| &all[i as usize * dim..][..dim];
                chosen.values = numbers.iter().flat_map(row).copied().collect();
                Queries::Values(&chosen.values)
            }
            Self::Device { floats, .. } => {
                chosen.ids = numbers.to_vec();
                Queries::Gathered { floats: Some(floats), ids: &chosen.ids }
            }
            Self::Gathered { floats, ids } => {
                chosen.ids = numbers.iter().map(|&i| ids[i as usize]).collect();
                Queries::Gathered { floats, ids: &chosen.ids }
            }
        }
    }
}
