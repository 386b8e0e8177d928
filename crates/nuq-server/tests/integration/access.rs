//! Keys, origins, host names, headers and the configuration.

use std::net::SocketAddr;

use nuq_server::{Config, Key, MetricsAccess, ModelSource, check};

use crate::common::{Service, json_rows, rows};

const READ: &str = "read-key-0123456789";
const WRITE: &str = "write-key-0123456789";

fn with_keys(change: impl FnOnce(&mut Config)) -> Service {
    Service::with(|config| {
        config.read_key = Some(Key::new(READ, "the test").unwrap());
        config.write_key = Some(Key::new(WRITE, "the test").unwrap());
        change(config);
    })
}

#[test]
fn keys_decide_who_reads_and_writes() {
    let service = with_keys(|_| {});
    let status = |method: &str, path: &str, key: &str| {
        let authorization = format!("Bearer {key}");
        let headers = [("authorization", authorization.as_str())];
        service.request(method, path, if key.is_empty() { &[] } else { &headers }, b"{\"rows\": []}").status
    };
    for path in ["/v2/health/live", "/v2/health/ready", "/v2/models/sums/ready", "/docs", "/openapi.json"] {
        assert_eq!(status("GET", path, ""), 200, "{path}");
    }
    for (method, path) in [
        ("GET", "/v1/models"),
        ("GET", "/v1/models/animals/file"),
        ("GET", "/v2/models/animals"),
        ("GET", "/metrics"),
        ("POST", "/v1/models/animals/score"),
    ] {
        assert_eq!(status(method, path, ""), 401, "{path}");
        assert_eq!(status(method, path, "wrong-key-0123456789"), 401, "{path}");
        assert_eq!(status(method, path, &READ[..READ.len() - 1]), 401, "{path}");
        assert_eq!(status(method, path, READ), 200, "{path}");
        assert_eq!(status(method, path, WRITE), 200, "{path}");
    }
    assert_eq!(status("POST", "/v1/models/animals/reload", ""), 401);
    assert_eq!(status("POST", "/v1/models/animals/reload", READ), 403);
    assert_eq!(status("POST", "/v1/models/animals/reload", WRITE), 200);
    let reply = service.get("/v1/models");
    assert_eq!(
        (reply.header("www-authenticate"), reply.error().0.as_str()),
        (Some("Bearer"), "key_required")
    );
    assert!(service.get("/v2/models/animals").protocol_error().contains("Authorization: Bearer"));
}

#[test]
fn the_option_metrics_sets_who_may_read_metrics() {
    let open = with_keys(|config| config.metrics = MetricsAccess::Open);
    let text = open.get("/metrics");
    assert_eq!(text.status, 200);
    assert!(text.text().contains("nuq_model_rows{model=\"animals\"} 300"), "{}", text.text());
    let off = Service::with(|config| config.metrics = MetricsAccess::Off);
    assert_eq!(off.get("/metrics").status, 404);
}

#[test]
fn requests_and_batches_are_counted() {
    let service = Service::start();
    service.post("/v1/models/animals/score", json_rows(&rows(3, 1)));
    service.post("/v1/models/animals/score", "[[1]]");
    let text = service.get("/metrics");
    let has = |line: &str| assert!(text.text().lines().any(|other| other == line), "{line}\n{}", text.text());
    has(
        "nuq_requests_total{method=\"POST\",route=\"/v1/models/{model}/score\",status=\"200\",outcome=\"complete\"} 1",
    );
    has(
        "nuq_requests_total{method=\"POST\",route=\"/v1/models/{model}/score\",status=\"422\",outcome=\"complete\"} 1",
    );
    has("nuq_rows_total{model=\"animals\"} 3");
    has("nuq_batch_rows_bucket{model=\"animals\",le=\"4\"} 2");
    assert!(text.text().contains("process_resident_memory_bytes "));
}

