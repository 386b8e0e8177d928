//! What people look at: figures, drawn once as SVG and rendered from it to PNG.
//!
//! This crate computes nothing of what it shows. A figure takes numbers, lays them out on a canvas and
//! becomes a [`Figure`]: an SVG document that carries its own font, so that it reads the same everywhere.

mod canvas;
mod color;
mod figure;
mod figures;

pub use figure::{Error, Figure};
pub use figures::growth::{Growth, Line};
pub use figures::uncertainty_maps::{Extent, Field, MapRow, Scale, UncertaintyMaps};
