//! A sheet to draw on: SVG elements in order, with the project's font inside.
//!
//! Each color is written twice: as an attribute, for drawings that stand alone, and as a class that names its part
//! (`fill-ink`, `line-s0`), by which a page that the drawing stands in gives it the color of its theme.

use std::fmt::{Display, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::color::Color;
use crate::escape;
use crate::figure::Figure;

/// A weight of the embedded font.
pub(crate) struct Font {
    pub(crate) weight: u16,
    pub(crate) data: &'static [u8],
}

pub(crate) const FONTS: [Font; 2] = [
    Font { weight: 400, data: include_bytes!("../assets/Roboto-Regular.ttf") },
    Font { weight: 500, data: include_bytes!("../assets/Roboto-Medium.ttf") },
];

/// Where a text's position is: at its start, middle or end.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// How a text looks.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    pub(crate) size: f64,
    pub(crate) weight: u16,
    pub(crate) color: Color,
    pub(crate) anchor: Anchor,
}

/// How a line looks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pen {
    pub(crate) color: Color,
    pub(crate) width: f64,
    /// Lengths of dashes and gaps; empty for a solid line.
    pub(crate) dash: &'static str,
}

/// A rectangle on the sheet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Area {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// The sheet.
#[derive(Debug, Clone)]
pub(crate) struct Canvas {
    pub(crate) width: f64,
    pub(crate) height: f64,
    body: String,
}

impl Canvas {
    /// A white sheet.
    pub(crate) fn new(width: f64, height: f64) -> Self {
        let mut canvas = Self::clear(width, height);
        canvas.rect(Area { x: 0.0, y: 0.0, width, height }, Color::WHITE);
        canvas
    }

