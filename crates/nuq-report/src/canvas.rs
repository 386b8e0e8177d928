//! A sheet to draw on: SVG elements in order, with the project's font inside.

use std::fmt::{Display, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::color::Color;
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

/// A rectangle on the sheet.
#[derive(Clone, Copy)]
pub(crate) struct Area {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// The sheet.
pub(crate) struct Canvas {
    width: f64,
    height: f64,
    body: String,
}

impl Canvas {
    /// A white sheet.
    pub(crate) fn new(width: f64, height: f64) -> Self {
        let mut canvas = Self { width, height, body: String::new() };
        canvas.rect(Area { x: 0.0, y: 0.0, width, height }, Color::WHITE);
        canvas
    }

    fn element(&mut self, element: impl Display) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.body, "{element}");
    }

    pub(crate) fn rect(&mut self, area: Area, fill: Color) {
        let Area { x, y, width, height } = area;
        self.element(format_args!(
            r#"<rect x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}" fill="{fill}"/>"#
        ));
    }

    pub(crate) fn frame(&mut self, area: Area, stroke: Color) {
        let Area { x, y, width, height } = area;
        self.element(format_args!(
            r#"<rect x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}" fill="none" stroke="{stroke}"/>"#
        ));
    }

    pub(crate) fn circle(&mut self, x: f64, y: f64, radius: f64, fill: Color, opacity: f64) {
        self.element(format_args!(
            r#"<circle cx="{x:.2}" cy="{y:.2}" r="{radius}" fill="{fill}" fill-opacity="{opacity}"/>"#
        ));
    }

    pub(crate) fn line(&mut self, points: &[(f64, f64)], stroke: Color, width: f64) {
        let mut path = String::new();
        for (i, (x, y)) in points.iter().enumerate() {
            let _ = write!(path, "{}{x:.2} {y:.2}", if i == 0 { "M" } else { "L" });
        }
        self.element(format_args!(
            r#"<path d="{path}" fill="none" stroke="{stroke}" stroke-width="{width}" stroke-linejoin="round"/>"#
        ));
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
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        self.element(format_args!(
            r#"<text x="{x:.2}" y="{y:.2}" font-size="{size}" font-weight="{weight}" fill="{color}" text-anchor="{anchor}">{text}</text>"#
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

    /// The document.
    pub(crate) fn finish(self) -> Figure {
        let Self { width, height, body } = self;
        let faces: String = FONTS
            .iter()
            .map(|font| {
                let data = BASE64.encode(font.data);
                let weight = font.weight;
                format!("@font-face{{font-family:Roboto;font-weight:{weight};src:url(data:font/ttf;base64,{data})}}")
            })
            .collect();
        Figure::new(format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="Roboto, sans-serif">
<style>{faces}</style>
{body}</svg>
"#
        ))
    }
}
