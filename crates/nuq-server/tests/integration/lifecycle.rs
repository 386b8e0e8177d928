//! Replacement of models, and shutdown of the server.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nuq::{Model, NuqClassifier};
use serde_json::json;

use crate::common::{Reply, Service, embeddings, json_rows, rows};

const SCORE: &str = "/v1/models/animals/score";

fn replacement() -> Model<'static> {
    let labels: Vec<&str> = (0..60).map(|i| ["one", "two"][i % 2]).collect();
    Model::Classifier(
        NuqClassifier::params().n_neighbors(3).fit(&embeddings(&rows(60, 30)), &labels).unwrap(),
    )
}

#[test]
fn a_model_is_replaced_while_requests_are_answered() {
    let service = Service::start();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (service, is_done) = (&service, &is_done);
            scope.spawn(move || {
                let body = json_rows(&rows(20, seed));
                while !is_done.load(Ordering::Relaxed) {
                    let reply = service.post(SCORE, &body);
                    assert_eq!(reply.status, 200, "{}", reply.text());
                    let reply = reply.json();
                    let labels =
                        reply["rows"].as_array().unwrap().iter().map(|row| row["label"].as_str().unwrap());
                    let labels: Vec<&str> = labels.collect();
                    // The same model answers all rows of a request.
                    let is_new = labels.iter().all(|label| ["one", "two"].contains(label));
                    let is_old = labels.iter().all(|label| !["one", "two"].contains(label));
                    assert!(is_new || is_old, "{labels:?}");
                }
            });
        }
        nuq_io::save(&replacement(), &service.path("animals.nuq")).unwrap();
        let reload = service.post("/v1/models/animals/reload", "");
        let scores = service.post(SCORE, json_rows(&rows(1, 1)));
        // The clients are ended before the assertions, because the scope waits for the clients also if an assertion fails.
        is_done.store(true, Ordering::Relaxed);
        assert_eq!((reload.status, reload.json()["version"].clone()), (200, json!(2)), "{}", reload.text());
        let scores = scores.json();
        assert_eq!(scores["version"], 2);
        assert!(["one", "two"].contains(&scores["rows"][0]["label"].as_str().unwrap()));
    });
}

#[test]
fn a_damaged_file_does_not_replace_a_model() {
    let service = Service::start();
    std::fs::remove_file(service.path("animals.nuq")).unwrap();
    std::fs::write(service.path("animals.nuq"), b"not a model").unwrap();
    let reply = service.post("/v1/models/animals/reload", "");
    assert_eq!((reply.status, reply.error().0.as_str()), (409, "cannot_reload"));
    assert!(reply.error().1.contains("animals.nuq"), "{}", reply.text());
    let reply = service.post(SCORE, json_rows(&rows(1, 1)));
    assert_eq!((reply.status, reply.json()["version"].clone()), (200, json!(1)));
}

#[test]
fn a_model_file_that_is_shortened_or_overwritten_does_not_affect_the_server() {
    let service = Service::start();
    let body = json_rows(&rows(20, 1));
    let expected = service.post(SCORE, &body).json();
    let path = service.path("animals.nuq");
    let contents = std::fs::read(&path).unwrap();
    for len in [contents.len() - 1, contents.len() / 2, 0] {
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(len as u64).unwrap();
        assert_eq!(service.post(SCORE, &body).json(), expected, "{len} of {} bytes", contents.len());
        let reply = service.post("/v1/models/animals/reload", "");
        assert_eq!((reply.status, reply.error().0.as_str()), (409, "cannot_reload"));
    }
    std::fs::write(&path, vec![0; contents.len()]).unwrap();
    assert_eq!(service.post(SCORE, &body).json(), expected);
    std::fs::write(&path, contents).unwrap();
    assert_eq!(service.post("/v1/models/animals/reload", "").status, 200);
}

#[test]
fn running_requests_are_completed_before_the_server_ends() {
    let service = Service::start();
    let body = json_rows(&rows(5, 1));
    let mut stream = service.connect();
    let (start, rest) = body.split_at(10);
    let head = format!(
        "POST {SCORE} HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\n\r\n",
        service.address,
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(start.as_bytes()).unwrap();
    // Wait until the server counts the request as running.
    while !service.get("/metrics").text().contains("nuq_requests_running 1") {}
    let address = service.address;
    let end = std::thread::spawn(move || service.stop());
    // Wait until the shutdown has begun: the server then accepts no connections.
    while std::net::TcpStream::connect(address).is_ok() {
        std::thread::sleep(Duration::from_millis(5));
    }
    stream.write_all(rest.as_bytes()).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    assert_eq!(Reply::parse(&reply).status, 200);
    end.join().unwrap();
}

#[test]
fn shutdown_waits_for_requests_at_most_for_the_drain_timeout() {
    let hour = Duration::from_secs(3600);
    let service = Service::with(|config| {
        config.drain_timeout = Duration::from_millis(200);
        (config.limits.request_timeout, config.limits.client_timeout) = (hour, hour);
    });
    let mut stream = service.connect();
    write!(stream, "POST {SCORE} HTTP/1.1\r\nhost: {}\r\ncontent-length: 100\r\n\r\n[[", service.address)
        .unwrap();
    while !service.get("/metrics").text().contains("nuq_requests_running 1") {}
    // Without the drain timeout, this call would return after an hour.
    service.stop();
}
