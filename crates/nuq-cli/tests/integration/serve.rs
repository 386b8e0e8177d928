//! `nuq serve`: options, keys, a request, and a signal that ends the server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::common::{err, nuq, nuq_command, out, table};

const KEY: &str = "0123456789abcdef0123";

fn serve(arguments: &[&str], variables: &[(&str, &str)], folder: &Path) -> Output {
    let mut command = nuq_command();
    command
        .arg("serve")
        .args(arguments)
        .envs(variables.iter().copied())
        .current_dir(folder)
        .stdin(Stdio::null());
    command.output().unwrap()
}

#[test]
fn the_configuration_is_checked() {
    let (folder, _) = table(["a", "a", "a", "b", "b", "b"], &["--bandwidth", "1"]);
    let at = folder.path();
    let output = serve(&["--model", "m.nuq", "--check"], &[], at);
    assert!(output.status.success(), "{}", err(&output));
    assert!(out(&output).contains("model       m from m.nuq"), "{}", out(&output));
    let output = serve(&["--model", "m.nuq", "--address", "localhost:8080", "--check"], &[], at);
    assert!(out(&output).contains("address     http://localhost:8080"), "{}", err(&output));
    assert!(nuq(&["fit", "--method", "energy", "--out", "b.nuq"], at).status.success());
    assert!(out(&output).ends_with("the configuration is valid\n"));
    let keys =
        [("NUQ_READ_KEY", KEY), ("NUQ_WRITE_KEY", "abcdefabcdefabcdef"), ("NUQ_MODEL", "x=m.nuq,y=m.nuq")];
    let output = serve(&["--address", "0.0.0.0:8080", "--check"], &keys, at);
    assert!(output.status.success(), "{}", err(&output));
    assert!(
        out(&output).contains("a read key and a write key") && out(&output).contains("model       y from")
    );
    assert!(!(out(&output) + &err(&output)).contains("abcdef"), "keys are not printed");
    for (arguments, variables, code, text) in [
        (&["--check"][..], &[][..], 2, "--model"),
        (&["--model", "none.nuq", "--check"], &[], 3, "none.nuq"),
        (&["--model", "t.csv", "--check"], &[], 1, "t.csv is not a nuq model"),
        (&["--model", "a b=m.nuq", "--check"], &[], 2, "cannot be the name of a model"),
        (&["--model", "m.nuq", "--address", "0.0.0.0:80"], &[], 2, "--insecure"),
        (&["--model", "m.nuq", "--address", "localhost", "--check"], &[], 2, "the port is missing"),
        (&["--model", "b.nuq", "--check"], &[], 1, "b.nuq holds the baseline energy, and only classifiers"),
        (&["--model", "b.nuq"], &[], 1, "`nuq score --model b.nuq …`"),
        (&["--model", "m.nuq", "--max-rows", "0"], &[], 2, "--max-rows 0"),
        (&["--model", "m.nuq", "--request-timeout=-1"], &[], 2, "--request-timeout"),
        (
            &["--model", "m.nuq"],
            &[("NUQ_READ_KEY", "short-secret")],
            2,
            "the key of NUQ_READ_KEY is not valid",
        ),
        (&["--model", "m.nuq", "--read-key-file", "k"], &[("NUQ_READ_KEY", KEY)], 2, "given twice"),
        (&["--model", "m.nuq", "--read-key-file", "none"], &[], 3, "cannot read none"),
        (&["--model", "m.nuq", "--tls-certificate", "c"], &[], 2, "--tls-key"),
        (&["--model", "m.nuq", "--state", "s", "--ephemeral"], &[], 2, "contradict each other"),
        (&["--model", "cifar10=m.nuq", "--demo"], &[], 2, "the model of --demo has the name cifar10"),
        (&["--check"], &[("NUQ_DEMO", "false")], 2, "no model is given"),
    ] {
        let output = serve(arguments, variables, at);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains(text), "{arguments:?}: {}", err(&output));
        assert!(!err(&output).contains("short-secret"));
    }
}

#[test]
fn options_can_be_environment_variables() {
    let (folder, _) = table(["a", "a", "a", "b", "b", "b"], &["--bandwidth", "1"]);
    let at = folder.path();
    let variables = [
        ("NUQ_MODEL", "m.nuq"),
        ("NUQ_CHECK", "1"),
        ("NUQ_EPHEMERAL", "yes"),
        ("NUQ_INSECURE", "false"),
        ("NUQ_DEMO", "no"),
        ("NUQ_THREADS", "1"),
        ("NUQ_DEVICE", "cpu"),
        ("NUQ_MAX_ROWS", "7"),
        ("NUQ_JSON", "true"),
    ];
    let output = serve(&["--max-requests", "3"], &variables, at);
    assert!(output.status.success(), "{}", err(&output));
    let result: Value = serde_json::from_str(&out(&output)).unwrap();
    let configuration = result["configuration"].as_str().unwrap();
    for text in ["in memory: changes are lost", "7 rows", "3 requests"] {
        assert!(configuration.contains(text), "{configuration}");
    }
    // An option takes precedence over a variable. The error of an invalid variable contains its value.
    let output = serve(&["--max-rows", "8"], &variables, at);
    assert!(out(&output).contains("8 rows"), "{}", out(&output));
    for (variable, value) in [("NUQ_INSECURE", "perhaps"), ("NUQ_THREADS", "many"), ("NUQ_DEVICE", "abacus")]
    {
        let output = serve(&["--model", "m.nuq", "--check"], &[(variable, value), ("NUQ_JSON", "1")], at);
        let error: Value = serde_json::from_str(&err(&output)).unwrap();
        assert_eq!(error["exit_code"], 2);
        assert!(error["error"].as_str().unwrap().contains(value), "{error}");
    }
}

#[test]
fn a_signal_ends_the_server_without_an_error() {
    let (folder, _) = table(["a", "a", "a", "b", "b", "b"], &["--bandwidth", "1"]);
    let mut server = nuq_command();
    server.args(["serve", "--model", "m.nuq", "--address", "127.0.0.1:0", "--log-format", "json"]);
    let mut server =
        server.current_dir(folder.path()).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(server.stderr.take().unwrap())
        .lines()
        .map(|line| -> Value { serde_json::from_str(&line.unwrap()).unwrap() });
    let address = log.find_map(|entry| entry["address"].as_str().map(str::to_owned)).unwrap();
    let address = address.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let body = "[[1, 2]]";
    let length = body.len();
    write!(
        stream,
        "POST /v1/models/m/score HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200") && reply.contains("\"label\":"), "{reply}");
    let request = log.find(|entry| entry["message"] == "request").unwrap();
    assert_eq!((&request["path"], &request["status"]), (&"/v1/models/m/score".into(), &200.into()));
    assert_eq!(request["outcome"], "complete");
    // SAFETY: `kill` accesses no memory. The id belongs to the server until `wait` is called.
    assert_eq!(unsafe { libc::kill(server.id() as i32, libc::SIGTERM) }, 0);
    assert!(log.any(|entry| entry["message"] == "ended"));
    assert!(server.wait().unwrap().success());
}