    /// A sheet through which one sees what it lies on.
    pub(crate) fn clear(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    fn element(&mut self, element: impl Display) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.body, "{element}");
    }

    pub(crate) fn rect(&mut self, area: Area, fill: Color) {
        let Area { x, y, width, height } = area;
        let fill = filled(fill);
        self.element(format_args!(
            r#"<rect x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}" {fill}/>"#
        ));
    }

    pub(crate) fn frame(&mut self, area: Area, stroke: Color) {
        let Area { x, y, width, height } = area;
        let stroke = stroked(stroke);
        self.element(format_args!(
            r#"<rect x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}" fill="none" {stroke}/>"#
        ));
    }

    pub(crate) fn circle(&mut self, x: f64, y: f64, radius: f64, fill: Color, opacity: f64) {
        let fill = filled(fill);
        self.element(format_args!(
            r#"<circle cx="{x:.2}" cy="{y:.2}" r="{radius}" {fill} fill-opacity="{opacity}"/>"#
        ));
    }

    /// A solid line.
    pub(crate) fn line(&mut self, points: &[(f64, f64)], color: Color, width: f64) {
        self.stroke(points, Pen { color, width, dash: "" });
    }

    /// A line, drawn with a pen.
    pub(crate) fn stroke(&mut self, points: &[(f64, f64)], pen: Pen) {
        let (path, stroke, width) = (path(points), stroked(pen.color), pen.width);
        let dash = match pen.dash {
            "" => String::new(),
            dash => format!(r#" stroke-dasharray="{dash}""#),
        };
        self.element(format_args!(
            r#"<path d="{path}" fill="none" {stroke} stroke-width="{width}" stroke-linejoin="round"{dash}/>"#
        ));
    }

    /// The inside of a line.
    pub(crate) fn fill(&mut self, points: &[(f64, f64)], color: Color, opacity: f64) {
        let (path, fill) = (path(points), filled(color));
        self.element(format_args!(r#"<path d="{path}Z" {fill} fill-opacity="{opacity}"/>"#));
    }

    /// Shapes of one color, given as the data of a path, with a thin rim that sets them off from each other and, where
    /// they are as dark as the page, from it.
    pub(crate) fn shapes(&mut self, path: &str, color: Color) {
        let (rim, part) = (Color::INK, color.part().map(|part| format!("fill-{part} ")).unwrap_or_default());
        self.element(format_args!(
            r#"<path d="{path}" fill="{color}" stroke="{rim}" class="{part}line-ink" stroke-width="0.5" stroke-opacity="0.35"/>"#
        ));
    }

    /// What belongs to one entry of the legend, so that a page can hide it.
    pub(crate) fn series(&mut self, number: usize, draw: impl FnOnce(&mut Self)) {
        self.element(format_args!(r#"<g data-series="{number}">"#));
        draw(self);
        self.element("</g>");
    }

    /// A drawing of which only what lies in an area is seen. A nested document clips without an id, which would have to
    /// be the only one of its name in a page.
    pub(crate) fn clipped(&mut self, area: Area, draw: impl FnOnce(&mut Self)) {
        let Area { x, y, width, height } = area;
        self.element(format_args!(
            r#"<svg x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}" viewBox="{x:.2} {y:.2} {width:.2} {height:.2}">"#
        ));
        draw(self);
        self.element("</svg>");
    }

    /// Another drawing, with its top left corner at a place.
    pub(crate) fn drawing(&mut self, x: f64, y: f64, drawing: &Canvas) {
        self.element(format_args!(r#"<g transform="translate({x:.2} {y:.2})">"#));
        self.body.push_str(&drawing.body);
        self.element("</g>");
    }

    /// A text that reads upwards.
    pub(crate) fn turned_text(&mut self, x: f64, y: f64, text: &str, style: Style) {
        self.element(format_args!(r#"<g transform="rotate(-90 {x:.2} {y:.2})">"#));
        self.text(x, y, text, style);
        self.element("</g>");
    }

    pub(crate) fn text(&mut self, x: f64, y: f64, text: &str, style: Style) {
        let Style { size, weight, color, anchor } = style;
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (text, fill) = (escape::html(text), filled(color));
        self.element(format_args!(
            r#"<text x="{x:.2}" y="{y:.2}" font-size="{size}" font-weight="{weight}" {fill} text-anchor="{anchor}">{text}</text>"#
        ));
    }

    /// An RGB picture of `columns` pixels a row, stretched smoothly over an area.
    pub(crate) fn image(&mut self, area: Area, columns: usize, pixels: &[Color]) {
        let rows = pixels.len() / columns;
        let bytes: Vec<u8> = pixels.iter().flat_map(|c| c.0).collect();
        let mut data = Vec::new();
        let mut encoder = png::Encoder::new(&mut data, columns as u32, rows as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().expect("a picture with rows and columns");
        writer.write_image_data(&bytes).expect("as many pixels as the header says");
        writer.finish().expect("writing to memory");
        let Area { x, y, width, height } = area;
        self.element(format_args!(
            r#"<image x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}" preserveAspectRatio="none" href="data:image/png;base64,{}"/>"#,
            BASE64.encode(data)
        ));
    }

    /// The document, font included.
    pub(crate) fn finish(self) -> Figure {
        let Self { width, height, body } = self;
        let faces = font_faces();
        Figure::new(format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="Roboto, sans-serif">
<style>{faces}</style>
{body}</svg>
"#
        ))
    }

    /// The drawing as part of a page, which has the font and says how large it is; `attributes` go to its tag.
    pub(crate) fn inline(&self, attributes: &str) -> String {
        let Self { width, height, body } = self;
        format!("<svg viewBox=\"0 0 {width} {height}\" {attributes}>\n{body}</svg>")
    }
}

/// The style rules that bring the font along.
pub(crate) fn font_faces() -> String {
    let face = |font: &Font| {
        let (data, weight) = (BASE64.encode(font.data), font.weight);
        format!("@font-face{{font-family:Roboto;font-weight:{weight};src:url(data:font/ttf;base64,{data})}}")
    };
    FONTS.iter().map(face).collect()
}

fn filled(color: Color) -> String {
    let class = color.part().map(|part| format!(r#" class="fill-{part}""#)).unwrap_or_default();
    format!(r#"fill="{color}"{class}"#)
}

fn stroked(color: Color) -> String {
    let class = color.part().map(|part| format!(r#" class="line-{part}""#)).unwrap_or_default();
    format!(r#"stroke="{color}"{class}"#)
}

fn path(points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (i, (x, y)) in points.iter().enumerate() {
        let _ = write!(path, "{}{x:.2} {y:.2}", if i == 0 { "M" } else { "L" });
    }
    path
}
