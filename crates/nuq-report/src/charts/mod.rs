//! Charts, one file per kind, and their parts: plot area, legend, line styles and markers.

pub(crate) mod captioned_drawing;
pub(crate) mod chart;
pub(crate) mod dot_plot;
pub(crate) mod embedding_map;
pub(crate) mod histogram;
pub(crate) mod legend;
pub(crate) mod line_chart;
pub(crate) mod line_style;
pub(crate) mod log_log_chart;
pub(crate) mod marker;
pub(crate) mod plot_area;
pub(crate) mod uncertainty_maps;
