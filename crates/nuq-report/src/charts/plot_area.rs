//! Plot area of a chart: two axes with grid and labels, and the mapping from values to positions.

use serde_json::{Value, json};

use crate::drawing::axis::Axis;
use crate::drawing::canvas::{Anchor, Area, Canvas, TextStyle};
use crate::drawing::color::Color;
use crate::drawing::text_metrics;

/// Width of every chart. Two charts of this width fit side by side on a wide page, and their text stays legible on a phone.
pub(crate) const WIDTH: f64 = 440.0;
/// Font size of all text in a chart.
pub(crate) const TEXT: f64 = 13.0;
/// Font size that pages use for chart text on narrow screens. The layout reserves space for text of this size.
pub(crate) const LARGEST_TEXT: f64 = 16.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 50.0;
const RIGHT: f64 = 18.0;

/// Plot area with its axes.
#[derive(Debug, Clone)]
pub(crate) struct PlotArea {
    pub(crate) area: Area,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
}

/// Style of chart text.
pub(crate) fn text(weight: u16, color: Color, anchor: Anchor) -> TextStyle {
    TextStyle { size: TEXT, weight, color, anchor }
}

impl PlotArea {
    /// A plot area of a given height. `top` is the upper end of the title of the vertical axis.
    pub(crate) fn new(top: f64, height: f64, x: Axis, y: Axis) -> Self {
        let width = |label: &str| text_metrics::width(label, LARGEST_TEXT);
        let left = y.ticks(5.0).iter().map(|(_, label)| width(label)).fold(28.0, f64::max) + 12.0;
        // The last tick label can extend beyond the right end of the axis by half its width.
        let right = x.ticks(6.0).last().map_or(0.0, |(_, label)| 0.5 * width(label) + 2.0).max(RIGHT);
        Self { area: Area { x: left, y: top + TOP, width: WIDTH - left - right, height }, x, y }
    }

    /// The same plot area with another left edge. Stacked panels get the same left edge, so that they are aligned.
    pub(crate) fn with_left(mut self, left: f64) -> Self {
        self.area = Area { x: left, width: self.area.x + self.area.width - left, ..self.area };
        self
    }

    /// Lower end including tick labels and axis title.
    pub(crate) fn bottom_with_labels(&self) -> f64 {
        self.bottom() + BOTTOM
    }

    /// Vertical position of the horizontal axis.
    pub(crate) fn bottom(&self) -> f64 {
        self.area.y + self.area.height
    }

    /// Clip rectangle: slightly larger than the plot area, so that lines along its edges keep their width.
    pub(crate) fn clip_area(&self) -> Area {
        let Area { x, y, width, height } = self.area;
        Area { x: x - 2.0, y: y - 2.0, width: width + 4.0, height: height + 4.0 }
    }

    /// Horizontal position of a value.
    pub(crate) fn x_position(&self, x: f64) -> f64 {
        self.area.x + self.x.fraction(x) * self.area.width
    }

    /// Position of a point. Infinite values are mapped far outside the plot area.
    pub(crate) fn position(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let limit = |fraction: f64| fraction.clamp(-10.0, 10.0);
        let Area { x: left, width, height, .. } = self.area;
        (left + limit(self.x.fraction(x)) * width, self.bottom() - limit(self.y.fraction(y)) * height)
    }

    /// Draws grid, tick labels and axis titles.
    pub(crate) fn draw(&self, canvas: &mut Canvas) {
        let Area { x: left, y: top, width, .. } = self.area;
        let (right, bottom) = (left + width, self.bottom());
        for (value, label) in self.y.ticks(5.0) {
            let (_, y) = self.position((self.x.low, value));
            canvas.line(&[(left, y), (right, y)], Color::GRID, 1.0);
            canvas.text(left - 8.0, y + 4.5, &label, text(400, Color::MUTED_TEXT, Anchor::End));
        }
        for (value, label) in self.x.ticks(6.0) {
            let x = self.x_position(value);
            canvas.line(&[(x, bottom), (x, bottom + 5.0)], Color::FRAME, 1.0);
            canvas.text(x, bottom + 20.0, &label, text(400, Color::MUTED_TEXT, Anchor::Middle));
        }
        canvas.line(&[(left, bottom), (right, bottom)], Color::FRAME, 1.0);
        let title = text_metrics::truncate(&self.y.title, LARGEST_TEXT, WIDTH - 4.0);
        canvas.text(2.0, top - 14.0, &title, text(500, Color::TEXT, Anchor::Start));
        let title = text_metrics::truncate(&self.x.title, LARGEST_TEXT, WIDTH - 4.0);
        let half = 0.5 * text_metrics::width(&title, LARGEST_TEXT);
        let middle = (left + 0.5 * width).clamp(half.min(0.5 * WIDTH), WIDTH - half.min(0.5 * WIDTH));
        canvas.text(middle, bottom + 42.0, &title, text(500, Color::TEXT, Anchor::Middle));
    }

    /// Data for the page's script.
    pub(crate) fn json(&self) -> Value {
        let Area { x, y, width, height } = self.area;
        json!({"area": [x, y, width, height], "x": self.x.json(), "y": self.y.json()})
    }
}
