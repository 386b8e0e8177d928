//! Drawing primitives: the SVG canvas, colors, axes, text metrics, and formatting of numbers and text.

pub(crate) mod axis;
pub(crate) mod canvas;
pub(crate) mod color;
pub(crate) mod escape;
pub(crate) mod figure;
pub(crate) mod number_format;
#[cfg(feature = "png")]
pub(crate) mod png;
pub(crate) mod text_metrics;
