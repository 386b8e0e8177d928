//! Limits: bodies, memory, rows, concurrent requests, time and slow clients.

use std::io::{Read, Write};
use std::time::Duration;

use crate::common::{Reply, Service, json_rows, npy, rows};

const SCORE: &str = "/v1/models/animals/score";
const INFER: &str = "/v2/models/animals/infer";

#[test]
fn the_size_of_bodies_is_limited() {
    let service = Service::with(|config| config.limits.body_bytes = 2000);
    let values = rows(100, 1);
    let reply = service.post(SCORE, json_rows(&values));
    assert_eq!((reply.status, reply.error().0.as_str()), (413, "body_too_large"));
    // The limit also applies to a body that arrives in a single chunk.
    let short = service.post(SCORE, json_rows(&rows(2, 1)) + &" ".repeat(2000));
    assert_eq!((short.status, short.error().0.as_str()), (413, "body_too_large"));
    let declared = [("content-length", "99999999999")];
    assert_eq!(service.request("POST", INFER, &declared, b"").status, 413);
    assert_eq!(service.request("POST", SCORE, &declared, b"[[1.0, 2.0").status, 413);
    let chunked = format!(
        "POST {INFER} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n{}",
        service.address,
        format!("800\r\n{}\r\n", "x".repeat(2048)).repeat(2)
    );
    assert_eq!(Reply::parse(&service.raw(chunked.as_bytes())).status, 413);
    // A stream may be larger than the limit, but not a single block: here a line of a table.
    let reply = service.post(SCORE, "1,2,3,4,5\n".to_owned() + &"1".repeat(5000));
    assert_eq!((reply.status, reply.error().0.as_str()), (413, "block_too_large"));
}

#[test]
fn streams_may_be_larger_than_the_limit_of_bodies() {
    let service = Service::with(|config| {
        config.limits.body_bytes = 64 << 10;
        config.limits.memory_bytes = 64 << 10;
        config.limits.rows = 1000;
    });
    let values = rows(20_000, 1);
    let reply = service.request("POST", SCORE, &[("accept", "text/csv")], &npy(&values, "(20000, 5)"));
    assert_eq!((reply.status, reply.is_complete), (200, true));
    assert_eq!(reply.text().lines().count(), 20_001);
    // The limits of a second server are smaller than a block of 1024 rows, so this server reads smaller blocks.
    let small = Service::with(|config| {
        config.limits.body_bytes = 10_000;
        config.limits.memory_bytes = 10_000;
    });
    let table: String =
        values.chunks(5).map(|row| format!("{:?}\n", row).replace(['[', ']', ' '], "")).collect();
    for body in [npy(&values, "(20000, 5)"), table.into_bytes()] {
        let reply = small.request("POST", SCORE, &[("accept", "text/csv")], &body);
        assert_eq!((reply.status, reply.is_complete), (200, true));
        assert_eq!(reply.text().lines().count(), 20_001);
    }
    let npz = service.request("POST", SCORE, &[("accept", "application/x-npz")], &npy(&values, "(20000, 5)"));
    assert_eq!((npz.status, npz.error().0.as_str()), (413, "too_many_rows"));
}

#[test]
fn the_number_of_rows_in_memory_is_limited() {
    let service = Service::with(|config| config.limits.rows = 10);
    assert_eq!(service.post(SCORE, json_rows(&rows(10, 1))).status, 200);
    let reply = service.post(SCORE, json_rows(&rows(11, 1)));
    assert_eq!((reply.status, reply.error().0.as_str()), (413, "too_many_rows"));
}

#[test]
fn further_requests_are_refused_while_the_server_is_busy() {
    let service = Service::with(|config| config.limits.requests = 1);
    // A request whose body is not complete takes the only place.
    let mut first = service.connect();
    write!(first, "POST {SCORE} HTTP/1.1\r\nhost: {}\r\ncontent-length: 100\r\n\r\n[[1,2,", service.address)
        .unwrap();
    while !service.get("/metrics").text().contains("nuq_requests_running 1") {}
    let reply = service.post(SCORE, json_rows(&rows(1, 1)));
    assert_eq!((reply.status, reply.header("retry-after")), (429, Some("1")));
    assert_eq!(service.get("/v2/health/ready").status, 200, "probes are always answered");
    drop(first);
    // The place is free when the server has noticed that the client is gone.
    while service.post(SCORE, json_rows(&rows(1, 1))).status != 200 {}
}

