//! Standalone line chart with two logarithmic axes.

use crate::drawing::canvas::{Anchor, Area, Canvas, TextStyle};
use crate::drawing::color::Color;
use crate::drawing::figure::Figure;

/// A line of a [`LogLogChart`].
#[derive(Debug, Clone)]
pub struct LogLogLine {
    /// Name, written to the right of the plot at the height of the last point.
    pub name: String,
    /// Points with positive coordinates.
    pub points: Vec<(f64, f64)>,
}

/// A line chart whose axes are both logarithmic.
#[derive(Debug, Clone)]
pub struct LogLogChart {
    /// Title of the chart.
    pub title: String,
    /// Text below the title.
    pub caption: String,
    /// Title of the horizontal axis.
    pub x_title: String,
    /// Title of the vertical axis.
    pub y_title: String,
    /// Lines; a line's position in the list determines its color.
    pub lines: Vec<LogLogLine>,
}

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 500.0;
const PLOT: Area = Area { x: 78.0, y: 110.0, width: 600.0, height: 320.0 };

impl LogLogChart {
    /// Draws the chart.
    #[must_use]
    pub fn draw(&self) -> Figure {
        let mut canvas = Canvas::new(WIDTH, HEIGHT);
        let style = |size, weight, color, anchor| TextStyle { size, weight, color, anchor };
        canvas.text(PLOT.x, 38.0, &self.title, style(20.0, 500, Color::TEXT, Anchor::Start));
        canvas.text(PLOT.x, 62.0, &self.caption, style(14.0, 400, Color::MUTED_TEXT, Anchor::Start));
        canvas.text(PLOT.x, PLOT.y - 12.0, &self.y_title, style(14.0, 500, Color::TEXT, Anchor::Start));
        let bottom = PLOT.y + PLOT.height;
        let middle = PLOT.x + 0.5 * PLOT.width;
        canvas.text(middle, bottom + 46.0, &self.x_title, style(14.0, 500, Color::TEXT, Anchor::Middle));
        let (xs, ys) = (self.decades(|point| point.0), self.decades(|point| point.1));
        let fraction =
            |value: f64, (low, high): (i32, i32)| (value.log10() - f64::from(low)) / f64::from(high - low);
        let at =
            |x: f64, y: f64| (PLOT.x + fraction(x, xs) * PLOT.width, bottom - fraction(y, ys) * PLOT.height);
        for power in xs.0..=xs.1 {
            let (x, _) = at(10f64.powi(power), 1.0);
            canvas.line(&[(x, PLOT.y), (x, bottom)], Color::GRID, 1.0);
            canvas.text(
                x,
                bottom + 22.0,
                &decade(power),
                style(14.0, 400, Color::MUTED_TEXT, Anchor::Middle),
            );
        }
        for power in ys.0..=ys.1 {
            let (_, y) = at(1.0, 10f64.powi(power));
            canvas.line(&[(PLOT.x, y), (PLOT.x + PLOT.width, y)], Color::GRID, 1.0);
            canvas.text(
                PLOT.x - 10.0,
                y + 5.0,
                &decade(power),
                style(14.0, 400, Color::MUTED_TEXT, Anchor::End),
            );
        }
        let mut labels: Vec<(f64, usize)> = Vec::new();
        for (i, line) in self.lines.iter().enumerate() {
            let color = Color::SERIES[i % Color::SERIES.len()];
            let points: Vec<(f64, f64)> = line.points.iter().map(|&(x, y)| at(x, y)).collect();
            canvas.line(&points, color, 2.5);
            points.iter().for_each(|&(x, y)| canvas.circle(x, y, 4.0, color, 1.0));
            labels.extend(points.last().map(|&(_, y)| (y, i)));
        }
        // Names are written at the heights of the last points. A name that would overlap another one is moved down.
        labels.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut lowest = f64::NEG_INFINITY;
        for (y, i) in labels {
            lowest = y.max(lowest + 20.0);
            let style = style(14.0, 500, Color::SERIES[i % Color::SERIES.len()], Anchor::Start);
            canvas.text(PLOT.x + PLOT.width + 12.0, lowest + 5.0, &self.lines[i].name, style);
        }
        canvas.finish(&self.title)
    }

    /// Exponents of the first and the last power of ten that enclose all coordinates; (0, 1) without points.
    fn decades(&self, coordinate: impl Fn(&(f64, f64)) -> f64) -> (i32, i32) {
        let values = || self.lines.iter().flat_map(|line| line.points.iter().map(&coordinate));
        if values().next().is_none() {
            return (0, 1);
        }
        let low = values().fold(f64::INFINITY, f64::min).log10().floor() as i32;
        let high = values().fold(0.0, f64::max).log10().ceil() as i32;
        (low, high.max(low + 1))
    }
}

/// Tick label of a power of ten, such as 0.01, 10, 1,000, 1 million or 1e7.
fn decade(power: i32) -> String {
    match power {
        -3..=2 => format!("{}", 10f64.powi(power)),
        3..=5 => format!("{},000", 10f64.powi(power - 3)),
        6 => "1 million".to_owned(),
        _ => format!("1e{power}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decades_enclose_all_points_and_have_labels() {
        let line = LogLogLine { name: "fit".to_owned(), points: vec![(1000.0, 0.02), (50_000.0, 3.0)] };
        let [title, caption, x_title, y_title] = ["t", "c", "x", "y"].map(str::to_owned);
        let figure = LogLogChart { title, caption, x_title, y_title, lines: vec![line] };
        assert_eq!(figure.decades(|point| point.0), (3, 5));
        assert_eq!(figure.decades(|point| point.1), (-2, 1));
        assert_eq!([-2, 0, 3, 5, 6].map(decade), ["0.01", "1", "1,000", "100,000", "1 million"]);
        assert!(figure.draw().svg().contains("100,000"));
        let empty = LogLogChart { lines: vec![], ..figure };
        assert_eq!(empty.decades(|point| point.0), (0, 1));
        assert!(empty.draw().svg().contains(">10<"));
    }
}
