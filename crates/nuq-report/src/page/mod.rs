//! A report as one HTML file that asks nothing of any network: font, style and script are inside.

mod facts;
mod methods;
mod overview;
mod rows;

use crate::canvas::font_faces;
use crate::escape;
use crate::figures::picture::Picture;
use crate::gallery::Gallery;
use crate::report::Report;

const STYLE: &str = include_str!("../../assets/page.css");
const THEME: &str = include_str!("../../assets/theme.js");
const SCRIPT: &str = include_str!("../../assets/page.js");
/// The browser itself keeps the page from loading anything.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; font-src data:; img-src data:";

impl Report {
    /// The report as an HTML file.
    pub fn page(&self) -> String {
        let title = escape::html(&format!("Evaluation on {}", self.test.name));
        let (fonts, body) = (font_faces(), self.body());
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title} – nuq</title>\n<style>{fonts}\n{STYLE}</style>\n<script>{THEME}</script>\n</head>\n\
             <body>\n{body}<div id=\"tip\" role=\"status\" hidden></div>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
        )
    }

    fn body(&self) -> String {
        let Gallery { errors, histograms, roc, counts, bandwidth, map } = Gallery::of(self);
        let parts = [
            overview::html(self),
            methods::html(self),
            figures("Errors", "What is left when the uncertain rows are set aside.", &errors),
            figures("Scores", &scores_lead(self), &histograms),
            figures("Detection", "Finding rows that are unlike the training data.", &roc),
            figures("Acceptance", "Accepting the most certain rows of two sets together.", &counts),
            figures("Bandwidth", "How wide the kernel is, and why.", bandwidth.as_slice()),
            figures("Map", "Each point is a row; point at it to see what it is.", map.as_slice()),
            rows::html(&self.most_uncertain),
            facts::model(self),
            facts::made_by(self),
        ];
        format!("<main>\n{}</main>\n", parts.concat())
    }
}

fn scores_lead(report: &Report) -> String {
    let name = escape::html(&report.test.name);
    if report.ood.is_empty() {
        return format!("How the scores of {name} lie.");
    }
    format!("How the scores of {name} and of the other sets lie: the further apart, the easier to tell.")
}

/// A section, unless there is nothing to show.
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

fn figures(title: &str, lead: &str, pictures: &[Picture]) -> String {
    let content: String = pictures.iter().map(Picture::html).collect();
    let class = if pictures.len() == 1 { "figures one" } else { "figures" };
    let content =
        if content.is_empty() { content } else { format!("<div class=\"{class}\">\n{content}</div>\n") };
    section(title, lead, &content)
}