/// A client that sends one request after another is never refused because of its own previous request.
#[test]
fn a_completed_request_counts_toward_no_limit() {
    let service = Service::with(|config| {
        config.limits.requests = 1;
        config.limits.body_bytes = 10_000;
        config.limits.memory_bytes = 10_000;
    });
    let body = npy(&rows(2000, 1), "(2000, 5)");
    for i in 0..30 {
        let reply = service.request("POST", SCORE, &[("accept", "text/csv")], &body);
        assert_eq!((reply.status, reply.is_complete), (200, true), "request {i}: {}", reply.text());
        let reply = service.post(SCORE, npy(&rows(2000, 1), "(2000, 4)"));
        assert_eq!(reply.status, 422, "request {i}: {}", reply.text());
    }
}

#[test]
fn all_bodies_together_have_a_memory_limit() {
    let service = Service::with(|config| {
        config.limits.body_bytes = 16 << 10;
        config.limits.memory_bytes = 16 << 10;
    });
    let mut first = service.connect();
    let head = format!("POST {INFER} HTTP/1.1\r\nhost: {}\r\ncontent-length: 15000\r\n\r\n", service.address);
    first.write_all(&[head.as_bytes(), &[b' '; 14000]].concat()).unwrap();
    // Memory is counted in units of 1024 bytes, so 14,000 bytes are counted as 14,336.
    while !service.get("/metrics").text().contains("nuq_body_bytes 14336") {}
    let reply = service.post(SCORE, json_rows(&rows(100, 1)));
    assert_eq!(reply.status, 503, "{}", reply.text());
    assert_eq!((reply.error().0.as_str(), reply.header("retry-after")), ("memory_full", Some("1")));
    drop(first);
}

/// If a client ends the connection in the middle of a stream, its request counts neither as a success nor as an error of the server.
#[test]
fn an_aborted_response_is_counted_as_aborted() {
    let service = Service::start();
    let table: String =
        rows(4096, 1).chunks(5).map(|row| format!("{:?}\n", row).replace(['[', ']', ' '], "")).collect();
    let mut stream = service.connect();
    let head = format!(
        "POST {SCORE} HTTP/1.1\r\nhost: {}\r\naccept: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n",
        service.address
    );
    write!(stream, "{head}{:x}\r\n{table}\r\n", table.len()).unwrap();
    let mut start = [0; 12];
    stream.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 200");
    drop(stream);
    let labels = "route=\"/v1/models/{model}/score\"";
    let count =
        format!("nuq_requests_total{{method=\"POST\",{labels},status=\"200\",outcome=\"aborted\"}} 1\n");
    let metrics = loop {
        let metrics = service.get("/metrics").text().to_owned();
        if metrics.contains(&count) {
            break metrics;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(
        metrics.contains(&format!("nuq_request_seconds_count{{{labels},outcome=\"aborted\"}} 1\n")),
        "{metrics}"
    );
    assert!(!metrics.contains(&format!("{labels},status=\"200\",outcome=\"complete\"")), "{metrics}");
}

#[test]
fn slow_clients_time_out() {
    let service = Service::with(|config| {
        config.limits.request_timeout = Duration::from_millis(300);
        config.limits.client_timeout = Duration::from_millis(300);
    });
    // A head that is never complete.
    let mut stream = service.connect();
    stream.write_all(b"GET /v1/models HTTP/1.1\r\nhost: 127").unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    assert!(reply.is_empty() || reply.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&reply));
    // Bodies that are never complete, in memory and as a stream.
    for (path, start) in [(INFER, "{"), (SCORE, "[[1,2"), (SCORE, "1,2,3,4,5\n1,2")] {
        let mut stream = service.connect();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-length: 1000\r\n\r\n{start}",
            service.address
        )
        .unwrap();
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply);
        let reply = Reply::parse(&reply);
        assert_eq!(reply.status, 408, "{path} {start}: {}", reply.text());
    }
}