#[test]
fn other_origins_and_host_names_are_refused() {
    let service = Service::with(|config| config.cors_origins = vec!["https://allowed.example".to_owned()]);
    let own = format!("http://{}", service.address);
    let status = |method: &str, headers: &[(&str, &str)]| {
        let reply = service.request(method, "/v1/models", headers, b"");
        (reply.status, reply.header("access-control-allow-origin").map(str::to_owned))
    };
    let allowed = Some("https://allowed.example".to_owned());
    assert_eq!(status("GET", &[("origin", "https://evil.example")]), (403, None));
    assert_eq!(status("GET", &[("origin", "null")]), (403, None));
    assert_eq!(status("GET", &[("origin", &own)]), (200, None));
    assert_eq!(status("GET", &[("origin", "https://allowed.example")]), (200, allowed.clone()));
    assert_eq!(status("OPTIONS", &[("origin", "https://allowed.example")]), (204, allowed));
    // Without keys, only `localhost`, the host of `--address` and IP addresses are allowed in the header `Host`. Otherwise a web page
    // could send requests to the server under the host name of the page, if that name resolves to a loopback address (DNS rebinding).
    assert_eq!(status("GET", &[("host", "evil.example:8080")]), (403, None));
    assert_eq!(status("GET", &[("host", "localhost:8080")]), (200, None));
    assert_eq!(status("GET", &[("host", "[::1]:8080")]), (200, None));
}

/// The page at `/docs` lists all routes.
#[test]
fn the_page_of_routes_loads_nothing_from_other_servers() {
    let service = Service::start();
    let page = service.get("/docs");
    assert!(page.header("content-type").unwrap().starts_with("text/html"));
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert!(!page.text().contains("http://") && !page.text().contains("https://"), "no other hosts");
    // It has the light and dark colors of the page at `/`.
    for file in ["docs/style.css", "page/theme.css", "page/theme.js"] {
        assert!(page.text().contains(&format!("\"{file}\"")), "{file}");
        assert_eq!(service.get(&format!("/{file}")).status, 200);
    }
    assert!(page.text().contains("id=\"theme\""));
    let style = service.get("/docs/style.css");
    assert!(style.text().contains("var(--background)") && !style.text().contains("#fff"));
}

#[test]
fn every_described_route_exists() {
    let service = Service::start();
    let description = service.get("/openapi.json").json();
    for (path, item) in description["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            let path = path.replace("{model}", "animals").replace("{version}", "1");
            let path = path.replace("{change}", "1").replace("{id}", "1").replace("{row}", "1");
            let reply = service.request(&method.to_uppercase(), &path, &[], b"");
            assert_ne!(reply.status, 405, "{method} {path}");
            let no_route = String::from_utf8_lossy(&reply.body).contains("there is no route");
            assert!(!no_route, "{method} {path}");
        }
    }
}

#[test]
fn insecure_and_invalid_configurations_are_refused() {
    let mut config = Config {
        models: vec![ModelSource::parse("m=does-not-exist.nuq").unwrap()],
        address: SocketAddr::from(([0, 0, 0, 0], 8080)).into(),
        ..Config::default()
    };
    let error = |config: &Config| check(config).unwrap_err().to_string();
    assert!(
        error(&config).contains("--insecure") && error(&config).contains("NUQ_READ_KEY"),
        "{}",
        error(&config)
    );
    assert!(error(&config).contains("could read predictions and change models"), "{}", error(&config));
    config.write_key = Some(Key::new(WRITE, "the test").unwrap());
    assert!(error(&config).contains("could read predictions without a key"), "{}", error(&config));
    // A server with a read key and without a write key refuses changes, so other machines may reach it.
    config.read_key = Some(Key::new(READ, "the test").unwrap());
    config.write_key = None;
    assert!(error(&config).contains("does-not-exist.nuq"), "{}", error(&config));
    config.write_key = config.read_key.clone();
    assert!(error(&config).contains("two different keys"), "{}", error(&config));
    config.write_key = Some(Key::new(WRITE, "the test").unwrap());
    assert!(error(&config).contains("does-not-exist.nuq"), "{}", error(&config));
    assert!(!format!("{config}{config:?}").contains("0123456789"), "keys are not printed");
    config.models.push(config.models[0].clone());
    assert!(error(&config).contains("two models have the name m"));
    for name in ["../m", "a/b", "a\\b", "..", ".m", "", "a b", "a\nb", "ä", &"a".repeat(101)] {
        assert!(ModelSource::parse(&format!("{name}=m.nuq")).is_err(), "{name:?}");
        // The fields of a source can also be set directly.
        config.models = vec![ModelSource { name: name.to_owned(), path: "m.nuq".into() }];
        assert!(error(&config).contains("cannot be the name of a model"), "{name:?}: {}", error(&config));
    }
}
