//! The report as a self-contained HTML page: font, style and script are embedded.

mod facts;
mod methods;
mod overview;
mod rows;

use crate::assets::{THEME_SCRIPT, THEME_STYLE};
use crate::charts::captioned_drawing::CaptionedDrawing;
use crate::drawing::canvas::font_faces;
use crate::drawing::escape;
use crate::report::Report;
use crate::report::figures::ReportFigures;

const STYLE: &str = include_str!("../../../assets/page.css");
const SCRIPT: &str = include_str!("../../../assets/page.js");
/// The content security policy forbids all network requests.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; font-src data:; img-src data:";

impl Report {
    /// The report as a self-contained HTML page. It makes no network requests.
    #[must_use]
    pub fn page(&self) -> String {
        let title = escape::html(&format!("Evaluation on {} data", self.test.name));
        let (fonts, body) = (font_faces(), self.body());
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title} – nuq</title>\n<style>{fonts}\n{THEME_STYLE}\n{STYLE}</style>\n<script>{THEME_SCRIPT}</script>\n</head>\n\
             <body>\n{body}<div id=\"tip\" role=\"status\" hidden></div>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
        )
    }

    fn body(&self) -> String {
        let ReportFigures { errors, histograms, roc, counts, bandwidth, map } = ReportFigures::new(self);
        let parts = [
            overview::html(self),
            methods::html(self),
            figures("Errors", "Error rate and accuracy when the most uncertain rows are rejected.", &errors),
            figures("Scores", scores_lead(self), &histograms),
            figures("Detection", "ROC curves of the detection of out-of-distribution rows.", &roc),
            figures(
                "Acceptance",
                "Test rows and out-of-distribution rows are ranked together, and the most certain rows are accepted.",
                &counts,
            ),
            figures("Bandwidth", "Selection of the kernel bandwidth by leave-one-out.", bandwidth.as_slice()),
            figures(
                "Map",
                "Each point is a row. Hover over a point or tap it to see its values. After a click on the map, the left and right arrow keys select the previous and the next point.",
                map.as_slice(),
            ),
            rows::html(&self.most_uncertain),
            facts::model(self),
            facts::provenance(self),
        ];
        format!("<main>\n{}</main>\n", parts.concat())
    }
}

fn scores_lead(report: &Report) -> &'static str {
    if report.ood.is_empty() {
        return "Distribution of the scores in the test set.";
    }
    "Distribution of the scores in the test set and in the out-of-distribution sets. Less overlap means better separation."
}

/// A section with heading and introduction; empty if the content is empty.
fn section(title: &str, lead: &str, content: &str) -> String {
    if content.is_empty() {
        return String::new();
    }
    let id = title.to_lowercase().replace(' ', "-");
    let lead = if lead.is_empty() { String::new() } else { format!("<p class=\"lead\">{lead}</p>\n") };
    format!(
        "<section aria-labelledby=\"s-{id}\">\n<h2 id=\"s-{id}\">{title}</h2>\n{lead}{content}</section>\n"
    )
}

fn figures(title: &str, lead: &str, drawings: &[CaptionedDrawing]) -> String {
    let content: String = drawings.iter().map(CaptionedDrawing::html).collect();
    let class = if drawings.len() == 1 { "figures one" } else { "figures" };
    let content =
        if content.is_empty() { content } else { format!("<div class=\"{class}\">\n{content}</div>\n") };
    section(title, lead, &content)
}
