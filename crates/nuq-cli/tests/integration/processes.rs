//! Unwritable standard error and standard output, closed pipes, concurrent processes, and control characters in data.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::common::{err, example, fitted, nuq, nuq_command, out, table};

fn spawn(arguments: &[&str], folder: &Path, stderr: Stdio) -> Child {
    let mut command = nuq_command();
    command.args(arguments).current_dir(folder).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn messages_that_cannot_be_printed_do_not_stop_the_command() {
    let (folder, _) = table(["a", "a", "a", "b", "b", "b"], &["--bandwidth", "1"]);
    let full = || Stdio::from(OpenOptions::new().write(true).open("/dev/full").unwrap());
    let fit = ["fit", "--embeddings", "t.csv", "--labels", "t.csv:class", "--out", "n.nuq", "--k", "100"];
    let fitted = spawn(&fit, folder.path(), full()).wait_with_output().unwrap();
    assert_eq!(fitted.status.code(), Some(0));
    assert!(out(&fitted).contains("6 × 2, 2 classes"));
    assert!(nuq(&["inspect", "n.nuq", "--verify"], folder.path()).status.success());
    let score = [
        "score",
        "--model",
        "n.nuq",
        "--embeddings",
        "t.csv:-class",
        "--out",
        "s.csv",
        "--progress",
        "plain",
    ];
    assert_eq!(spawn(&score, folder.path(), full()).wait().unwrap().code(), Some(0));
    assert!(folder.path().join("s.csv").exists());
    // The exit code reports errors whose message is lost.
    assert_eq!(spawn(&["inspect", "none.nuq"], folder.path(), full()).wait().unwrap().code(), Some(3));
    assert_eq!(spawn(&["inspct"], folder.path(), full()).wait().unwrap().code(), Some(2));
    // A result that cannot be written to standard output is an error.
    let mut help = nuq_command();
    let help = help.arg("--help").stdout(full()).output().unwrap();
    assert_eq!(help.status.code(), Some(3));
    assert!(err(&help).starts_with("nuq: cannot write standard output: "), "{}", err(&help));
}

#[cfg(unix)]
#[test]
fn a_pipe_that_is_closed_early_ends_the_command_quietly() {
    use std::net::Shutdown;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    let (folder, _) = fitted(&["--quiet"]);
    let rows = example("svhn.npz:embeddings");
    let score =
        ["score", "--model", "model.nuq", "--embeddings", &rows, "--out", "-", "--output-neighbors", "20"];
    let mut child = spawn(&score, folder.path(), Stdio::piped());
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert!(line.starts_with("row,label,"), "{line}");
    drop(reader);
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(141), ""));
    for arguments in [&["inspect", "model.nuq"][..], &["--help"], &["completions", "bash"]] {
        // The reader is closed before the command starts: a short output would fit into an open pipe and be written without an
        // error. A socket replaces the pipe: a process that another test starts at this moment may inherit the reader and keep
        // it open, but it cannot undo the shutdown of a socket.
        let (reader, writer) = UnixStream::pair().unwrap();
        reader.shutdown(Shutdown::Both).unwrap();
        let mut command = nuq_command();
        command
            .args(arguments)
            .current_dir(folder.path())
            .stdout(OwnedFd::from(writer))
            .stderr(Stdio::piped());
        let output = command.spawn().unwrap().wait_with_output().unwrap();
        assert_eq!((output.status.code(), err(&output)), (Some(141), String::new()), "{arguments:?}");
    }
}

#[test]
fn thresholds_of_concurrent_processes_are_all_stored() {
    let (folder, _) = fitted(&["--quiet"]);
    let rows = example("svhn.npz:embeddings");
    let names = ["first", "second", "third", "fourth"];
    let calibrate = |name: &&str| {
        let arguments =
            ["calibrate", "--model", "model.nuq", "--embeddings", &rows, "--target", "coverage=0.9"];
        spawn(&[&arguments[..], &["--name", name]].concat(), folder.path(), Stdio::piped())
    };
    let children: Vec<Child> = names.iter().map(calibrate).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", err(&output));
    }
    let inspected: Value =
        serde_json::from_str(&out(&nuq(&["inspect", "model.nuq", "--json", "--verify"], folder.path())))
            .unwrap();
    let mut stored: Vec<&str> =
        inspected["thresholds"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    stored.sort_unstable();
    assert_eq!(stored, ["first", "fourth", "second", "third"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no other file is left");
}

#[test]
fn an_output_that_is_the_model_itself_is_locked() {
    let (folder, _) = fitted(&["--quiet"]);
    let lock = nuq_io::ModelLock::acquire(&folder.path().join("model.nuq"), || {}).unwrap();
    let rows = example("svhn.npz:embeddings");
    let arguments = ["--model", "model.nuq", "--out", "./model.nuq", "--embeddings", &rows];
    let calibrate = [&["calibrate", "--target", "coverage=0.9"][..], &arguments].concat();
    let mut child = spawn(&calibrate, folder.path(), Stdio::piped());
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "waiting for another process that changes model.nuq\n");
    drop(lock);
    assert!(child.wait().unwrap().success());
}

#[test]
fn control_characters_of_data_are_escaped() {
    let red = "\u{1b}[31mcat\u{7}";
    let (folder, _) = table([red, red, red, "dog", "dog", red], &["--bandwidth", "1"]);
    let name = "n\u{1b}[2J.nuq";
    fs::rename(folder.path().join("m.nuq"), folder.path().join(name)).unwrap();
    let calibrate =
        ["calibrate", "--model", name, "--embeddings", "t.csv:-class", "--target", "coverage=0.5"];
    for arguments in [
        &["inspect", name][..],
        &["label-issues", name],
        &[&calibrate[..], &["--name", "\u{1b}]0;title\u{7}"]].concat(),
        // The same again: a message says that the threshold is replaced.
        &[&calibrate[..], &["--name", "\u{1b}]0;title\u{7}"]].concat(),
        &["inspect", name],
        &["inspect", name, "--json"],
        &["inspect", "missing\u{1b}[2J.nuq"],
        &["inspect", "missing\u{1b}[2J.nuq", "--json"],
        &[
            "score",
            "--model",
            name,
            "--embeddings",
            "t.csv:-class",
            "--out",
            "s.csv",
            "--threshold",
            "\u{1b}x",
        ],
        &["calibrate", "--model", name, "--remove", "\u{1b}]0;title\u{7}"],
        &["fit", "--index", "\u{1b}[31m"],
        &["\u{1b}[31m"],
    ] {
        let output = nuq(arguments, folder.path());
        let text = out(&output) + &err(&output);
        assert!(!text.is_empty() && !text.contains(['\u{1b}', '\u{7}']), "{arguments:?}: {text:?}");
        assert!(text.contains("u{1b}") || text.contains("u001b"), "{arguments:?}: {text}");
    }
    // Output files contain the labels unchanged.
    let score = ["score", "--model", name, "--embeddings", "t.csv:-class", "--out", "s.csv"];
    assert!(nuq(&score, folder.path()).status.success());
    assert!(fs::read_to_string(folder.path().join("s.csv")).unwrap().contains(red));
}
