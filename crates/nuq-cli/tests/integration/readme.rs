//! Runs every `nuq` command of the README and compares the output with the output in the README.

use std::path::Path;

use crate::common::nuq_command;

/// The lines of each ```` ```console ```` block.
fn console_blocks(page: &str) -> Vec<Vec<&str>> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if line.trim() == "```console" {
            blocks.push(lines.by_ref().take_while(|line| line.trim() != "```").collect());
        }
    }
    blocks
}

/// The command of a block, possibly continued after a backslash, and the output lines after it.
fn command_of<'b>(block: &'b [&'b str]) -> (String, &'b [&'b str]) {
    let lines = 1 + block.iter().take_while(|line| line.ends_with('\\')).count();
    let command: Vec<&str> = block[..lines].iter().map(|line| line.trim_end_matches('\\').trim()).collect();
    let command = command.join(" ");
    let command = command.strip_prefix("$ ").expect("a console block starts with `$ `");
    (command.to_owned(), &block[lines..])
}

/// Copies a folder that has no subfolders.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[test]
fn every_command_prints_the_output_in_the_readme() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    copy(&root.join("examples/cifar10"), &folder.path().join("examples/cifar10"));
    let mut ran = 0;
    for block in console_blocks(&readme) {
        let (command, shown) = command_of(&block);
        let words: Vec<&str> = command.split_whitespace().collect();
        match words.as_slice() {
            ["cargo", "run", "--release", "--", arguments @ ..] | ["nuq", arguments @ ..] => {
                let mut nuq = nuq_command();
                let output = nuq.args(arguments).current_dir(folder.path()).output().unwrap();
                assert!(output.status.success(), "{command}");
                let printed = String::from_utf8(output.stdout).unwrap();
                let printed: Vec<&str> = printed.trim_end().lines().collect();
                match shown.split_last() {
                    // A last line `…` in the README stands for lines that contain times. They are not compared.
                    Some((&"…", first)) => assert_eq!(printed[..first.len()], *first, "{command}"),
                    _ => assert_eq!(printed, shown, "{command}"),
                }
                ran += 1;
            }
            ["cargo", "install", "--path", path, "--features", "parquet"] => {
                assert!(root.join(path).join("Cargo.toml").exists(), "{command}");
                ran += 1;
            }
            ["pip", "install", path] => {
                assert!(root.join(path).join("pyproject.toml").exists(), "{command}");
                ran += 1;
            }
            // This test runs inside `cargo xtask test`, so it checks only that the task exists.
            ["cargo", "xtask", task] => {
                let source = std::fs::read_to_string(root.join("xtask/src/main.rs")).unwrap();
                assert!(source.contains(&format!("[\"{task}\"")), "{command}");
                ran += 1;
            }
            _ => panic!("this test cannot run `{command}` of the README"),
        }
    }
    assert!(ran >= 2, "the README has at least two commands");
}
