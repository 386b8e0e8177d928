//! A drawing with title, caption and legend, written as a standalone figure or as part of a page.

use serde_json::Value;

use crate::charts::legend::{self, LegendEntry};
use crate::drawing::canvas::{Anchor, Area, Canvas, TextStyle};
use crate::drawing::color::Color;
use crate::drawing::escape;
use crate::drawing::figure::Figure;
use crate::drawing::text_metrics;

/// A drawing with title, caption and legend.
#[derive(Debug, Clone)]
pub(crate) struct CaptionedDrawing {
    /// File name without extension.
    pub(crate) stem: String,
    pub(crate) title: String,
    /// One or two sentences below the title.
    pub(crate) caption: String,
    pub(crate) legend: Vec<LegendEntry>,
    pub(crate) drawing: Canvas,
    /// Data for the page's script, which shows the values at the mouse pointer.
    pub(crate) hover: Value,
}

const MARGIN: f64 = 20.0;
const TITLE_SIZE: f64 = 17.0;
const CAPTION_SIZE: f64 = 13.0;

impl CaptionedDrawing {
    /// Draws a standalone figure: title, caption and legend above the drawing, on a white background.
    pub(crate) fn figure(&self) -> Figure {
        let width = self.drawing.width;
        let (titles, captions) = (
            text_metrics::wrap(&self.title, TITLE_SIZE, width),
            text_metrics::wrap(&self.caption, CAPTION_SIZE, width),
        );
        let legend_top = MARGIN + 22.0 * titles.len() as f64 + 18.0 * captions.len() as f64 + 12.0;
        let top = legend_top + legend::height(&self.legend, width) + 10.0;
        let mut canvas = Canvas::new(width + 2.0 * MARGIN, top + self.drawing.height + MARGIN);
        let mut y = MARGIN;
        for (lines, size, weight, color, height) in [
            (&titles, TITLE_SIZE, 500, Color::TEXT, 22.0),
            (&captions, CAPTION_SIZE, 400, Color::MUTED_TEXT, 18.0),
        ] {
            for line in lines {
                y += height;
                canvas.text(MARGIN, y - 6.0, line, TextStyle { size, weight, color, anchor: Anchor::Start });
            }
        }
        let area = Area { x: MARGIN, y: legend_top, width, height: 0.0 };
        legend::draw(&mut canvas, area, &self.legend);
        canvas.drawing(MARGIN, top, &self.drawing);
        canvas.finish(&self.title)
    }

    /// The figure as part of a page. Title, caption and legend are HTML text, which wraps and scales with the page.
    pub(crate) fn html(&self) -> String {
        let (title, caption) = (escape::html(&self.title), escape::html(&self.caption));
        let attributes =
            format!(r#"class="drawing" role="img" aria-label="{title}. {caption}" tabindex="0""#);
        let (legend, drawing) = (legend::html(&self.legend), self.drawing.inline(&attributes));
        let (stem, hover) = (&self.stem, escape::script(&self.hover));
        format!(
            "<figure class=\"card\" id=\"{stem}\">\n<figcaption><h3>{title}</h3><p>{caption}</p></figcaption>\n\
             {legend}{drawing}\n<script type=\"application/json\">{hover}</script>\n</figure>\n"
        )
    }

    /// The figure as part of an HTML fragment without scripts: the legend has no buttons, and no values are shown at the pointer.
    pub(crate) fn static_html(&self) -> String {
        let (title, caption) = (escape::html(&self.title), escape::html(&self.caption));
        let attributes = format!(r#"class="drawing" role="img" aria-label="{title}. {caption}""#);
        let (legend, drawing) = (legend::static_html(&self.legend), self.drawing.inline(&attributes));
        format!("<figure>\n<figcaption><b>{title}</b>{caption}</figcaption>\n{legend}{drawing}\n</figure>\n")
    }
}
