//! Bodies of requests to the server, over a loopback connection. The first byte of the input selects the route. For the route with
//! binary tensors, the second byte gives the length of the JSON part in steps of four bytes. Rows in JSON that are scored are sent again as an
//! npy array, and must have the same scores.

#![no_main]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use nuq_fuzz::{allocation, file, models};
use nuq_server::{Config, ModelSource, Server};

/// Statuses of success, of invalid requests, and of requests that are too large.
const EXPECTED: [u16; 5] = [200, 400, 413, 415, 422];

fn address() -> SocketAddr {
    static SERVER: OnceLock<Server> = OnceLock::new();
    let start = || {
        let path = file::write("served.nuq", &models::small_model());
        let models = vec![ModelSource { name: "m".to_owned(), path }];
        let address = "127.0.0.1:0".parse().expect("it is an address");
        let config = Config { models, address, ..Config::default() };
        Server::start(config).expect("a server on a free port of the loopback address starts")
    };
    SERVER.get_or_init(start).address()
}

/// Sends a request and returns the status and the body of the response. The connection is kept for the next request.
fn request(head: &str, body: &[u8]) -> (u16, Vec<u8>) {
    static CONNECTION: Mutex<Option<TcpStream>> = Mutex::new(None);
    let mut connection = CONNECTION.lock().expect("no target panics while it holds the connection");
    let mut stream = connection.take().unwrap_or_else(|| {
        let stream = TcpStream::connect(address()).expect("the server accepts connections");
        stream.set_nodelay(true).expect("the option is supported");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("the option is supported");
        stream
    });
    let message =
        [format!("{head}Host: localhost\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), body]
            .concat();
    stream.write_all(&message).expect("the server reads the request");
    let (response, is_open) = response(&mut stream);
    *connection = is_open.then_some(stream);
    response
}

/// Reads one response. Its length is in its header, or it is sent in chunks.
fn response(stream: &mut TcpStream) -> ((u16, Vec<u8>), bool) {
    let mut bytes = vec![];
    loop {
        if let Some(parsed) = parse(&bytes) {
            return parsed;
        }
        let mut block = [0; 4096];
        match stream.read(&mut block) {
            Ok(0) => panic!("the connection ended after {:?}", String::from_utf8_lossy(&bytes)),
            Ok(read) => bytes.extend_from_slice(&block[..read]),
            // The timer of libFuzzer interrupts system calls.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                panic!("the response cannot be read, or there was none within ten seconds: {error}")
            }
        }
    }
}

/// A complete response, and whether the connection stays open.
fn parse(bytes: &[u8]) -> Option<((u16, Vec<u8>), bool)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&bytes[..end]).expect("a header is ASCII").to_ascii_lowercase();
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let status = head[9..12].parse().expect("a status has three digits");
    let body = match field("content-length:") {
        Some(length) => bytes[end..].get(..length.parse().expect("a length is a number"))?.to_vec(),
        None => chunks(&bytes[end..])?,
    };
    Some(((status, body), field("connection:") != Some("close")))
}

fn chunks(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = vec![];
    loop {
        let line = bytes.windows(2).position(|window| window == b"\r\n")?;
        let text = std::str::from_utf8(&bytes[..line]).expect("the length of a chunk is ASCII");
        let length = usize::from_str_radix(text, 16).expect("the length of a chunk is hexadecimal");
        body.extend_from_slice(bytes.get(line + 2..line + 2 + length)?);
        bytes = bytes.get(line + length + 4..)?;
        if length == 0 {
            return Some(body);
        }
    }
}

libfuzzer_sys::fuzz_target!(init: nuq_fuzz::caught_panics::allow(), |bytes: &[u8]| {
    let [route, json, body @ ..] = bytes else { return };
    address();
    allocation::limit_for(bytes.len());
    let json = (usize::from(*json) * 4).min(body.len());
    let head = match route % 3 {
        0 => "POST /v1/models/m/score HTTP/1.1\r\n".to_owned(),
        1 => "POST /v2/models/m/infer HTTP/1.1\r\n".to_owned(),
        _ => format!("POST /v2/models/m/infer HTTP/1.1\r\nInference-Header-Content-Length: {json}\r\n"),
    };
    let (status, answer) = request(&head, body);
    assert!(EXPECTED.contains(&status), "status {status}: {}", String::from_utf8_lossy(&answer));
    if status != 200 {
        let error: serde_json::Value = serde_json::from_slice(&answer).expect("an error is JSON");
        assert!(error.get("error").is_some(), "{error}");
    } else if let (0, Some(rows)) = (route % 3, json_rows(body)) {
        // The same rows in another format have the same scores.
        assert_eq!(request(&head, &npy(&rows)), (200, answer), "scores differ");
    }
});

/// The rows of a JSON body, if it has rows of two columns whose values `f32` represents exactly.
fn json_rows(body: &[u8]) -> Option<Vec<[f32; 2]>> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    let rows: Vec<[f64; 2]> = serde_json::from_value(body.get("rows").unwrap_or(&body).clone()).ok()?;
    let is_exact = |value: &f64| f64::from(*value as f32) == *value;
    rows.iter().flatten().all(is_exact).then(|| rows.iter().map(|row| row.map(|v| v as f32)).collect())
}

/// The bytes of an npy file with these rows.
fn npy(rows: &[[f32; 2]]) -> Vec<u8> {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, 2), }}", rows.len());
    let header = format!("{header:<117}\n");
    let values: Vec<u8> = rows.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
    [b"\x93NUMPY\x01\0", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), &values].concat()
}
