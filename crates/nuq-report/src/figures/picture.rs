//! A drawing with its title and legend, which becomes a figure of its own or a part of a page.

use serde_json::Value;

use crate::canvas::{Anchor, Area, Canvas, Style};
use crate::color::Color;
use crate::escape;
use crate::figure::Figure;
use crate::figures::legend::{self, Entry};
use crate::lettering;

/// The picture.
#[derive(Debug, Clone)]
pub(crate) struct Picture {
    /// The name of its file, without ending.
    pub(crate) stem: String,
    pub(crate) title: String,
    /// What to see in it, in a sentence.
    pub(crate) caption: String,
    pub(crate) legend: Vec<Entry>,
    pub(crate) drawing: Canvas,
    /// What a script needs to tell the values under the pointer.
    pub(crate) hover: Value,
}

const MARGIN: f64 = 20.0;
const TITLE: f64 = 17.0;
const CAPTION: f64 = 13.0;

impl Picture {
    /// The picture by itself: title, caption and legend above the drawing, on white.
    pub(crate) fn figure(&self) -> Figure {
        let room = self.drawing.width;
        let (titles, captions) =
            (lettering::wrap(&self.title, TITLE, room), lettering::wrap(&self.caption, CAPTION, room));
        let legend_top = MARGIN + 22.0 * titles.len() as f64 + 18.0 * captions.len() as f64 + 12.0;
        let top = legend_top + legend::height(&self.legend, room) + 10.0;
        let mut canvas = Canvas::new(room + 2.0 * MARGIN, top + self.drawing.height + MARGIN);
        let mut y = MARGIN;
        for (lines, size, weight, color, height) in
            [(&titles, TITLE, 500, Color::INK, 22.0), (&captions, CAPTION, 400, Color::FAINT_INK, 18.0)]
        {
            for line in lines {
                y += height;
                canvas.text(MARGIN, y - 6.0, line, Style { size, weight, color, anchor: Anchor::Start });
            }
        }
        let area = Area { x: MARGIN, y: legend_top, width: room, height: 0.0 };
        legend::draw(&mut canvas, area, &self.legend);
        canvas.drawing(MARGIN, top, &self.drawing);
        canvas.finish()
    }

    /// The picture in a page: text and legend in HTML, so that they break and grow with the page.
    pub(crate) fn html(&self) -> String {
        let (title, caption) = (escape::html(&self.title), escape::html(&self.caption));
        let label = format!(r#"class="drawing" role="img" aria-label="{title}" tabindex="0""#);
        let (legend, drawing) = (legend::html(&self.legend), self.drawing.inline(&label));
        let (stem, hover) = (&self.stem, escape::script(&self.hover));
        format!(
            "<figure class=\"card\" id=\"{stem}\">\n<figcaption><h3>{title}</h3><p>{caption}</p></figcaption>\n\
             {legend}{drawing}\n<script type=\"application/json\">{hover}</script>\n</figure>\n"
        )
    }
}
