//! A client of the server over a loopback connection.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

/// Sends a request and returns the status and the body of the response. The connection is kept for the next request.
pub fn request(address: SocketAddr, head: &str, body: &[u8]) -> (u16, Vec<u8>) {
    static CONNECTION: Mutex<Option<(SocketAddr, TcpStream)>> = Mutex::new(None);
    let mut connection = CONNECTION.lock().expect("no target panics while it holds the connection");
    let kept = connection.take().filter(|(kept, _)| *kept == address).map(|(_, stream)| stream);
    let mut stream = kept.unwrap_or_else(|| {
        let stream = TcpStream::connect(address).expect("the server accepts connections");
        stream.set_nodelay(true).expect("the option is supported");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("the option is supported");
        stream
    });
    let message =
        [format!("{head}Host: localhost\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), body]
            .concat();
    stream.write_all(&message).expect("the server reads the request");
    let (response, is_open) = response(&mut stream);
    *connection = is_open.then_some((address, stream));
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
