//! An evaluation report: its data, and its forms as page, figures and table.

mod data;
mod figures;
mod page;
mod table;

pub use data::{
    BandwidthCurve, Cell, Curve, Fact, Family, Histogram, HistogramSet, Interval, Map, MapPoint, Mark,
    Method, Neighbor, OodCells, OodSet, Provenance, Report, TestSet, UncertainRow,
};
