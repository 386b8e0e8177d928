//! A server with two small models, and a minimal HTTP client.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use nuq::calibrate::{Measure, Target, calibrate};
use nuq::{Embeddings, FittedModel, Model, NuqClassifier, NuqRegressor};
use nuq_server::{Config, Error, ModelSource, Server, StateError};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const COLUMNS: usize = 5;

/// A number between 0 and 1 that depends on `i` only.
fn noise(i: usize) -> f32 {
    let mut x = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((x >> 40) as f32) / (1u64 << 24) as f32
}

/// Rows around three centers; the class of row `i` is `i % 3`.
pub(crate) fn rows(count: usize, seed: usize) -> Vec<f32> {
    let value = |i: usize, j: usize| {
        let center = if j % 3 == i % 3 { 2.0 } else { 0.0 };
        center + 1.5 * noise(seed * 1_000_003 + i * COLUMNS + j)
    };
    (0..count).flat_map(|i| (0..COLUMNS).map(move |j| value(i, j))).collect()
}

pub(crate) fn embeddings(values: &[f32]) -> Embeddings<'static> {
    Embeddings::new(values.to_vec(), COLUMNS).unwrap()
}

/// The label of row `i`. One of the labels has a comma and quotation marks, which must be escaped in csv and JSON.
fn class(i: usize) -> &'static str {
    ["cat", "dog, \"big\"", "bird"][i % 3]
}

pub(crate) fn classifier() -> Model<'static> {
    let labels: Vec<&str> = (0..300).map(class).collect();
    let mut model = NuqClassifier::params().n_neighbors(7).fit(&embeddings(&rows(300, 1)), &labels).unwrap();
    let held_out = model.predict(&embeddings(&rows(99, 2))).unwrap();
    let scores: Vec<f64> = held_out.iter().map(|prediction| Measure::Total.of(prediction)).collect();
    let threshold = calibrate(Measure::Total, &scores, None, Target::Coverage(0.9)).unwrap();
    model.rules_mut().set_threshold("main", threshold, &scores).unwrap();
    Model::Classifier(model)
}

fn regressor() -> Model<'static> {
    let values = rows(200, 3);
    let targets: Vec<f64> = values.chunks(COLUMNS).map(|row| f64::from(row.iter().sum::<f32>())).collect();
    Model::Regressor(NuqRegressor::params().n_neighbors(5).fit(&embeddings(&values), &targets).unwrap())
}

/// Two models in a folder, and a server for these models.
pub(crate) struct Service {
    pub(crate) folder: TempDir,
    config: Config,
    server: Option<Server>,
    pub(crate) address: SocketAddr,
}

impl Service {
    pub(crate) fn start() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        nuq_io::save(&classifier(), &path("animals.nuq")).unwrap();
        nuq_io::save(&regressor(), &path("sums.nuq")).unwrap();
        let model = |name: &str| ModelSource { name: name.to_owned(), path: path(&format!("{name}.nuq")) };
        let mut config = Config {
            models: vec![model("animals"), model("sums")],
            address: SocketAddr::from(([127, 0, 0, 1], 0)).into(),
            drain_timeout: Duration::from_secs(20),
            ..Config::default()
        };
        change(&mut config);
        let server = Server::start(config.clone()).unwrap();
        let address = server.address();
        Self { folder, config, server: Some(server), address }
    }

    /// Stops the server and starts it again with the same options, at another port.
    pub(crate) fn restart(&mut self) {
        self.server.take().unwrap().stop();
        // The threads that compute batches end shortly after the server. Until then they use the state folder.
        let mut attempts = 0;
        let server = loop {
            attempts += 1;
            match Server::start(self.config.clone()) {
                Err(Error::State(StateError::InUse { .. })) if attempts < 10_000 => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                started => break started.unwrap(),
            }
        };
        self.address = server.address();
        self.server = Some(server);
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The model in the file `animals.nuq`, opened by the library.
    pub(crate) fn classifier(&self) -> NuqClassifier<'static> {
        match nuq_io::open(&self.path("animals.nuq")).unwrap().model {
            Model::Classifier(model) => model,
            Model::Regressor(_) => unreachable!(),
        }
    }

    pub(crate) fn stop(mut self) {
        self.server.take().unwrap().stop();
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.request("GET", path, &[], b"")
    }

    pub(crate) fn post(&self, path: &str, body: impl AsRef<[u8]>) -> Reply {
        self.request("POST", path, &[], body.as_ref())
    }

    pub(crate) fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head += &format!("host: {}\r\n", self.address);
        }
        if method != "GET" && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length")) {
            head += &format!("content-length: {}\r\n", body.len());
        }
        headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        head += "\r\n";
        Reply::parse(&self.raw(&[head.as_bytes(), body].concat()))
    }

    /// Sends bytes and reads until the server closes the connection.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        // The server may answer and close before everything is sent.
        let _ = stream.write_all(bytes);
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply);
        reply
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }
}

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether the body is complete: it has the declared length, or its last chunk has arrived.
    pub(crate) is_complete: bool,
}

impl Reply {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no response: {:?}", String::from_utf8_lossy(bytes)));
        let head = str::from_utf8(&bytes[..end]).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_ascii_lowercase(), value.to_owned())
        };
        let headers: Vec<(String, String)> = lines.map(header).collect();
        let mut reply = Self { status, headers, body: bytes[end + 4..].to_vec(), is_complete: true };
        if reply.header("transfer-encoding") == Some("chunked") {
            reply.join_chunks();
        } else if let Some(length) = reply.header("content-length").map(|length| length.parse::<usize>()) {
            // The response to HEAD declares the length of a body that it does not have.
            reply.is_complete = reply.body.is_empty() || length == Ok(reply.body.len());
        }
        reply
    }

    fn join_chunks(&mut self) {
        let (mut rest, mut body) = (&self.body[..], Vec::new());
        self.is_complete = false;
        while let Some(end) = rest.windows(2).position(|window| window == b"\r\n") {
            let size = usize::from_str_radix(str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
            if size == 0 {
                self.is_complete = true;
                break;
            }
            let Some(chunk) = rest.get(end + 2..end + 2 + size) else { break };
            body.extend_from_slice(chunk);
            rest = rest.get(end + 4 + size..).unwrap_or_default();
        }
        self.body = body;
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.text()))
    }

    /// The code and the message of an error.
    #[track_caller]
    pub(crate) fn error(&self) -> (String, String) {
        let json = self.json();
        let field = |name: &str| json["error"][name].as_str().unwrap_or_else(|| panic!("{json}")).to_owned();
        (field("code"), field("message"))
    }

    /// The message of an error of the Open Inference Protocol.
    #[track_caller]
    pub(crate) fn protocol_error(&self) -> String {
        let json = self.json();
        json["error"].as_str().unwrap_or_else(|| panic!("{json}")).to_owned()
    }
}

/// Rows as JSON.
pub(crate) fn json_rows(values: &[f32]) -> String {
    let rows: Vec<&[f32]> = values.chunks(COLUMNS).collect();
    serde_json::json!({ "rows": rows }).to_string()
}

/// An npy array of 32-bit numbers.
pub(crate) fn npy(values: &[f32], shape: &str) -> Vec<u8> {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\0".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}
