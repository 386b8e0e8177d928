//! SVG canvas with an embedded font.
//!
//! Each color is written twice: as an attribute and as a class. Standalone drawings use the attribute, which contains the color. The
//! class names the role of the color (`fill-text`, `line-s0`), and the style sheet of a page assigns a color of its theme to the class.

use std::fmt::{Display, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::assets::{FONT_MEDIUM, FONT_REGULAR};
use crate::drawing::color::Color;
use crate::drawing::escape;
use crate::drawing::figure::Figure;

/// One weight of the embedded font.
pub(crate) struct Font {
    pub(crate) weight: u16,
    pub(crate) data: &'static [u8],
}

pub(crate) const FONTS: [Font; 2] =
    [Font { weight: 400, data: FONT_REGULAR }, Font { weight: 500, data: FONT_MEDIUM }];

/// Horizontal alignment of a text relative to its position.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// Font size, weight, color and alignment of a text.
#[derive(Clone, Copy)]
pub(crate) struct TextStyle {
    pub(crate) size: f64,
    pub(crate) weight: u16,
    pub(crate) color: Color,
    pub(crate) anchor: Anchor,
}

/// Color, width and dash pattern of a line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineStyle {
    pub(crate) color: Color,
    pub(crate) width: f64,
    /// SVG `stroke-dasharray`; empty for a solid line.
    pub(crate) dash: &'static str,
}

/// A rectangle in canvas units.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Area {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// SVG elements in drawing order, and the size of the drawing.
#[derive(Debug, Clone)]
pub(crate) struct Canvas {
    pub(crate) width: f64,
    pub(crate) height: f64,
    body: String,
}

impl Canvas {
    /// A canvas with a white background.
    pub(crate) fn new(width: f64, height: f64) -> Self {
        let mut canvas = Self::transparent(width, height);
        canvas.rect(Area { x: 0.0, y: 0.0, width, height }, Color::WHITE);
        canvas
    }

