//! A finished figure as an SVG document.

/// A drawing as an SVG document.
#[derive(Debug, Clone)]
pub struct Figure {
    svg: String,
}

impl Figure {
    /// A figure from its SVG document, as [`svg`](Self::svg) returns it.
    #[must_use]
    pub fn new(svg: String) -> Self {
        Self { svg }
    }

    /// The SVG document with its embedded font.
    #[must_use]
    pub fn svg(&self) -> &str {
        &self.svg
    }
}
