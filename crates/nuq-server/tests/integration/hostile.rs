//! Malformed and hostile requests get an error or the end of their connection, and the server still answers afterward.

use serde_json::json;

use crate::common::{COLUMNS, Reply, Service, json_rows, npy, rows};

const SCORE: &str = "/v1/models/animals/score";
const INFER: &str = "/v2/models/animals/infer";

fn still_answers(service: &Service) {
    let reply = service.post(SCORE, json_rows(&rows(1, 1)));
    assert_eq!(reply.status, 200, "{}", reply.text());
}

#[test]
fn malformed_bodies_of_score_requests_are_errors() {
    let service = Service::start();
    let deep = "[".repeat(200_000);
    let mut big_endian = npy(&[], "(1, 5)");
    let at = big_endian.iter().rposition(|byte| *byte == b'<').unwrap();
    big_endian[at] = b'>';
    let bodies: &[(&[u8], &str)] = &[
        (b"", "the body is empty"),
        (b"\x1f\x8b\x08\0\0\0\0\0\0\0", "neither JSON nor npy nor csv"),
        (b"PK\x03\x04 archive", "neither JSON"),
        (b"\0\0\0\0\0\0\0\0\0", "neither JSON"),
        (b"{", "EOF"),
        (b"{\"rows\": [[1,2,3,4,5]], \"x\": 1}", "unknown field"),
        (b"[[1,2,3,4,NaN]]", "column"),
        (b"[[1,2,3,4,null]]", "null"),
        (b"[[1,2,3,4,1e39]]", "exceeds the range"),
        (b"[[1,2,3,4]]", "the rows have 4 columns, but the model was fitted to 5"),
        (b"[[1,2,3,4,5],[1]]", "row 1 has 1 columns"),
        (b"[1,2,3,4,5]", "invalid type"),
        (b"[[1,2,3,4,5]] rest", "trailing"),
        (b"[[[1]]]", "nested"),
        (deep.as_bytes(), "body"),
        (b"a,b\n1,2\n", "the rows have 2 columns"),
        (b"1,2,3,4,5\n1,2,3\n", "line 2 has 3 columns"),
        (b"1,2,3,4,5\n1,2,3,4,cat\n", "line 2, column 4 is `cat`, not a number"),
        (b"a,b,c,d,e\n1,2,3,4,cat\n", "line 2, column `e` is `cat`, not a number"),
        (b",a,b,c,d,e\n0,1,2,3,inf,5\n", "line 2, column `d` is inf: all values must be finite"),
        (b"1,2,3,4,5\n1,2,3,4,nan\n", "must be finite"),
        (b"1,2,3,4,5\n1,2,3,4,\xff\n", "not a number"),
        (b"\x93NUMPY\x01\0", "incomplete"),
        (b"\x93NUMPY\x02\0\xff\xff\xff\xff", "too long"),
        (b"\xff\xff\xff\xff\xff\xff\xff\x7f", "Arrow"),
        (b"\xff\xff\xff\xff\x10\0\0\0garbage garbage!", "Arrow"),
        (&big_endian, "big-endian"),
    ];
    for &(body, text) in bodies {
        let reply = service.post(SCORE, body);
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        assert_eq!(reply.status, 422, "{shown}: {}", reply.text());
        assert!(reply.error().1.contains(text), "{shown}: {}", reply.text());
    }
    still_answers(&service);
}

#[test]
fn npy_headers_that_contradict_the_data_are_errors() {
    let service = Service::start();
    for (shape, text) in [
        ("(1000000000, 5)", "its header states 1000000000 rows, and the body contains 0 of them"),
        ("(3, 5)", "its header states 3 rows, and the body contains 1 of them"),
        ("(5,)", "1 dimensions"),
        ("(1, 1000000000000)", "the rows have 1000000000000 columns"),
        ("(9223372036854775807, 5)", "exceeds the address space"),
    ] {
        let reply = service.post(SCORE, npy(&rows(if shape == "(3, 5)" { 1 } else { 0 }, 2), shape));
        assert_eq!(reply.status, 422, "{shape}: {}", reply.text());
        assert!(reply.error().1.contains(text), "{shape}: {}", reply.text());
    }
    // If the server finds the surplus row after the beginning of the response, the response is incomplete.
    let reply = service.post(SCORE, npy(&rows(2, 2), "(1, 5)"));
    assert!(!reply.is_complete || reply.status == 422, "{}", reply.text());
    let infinite = [1.0, 2.0, f32::INFINITY, 0.0, 0.0];
    let reply = service.post(SCORE, npy(&infinite, "(1, 5)"));
    assert!(reply.error().1.contains("row 0, column 2 is inf"), "{}", reply.text());
    still_answers(&service);
}

/// A binary inference request with a JSON part and bytes after it.
fn binary(service: &Service, json: &str, length: &str, tensors: &[u8]) -> Reply {
    let headers = [("inference-header-content-length", length)];
    service.request("POST", INFER, &headers, &[json.as_bytes(), tensors].concat())
}

