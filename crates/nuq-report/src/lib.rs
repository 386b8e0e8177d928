//! What people look at: figures, drawn once as SVG and rendered from it to PNG.
//!
//! This crate computes nothing of what it shows. A figure takes numbers, lays them out on a canvas and
//! becomes a [`Figure`]: an SVG document that carries its own font, so that it reads the same everywhere.

mod canvas;
mod color;
mod figure;
mod figures;
mod report;

pub use figure::{Error, Figure};
pub use figures::growth::{Growth, Line};
pub use figures::uncertainty_maps::{Extent, Field, MapRow, Scale, UncertaintyMaps};
pub use report::{
    BandwidthCurve, Bars, Cell, Curve, Fact, Family, Histogram, Interval, MadeBy, Map, MapPoint, Mark,
    Method, NearRow, OodCells, OodSet, Report, TestSet, UncertainRow,
};
