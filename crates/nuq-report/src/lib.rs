//! Figures and evaluation reports of NUQ.
//!
//! A figure is drawn once as an SVG document with an embedded font ([`Figure::svg`]). With the feature `png`, which is enabled by
//! default, the PNG is rendered from this document (`Figure::png`). A figure therefore looks the same on every machine. Standalone
//! figures are [`Chart`], [`DotPlot`], [`LogLogChart`] and [`UncertaintyMaps`].
//!
//! A [`Report`] holds the results of an evaluation as plain data ([`Report::from_evaluation`]). It is written as an HTML page
//! with all figures ([`Report::page`]), as a compact HTML fragment for notebooks ([`Report::html_fragment`]), as separate
//! figures ([`Report::figures`]), as a plain-text table ([`Report::table`]) or as JSON ([`Report::json`]). A [`ModelSummary`]
//! lists the options and fitted values of a model.

pub mod assets;
mod charts;
mod drawing;
mod model_summary;
mod report;

pub use charts::chart::{AxisScale, Chart, ChartAxis, ChartLine, ChartPanel, Emphasis};
pub use charts::dot_plot::{DotPlot, DotRow};
pub use charts::log_log_chart::{LogLogChart, LogLogLine};
pub use charts::uncertainty_maps::{ColorScale, Extent, Field, MapRow, UncertaintyMaps};
pub use drawing::figure::Figure;
#[cfg(feature = "png")]
pub use drawing::png::Error;
pub use model_summary::ModelSummary;
pub use report::{
    BandwidthCurve, Cell, Curve, CurveKind, Fact, Family, Histogram, HistogramSet, Interval, Map, MapPoint,
    Mark, Method, Neighbor, OodCells, OodSet, Provenance, Report, ReportOptions, TestSet, UncertainRow,
};