#[test]
fn wrong_lengths_of_binary_tensors_are_errors() {
    let service = Service::start();
    let request = |shape: &str, size: &str| {
        format!(
            "{{\"inputs\":[{{\"name\":\"embeddings\",\"shape\":{shape},\"datatype\":\"FP32\",\"parameters\":{{\"binary_data_size\":{size}}}}}]}}"
        )
    };
    let one = vec![0u8; 4 * COLUMNS];
    let cases: &[(String, &[u8], &str)] = &[
        (request("[1, 5]", "20"), &one[..19], "the body ends early"),
        (request("[1, 5]", "20"), b"", "the body ends early"),
        (request("[1, 5]", "19"), &one[..], "5 values of FP32 have 20 bytes"),
        (request("[1, 5]", "20"), &[0; 21], "1 bytes follow"),
        (request("[1000000000, 5]", "20"), &one, "more than 100000 (--max-rows)"),
        (request("[99999, 5]", "1999980"), &one, "the body ends early"),
        (request("[18446744073709551615, 5]", "20"), &one, "not possible"),
        (request("[18446744073709551616, 5]", "20"), &one, "not an inference request"),
        (request("[1, 0]", "0"), b"", "not possible"),
        (request("[5]", "20"), &one, "1 dimensions"),
        (request("[-1, 5]", "20"), &one, "not an inference request"),
        (request("[1, 5]", "18446744073709551615"), &one, "binary_data_size is 18446744073709551615"),
    ];
    for (json, tensors, text) in cases {
        let reply = binary(&service, json, &json.len().to_string(), tensors);
        assert!([413, 422].contains(&reply.status), "{json}: {}", reply.status);
        assert!(reply.protocol_error().contains(text), "{json}: {}", reply.text());
    }
    let json = request("[1, 5]", "20");
    for length in ["9999999", "x", "-1", "99999999999999999999999"] {
        let reply = binary(&service, &json, length, &one);
        assert!(reply.protocol_error().contains("Inference-Header-Content-Length"), "{}", reply.text());
    }
    let mut bad = one.clone();
    bad[4..8].copy_from_slice(&f32::NAN.to_le_bytes());
    let reply = binary(&service, &json, &json.len().to_string(), &bad);
    assert!(reply.protocol_error().contains("row 0, column 1"), "{}", reply.text());
    still_answers(&service);
}

#[test]
fn malformed_inference_requests_are_errors() {
    let service = Service::start();
    let input = json!({ "name": "embeddings", "shape": [1, 5], "datatype": "FP32", "data": [1, 2, 3, 4, 5] });
    let with = |field: &str, value: serde_json::Value| {
        let mut input = input.clone();
        input[field] = value;
        json!({ "inputs": [input] }).to_string()
    };
    for (body, text) in [
        (String::new(), "not an inference request"),
        ("[]".to_owned(), "not an inference request"),
        ("{}".to_owned(), "missing field `inputs`"),
        (json!({ "inputs": [] }).to_string(), "`embeddings` is missing"),
        (json!({ "inputs": [input, input] }).to_string(), "given twice"),
        (with("name", json!("pixels")), "there is no input \"pixels\""),
        (with("datatype", json!("INT8")), "not FP16, FP32 or FP64"),
        (with("data", json!([1, 2])), "it has 2 values"),
        (with("data", json!(null)), "neither"),
        (with("shape", json!([1, 4])), "it has 5 values"),
        (with("shape", json!([5, 1])), "the rows have 1 columns"),
        (json!({ "inputs": [input], "outputs": [{ "name": "x" }] }).to_string(), "x"),
        (json!({ "inputs": [input], "parameters": { "threshold": "x" } }).to_string(), "no threshold \"x\""),
    ] {
        let reply = service.post(INFER, &body);
        assert_eq!(reply.status, 422, "{body}: {}", reply.text());
        assert!(reply.protocol_error().contains(text), "{body}: {}", reply.text());
    }
    still_answers(&service);
}

#[test]
fn compressed_bodies_are_refused() {
    let service = Service::start();
    for path in [SCORE, INFER] {
        let reply = service.request("POST", path, &[("content-encoding", "gzip")], b"\x1f\x8b\x08");
        assert_eq!(reply.status, 415, "{}", reply.text());
    }
}

#[test]
fn other_protocols_and_broken_requests_end_the_connection() {
    let service = Service::start();
    for bytes in [
        &b"\x16\x03\x01\x02\0\x01\0\x01"[..],
        b"GET /none HTTP/1.1\r\n\r\n\r\n",
        b"GET /\0 HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /v1/models/animals/score HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: -5\r\n\r\n",
        b"POST /v1/models/animals/score HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ] {
        // Some requests are incomplete, so the client ends its side of the connection.
        let mut stream = service.connect();
        std::io::Write::write_all(&mut stream, bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut reply = Vec::new();
        let _ = std::io::Read::read_to_end(&mut stream, &mut reply);
        assert!(reply.is_empty() || reply.starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&reply));
    }
    still_answers(&service);
}

#[test]
fn unknown_routes_and_methods_are_json_errors() {
    let service = Service::start();
    let reply = service.get("/v1/nothing");
    assert_eq!((reply.status, reply.error().0.as_str()), (404, "not_found"));
    let reply = service.post("/v1/models", "{}");
    assert_eq!((reply.status, reply.error().0.as_str()), (405, "method_not_allowed"));
    assert_eq!(service.get("/v1/models/%ff/score").status, 405);
    assert_eq!(service.get("/v1/models/%ff").status, 422);
    assert_eq!(
        service.get("/v2/nothing").protocol_error(),
        "there is no route \"/v2/nothing\"; /docs lists all routes"
    );
}

/// Names of models, versions and page files in a URL are never used as parts of file paths.
#[test]
fn names_in_urls_are_not_parts_of_file_paths() {
    let service = Service::start();
    for path in [
        "/v1/models/..%2f..%2fetc%2fpasswd/file",
        "/v1/models/%2fetc%2fpasswd/file",
        "/v1/models/../../../etc/passwd",
        "/v2/models/..%2fanimals.nuq",
        "/v2/models/animals/versions/..%2f..",
        "/page/..%2f..%2fetc%2fpasswd",
        "/page/../Cargo.toml",
        "/docs/..%2fstyle.css",
        "/v1/models/animals.nuq/file",
    ] {
        assert_eq!(service.get(path).status, 404, "{path}");
    }
}
