//! What people look at: figures, drawn once as SVG and rendered from it to PNG, and an evaluation as a page.
//!
//! This crate computes nothing of what it shows. A figure takes numbers, lays them out on a canvas and
//! becomes a [`Figure`]: an SVG document that carries its own font, so that it reads the same everywhere.
//! A [`Report`] is an evaluation as plain data; it becomes a page with all figures in it ([`Report::page`]), the figures
//! by themselves ([`Report::figures`]) or a table for a terminal ([`Report::table`]).

mod axis;
mod canvas;
mod color;
mod escape;
mod figure;
mod figures;
mod gallery;
mod lettering;
mod numbers;
mod page;
mod report;
mod table;

pub use figure::{Error, Figure};
pub use figures::chart::{Chart, ChartAxis, ChartLine, ChartPanel, Look, Spread};
pub use figures::dot_plot::{DotPlot, DotRow};
pub use figures::growth::{Growth, Line};
pub use figures::uncertainty_maps::{Extent, Field, MapRow, Scale, UncertaintyMaps};
pub use report::{
    BandwidthCurve, Bars, Cell, Curve, Fact, Family, Histogram, Interval, MadeBy, Map, MapPoint, Mark,
    Method, NearRow, OodCells, OodSet, Report, TestSet, UncertainRow,
};
