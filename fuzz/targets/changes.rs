//! Bodies of requests that change a served model. The first byte of the input selects the route. A change that is accepted has the number of
//! rows that its answer states, and is undone; the model must then have the same description as before and give the same scores. After many
//! changes, the server is started again with the stored changes, and must answer as before.

#![no_main]

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Mutex;

use nuq_fuzz::client::request;
use nuq_fuzz::mutation::{Structure, TextPosition};
use nuq_fuzz::{allocation, file, small_models};
use nuq_server::{Config, ModelSource, Server};
use serde_json::Value;

/// Statuses of success, of invalid requests, of changes that the state of the model does not allow, and of requests that are too large.
const EXPECTED: [u16; 6] = [200, 400, 409, 413, 415, 422];

const ROUTES: [&str; 5] = ["rows", "rows/relabel", "rows/remove", "thresholds", "suggest"];

/// The server is started again after this number of changes, because its journal grows with each change.
const MAX_CHANGES: u64 = 2000;

/// A server, and its answers before the first change.
struct Served {
    server: Server,
    answers: Answers,
}

static SERVED: Mutex<Option<Served>> = Mutex::new(None);

const QUERIES: &[u8] = b"[[0,0],[0.2,1],[4,3],[1e6,-1e6]]";

impl Served {
    /// Starts a server without changes.
    fn start() -> Self {
        let state = state();
        if state.exists() {
            fs::remove_dir_all(&state).expect("the folder can be removed");
        }
        let server = server();
        Self { answers: Answers::of(server.address()), server }
    }

    /// Stops the server, starts it with the stored changes, and compares the answers.
    fn start_again(self) {
        drop(self.server);
        let server = server();
        assert_eq!(Answers::of(server.address()), self.answers, "the answers differ after a start");
    }
}

/// The folder in which the server stores changes.
fn state() -> PathBuf {
    file::path("state")
}

fn server() -> Server {
    let path = file::write("served.nuq", &small_models::small_model());
    let models = vec![ModelSource { name: "m".to_owned(), path }];
    let address = "127.0.0.1:0".parse().expect("it is an address");
    let config = Config { models, address, state: Some(state()), ..Config::default() };
    Server::start(config).expect("a server on a free port of the loopback address starts")
}

/// What the server answers about the model.
#[derive(Debug, PartialEq)]
struct Answers {
    /// The description of the model without its version, which grows with each change.
    description: Value,
    /// The scores of [`QUERIES`].
    scores: Value,
}

impl Answers {
    fn of(address: SocketAddr) -> Self {
        let (status, scores) = post(address, "score", QUERIES);
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&scores));
        Self { description: description(address), scores: parsed(&scores)["rows"].clone() }
    }
}

fn description(address: SocketAddr) -> Value {
    let (status, described) = request(address, "GET /v1/models/m HTTP/1.1\r\n", b"");
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&described));
    let mut description = parsed(&described);
    let fields = description.as_object_mut().expect("a description is an object");
    assert!(fields.remove("version").is_some(), "the description has no version");
    description
}

fn post(address: SocketAddr, route: &str, body: &[u8]) -> (u16, Vec<u8>) {
    request(address, &format!("POST /v1/models/m/{route} HTTP/1.1\r\n"), body)
}

fn parsed(body: &[u8]) -> Value {
    serde_json::from_slice(body).expect("an answer is JSON")
}

/// The number of training rows after a change, given the number before it.
fn rows_after(route: &str, change: &Value, before: u64) -> u64 {
    let ids = || change["ids"].as_array().expect("the answer has ids").len() as u64;
    match route {
        "rows" => before + ids(),
        "rows/remove" => before - ids(),
        _ => before,
    }
}

libfuzzer_sys::fuzz_target!(init: nuq_fuzz::caught_panics::allow(), |bytes: &[u8]| {
    let [route, body @ ..] = bytes else { return };
    let route = ROUTES[usize::from(*route) % ROUTES.len()];
    let mut slot = SERVED.lock().expect("no other thread uses it");
    let served = slot.get_or_insert_with(Served::start);
    let address = served.server.address();
    allocation::limit_for(bytes.len());
    let (status, answer) = post(address, route, body);
    assert!(EXPECTED.contains(&status), "status {status}: {}", String::from_utf8_lossy(&answer));
    let answer = parsed(&answer);
    let Some(change) = answer.get("change").and_then(Value::as_u64) else {
        assert!(status == 200 || answer.get("error").is_some(), "{answer}");
        return;
    };
    assert_eq!(status, 200, "{answer}");
    let before = served.answers.description["rows"].as_u64().expect("a description has the number of rows");
    assert_eq!(description(address)["rows"], rows_after(route, &answer, before), "{answer}");
    let (status, undone) = post(address, &format!("changes/{change}/undo"), b"");
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&undone));
    assert_eq!(Answers::of(address), served.answers, "an undone change has changed the model");
    if change > MAX_CHANGES {
        slot.take().expect("the server is running").start_again();
    }
});

nuq_fuzz::mutations!(Structure::Json(TextPosition::After(1)), "changes.dict");
