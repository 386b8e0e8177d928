//! The ground of a chart: two axes with their grid, and where values lie on it.

use serde_json::{Value, json};

use crate::axis::Axis;
use crate::canvas::{Anchor, Area, Canvas, Style};
use crate::color::Color;
use crate::lettering;

/// The width of every chart. In half of a wide page it is as large as drawn; on a phone its text still reads.
pub(crate) const WIDTH: f64 = 440.0;
/// The size of all text in a chart.
pub(crate) const TEXT: f64 = 13.0;
/// Pages make text in charts that much larger on narrow screens, and there is room for it.
pub(crate) const LARGEST_TEXT: f64 = 16.0;
const HEAD: f64 = 30.0;
const FOOT: f64 = 50.0;
const RIGHT: f64 = 18.0;

/// The ground.
#[derive(Debug, Clone)]
pub(crate) struct Plot {
    pub(crate) area: Area,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
}

/// A text of a chart.
pub(crate) fn text(weight: u16, color: Color, anchor: Anchor) -> Style {
    Style { size: TEXT, weight, color, anchor }
}

impl Plot {
    /// A ground of a height whose head begins at `top`.
    pub(crate) fn new(top: f64, height: f64, x: Axis, y: Axis) -> Self {
        let width = |label: &str| lettering::width(label, LARGEST_TEXT);
        let left = y.ticks(5.0).iter().map(|(_, label)| width(label)).fold(28.0, f64::max) + 12.0;
        // The last number below may stand at the very end, half of it beyond.
        let right = x.ticks(6.0).last().map_or(0.0, |(_, label)| 0.5 * width(label) + 2.0).max(RIGHT);
        Self { area: Area { x: left, y: top + HEAD, width: WIDTH - left - right, height }, x, y }
    }

    /// The same ground with its left end further right, for charts above each other.
    pub(crate) fn with_left(mut self, left: f64) -> Self {
        self.area = Area { x: left, width: self.area.x + self.area.width - left, ..self.area };
        self
    }

    /// Where the ground with its foot ends.
    pub(crate) fn end(&self) -> f64 {
        self.floor() + FOOT
    }

    /// Where the horizontal axis lies.
    pub(crate) fn floor(&self) -> f64 {
        self.area.y + self.area.height
    }

    /// Where lines may be drawn: half of a line along an edge lies beyond it.
    pub(crate) fn inside(&self) -> Area {
        let Area { x, y, width, height } = self.area;
        Area { x: x - 2.0, y: y - 2.0, width: width + 4.0, height: height + 4.0 }
    }

    /// Where a value of the horizontal axis lies.
    pub(crate) fn across(&self, x: f64) -> f64 {
        self.area.x + self.x.place(x) * self.area.width
    }

    /// Where a point lies. Infinite values lie far beyond the edge.
    pub(crate) fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let far = |place: f64| place.clamp(-10.0, 10.0);
        let Area { x: left, width, height, .. } = self.area;
        (left + far(self.x.place(x)) * width, self.floor() - far(self.y.place(y)) * height)
    }

    /// Draws grid, numbers and titles.
    pub(crate) fn draw(&self, canvas: &mut Canvas) {
        let Area { x: left, y: top, width, .. } = self.area;
        let (right, floor) = (left + width, self.floor());
        for (value, label) in self.y.ticks(5.0) {
            let (_, y) = self.at((self.x.low, value));
            canvas.line(&[(left, y), (right, y)], Color::GRID, 1.0);
            canvas.text(left - 8.0, y + 4.5, &label, text(400, Color::FAINT_INK, Anchor::End));
        }
        for (value, label) in self.x.ticks(6.0) {
            let x = self.across(value);
            canvas.line(&[(x, floor), (x, floor + 5.0)], Color::FRAME, 1.0);
            canvas.text(x, floor + 20.0, &label, text(400, Color::FAINT_INK, Anchor::Middle));
        }
        canvas.line(&[(left, floor), (right, floor)], Color::FRAME, 1.0);
        let title = lettering::fit(&self.y.title, LARGEST_TEXT, WIDTH - 4.0);
        canvas.text(2.0, top - 14.0, &title, text(500, Color::INK, Anchor::Start));
        let title = lettering::fit(&self.x.title, LARGEST_TEXT, WIDTH - 4.0);
        let half = 0.5 * lettering::width(&title, LARGEST_TEXT);
        let middle = (left + 0.5 * width).clamp(half.min(0.5 * WIDTH), WIDTH - half.min(0.5 * WIDTH));
        canvas.text(middle, floor + 42.0, &title, text(500, Color::INK, Anchor::Middle));
    }

    /// What a script needs to know of it.
    pub(crate) fn json(&self) -> Value {
        let Area { x, y, width, height } = self.area;
        json!({"area": [x, y, width, height], "x": self.x.json(), "y": self.y.json()})
    }
}
