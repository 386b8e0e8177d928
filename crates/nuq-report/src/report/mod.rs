//! An evaluation report: its data, its computation, and its output as page, fragment, figures, table and JSON.

mod data;
mod evaluation;
mod figures;
mod fragment;
mod json;
mod page;
mod table;

pub use data::{
    BandwidthCurve, Cell, Curve, CurveKind, Fact, Family, Histogram, HistogramSet, Interval, Map, MapPoint,
    Mark, Method, Neighbor, OodCells, OodSet, Provenance, Report, TestSet, UncertainRow,
};
pub use evaluation::ReportOptions;
