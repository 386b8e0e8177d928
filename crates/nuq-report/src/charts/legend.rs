//! Legends. A standalone figure draws its legend; a page shows it as a list of buttons that hide and show series.

use crate::charts::marker::Marker;
use crate::drawing::canvas::{Anchor, Area, Canvas, LineStyle, TextStyle};
use crate::drawing::color::Color;
use crate::drawing::escape;
use crate::drawing::text_metrics;

/// Symbol of a legend entry.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Symbol {
    /// A line.
    Line(LineStyle),
    /// An outline with a tinted area.
    Outline(LineStyle),
    /// A gray marker, for points whose color encodes data.
    Points(Marker),
    /// A colored marker.
    Dots(Marker, Color),
}

/// A legend entry.
#[derive(Debug, Clone)]
pub(crate) struct LegendEntry {
    pub(crate) name: String,
    pub(crate) symbol: Symbol,
}

const SYMBOL_WIDTH: f64 = 26.0;
const GAP: f64 = 7.0;
const SPACING: f64 = 18.0;
const LINE_HEIGHT: f64 = 20.0;
const FONT_SIZE: f64 = 13.0;

impl Symbol {
    /// Draws the symbol, 26 units wide and 12 units high, with its left end at x and its vertical center at y.
    fn draw(self, canvas: &mut Canvas, x: f64, y: f64) {
        let (left, right) = (x + 1.0, x + SYMBOL_WIDTH - 1.0);
        match self {
            Symbol::Line(style) => canvas.stroke(&[(left, y), (right, y)], style),
            Symbol::Outline(style) => {
                let corners =
                    [(left, y + 5.0), (left, y - 5.0), (right, y - 5.0), (right, y + 5.0), (left, y + 5.0)];
                canvas.fill(&corners, style.color, 0.2);
                canvas.stroke(&corners, style);
            }
            Symbol::Points(marker) => {
                canvas.shapes(&marker.path(x + 0.5 * SYMBOL_WIDTH, y, 4.5), Color::MUTED_TEXT);
            }
            Symbol::Dots(marker, color) => canvas.shapes(&marker.path(x + 0.5 * SYMBOL_WIDTH, y, 4.5), color),
        }
    }
}

impl LegendEntry {
    fn symbol_html(&self) -> String {
        let mut canvas = Canvas::transparent(SYMBOL_WIDTH, 12.0);
        self.symbol.draw(&mut canvas, 0.0, 6.0);
        canvas.inline(r#"class="symbol" aria-hidden="true""#)
    }
}

/// Height of the legend if it is drawn with the given width.
pub(crate) fn height(entries: &[LegendEntry], width: f64) -> f64 {
    let last = layout(entries, width).last().map(|&(_, y, _)| y);
    last.map_or(0.0, |y| y + LINE_HEIGHT)
}

/// Draws the legend at the top of an area; the height of the area is not used.
pub(crate) fn draw(canvas: &mut Canvas, area: Area, entries: &[LegendEntry]) {
    for (entry, (x, y, name)) in entries.iter().zip(layout(entries, area.width)) {
        let middle = area.y + y + 0.5 * LINE_HEIGHT;
        entry.symbol.draw(canvas, area.x + x, middle);
        let style = TextStyle { size: FONT_SIZE, weight: 400, color: Color::TEXT, anchor: Anchor::Start };
        canvas.text(area.x + x + SYMBOL_WIDTH + GAP, middle + 4.5, &name, style);
    }
}

/// Positions and truncated names of the entries, wrapped into lines.
fn layout(entries: &[LegendEntry], width: f64) -> Vec<(f64, f64, String)> {
    let (mut x, mut y) = (0.0, 0.0);
    let mut position = |entry: &LegendEntry| {
        let name = text_metrics::truncate(&entry.name, FONT_SIZE, width - SYMBOL_WIDTH - GAP);
        let length = SYMBOL_WIDTH + GAP + text_metrics::width(&name, FONT_SIZE);
        if x > 0.0 && x + length > width {
            (x, y) = (0.0, y + LINE_HEIGHT);
        }
        let result = (x, y, name);
        x += length + SPACING;
        result
    };
    entries.iter().map(&mut position).collect()
}

/// The legend as a list of buttons.
pub(crate) fn html(entries: &[LegendEntry]) -> String {
    let item = |entry: &LegendEntry| {
        let (symbol, name) = (entry.symbol_html(), escape::html(&entry.name));
        format!(
            "<li><button type=\"button\" aria-pressed=\"true\">{symbol}<span>{name}</span></button></li>\n"
        )
    };
    if entries.is_empty() {
        return String::new();
    }
    let items: String = entries.iter().map(item).collect();
    format!("<ul class=\"legend\">\n{items}</ul>\n")
}

/// The legend as a list without controls.
pub(crate) fn static_html(entries: &[LegendEntry]) -> String {
    let item =
        |entry: &LegendEntry| format!("<li>{}{}</li>\n", entry.symbol_html(), escape::html(&entry.name));
    if entries.is_empty() {
        return String::new();
    }
    format!("<ul class=\"nuq-legend\">\n{}</ul>\n", entries.iter().map(item).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_do_not_overlap_and_fit_the_width() {
        let style = LineStyle { color: Color::TEXT, width: 1.0, dash: "" };
        let long = "a name that is much longer than the width of the whole figure can ever be".repeat(3);
        let names = ["nuq total", "mahalanobis", &long, "max probability", "energy", "knn"];
        let entries = names.map(|name| LegendEntry { name: name.to_owned(), symbol: Symbol::Line(style) });
        let layout = layout(&entries, 400.0);
        for pair in layout.windows(2) {
            let end = pair[0].0 + SYMBOL_WIDTH + GAP + text_metrics::width(&pair[0].2, FONT_SIZE);
            assert!(end <= 400.0);
            assert!(pair[1].1 > pair[0].1 || pair[1].0 >= end + SPACING);
        }
        assert!(height(&entries, 400.0) > 3.0 * LINE_HEIGHT - 1.0);
        assert_eq!(height(&[], 400.0), 0.0);
    }
}
