//! The page at `/`: files that are part of the program.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use nuq_report::assets::{FONT_MEDIUM, FONT_REGULAR, THEME_SCRIPT, THEME_STYLE};

use crate::App;
use crate::error::ApiError;

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// The files of the page: name, content type, contents.
const FILES: &[(&str, &str, &[u8])] = &[
    ("index.html", HTML, include_bytes!("index.html")),
    ("theme.css", STYLE, THEME_STYLE.as_bytes()),
    ("style.css", STYLE, include_bytes!("style.css")),
    ("icon.svg", "image/svg+xml", include_bytes!("icon.svg")),
    ("Roboto-Regular.ttf", "font/ttf", FONT_REGULAR),
    ("Roboto-Medium.ttf", "font/ttf", FONT_MEDIUM),
    ("theme.js", SCRIPT, THEME_SCRIPT.as_bytes()),
    ("app.js", SCRIPT, include_bytes!("app.js")),
    ("api.js", SCRIPT, include_bytes!("api.js")),
    ("dom.js", SCRIPT, include_bytes!("dom.js")),
    ("figure.js", SCRIPT, include_bytes!("figure.js")),
    ("format.js", SCRIPT, include_bytes!("format.js")),
    ("plot.js", SCRIPT, include_bytes!("plot.js")),
    ("rows.js", SCRIPT, include_bytes!("rows.js")),
    ("views/now.js", SCRIPT, include_bytes!("views/now.js")),
    ("views/drift.js", SCRIPT, include_bytes!("views/drift.js")),
    ("views/prediction.js", SCRIPT, include_bytes!("views/prediction.js")),
    ("views/map.js", SCRIPT, include_bytes!("views/map.js")),
    ("views/todo.js", SCRIPT, include_bytes!("views/todo.js")),
];

/// Whether the page requests a route so often that the requests would fill the log: its files, its pictures, and the data that it reads
/// every few seconds.
pub(crate) fn is_frequent(route: &str) -> bool {
    const DATA: [&str; 6] = ["/activity", "/distribution", "/drift", "/recent", "/map", "/pictures/{row}"];
    route.starts_with("/page/")
        || route == "/v1/models/{model}"
        || DATA.iter().any(|end| route.ends_with(end))
}

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route("/", get(index)).route("/page/{*file}", get(file))
}

async fn index(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    let mut response = respond("index.html")?;
    let policy = HeaderValue::from_str(&policy(app.pictures.origins())).map_err(|_| ApiError::internal())?;
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    Ok(response)
}

async fn file(Path(name): Path<String>) -> Result<Response, ApiError> {
    respond(&name)
}

fn respond(name: &str) -> Result<Response, ApiError> {
    let (_, content_type, contents) = FILES
        .iter()
        .find(|(file, ..)| *file == name)
        .ok_or_else(|| ApiError::not_found(format!("the page has no file {name:?}")))?;
    Ok(([(CONTENT_TYPE, *content_type)], *contents).into_response())
}

/// The content security policy of the page. It allows scripts, styles, fonts, data and pictures from this server, and pictures also from
/// the given origins.
fn policy<'o>(origins: impl Iterator<Item = &'o str>) -> String {
    let pictures: String = origins.map(|origin| format!(" {origin}")).collect();
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; connect-src 'self'; img-src 'self' blob:{pictures}; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The paths of all files in a folder, relative to the folder. Rust files are left out.
    fn files_in(folder: &Path, prefix: &str) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let names = entries.flat_map(|path| {
            let name = format!("{prefix}{}", path.file_name().unwrap().to_str().unwrap());
            if path.is_dir() { files_in(&path, &format!("{name}/")) } else { vec![name] }
        });
        names.filter(|name| !name.ends_with(".rs")).collect()
    }

    #[test]
    fn every_file_of_the_folder_is_served() {
        for name in files_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/page"), "") {
            assert!(respond(&name).is_ok(), "{name} is not in FILES");
        }
        assert!(respond("../lib.rs").is_err());
    }

    #[test]
    fn routes_that_the_page_requests_every_few_seconds_are_frequent() {
        for route in ["/page/{*file}", "/v1/models/{model}", "/v1/models/{model}/recent"] {
            assert!(is_frequent(route), "{route}");
        }
        for route in ["/v1/models", "/v2/models/{model}", "/v1/models/{model}/score"] {
            assert!(!is_frequent(route), "{route}");
        }
    }

    #[test]
    fn files_refer_to_no_other_server_and_contain_no_inline_code() {
        for (name, content_type, contents) in FILES.iter().filter(|(name, ..)| !name.ends_with(".ttf")) {
            let text = str::from_utf8(contents).unwrap();
            let addresses: Vec<&str> = text
                .match_indices("http")
                .map(|(at, _)| &text[at..])
                .filter(|rest| rest.starts_with("http:") || rest.starts_with("https:"))
                .collect();
            // The name of the SVG namespace looks like an address, but it is never requested.
            assert!(
                addresses.iter().all(|rest| rest.starts_with("http://www.w3.org/2000/svg")),
                "{name}: {addresses:?}"
            );
            assert!(
                !text.contains("innerHTML") && !text.contains("insertAdjacentHTML"),
                "{name} inserts markup"
            );
            if *content_type == HTML {
                assert!(!text.contains("style=") && !text.contains("onclick="), "{name} has inline code");
            }
        }
    }

    #[test]
    fn pictures_of_other_servers_are_in_the_policy() {
        let policy = policy(["https://example.org"].into_iter());
        assert!(policy.contains("img-src 'self' blob: https://example.org;"), "{policy}");
        assert!(!policy.contains("unsafe"));
    }
}
