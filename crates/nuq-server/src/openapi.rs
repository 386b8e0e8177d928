//! The description of all routes: as JSON at `/openapi.json`, and as a page at `/docs`.

use std::fmt::Write;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::response::{Html, IntoResponse};
use axum::routing::get;
use serde_json::Value;

use crate::App;

/// The description in the format OpenAPI 3.1.
const OPENAPI: &str = include_str!("openapi.json");

static DESCRIPTION: LazyLock<Value> = LazyLock::new(|| {
    let mut description: Value = serde_json::from_str(OPENAPI).expect("the description is JSON");
    description["info"]["version"] = env!("CARGO_PKG_VERSION").into();
    description
});

static PAGE: LazyLock<String> = LazyLock::new(|| page(&DESCRIPTION));

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/openapi.json", get(async || axum::Json(&*DESCRIPTION)))
        .route("/docs", get(async || Html(PAGE.as_str())))
        .route("/docs/style.css", get(style))
}

async fn style() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], include_str!("openapi.css"))
}

/// The page of all routes, grouped by their tags.
fn page(description: &Value) -> String {
    let text = |value: &Value| escaped(value.as_str().unwrap_or_default());
    let mut html = String::from(HEAD);
    let info = &description["info"];
    let _ = write!(
        html,
        "<h1>{} {}</h1>\n{}",
        text(&info["title"]),
        text(&info["version"]),
        paragraphs(&info["description"])
    );
    html.push_str("<p>The same description for programs: <a href=\"openapi.json\">/openapi.json</a></p>\n");
    let tags = description["tags"].as_array().map_or(&[][..], Vec::as_slice);
    html.push_str("<ul class=\"contents\">\n");
    for tag in tags {
        let name = text(&tag["name"]);
        let _ = writeln!(html, "<li><a href=\"#{}\">{name}</a></li>", anchor(&name));
    }
    html.push_str("</ul>\n");
    for tag in tags {
        let name = text(&tag["name"]);
        let _ = write!(
            html,
            "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{name}</h2>\n{}",
            paragraphs(&tag["description"]),
            id = anchor(&name),
        );
        let paths = description["paths"].as_object().into_iter().flatten();
        let operations = paths.flat_map(|(path, item)| {
            item.as_object().into_iter().flatten().map(move |(method, operation)| (path, method, operation))
        });
        for (path, method, operation) in operations {
            if operation["tags"][0] == tag["name"] {
                write_operation(&mut html, path, method, operation);
            }
        }
        html.push_str("</section>\n");
    }
    html.push_str("</main>\n</body>\n</html>\n");
    html
}

/// The beginning of the page. Its addresses are relative, so that a reverse proxy can serve the page below a path.
const HEAD: &str = r##"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Routes · nuq</title>
<link rel="icon" href="page/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="page/theme.css">
<link rel="stylesheet" href="docs/style.css">
<script src="page/theme.js"></script>
</head>
<body>
<header>
<p class="brand"><a href=".">nuq</a></p>
<button id="theme" type="button">Dark theme</button>
</header>
<main>
"##;

/// The anchor of a group of routes.
fn anchor(name: &str) -> String {
    name.to_lowercase().replace(' ', "-")
}

fn write_operation(html: &mut String, path: &str, method: &str, operation: &Value) {
    let text = |value: &Value| escaped(value.as_str().unwrap_or_default());
    let _ = write!(
        html,
        "<article>\n<h3><code><b class=\"{method}\">{}</b> {}</code></h3>\n<p class=\"what\">{}</p>\n{}",
        escaped(&method.to_uppercase()),
        escaped(path),
        text(&operation["summary"]),
        paragraphs(&operation["description"])
    );
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let parameters: Vec<&Value> = parameters.filter(|parameter| parameter["in"] == "query").collect();
    if !parameters.is_empty() {
        html.push_str("<dl>\n");
        for parameter in parameters {
            let name = text(&parameter["name"]);
            let about = marked(parameter["description"].as_str().unwrap_or_default());
            let _ = writeln!(html, "<dt><code>?{name}=</code></dt><dd>{about}</dd>");
        }
        html.push_str("</dl>\n");
    }
    let bodies = [("Request", &operation["requestBody"]), ("Response", &operation["responses"]["200"])];
    for (name, body) in bodies.into_iter().filter(|(_, body)| body.is_object()) {
        let types = body["content"].as_object().into_iter().flatten().map(|(media, _)| escaped(media));
        let types = types.collect::<Vec<_>>().join(", ");
        let _ = writeln!(
            html,
            "<p><strong>{name}</strong> {} <small>{types}</small></p>",
            marked(body["description"].as_str().unwrap_or_default())
        );
        if let Some(example) = body["content"]["application/json"].get("example") {
            let example = serde_json::to_string(example).unwrap_or_default();
            let _ = writeln!(html, "<pre><code>{}</code></pre>", escaped(&example));
        }
    }
    html.push_str("</article>\n");
}

/// The paragraphs of a text as HTML. In the text, empty lines separate them.
fn paragraphs(text: &Value) -> String {
    let paragraphs =
        text.as_str().unwrap_or_default().split("\n\n").filter(|paragraph| !paragraph.is_empty());
    paragraphs.map(|paragraph| format!("<p>{}</p>\n", marked(paragraph))).collect()
}

/// A text as HTML. The parts between two backticks become code.
fn marked(text: &str) -> String {
    let parts = text.split('`').map(escaped).enumerate();
    parts.map(|(i, part)| if i % 2 == 1 { format!("<code>{part}</code>") } else { part }).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_between_backticks_is_code() {
        assert_eq!(marked("send `a<b`, or `c`"), "send <code>a&lt;b</code>, or <code>c</code>");
        assert!(
            !PAGE.contains('`'),
            "a description has a backtick without its counterpart, or it was written without `marked`"
        );
    }

    #[test]
    fn every_route_is_on_the_page() {
        let paths = DESCRIPTION["paths"].as_object().unwrap();
        for (path, item) in paths {
            assert!(PAGE.contains(&escaped(path)), "{path}");
            for operation in item.as_object().unwrap().values() {
                assert!(operation["responses"].is_object() && operation["summary"].is_string(), "{path}");
            }
        }
    }
}
