//! The memory of a server does not grow with the number of requests. `NUQ_REQUESTS` sets this number.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::common::{classifier, json_rows, npy, rows};
use crate::process::{Process, request};

/// Number of simultaneous connections.
const CLIENTS: usize = 8;

/// Largest growth of the memory after the warm-up, in bytes. It does not depend on the number of requests.
const GROWTH: u64 = 24 << 20;

/// Sends scoring requests of five kinds one after the other on one connection.
fn send(address: SocketAddr, count: usize, seed: usize) {
    let values = rows(7, seed);
    let tensor = format!(
        r#"{{"inputs": [{{"name": "embeddings", "shape": [7, 5], "datatype": "FP32", "data": {values:?}}}]}}"#
    );
    let far = rows(1, seed).iter().map(|value| value + 50.0).collect::<Vec<f32>>();
    let requests: Vec<Vec<u8>> = [
        ("/v2/models/m/infer", tensor.into_bytes()),
        ("/v1/models/m/score", json_rows(&values).into_bytes()),
        ("/v1/models/m/score?neighbors=3", npy(&values, "(7, 5)")),
        // A rejected row, and a request that is not valid.
        ("/v1/models/m/score", json_rows(&far).into_bytes()),
        ("/v1/models/m/score", b"[[1]]".to_vec()),
    ]
    .into_iter()
    .map(|(path, body)| {
        let length = body.len();
        let head = format!("POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {length}\r\n\r\n");
        [head.as_bytes(), &body].concat()
    })
    .collect();
    let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
    for i in 0..count {
        stream.get_mut().write_all(&requests[i % requests.len()]).unwrap();
        let status = read_response(&mut stream);
        assert_eq!(status, if i % requests.len() == 4 { 422 } else { 200 });
    }
}

/// Reads a response and returns its status.
fn read_response(stream: &mut BufReader<TcpStream>) -> u16 {
    let (mut status, mut length, mut line) = (0, Some(0), String::new());
    loop {
        line.clear();
        assert_ne!(stream.read_line(&mut line).unwrap(), 0, "the connection has ended");
        let text = line.trim_end().to_ascii_lowercase();
        if status == 0 {
            status = text.split(' ').nth(1).unwrap().parse().unwrap();
        } else if let Some(value) = text.strip_prefix("content-length: ") {
            length = Some(value.parse().unwrap());
        } else if text == "transfer-encoding: chunked" {
            length = None;
        } else if text.is_empty() {
            break;
        }
    }
    let skip = |stream: &mut BufReader<TcpStream>, length: usize| {
        stream.read_exact(&mut vec![0; length]).unwrap();
    };
    match length {
        Some(length) => skip(stream, length),
        None => loop {
            line.clear();
            stream.read_line(&mut line).unwrap();
            let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
            skip(stream, size + 2);
            if size == 0 {
                break;
            }
        },
    }
    status
}

/// The memory of the server in bytes; `None` if the operating system does not report it.
fn memory(address: SocketAddr) -> Option<u64> {
    let reply = request(address, "GET", "/metrics", "").unwrap();
    let line = reply.text().lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes "))?;
    Some(line.parse::<f64>().unwrap() as u64)
}

#[test]
fn memory_does_not_grow_with_the_number_of_requests() {
    let count: usize = std::env::var("NUQ_REQUESTS").ok().and_then(|n| n.parse().ok()).unwrap_or(4000);
    let folder = tempfile::tempdir().unwrap();
    nuq_io::save(&classifier(), &folder.path().join("m.nuq")).unwrap();
    let process = Process::start(folder.path(), &[]);
    let run = |count: usize| {
        std::thread::scope(|scope| {
            for seed in 0..CLIENTS {
                scope.spawn(move || send(process.address, count / CLIENTS, seed));
            }
        });
        memory(process.address)
    };
    // The first run is the warm-up. After it, threads, connections, samples of rows and the caches of the allocator have their full size.
    let before = run(count / 2);
    let after = run(count);
    if let (Some(before), Some(after)) = (before, after) {
        let growth = after.saturating_sub(before);
        assert!(growth <= GROWTH, "{count} requests: the memory grew from {before} to {after} bytes");
    }
    process.kill();
}
