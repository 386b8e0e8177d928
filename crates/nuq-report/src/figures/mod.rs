//! The figures, one file each.

pub(crate) mod growth;
pub(crate) mod uncertainty_maps;
