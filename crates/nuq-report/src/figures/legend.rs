//! A legend: what lines, bars and markers stand for. In a figure of its own it is drawn; in a page it is a list of
//! buttons that hide and show what they name.

use crate::canvas::{Anchor, Area, Canvas, Pen, Style};
use crate::color::Color;
use crate::escape;
use crate::figures::marker::Marker;
use crate::lettering;

/// How an entry is recognized.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sign {
    /// By its line.
    Line(Pen),
    /// By a line around a tinted area.
    Bars(Pen),
    /// By the shape of its points.
    Points(Marker),
    /// By the shape and the color of its points.
    Dots(Marker, Color),
}

/// An entry.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) sign: Sign,
}

const SIGN: f64 = 26.0;
const GAP: f64 = 7.0;
const BETWEEN: f64 = 18.0;
const LINE: f64 = 20.0;
const SIZE: f64 = 13.0;

impl Sign {
    /// Draws it in a field of 26 by 12 whose left end and middle are given.
    fn draw(self, canvas: &mut Canvas, x: f64, y: f64) {
        let (left, right) = (x + 1.0, x + SIGN - 1.0);
        match self {
            Sign::Line(pen) => canvas.stroke(&[(left, y), (right, y)], pen),
            Sign::Bars(pen) => {
                let corners =
                    [(left, y + 5.0), (left, y - 5.0), (right, y - 5.0), (right, y + 5.0), (left, y + 5.0)];
                canvas.fill(&corners, pen.color, 0.2);
                canvas.stroke(&corners, pen);
            }
            Sign::Points(marker) => {
                canvas.shapes(&marker.path(x + 0.5 * SIGN, y, 4.5), Color::FAINT_INK);
            }
            Sign::Dots(marker, color) => canvas.shapes(&marker.path(x + 0.5 * SIGN, y, 4.5), color),
        }
    }
}

/// How high the legend is when it is drawn in a width.
pub(crate) fn height(entries: &[Entry], width: f64) -> f64 {
    let last = places(entries, width).last().map(|&(_, y, _)| y);
    last.map_or(0.0, |y| y + LINE)
}

/// Draws the legend, its top left corner at a place.
pub(crate) fn draw(canvas: &mut Canvas, area: Area, entries: &[Entry]) {
    for (entry, (x, y, name)) in entries.iter().zip(places(entries, area.width)) {
        let middle = area.y + y + 0.5 * LINE;
        entry.sign.draw(canvas, area.x + x, middle);
        let style = Style { size: SIZE, weight: 400, color: Color::INK, anchor: Anchor::Start };
        canvas.text(area.x + x + SIGN + GAP, middle + 4.5, &name, style);
    }
}

/// Where each entry stands and what fits of its name: side by side, then in the next line.
fn places(entries: &[Entry], width: f64) -> Vec<(f64, f64, String)> {
    let (mut x, mut y) = (0.0, 0.0);
    let mut place = |entry: &Entry| {
        let name = lettering::fit(&entry.name, SIZE, width - SIGN - GAP);
        let length = SIGN + GAP + lettering::width(&name, SIZE);
        if x > 0.0 && x + length > width {
            (x, y) = (0.0, y + LINE);
        }
        let at = (x, y, name);
        x += length + BETWEEN;
        at
    };
    entries.iter().map(&mut place).collect()
}

/// The legend as a list of buttons.
pub(crate) fn html(entries: &[Entry]) -> String {
    let item = |(i, entry): (usize, &Entry)| {
        let mut sign = Canvas::clear(SIGN, 12.0);
        entry.sign.draw(&mut sign, 0.0, 6.0);
        let sign = sign.inline(r#"class="sign" aria-hidden="true""#);
        let name = escape::html(&entry.name);
        format!(
            "<li><button type=\"button\" aria-pressed=\"true\" data-for=\"{i}\">{sign}<span>{name}</span></button></li>\n"
        )
    };
    if entries.is_empty() {
        return String::new();
    }
    let items: String = entries.iter().enumerate().map(item).collect();
    format!("<ul class=\"legend\">\n{items}</ul>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_never_overlap_and_stay_in_their_width() {
        let pen = Pen { color: Color::INK, width: 1.0, dash: "" };
        let long = "a name that is much longer than the width of the whole figure can ever be".repeat(3);
        let names = ["nuq total", "mahalanobis", &long, "max probability", "energy", "knn"];
        let entries = names.map(|name| Entry { name: name.to_owned(), sign: Sign::Line(pen) });
        let places = places(&entries, 400.0);
        for pair in places.windows(2) {
            let end = pair[0].0 + SIGN + GAP + lettering::width(&pair[0].2, SIZE);
            assert!(end <= 400.0);
            assert!(pair[1].1 > pair[0].1 || pair[1].0 >= end + BETWEEN);
        }
        assert!(height(&entries, 400.0) > 3.0 * LINE - 1.0);
        assert_eq!(height(&[], 400.0), 0.0);
    }
}
