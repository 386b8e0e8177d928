//! Colors: a color map for magnitudes, a palette for series, and colors of text, frames and grids.

use std::fmt;

/// An sRGB color.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Color(pub(crate) [u8; 3]);

impl fmt::Display for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [r, g, b] = self.0;
        write!(f, "#{r:02x}{g:02x}{b:02x}")
    }
}

impl Color {
    pub(crate) const WHITE: Color = Color([255, 255, 255]);
    pub(crate) const TEXT: Color = Color([32, 33, 36]);
    pub(crate) const MUTED_TEXT: Color = Color([95, 99, 104]);
    pub(crate) const FRAME: Color = Color([189, 193, 198]);
    pub(crate) const GRID: Color = Color([232, 234, 237]);
    /// Palette of classes and lines, safe for color-blind readers (Okabe and Ito 2008; the last two are from Tol's muted
    /// scheme).
    pub(crate) const SERIES: [Color; 8] = [
        Color([0, 114, 178]),
        Color([213, 94, 0]),
        Color([0, 158, 115]),
        Color([204, 121, 167]),
        Color([86, 180, 233]),
        Color([230, 159, 0]),
        Color([51, 34, 136]),
        Color([136, 34, 85]),
    ];

    /// Name of the color's role, which a page maps to a color of its theme; `None` for other colors, such as those of the color map.
    pub(crate) fn role(self) -> Option<String> {
        match self {
            Color::WHITE => Some("paper".to_owned()),
            Color::TEXT => Some("text".to_owned()),
            Color::MUTED_TEXT => Some("muted".to_owned()),
            Color::FRAME => Some("frame".to_owned()),
            Color::GRID => Some("grid".to_owned()),
            color => Color::SERIES.iter().position(|&c| c == color).map(|i| format!("s{i}")),
        }
    }

    /// Color map viridis at `t` in [0, 1]: perceptually uniform from dark to light, also in grayscale.
    pub(crate) fn viridis(t: f64) -> Color {
        const STOPS: [[u8; 3]; 9] = [
            [68, 1, 84],
            [71, 44, 122],
            [59, 81, 139],
            [44, 113, 142],
            [33, 144, 141],
            [39, 173, 129],
            [92, 200, 99],
            [170, 220, 50],
            [253, 231, 37],
        ];
        let at = t.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
        let below = (at as usize).min(STOPS.len() - 2);
        let part = at - below as f64;
        let mix = |i: usize| {
            let (low, high) = (f64::from(STOPS[below][i]), f64::from(STOPS[below + 1][i]));
            (low + part * (high - low)).round() as u8
        };
        Color([mix(0), mix(1), mix(2)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn viridis_has_its_end_colors_and_increasing_luminance() {
        assert_eq!(Color::viridis(-1.0), Color([68, 1, 84]));
        assert_eq!(Color::viridis(2.0).to_string(), "#fde725");
        let light = |t: f64| {
            let [r, g, b] = Color::viridis(t).0.map(f64::from);
            0.2126 * r + 0.7152 * g + 0.0722 * b
        };
        assert!((0..100).all(|i| light(f64::from(i) / 100.0) <= light(f64::from(i + 1) / 100.0) + 0.5));
    }
}
