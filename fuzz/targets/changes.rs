//! Bodies of requests that change a served model. The first byte of the input selects the route. A change that is accepted is undone, and
//! the model must then have as many rows as before and give the same scores.

#![no_main]

use std::net::SocketAddr;
use std::sync::Mutex;

use nuq_fuzz::client::request;
use nuq_fuzz::mutation::{Structure, TextPosition};
use nuq_fuzz::{allocation, file, small_models};
use nuq_server::{Config, ModelSource, Server};
use serde_json::Value;

/// Statuses of success, of invalid requests, of changes that the state of the model does not allow, and of requests that are too large.
const EXPECTED: [u16; 6] = [200, 400, 409, 413, 415, 422];

const ROUTES: [&str; 5] = ["rows", "rows/relabel", "rows/remove", "thresholds", "suggest"];

/// The server is started again after this number of changes, because it keeps the list of all changes in memory.
const MAX_CHANGES: u64 = 2000;

/// A server, the number of its training rows, and its scores of [`QUERIES`], before the first change.
struct Served {
    server: Server,
    expected: (Value, Value),
}

static SERVED: Mutex<Option<Served>> = Mutex::new(None);

const QUERIES: &[u8] = b"[[0,0],[0.2,1],[4,3],[1e6,-1e6]]";

impl Served {
    fn start() -> Self {
        let path = file::write("served.nuq", &small_models::small_model());
        let models = vec![ModelSource { name: "m".to_owned(), path }];
        let address = "127.0.0.1:0".parse().expect("it is an address");
        let config = Config { models, address, ephemeral: true, ..Config::default() };
        let server = Server::start(config).expect("a server on a free port of the loopback address starts");
        Self { expected: state(server.address()), server }
    }
}

/// The number of training rows, and the scores of [`QUERIES`].
fn state(address: SocketAddr) -> (Value, Value) {
    let (status, described) = request(address, "GET /v1/models/m HTTP/1.1\r\n", b"");
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&described));
    let rows = parsed(&described)["rows"].clone();
    assert!(rows.is_number(), "the description has no number of rows");
    let (status, scores) = post(address, "score", QUERIES);
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&scores));
    // The version of the model, which is also in the answer, grows with each change.
    (rows, parsed(&scores)["rows"].clone())
}

fn post(address: SocketAddr, route: &str, body: &[u8]) -> (u16, Vec<u8>) {
    request(address, &format!("POST /v1/models/m/{route} HTTP/1.1\r\n"), body)
}

fn parsed(body: &[u8]) -> Value {
    serde_json::from_slice(body).expect("an answer is JSON")
}

libfuzzer_sys::fuzz_target!(init: nuq_fuzz::caught_panics::allow(), |bytes: &[u8]| {
    let [route, body @ ..] = bytes else { return };
    let mut slot = SERVED.lock().expect("no other thread uses it");
    let served = slot.get_or_insert_with(Served::start);
    let address = served.server.address();
    allocation::limit_for(bytes.len());
    let (status, answer) = post(address, ROUTES[usize::from(*route) % ROUTES.len()], body);
    assert!(EXPECTED.contains(&status), "status {status}: {}", String::from_utf8_lossy(&answer));
    let answer = parsed(&answer);
    let Some(change) = answer.get("change").and_then(Value::as_u64) else {
        assert!(status == 200 || answer.get("error").is_some(), "{answer}");
        return;
    };
    assert_eq!(status, 200, "{answer}");
    let (status, undone) = post(address, &format!("changes/{change}/undo"), b"");
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&undone));
    assert_eq!(state(address), served.expected, "an undone change has changed the model");
    if change > MAX_CHANGES {
        *slot = None;
    }
});

nuq_fuzz::mutations!(Structure::Json(TextPosition::After(1)), "changes.dict");
