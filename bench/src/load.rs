//! A load generator for `nuq serve` and servers like it: clients that send one request after the other.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Several clients send the contents of a file as POST requests, for a number of seconds or until a number of requests is answered.
/// Prints the requests per second, and the mean, the median and the 99 % quantile of the latencies in milliseconds.
pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    let [address, path, clients, length, body, headers @ ..] = words else {
        return Err(
            "usage: nuq-bench load ADDRESS PATH CLIENTS SECONDS|REQUESTSx BODY_FILE [HEADER…]".to_owned()
        );
    };
    let clients: usize = clients.parse().map_err(|_| "CLIENTS is not a number")?;
    // The length is a time, such as 10, or a number of requests, such as 1000x.
    let (seconds, requests) = match length.strip_suffix('x') {
        Some(requests) => (f64::from(u32::MAX), requests.parse().map_err(|_| "REQUESTS is not a number")?),
        None => (length.parse().map_err(|_| "SECONDS is not a number")?, usize::MAX),
    };
    let left = AtomicUsize::new(requests);
    let is_left = || left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
    let body = std::fs::read(body).map_err(|error| format!("{body}: {error}"))?;
    let lines: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let head =
        format!("POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\n{lines}\r\n", body.len());
    let request = [head.as_bytes(), &body].concat();
    let start = Instant::now();
    let end = start + Duration::from_secs_f64(seconds);
    let client = || -> Result<Vec<f64>, String> {
        let mut times = Vec::new();
        let failed = |error: std::io::Error| format!("{address}: {error}");
        let stream = TcpStream::connect(address).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let mut reader = BufReader::new(stream);
        while Instant::now() < end && is_left() {
            let start = Instant::now();
            reader.get_mut().write_all(&request).map_err(failed)?;
            read_response(&mut reader)?;
            times.push(start.elapsed().as_secs_f64());
        }
        Ok(times)
    };
    let results: Vec<Result<Vec<f64>, String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a client panicked".to_owned())?).collect()
    });
    let mut times = Vec::new();
    for result in results {
        times.extend(result?);
    }
    if times.is_empty() {
        return Err(
            "no request was sent: CLIENTS, and SECONDS or REQUESTS, must be greater than 0".to_owned()
        );
    }
    let elapsed = start.elapsed().as_secs_f64();
    times.sort_by(f64::total_cmp);
    let quantile = |share: f64| 1e3 * times[((times.len() - 1) as f64 * share) as usize];
    let mean = 1e3 * times.iter().sum::<f64>() / times.len() as f64;
    println!("{:.1} {mean:.3} {:.3} {:.3}", times.len() as f64 / elapsed, quantile(0.5), quantile(0.99));
    Ok(())
}

/// Reads a response with a content length. A status other than 200 is an error, and so is a connection that ends within the response.
fn read_response(reader: &mut impl BufRead) -> Result<(), String> {
    let mut length = 0;
    let mut line = String::new();
    for number in 0.. {
        line.clear();
        if reader.read_line(&mut line).map_err(|error| error.to_string())? == 0 {
            return Err("the server closed the connection before the end of the headers".to_owned());
        }
        if number == 0 && line.split(' ').nth(1) != Some("200") {
            return Err(format!("the response begins with {line:?}"));
        }
        if line == "\r\n" {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length =
                value.trim().parse().map_err(|_| "the length of a response is not a number".to_owned())?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).map_err(|error| error.to_string())
}
