//! Model files that change while a command uses them, and processes without memory or file descriptors. `cargo xtask faults` tests many
//! more faults.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{clean_command, err, nuq, nuq_command};

/// A folder with the training table `t.csv` and the model `m.nuq`.
fn folder_with_model() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let row = |i: u32| format!("{}.{i:02},{}\n", i % 7, ["a", "b"][(i % 2) as usize]);
    fs::write(folder.path().join("t.csv"), format!("x,label\n{}", (0..60).map(row).collect::<String>()))
        .unwrap();
    let fit = ["fit", "-e", "t.csv:-label", "-l", "t.csv:label", "-k", "5", "-o", "m.nuq", "--quiet"];
    let fitted = nuq(&fit, folder.path());
    assert!(fitted.status.success(), "{}", err(&fitted));
    folder
}

/// Starts `nuq score` and returns when it has opened the model. The command then waits for rows on its standard input.
fn start_scoring(folder: &Path) -> Child {
    let score = ["score", "-m", "m.nuq", "-e", "-", "--format", "csv", "--header", "no", "-o", "s.csv"];
    let mut command = nuq_command();
    command
        .args(score)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let start = Instant::now();
    let maps = format!("/proc/{}/maps", child.id());
    while !fs::read_to_string(&maps).unwrap().contains("m.nuq") {
        assert!(start.elapsed() < Duration::from_secs(60), "the model was not mapped");
        std::thread::sleep(Duration::from_millis(2));
    }
    child
}

fn send_rows(mut child: Child) -> Output {
    // An error of the write is ignored: the process may have ended already.
    let _ = child.stdin.take().unwrap().write_all(b"1.5\n2.5\n");
    child.wait_with_output().unwrap()
}

#[test]
fn the_error_for_a_model_file_that_is_shortened_during_use_contains_its_name() {
    let folder = folder_with_model();
    let child = start_scoring(folder.path());
    OpenOptions::new().write(true).open(folder.path().join("m.nuq")).unwrap().set_len(0).unwrap();
    let output = send_rows(child);
    assert_eq!(output.status.code(), Some(3), "{}", err(&output));
    assert!(
        err(&output).contains("cannot read m.nuq: it was shortened by another process"),
        "{}",
        err(&output)
    );
    let names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn results_of_a_model_that_was_overwritten_are_not_stored() {
    let folder = folder_with_model();
    let model = folder.path().join("m.nuq");
    let child = start_scoring(folder.path());
    let contents = fs::read(&model).unwrap();
    // The same bytes are written again: only the modification time shows that the file was written.
    std::thread::sleep(Duration::from_millis(20));
    OpenOptions::new().write(true).open(&model).unwrap().write_all(&contents).unwrap();
    let output = send_rows(child);
    assert_eq!(output.status.code(), Some(3), "{}", err(&output));
    let text = "m.nuq was changed while it was in use: run the command or open the file again";
    assert!(err(&output).contains(text), "{}", err(&output));
    assert!(!folder.path().join("s.csv").exists());

    // If another file replaces the model file by a rename, the command still uses the old file, which is unchanged.
    let child = start_scoring(folder.path());
    fs::copy(&model, folder.path().join("other.nuq")).unwrap();
    fs::rename(folder.path().join("other.nuq"), &model).unwrap();
    assert!(send_rows(child).status.success());
}

#[test]
fn a_process_without_memory_ends_with_a_message() {
    let folder = folder_with_model();
    let program = env!("CARGO_BIN_EXE_nuq");
    let run = |kib: u64, words: &str| {
        let script = format!("ulimit -v {kib}; exec \"$0\" {words}");
        let mut command = clean_command("sh");
        command
            .args(["-c", &script, program])
            .current_dir(folder.path())
            .env("RUST_BACKTRACE", "0")
            .output()
            .unwrap()
    };
    // The smallest address space, in steps of 500 KiB, into which the program can be loaded.
    let is_loaded = |kib: &u64| run(*kib, "--version").status.success();
    let coarse = (1..400).map(|i| i * 10_000).find(is_loaded).unwrap();
    let least = (1..=20).map(|i| coarse - 10_000 + i * 500).find(is_loaded).unwrap();
    let fit = "fit -e t.csv:-label -l t.csv:label -k 5 -o n.nuq --threads 2";
    let mut codes = vec![];
    for kib in (1..20).map(|i| least + i * 500).chain((1..40).map(|i| least + i * 10_000)) {
        let output = run(kib, fit);
        // The C library and the start of a thread in the standard library end the process themselves if they have no memory for their own data.
        let runtime_messages = ["Fatal glibc error", "failed to allocate an alternative stack"];
        if runtime_messages.iter().any(|text| err(&output).contains(text)) {
            continue;
        }
        let code =
            output.status.code().unwrap_or_else(|| panic!("{kib} KiB: {}: {}", output.status, err(&output)));
        assert!(!err(&output).contains("panicked"), "{}", err(&output));
        assert_eq!(
            code != 0,
            err(&output).contains("nuq: "),
            "{kib} KiB, exit code {code}: {}",
            err(&output)
        );
        let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(!names.into_iter().any(|name| name.to_string_lossy().contains("partial")), "{kib} KiB");
        codes.push(code);
    }
    assert!(codes.contains(&4), "no exit code 4 (the memory is exhausted): {codes:?}");
}

#[test]
fn a_server_that_cannot_start_its_threads_ends_with_exit_code_4() {
    let folder = folder_with_model();
    // The threads of the server need more than eight file descriptors.
    let script = "ulimit -n 8; exec \"$0\" serve -m m.nuq --address 127.0.0.1:0";
    let mut command = clean_command("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_nuq")]).current_dir(folder.path());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", err(&output));
    let text = "raise the limits of memory, processes and descriptors";
    assert!(err(&output).contains(text), "{}", err(&output));
}
