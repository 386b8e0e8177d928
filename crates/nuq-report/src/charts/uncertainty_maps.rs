//! Two-dimensional training points next to maps of the uncertainties in the plane, one row per data set.

use crate::drawing::canvas::{Anchor, Area, Canvas, TextStyle};
use crate::drawing::color::Color;
use crate::drawing::figure::Figure;

/// Visible part of the plane.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Left and right end.
    pub x: (f64, f64),
    /// Bottom and top end.
    pub y: (f64, f64),
}

/// Mapping from values to colors. Values outside the range get the color of the nearest end of the range.
#[derive(Debug, Clone, Copy)]
pub enum ColorScale {
    /// Linear in the value.
    Linear {
        /// Value of the darkest color.
        low: f64,
        /// Value of the lightest color.
        high: f64,
    },
    /// Linear in the logarithm of the value.
    Log {
        /// Exponent of ten for the darkest color: the value is `10^low`.
        low: i32,
        /// Exponent of ten for the lightest color: the value is `10^high`.
        high: i32,
    },
}

impl ColorScale {
    /// Relative position of a value, which is given as its natural logarithm: 0 at the low end, 1 at the high end.
    fn fraction(self, log_value: f64) -> f64 {
        match self {
            ColorScale::Linear { low, high } => (log_value.exp() - low) / (high - low),
            ColorScale::Log { low, high } => {
                (log_value / std::f64::consts::LN_10 - f64::from(low)) / f64::from(high - low)
            }
        }
    }

    /// Tick positions in [0, 1] and labels. The labels of both ends have `≤` or `≥`, except at the low end of a linear scale.
    fn ticks(self) -> Vec<(f64, String)> {
        match self {
            ColorScale::Linear { low, high } => {
                let tick = |i: i32| {
                    let t = f64::from(i) / 2.0;
                    let more = if i == 2 { "≥ " } else { "" };
                    (t, format!("{more}{}", low + t * (high - low)))
                };
                (0..=2).map(tick).collect()
            }
            ColorScale::Log { low, high } => {
                let step = ((high - low) / 2).max(1) as usize;
                let tick = |power: i32| {
                    let sign = if power == high {
                        "≥ "
                    } else if power == low {
                        "≤ "
                    } else {
                        ""
                    };
                    (
                        f64::from(power - low) / f64::from(high - low),
                        format!("{sign}10{}", superscript(power)),
                    )
                };
                // `high` always has a label. If `high - low` is odd and at least 5, a label of `high - 1` would overlap it and is omitted.
                (low..=high - step as i32).step_by(step).chain([high]).map(tick).collect()
            }
        }
    }
}

fn superscript(number: i32) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let digit = |c: char| c.to_digit(10).map_or('⁻', |d| DIGITS[d as usize]);
    number.to_string().chars().map(digit).collect()
}

/// A column of maps.
#[derive(Debug, Clone)]
pub struct Field {
    /// Title of the column.
    pub title: String,
    /// Text below the title.
    pub caption: String,
    /// Mapping from the values to colors.
    pub scale: ColorScale,
}

/// A row of maps: one data set.
#[derive(Debug, Clone)]
pub struct MapRow {
    /// Title, drawn to the left.
    pub title: String,
    /// x, y and class index of the training points.
    pub points: Vec<(f64, f64, usize)>,
    /// For each field the natural logarithms of its values, row-major from the top left, with
    /// [`UncertaintyMaps::columns`] values per row.
    pub log_values: Vec<Vec<f64>>,
}

/// Maps of several uncertainties for several data sets.
#[derive(Debug, Clone)]
pub struct UncertaintyMaps {
    /// Title of the figure.
    pub title: String,
    /// Text below the title.
    pub note: String,
    /// Visible part of the plane.
    pub extent: Extent,
    /// Number of grid columns of each map.
    pub columns: usize,
    /// Columns of maps.
    pub fields: Vec<Field>,
    /// Data sets, one row of maps each.
    pub rows: Vec<MapRow>,
}

const PANEL: f64 = 264.0;
const GAP: f64 = 20.0;
const LEFT: f64 = 44.0;
const TOP: f64 = 132.0;
const BOTTOM: f64 = 66.0;

impl UncertaintyMaps {
    /// Draws the figure.
    #[must_use]
    pub fn draw(&self) -> Figure {
        let (x, y) = (self.extent.x, self.extent.y);
        let panel_height = PANEL * (y.1 - y.0) / (x.1 - x.0);
        let columns = 1 + self.fields.len();
        let width = LEFT + columns as f64 * (PANEL + GAP);
        let height = TOP + self.rows.len() as f64 * (panel_height + GAP) + BOTTOM - GAP;
        let mut canvas = Canvas::new(width, height);
        let area = |row: usize, column: usize| Area {
            x: LEFT + column as f64 * (PANEL + GAP),
            y: TOP + row as f64 * (panel_height + GAP),
            width: PANEL,
            height: panel_height,
        };
        canvas.text(LEFT, 36.0, &self.title, text(21.0, 500, Color::TEXT, Anchor::Start));
        canvas.text(LEFT, 60.0, &self.note, text(14.0, 400, Color::MUTED_TEXT, Anchor::Start));
        self.column_title(&mut canvas, area(0, 0), "Training data", "color is the class");
        for (i, field) in self.fields.iter().enumerate() {
            self.column_title(&mut canvas, area(0, i + 1), &field.title, &field.caption);
            let below = area(self.rows.len(), i + 1);
            color_bar(&mut canvas, Area { y: below.y - 4.0, height: 12.0, ..below }, field.scale);
        }
        for (i, row) in self.rows.iter().enumerate() {
            self.row_title(&mut canvas, area(i, 0), &row.title);
            self.scatter(&mut canvas, area(i, 0), row);
            for (j, (field, values)) in self.fields.iter().zip(&row.log_values).enumerate() {
                let pixels: Vec<Color> =
                    values.iter().map(|&v| Color::viridis(field.scale.fraction(v))).collect();
                canvas.image(area(i, j + 1), self.columns, &pixels);
                canvas.frame(area(i, j + 1), Color::FRAME);
            }
        }
        canvas.finish(&self.title)
    }

