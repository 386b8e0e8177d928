//! Keys of `nuq serve` occur in no output, no response and no file in the folder of `--state`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use crate::common::{err, nuq_command, out, table};

const READ_KEY: &str = "read-secret-0a1b2c3d4e5f";
const WRITE_KEY: &str = "write-secret-5f4e3d2c1b0a";
/// A key that the server does not know, for example the key of another service that a client sends by mistake.
const WRONG_KEY: &str = "wrong-secret-9876543210ff";

/// Fails if a text contains the last part of a key. This part is different for each key.
#[track_caller]
fn assert_no_key(text: &[u8], place: &str) {
    let text = String::from_utf8_lossy(text);
    for part in ["0a1b2c3d4e5f", "5f4e3d2c1b0a", "9876543210ff"] {
        assert!(!text.contains(part), "{place} contains a key: {text}");
    }
}

fn command(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = nuq_command();
    command.arg("serve").args(arguments).envs(variables.iter().copied()).current_dir(folder);
    command.stdin(Stdio::null());
    command
}

/// A running server. All of its output is collected.
struct Server {
    child: Child,
    address: String,
    output: mpsc::Receiver<Vec<u8>>,
}

impl Server {
    fn start(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let all =
            [&["--model", "m.nuq", "--address", "127.0.0.1:0", "--state", "state"][..], arguments].concat();
        let mut child = command(folder, &all, variables);
        let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (send, output) = mpsc::channel();
        let mut stdout = child.stdout.take().unwrap();
        let to = send.clone();
        thread::spawn(move || {
            let mut bytes = vec![];
            stdout.read_to_end(&mut bytes).unwrap();
            let _ = to.send(bytes);
        });
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut text = String::new();
        let address = loop {
            let start = text.len();
            assert_ne!(stderr.read_line(&mut text).unwrap(), 0, "the server did not start: {text}");
            if let Some((_, rest)) = text[start..].split_once("http://") {
                break rest.split(['"', ' ', '\n']).next().unwrap().to_owned();
            }
        };
        thread::spawn(move || {
            let mut bytes = text.into_bytes();
            stderr.read_to_end(&mut bytes).unwrap();
            let _ = send.send(bytes);
        });
        Self { child, address, output }
    }

    /// Sends a request and returns the whole response.
    fn request(&self, head: &str, headers: &[String], body: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let mut text = format!("{head} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", self.address);
        headers.iter().for_each(|header| text += &format!("{header}\r\n"));
        text += &format!("content-length: {}\r\n\r\n{body}", body.len());
        // The server may answer before everything is sent.
        let _ = stream.write_all(text.as_bytes());
        let mut response = vec![];
        let _ = stream.read_to_end(&mut response);
        response
    }

    /// Ends the server and returns everything that it wrote.
    fn end(mut self) -> Vec<u8> {
        // SAFETY: the process exists until it is waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) }, 0);
        assert!(self.child.wait().unwrap().success());
        self.output.iter().flatten().collect()
    }
}

/// Sends valid, invalid and malformed requests with keys in all places where clients put them by mistake.
fn send_keys(server: &Server) {
    let bearer = |key: &str| vec![format!("authorization: Bearer {key}")];
    let rows = "{\"rows\": [[1, 2]]}";
    let status = |response: &[u8]| String::from_utf8_lossy(&response[..12.min(response.len())]).into_owned();
    let score = "POST /v1/models/m/score";
    let accepted = server.request(score, &bearer(READ_KEY), rows);
    assert_eq!(status(&accepted), "HTTP/1.1 200", "{}", String::from_utf8_lossy(&accepted));
    let change = "{\"rows\": [[1, 2]], \"labels\": [\"a\"]}";
    let changed = server.request("POST /v1/models/m/rows", &bearer(WRITE_KEY), change);
    assert_eq!(status(&changed), "HTTP/1.1 200", "{}", String::from_utf8_lossy(&changed));
    let mut responses = vec![accepted, changed];
    for key in [READ_KEY, WRITE_KEY, WRONG_KEY] {
        let mut send = |head: &str, headers: &[String], body: &str| {
            responses.push(server.request(head, headers, body));
        };
        send(score, &bearer(key), "[[1, 2");
        send(score, &bearer(key), "[[1]]");
        send("POST /v1/models/m/rows", &bearer(key), "{}");
        send("POST /v1/models/none/score", &bearer(key), rows);
        send("POST /v2/models/m/infer", &bearer(key), "{}");
        send("DELETE /v1/models/m", &bearer(key), "");
        send("GET /metrics", &bearer(key), "");
        send("GET /openapi.json", &bearer(key), "");
        send(score, &[format!("authorization: {key}")], rows);
        send(score, &[format!("authorization: Basic {key}")], rows);
        send(score, &[format!("authorization: Bearer {key} {key}")], rows);
        send(score, &[format!("x-api-key: {key}")], rows);
        send(score, &[format!("cookie: key={key}")], rows);
        send(score, &[format!("authorization: Bearer {key}\u{1}")], rows);
        for query in [format!("key={key}"), format!("authorization=Bearer%20{key}")] {
            send(&format!("{score}?{query}"), &[], rows);
            send(&format!("{score}?{query}"), &bearer(READ_KEY), rows);
            send(&format!("GET /v1/models?{query}"), &bearer(READ_KEY), "");
            send(&format!("GET /v1/nothing?{query}"), &bearer(key), "");
            send(&format!("GET /v2/models/m?{query}"), &bearer(READ_KEY), "");
        }
        // The error of an unknown parameter contains the name of the parameter. A key that is sent as a name is therefore in the response
        // to its sender, which is not checked here. The key must not be in the log.
        server.request(&format!("{score}?{key}"), &bearer(READ_KEY), rows);
    }
    for response in &responses {
        assert_no_key(response, "a response");
    }
    assert!(responses.iter().any(|response| status(response) == "HTTP/1.1 401"));
    assert!(responses.iter().any(|response| status(response) == "HTTP/1.1 403"));
}