    /// A canvas without background.
    pub(crate) fn transparent(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    fn element(&mut self, element: impl Display) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.body, "{element}");
    }

    pub(crate) fn rect(&mut self, area: Area, fill: Color) {
        let Area { x, y, width, height } = area;
        let fill = fill_attributes(fill);
        self.element(format_args!(
            r#"<rect x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}" {fill}/>"#
        ));
    }

    /// The outline of a rectangle.
    pub(crate) fn frame(&mut self, area: Area, stroke: Color) {
        let Area { x, y, width, height } = area;
        let stroke = stroke_attributes(stroke);
        self.element(format_args!(
            r#"<rect x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}" fill="none" {stroke}/>"#
        ));
    }

    pub(crate) fn circle(&mut self, x: f64, y: f64, radius: f64, fill: Color, opacity: f64) {
        let fill = fill_attributes(fill);
        self.element(format_args!(
            r#"<circle cx="{x:.2}" cy="{y:.2}" r="{radius}" {fill} fill-opacity="{opacity}"/>"#
        ));
    }

    /// A solid line.
    pub(crate) fn line(&mut self, points: &[(f64, f64)], color: Color, width: f64) {
        self.stroke(points, LineStyle { color, width, dash: "" });
    }

    /// A line in a given style.
    pub(crate) fn stroke(&mut self, points: &[(f64, f64)], style: LineStyle) {
        let (path, stroke, width) = (path(points), stroke_attributes(style.color), style.width);
        let dash = match style.dash {
            "" => String::new(),
            dash => format!(r#" stroke-dasharray="{dash}""#),
        };
        self.element(format_args!(
            r#"<path d="{path}" fill="none" {stroke} stroke-width="{width}" stroke-linejoin="round"{dash}/>"#
        ));
    }

    /// A filled polygon.
    pub(crate) fn fill(&mut self, points: &[(f64, f64)], color: Color, opacity: f64) {
        let (path, fill) = (path(points), fill_attributes(color));
        self.element(format_args!(r#"<path d="{path}Z" {fill} fill-opacity="{opacity}"/>"#));
    }

    /// Shapes of one color, given as SVG path data. A thin outline makes overlapping shapes distinguishable, and dark shapes
    /// visible on a dark background.
    pub(crate) fn shapes(&mut self, path: &str, color: Color) {
        let (outline, role) =
            (Color::TEXT, color.role().map(|role| format!("fill-{role} ")).unwrap_or_default());
        self.element(format_args!(
            r#"<path d="{path}" fill="{color}" stroke="{outline}" class="{role}line-text" stroke-width="0.5" stroke-opacity="0.35"/>"#
        ));
    }

    /// Groups the elements of one legend entry, so that a page can hide them.
    pub(crate) fn series(&mut self, number: usize, draw: impl FnOnce(&mut Self)) {
        self.element(format_args!(r#"<g data-series="{number}">"#));
        draw(self);
        self.element("</g>");
    }

    /// Clips a drawing to an area. A nested `<svg>` is used because a clip path needs an id, which must be unique within a page.
    pub(crate) fn clipped(&mut self, area: Area, draw: impl FnOnce(&mut Self)) {
        let Area { x, y, width, height } = area;
        self.element(format_args!(
            r#"<svg x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}" viewBox="{x:.2} {y:.2} {width:.2} {height:.2}">"#
        ));
        draw(self);
        self.element("</svg>");
    }

    /// Inserts another drawing with its top left corner at (x, y).
    pub(crate) fn drawing(&mut self, x: f64, y: f64, drawing: &Canvas) {
        self.element(format_args!(r#"<g transform="translate({x:.2} {y:.2})">"#));
        self.body.push_str(&drawing.body);
        self.element("</g>");
    }

    /// Text rotated by 90 degrees, read from bottom to top.
    pub(crate) fn vertical_text(&mut self, x: f64, y: f64, text: &str, style: TextStyle) {
        self.element(format_args!(r#"<g transform="rotate(-90 {x:.2} {y:.2})">"#));
        self.text(x, y, text, style);
        self.element("</g>");
    }

    pub(crate) fn text(&mut self, x: f64, y: f64, text: &str, style: TextStyle) {
        let TextStyle { size, weight, color, anchor } = style;
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (text, fill) = (escape::html(text), fill_attributes(color));
        self.element(format_args!(
            r#"<text x="{x:.2}" y="{y:.2}" font-size="{size}" font-weight="{weight}" {fill} text-anchor="{anchor}">{text}</text>"#
        ));
    }

    /// An RGB image with `columns` pixels per row, scaled to an area.
    pub(crate) fn image(&mut self, area: Area, columns: usize, pixels: &[Color]) {
        let rows = pixels.len() / columns;
        let bytes: Vec<u8> = pixels.iter().flat_map(|c| c.0).collect();
        let mut data = Vec::new();
        let mut encoder = png::Encoder::new(&mut data, columns as u32, rows as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().expect("the image has rows and columns");
        writer.write_image_data(&bytes).expect("the pixel count matches the header");
        writer.finish().expect("writing to memory does not fail");
        let Area { x, y, width, height } = area;
        self.element(format_args!(
            r#"<image x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}" preserveAspectRatio="none" href="data:image/png;base64,{}"/>"#,
            BASE64.encode(data)
        ));
    }

    /// The SVG document with its embedded font. The title is its text alternative.
    pub(crate) fn finish(self, title: &str) -> Figure {
        let Self { width, height, body } = self;
        let (faces, title) = (font_faces(), escape::html(title));
        Figure::new(format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="Roboto, sans-serif" role="img">
<title>{title}</title>
<style>{faces}</style>
{body}</svg>
"#
        ))
    }

    /// The drawing as an inline `<svg>` element with the given attributes. The page provides the font and the size.
    pub(crate) fn inline(&self, attributes: &str) -> String {
        let Self { width, height, body } = self;
        format!("<svg viewBox=\"0 0 {width} {height}\" {attributes}>\n{body}</svg>")
    }
}

/// CSS rules that embed the font.
pub(crate) fn font_faces() -> String {
    let face = |font: &Font| {
        let (data, weight) = (BASE64.encode(font.data), font.weight);
        format!("@font-face{{font-family:Roboto;font-weight:{weight};src:url(data:font/ttf;base64,{data})}}")
    };
    FONTS.iter().map(face).collect()
}

/// Attributes that set the fill color.
fn fill_attributes(color: Color) -> String {
    let class = color.role().map(|role| format!(r#" class="fill-{role}""#)).unwrap_or_default();
    format!(r#"fill="{color}"{class}"#)
}

/// Attributes that set the line color.
fn stroke_attributes(color: Color) -> String {
    let class = color.role().map(|role| format!(r#" class="line-{role}""#)).unwrap_or_default();
    format!(r#"stroke="{color}"{class}"#)
}

/// SVG path data of a line through the points.
fn path(points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (i, (x, y)) in points.iter().enumerate() {
        let _ = write!(path, "{}{x:.2} {y:.2}", if i == 0 { "M" } else { "L" });
    }
    path
}
