//! Training points in the plane beside maps of their uncertainties, one row per data set.

use crate::canvas::{Anchor, Area, Canvas, Style};
use crate::color::Color;
use crate::figure::Figure;

/// The part of the plane that is shown.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Left and right.
    pub x: (f64, f64),
    /// Bottom and top.
    pub y: (f64, f64),
}

/// How a field's values become colors. Values outside the range take the color of its end.
#[derive(Debug, Clone, Copy)]
pub enum Scale {
    /// Even in the value.
    Linear {
        /// The darkest color.
        low: f64,
        /// The lightest color.
        high: f64,
    },
    /// Even in the value's power of ten.
    Log {
        /// The power of ten of the darkest color.
        low: i32,
        /// The power of ten of the lightest color.
        high: i32,
    },
}

impl Scale {
    /// The place in [0, 1] of a value given by its natural logarithm.
    fn place(self, log_value: f64) -> f64 {
        match self {
            Scale::Linear { low, high } => (log_value.exp() - low) / (high - low),
            Scale::Log { low, high } => {
                (log_value / std::f64::consts::LN_10 - f64::from(low)) / f64::from(high - low)
            }
        }
    }

    /// Places in [0, 1] and what to write there. The last reads "and more".
    fn ticks(self) -> Vec<(f64, String)> {
        match self {
            Scale::Linear { low, high } => {
                let tick = |i: i32| {
                    let t = f64::from(i) / 2.0;
                    let more = if i == 2 { "≥ " } else { "" };
                    (t, format!("{more}{}", low + t * (high - low)))
                };
                (0..=2).map(tick).collect()
            }
            Scale::Log { low, high } => {
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
                (low..=high).step_by(step).map(tick).collect()
            }
        }
    }
}

fn superscript(number: i32) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let digit = |c: char| c.to_digit(10).map_or('⁻', |d| DIGITS[d as usize]);
    number.to_string().chars().map(digit).collect()
}

/// What the columns of maps show.
#[derive(Debug, Clone)]
pub struct Field {
    /// Above the column.
    pub title: String,
    /// Below the title: what it means.
    pub caption: String,
    /// Its colors.
    pub scale: Scale,
}

/// One data set.
#[derive(Debug, Clone)]
pub struct MapRow {
    /// To its left.
    pub title: String,
    /// Position and class of the training points.
    pub points: Vec<(f64, f64, usize)>,
    /// For each field the natural logs of its values, row-major from the top left, `columns` a row.
    pub log_values: Vec<Vec<f64>>,
}

/// The figure.
#[derive(Debug, Clone)]
pub struct UncertaintyMaps {
    /// Above everything.
    pub title: String,
    /// Below the title, in a sentence.
    pub note: String,
    /// The plane.
    pub extent: Extent,
    /// Columns of each map's grid.
    pub columns: usize,
    /// The columns of maps.
    pub fields: Vec<Field>,
    /// The data sets.
    pub rows: Vec<MapRow>,
}

const PANEL: f64 = 264.0;
const GAP: f64 = 20.0;
const LEFT: f64 = 44.0;
const TOP: f64 = 132.0;
const BOTTOM: f64 = 66.0;