fn assert_no_key_in_files(folder: &Path) {
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        assert_no_key(&fs::read(&path).unwrap(), &path.display().to_string());
        count += 1;
    }
    assert!(count > 1, "the state has files");
}

#[test]
fn keys_are_in_no_output_response_or_file() {
    let (folder, _) = table(["a", "a", "a", "b", "b", "b"], &["--bandwidth", "1"]);
    let at = folder.path();
    fs::write(at.join("read.key"), format!("{READ_KEY}\n")).unwrap();
    fs::write(at.join("write.key"), format!("{WRITE_KEY}\n")).unwrap();
    let files: &[&str] = &["--read-key-file", "read.key", "--write-key-file", "write.key"];
    let variables: &[(&str, &str)] = &[("NUQ_READ_KEY", READ_KEY), ("NUQ_WRITE_KEY", WRITE_KEY)];
    for (arguments, variables, format) in [(files, &[][..], "text"), (&[][..], variables, "json")] {
        let log = ["--log-level", "debug", "--log-format", format];
        let server = Server::start(at, &[arguments, &log].concat(), variables);
        send_keys(&server);
        assert_no_key_in_files(&at.join("state"));
        let output = server.end();
        let text = String::from_utf8_lossy(&output);
        assert!(text.contains("/v1/models/m/score") && text.contains("401"), "requests are logged: {text}");
        assert_no_key(&output, "the output of the server");
        assert_no_key_in_files(&at.join("state"));
        for more in [&["--check"][..], &["--check", "--json"], &["--help"]] {
            let all = [&["--model", "m.nuq"][..], arguments, more].concat();
            let output = command(at, &all, variables).output().unwrap();
            assert!(output.status.success(), "{}", err(&output));
            assert_no_key((out(&output) + &err(&output)).as_bytes(), "the output of --check");
        }
    }
}

#[test]
fn keys_are_not_in_errors_of_the_configuration() {
    let (folder, _) = table(["a", "a", "a", "b", "b", "b"], &["--bandwidth", "1"]);
    let at = folder.path();
    fs::write(at.join("read.key"), READ_KEY).unwrap();
    fs::write(at.join("two.key"), format!("{READ_KEY} {WRITE_KEY}")).unwrap();
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{WRITE_KEY}\n-----END PRIVATE KEY-----\n");
    fs::write(at.join("key.pem"), pem).unwrap();
    let model = ["--model", "m.nuq"];
    for (arguments, variables) in [
        // Equal keys, a key with a space, a key given twice, a short key, certificates that are missing or invalid, and an invalid number.
        (&["--read-key-file", "read.key"][..], &[("NUQ_WRITE_KEY", READ_KEY)][..]),
        (&["--read-key-file", "two.key"], &[]),
        (&["--read-key-file", "read.key"], &[("NUQ_READ_KEY", READ_KEY)]),
        (&[], &[("NUQ_READ_KEY", "0a1b2c3d4e5f")]),
        (&["--tls-certificate", "none", "--tls-key", "none"], &[("NUQ_READ_KEY", READ_KEY)]),
        (&["--tls-certificate", "key.pem", "--tls-key", "key.pem"], &[("NUQ_READ_KEY", READ_KEY)]),
        (&["--max-rows", "0"], &[("NUQ_READ_KEY", READ_KEY), ("NUQ_WRITE_KEY", WRITE_KEY)]),
    ] {
        for json in [&[][..], &["--json"]] {
            let output = command(at, &[&model[..], arguments, json].concat(), variables).output().unwrap();
            assert!(!output.status.success(), "{arguments:?}");
            assert_no_key((out(&output) + &err(&output)).as_bytes(), &format!("the error of {arguments:?}"));
        }
    }
}
