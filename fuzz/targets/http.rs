//! Bodies of requests to the server, over a loopback connection. The first byte of the input selects the route. For the route with
//! binary tensors, the second byte gives the length of the JSON part in steps of four bytes, or is 0 if the part ends where its value ends.
//! Rows in JSON that are scored are sent again as an npy array, and must have the same scores.

#![no_main]

use std::net::SocketAddr;
use std::sync::OnceLock;

use nuq_fuzz::client::request;
use nuq_fuzz::mutation::{Structure, TextPosition, json_len};
use nuq_fuzz::npy::npy;
use nuq_fuzz::{allocation, file, small_models};
use nuq_server::{Config, ModelSource, Server};

/// Statuses of success, of invalid requests, and of requests that are too large.
const EXPECTED: [u16; 5] = [200, 400, 413, 415, 422];

fn address() -> SocketAddr {
    static SERVER: OnceLock<Server> = OnceLock::new();
    let start = || {
        let path = file::write("served.nuq", &small_models::small_model_with_rules());
        let models = vec![ModelSource { name: "m".to_owned(), path }];
        let address = "127.0.0.1:0".parse().expect("it is an address");
        let config = Config { models, address, ..Config::default() };
        Server::start(config).expect("a server on a free port of the loopback address starts")
    };
    SERVER.get_or_init(start).address()
}

libfuzzer_sys::fuzz_target!(init: nuq_fuzz::caught_panics::allow(), |bytes: &[u8]| {
    let [route, json, body @ ..] = bytes else { return };
    let address = address();
    allocation::limit_for(bytes.len());
    let json = match usize::from(*json) {
        0 => json_len(body).unwrap_or(0),
        steps => (4 * steps).min(body.len()),
    };
    let head = match route % 3 {
        0 => "POST /v1/models/m/score HTTP/1.1\r\n".to_owned(),
        1 => "POST /v2/models/m/infer HTTP/1.1\r\n".to_owned(),
        _ => format!("POST /v2/models/m/infer HTTP/1.1\r\nInference-Header-Content-Length: {json}\r\n"),
    };
    let (status, answer) = request(address, &head, body);
    assert!(EXPECTED.contains(&status), "status {status}: {}", String::from_utf8_lossy(&answer));
    if status != 200 {
        let error: serde_json::Value = serde_json::from_slice(&answer).expect("an error is JSON");
        assert!(error.get("error").is_some(), "{error}");
    } else if let (0, Some(rows)) = (route % 3, json_rows(body)) {
        // The same rows in another format have the same scores.
        assert_eq!(request(address, &head, &npy_of_rows(&rows)), (200, answer), "scores differ");
    }
});

/// The rows of a JSON body, if it has only rows, and rows of two columns whose values `f32` represents exactly.
fn json_rows(body: &[u8]) -> Option<Vec<[f32; 2]>> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    if body.as_object().is_some_and(|fields| fields.len() > 1) {
        return None;
    }
    let rows: Vec<[f64; 2]> = serde_json::from_value(body.get("rows").unwrap_or(&body).clone()).ok()?;
    let is_exact = |value: &f64| f64::from(*value as f32) == *value;
    rows.iter().flatten().all(is_exact).then(|| rows.iter().map(|row| row.map(|v| v as f32)).collect())
}

/// The bytes of an npy file with these rows.
fn npy_of_rows(rows: &[[f32; 2]]) -> Vec<u8> {
    let values: Vec<u8> = rows.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
    npy("<f4", &format!("({}, 2)", rows.len()), &values)
}

nuq_fuzz::mutations!(Structure::Json(TextPosition::After(2)), "http.dict");