impl UncertaintyMaps {
    /// Draws the figure.
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
        canvas.text(LEFT, 36.0, &self.title, text(21.0, 500, Color::INK, Anchor::Start));
        canvas.text(LEFT, 60.0, &self.note, text(14.0, 400, Color::FAINT_INK, Anchor::Start));
        self.head(&mut canvas, area(0, 0), "Training data", "color is the class");
        for (i, field) in self.fields.iter().enumerate() {
            self.head(&mut canvas, area(0, i + 1), &field.title, &field.caption);
            let foot = area(self.rows.len(), i + 1);
            color_bar(&mut canvas, Area { y: foot.y - 4.0, height: 12.0, ..foot }, field.scale);
        }
        for (i, row) in self.rows.iter().enumerate() {
            self.side_title(&mut canvas, area(i, 0), &row.title);
            self.scatter(&mut canvas, area(i, 0), row);
            for (j, (field, values)) in self.fields.iter().zip(&row.log_values).enumerate() {
                let pixels: Vec<Color> =
                    values.iter().map(|&v| Color::viridis(field.scale.place(v))).collect();
                canvas.image(area(i, j + 1), self.columns, &pixels);
                canvas.frame(area(i, j + 1), Color::FRAME);
            }
        }
        canvas.finish()
    }

    fn head(&self, canvas: &mut Canvas, area: Area, title: &str, caption: &str) {
        canvas.text(area.x, TOP - 34.0, title, text(17.0, 500, Color::INK, Anchor::Start));
        canvas.text(area.x, TOP - 14.0, caption, text(14.0, 400, Color::FAINT_INK, Anchor::Start));
    }

    fn side_title(&self, canvas: &mut Canvas, area: Area, title: &str) {
        canvas.turned_text(
            area.x - 16.0,
            area.y + 0.5 * area.height,
            title,
            text(16.0, 500, Color::INK, Anchor::Middle),
        );
    }

    fn scatter(&self, canvas: &mut Canvas, area: Area, row: &MapRow) {
        canvas.frame(area, Color::FRAME);
        let place = |value: f64, (low, high): (f64, f64)| (value - low) / (high - low);
        let radius = if row.points.len() > 500 { 1.5 } else { 2.8 };
        for &(x, y, class) in &row.points {
            let (u, v) = (place(x, self.extent.x), place(y, self.extent.y));
            if (0.0..=1.0).contains(&u) && (0.0..=1.0).contains(&v) {
                let color = Color::SERIES[class % Color::SERIES.len()];
                canvas.circle(area.x + u * area.width, area.y + (1.0 - v) * area.height, radius, color, 0.7);
            }
        }
    }
}

fn color_bar(canvas: &mut Canvas, area: Area, scale: Scale) {
    let pixels: Vec<Color> = (0..128).map(|i| Color::viridis(f64::from(i) / 127.0)).collect();
    canvas.image(area, pixels.len(), &pixels);
    for (place, label) in scale.ticks() {
        let anchor = match place {
            0.0 => Anchor::Start,
            1.0 => Anchor::End,
            _ => Anchor::Middle,
        };
        let x = area.x + place * area.width;
        canvas.text(x, area.y + area.height + 18.0, &label, text(14.0, 400, Color::FAINT_INK, anchor));
    }
}

fn text(size: f64, weight: u16, color: Color, anchor: Anchor) -> Style {
    Style { size, weight, color, anchor }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_place_values_and_label_their_ends() {
        let log = Scale::Log { low: -2, high: 2 };
        assert!((log.place(1f64.ln()) - 0.5).abs() < 1e-15);
        let labels: Vec<String> = log.ticks().into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["≤ 10⁻²", "10⁰", "≥ 10²"]);
        let linear = Scale::Linear { low: 0.0, high: 0.5 };
        assert!((linear.place(0.25f64.ln()) - 0.5).abs() < 1e-15);
        assert_eq!(linear.place(f64::NEG_INFINITY), 0.0);
    }

    #[test]
    fn the_drawing_renders_with_its_own_font() {
        let figure = UncertaintyMaps {
            title: "A < B & C".to_owned(),
            note: "note".to_owned(),
            extent: Extent { x: (0.0, 2.0), y: (0.0, 1.0) },
            columns: 2,
            fields: vec![Field {
                title: "Total".to_owned(),
                caption: "caption".to_owned(),
                scale: Scale::Linear { low: 0.0, high: 1.0 },
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
        // The title's line holds ink: the text was drawn, not dropped for want of a font.
        let row = |y: u32| &pixels[(y * info.width * 4) as usize..][..(info.width * 4) as usize];
        assert!((22..36).any(|y| row(y).chunks(4).any(|p| p[0] < 100)));
    }
}
