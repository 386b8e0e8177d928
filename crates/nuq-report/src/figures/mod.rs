//! The figures, one file each, and what they are made of.

pub(crate) mod chart;
pub(crate) mod dot_plot;
pub(crate) mod embedding_map;
pub(crate) mod growth;
pub(crate) mod histogram;
pub(crate) mod legend;
pub(crate) mod line_chart;
pub(crate) mod marker;
pub(crate) mod pens;
pub(crate) mod picture;
pub(crate) mod plot;
pub(crate) mod uncertainty_maps;
