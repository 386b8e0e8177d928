//! Figures as PNG: the SVG document of a figure is rendered with its own fonts.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{self, fontdb};

use crate::drawing::canvas::FONTS;
use crate::drawing::figure::Figure;

/// Reasons why a figure could not be rendered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The SVG document could not be parsed.
    #[error("the figure's SVG could not be parsed: {0}")]
    Svg(#[from] usvg::Error),
    /// The requested size is zero or too large.
    #[error("the figure cannot be rendered at scale {0}: use a positive scale such as 2")]
    Size(f32),
    /// The image could not be encoded.
    #[error("the figure could not be encoded as PNG: {0}")]
    Png(String),
}

impl Figure {
    /// The figure as PNG with `scale` pixels per SVG unit; 2 gives sharp text on high-resolution screens.
    ///
    /// # Errors
    /// [`Error::Size`] if the scale is not positive or the image would be too large; [`Error::Svg`] or [`Error::Png`] if the
    /// document cannot be parsed or the image cannot be encoded.
    pub fn png(&self, scale: f32) -> Result<Vec<u8>, Error> {
        let mut fonts = fontdb::Database::new();
        FONTS.iter().for_each(|font| fonts.load_font_data(font.data.to_vec()));
        let options = usvg::Options { fontdb: Arc::new(fonts), ..usvg::Options::default() };
        let tree = usvg::Tree::from_str(self.svg(), &options)?;
        let size = tree.size().to_int_size().scale_by(scale).ok_or(Error::Size(scale))?;
        let mut pixels = Pixmap::new(size.width(), size.height()).ok_or(Error::Size(scale))?;
        resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
        pixels.encode_png().map_err(|error| Error::Png(error.to_string()))
    }
}