    fn column_title(&self, canvas: &mut Canvas, area: Area, title: &str, caption: &str) {
        canvas.text(area.x, TOP - 34.0, title, text(17.0, 500, Color::TEXT, Anchor::Start));
        canvas.text(area.x, TOP - 14.0, caption, text(14.0, 400, Color::MUTED_TEXT, Anchor::Start));
    }

    fn row_title(&self, canvas: &mut Canvas, area: Area, title: &str) {
        canvas.vertical_text(
            area.x - 16.0,
            area.y + 0.5 * area.height,
            title,
            text(16.0, 500, Color::TEXT, Anchor::Middle),
        );
    }

    fn scatter(&self, canvas: &mut Canvas, area: Area, row: &MapRow) {
        canvas.frame(area, Color::FRAME);
        let fraction = |value: f64, (low, high): (f64, f64)| (value - low) / (high - low);
        let radius = if row.points.len() > 500 { 1.5 } else { 2.8 };
        for &(x, y, class) in &row.points {
            let (u, v) = (fraction(x, self.extent.x), fraction(y, self.extent.y));
            if (0.0..=1.0).contains(&u) && (0.0..=1.0).contains(&v) {
                let color = Color::SERIES[class % Color::SERIES.len()];
                canvas.circle(area.x + u * area.width, area.y + (1.0 - v) * area.height, radius, color, 0.7);
            }
        }
    }
}

fn color_bar(canvas: &mut Canvas, area: Area, scale: ColorScale) {
    let pixels: Vec<Color> = (0..128).map(|i| Color::viridis(f64::from(i) / 127.0)).collect();
    canvas.image(area, pixels.len(), &pixels);
    for (fraction, label) in scale.ticks() {
        let anchor = match fraction {
            0.0 => Anchor::Start,
            1.0 => Anchor::End,
            _ => Anchor::Middle,
        };
        let x = area.x + fraction * area.width;
        canvas.text(x, area.y + area.height + 18.0, &label, text(14.0, 400, Color::MUTED_TEXT, anchor));
    }
}

fn text(size: f64, weight: u16, color: Color, anchor: Anchor) -> TextStyle {
    TextStyle { size, weight, color, anchor }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn color_scales_map_values_and_label_their_ends() {
        let log = ColorScale::Log { low: -2, high: 2 };
        assert!((log.fraction(1f64.ln()) - 0.5).abs() < 1e-15);
        let labels = |low: i32, high: i32| -> Vec<String> {
            ColorScale::Log { low, high }.ticks().into_iter().map(|(_, label)| label).collect()
        };
        assert_eq!(labels(-2, 2), ["≤ 10⁻²", "10⁰", "≥ 10²"]);
        assert_eq!(labels(0, 1), ["≤ 10⁰", "≥ 10¹"]);
        assert_eq!(labels(0, 3), ["≤ 10⁰", "10¹", "10²", "≥ 10³"]);
        assert_eq!(labels(-3, 2), ["≤ 10⁻³", "10⁻¹", "≥ 10²"]);
        let linear = ColorScale::Linear { low: 0.0, high: 0.5 };
        assert!((linear.fraction(0.25f64.ln()) - 0.5).abs() < 1e-15);
        assert_eq!(linear.fraction(f64::NEG_INFINITY), 0.0);
    }

    #[cfg(feature = "png")]
    #[test]
    fn the_figure_renders_with_the_embedded_font() {
        let figure = UncertaintyMaps {
            title: "A < B & C".to_owned(),
            note: "note".to_owned(),
            extent: Extent { x: (0.0, 2.0), y: (0.0, 1.0) },
            columns: 2,
            fields: vec![Field {
                title: "Total".to_owned(),
                caption: "caption".to_owned(),
                scale: ColorScale::Linear { low: 0.0, high: 1.0 },
            }],
            rows: vec![MapRow {
                title: "row".to_owned(),
                points: vec![(0.5, 0.5, 0), (9.0, 9.0, 1)],
                log_values: vec![vec![0.0, -1.0]],
            }],
        }
        .draw();
        assert!(figure.svg().contains("A &lt; B &amp; C") && figure.svg().contains("@font-face"));
        let png = figure.png(1.0).unwrap();
        let decoder = png::Decoder::new(std::io::Cursor::new(png));
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        // Dark pixels in the title's rows show that the text was drawn.
        let row = |y: u32| &pixels[(y * info.width * 4) as usize..][..(info.width * 4) as usize];
        assert!((22..36).any(|y| row(y).chunks(4).any(|p| p[0] < 100)));
    }
}
