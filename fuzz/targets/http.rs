//! Bodies of requests to the server, over a loopback connection. The first byte of the input selects the route. For the route with
//! binary tensors, the second byte gives the length of the JSON part in steps of four bytes, or is 0 if the part ends where its value ends.
//! Rows in JSON that are scored are sent again as an npy array, and rows of an inference request, in JSON or binary, are sent again as rows in
//! JSON; both must have the same scores.

#![no_main]

use std::net::SocketAddr;
use std::sync::OnceLock;

use nuq_fuzz::client::request;
use nuq_fuzz::mutation::{Structure, TextPosition, json_len};
use nuq_fuzz::npy::npy;
use nuq_fuzz::{allocation, file, small_models};
use nuq_server::{Config, ModelSource, Server};
use serde_json::Value;

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
        let error: Value = serde_json::from_slice(&answer).expect("an error is JSON");
        assert!(error.get("error").is_some(), "{error}");
    } else if let (0, Some(rows)) = (route % 3, json_rows(body)) {
        // The same rows in another format have the same scores.
        assert_eq!(request(address, &head, &npy_of_rows(&rows)), (200, answer), "scores differ");
    } else if let (1, Some(rows)) = (route % 3, inferred_rows(body)) {
        check_inference(address, &answer, &rows);
    } else if let (2, Some(rows)) = (route % 3, binary_rows(&body[..json], &body[json..])) {
        check_inference(address, &answer, &rows);
    }
});

/// The fields of the scores of a row that an inference has as tensors too.
const FIELDS: [&str; 5] = ["label", "probability", "aleatoric", "epistemic", "total"];

/// Checks that rows have the same scores as in the answer of an inference.
fn check_inference(address: SocketAddr, answer: &[u8], rows: &[[f32; 2]]) {
    let inferred: Value = serde_json::from_slice(answer).expect("an answer is JSON");
    let rows = serde_json::to_vec(rows).expect("rows are finite");
    let (status, scores) = request(address, "POST /v1/models/m/score HTTP/1.1\r\n", &rows);
    assert_eq!(status, 200, "rows are refused that an inference accepts");
    let scores: Value = serde_json::from_slice(&scores).expect("an answer is JSON");
    let scores = scores["rows"].as_array().expect("an answer has rows");
    let outputs = inferred["outputs"].as_array().expect("an answer has outputs");
    for field in FIELDS {
        let of_rows: Vec<&Value> = scores.iter().map(|score| &score[field]).collect();
        let output = outputs.iter().find(|output| output["name"] == field);
        let output = output.unwrap_or_else(|| panic!("the answer has no output {field}"));
        let of_inference: Vec<&Value> =
            output["data"].as_array().expect("an output has data").iter().collect();
        assert_eq!(of_inference, of_rows, "{field} differs");
    }
}

/// The rows of an inference request in JSON, if it has only one input with the embeddings, without options, and values that `f32` represents exactly.
fn inferred_rows(body: &[u8]) -> Option<Vec<[f32; 2]>> {
    let input = only_input(body)?;
    if !["FP32", "FP64"].contains(&input.get("datatype")?.as_str()?) {
        return None;
    }
    rows_of(&serde_json::from_value::<Vec<f64>>(input.get("data")?.clone()).ok()?)
}

/// The rows of an inference request with a binary tensor, in the cases of [`inferred_rows`].
fn binary_rows(json: &[u8], tensor: &[u8]) -> Option<Vec<[f32; 2]>> {
    let input = only_input(json)?;
    input.get("parameters")?.get("binary_data_size")?;
    match input.get("datatype")?.as_str()? {
        "FP32" => rows_of(&numbers(tensor, |bytes| f64::from(f32::from_le_bytes(bytes)))),
        "FP64" => rows_of(&numbers(tensor, f64::from_le_bytes)),
        _ => None,
    }
}

fn numbers<const N: usize>(bytes: &[u8], number: fn([u8; N]) -> f64) -> Vec<f64> {
    bytes.as_chunks().0.iter().map(|&bytes| number(bytes)).collect()
}

/// The input of an inference request that has only this input, and no options.
fn only_input(body: &[u8]) -> Option<Value> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let [input] = &body.get("inputs")?.as_array()?[..] else { return None };
    let is_plain = body.as_object()?.len() == 1 && input.as_object()?.len() == 4;
    is_plain.then(|| input.clone())
}

/// Rows of two columns, if `f32` represents all values exactly.
fn rows_of(values: &[f64]) -> Option<Vec<[f32; 2]>> {
    let rows: Vec<[f32; 2]> =
        values.chunks(2).map(|row| Some([exact(row[0])?, exact(*row.get(1)?)?])).collect::<Option<_>>()?;
    (!rows.is_empty()).then_some(rows)
}

/// The number in single precision, if it is finite and the same number.
fn exact(value: f64) -> Option<f32> {
    let single = value as f32;
    (single.is_finite() && f64::from(single) == value).then_some(single)
}

/// The rows of a JSON body, if it has only rows, and rows of two columns whose values `f32` represents exactly.
fn json_rows(body: &[u8]) -> Option<Vec<[f32; 2]>> {
    let body: Value = serde_json::from_slice(body).ok()?;
    if body.as_object().is_some_and(|fields| fields.len() > 1) {
        return None;
    }
    let rows: Vec<[f64; 2]> = serde_json::from_value(body.get("rows").unwrap_or(&body).clone()).ok()?;
    rows.into_iter().map(|[x, y]| Some([exact(x)?, exact(y)?])).collect()
}

/// The bytes of an npy file with these rows.
fn npy_of_rows(rows: &[[f32; 2]]) -> Vec<u8> {
    let values: Vec<u8> = rows.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
    npy("<f4", &format!("({}, 2)", rows.len()), &values)
}

nuq_fuzz::mutations!(Structure::Json(TextPosition::After(2)), "http.dict");
