//! Every experiment at its tiny size on a few digits and data that the tests make: that it runs, writes all its files, and that its claims are measured.

#![allow(clippy::unwrap_used)]

mod arrays;
mod common;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use arrays::write_embeddings;
use common::{lab, said, write_digits};
use nuq_lab::experiments::ALL;
use nuq_lab::results::{Cell, Results};

/// One run of all experiments, which the tests share, in a folder of cargo's.
fn results() -> &'static PathBuf {
    static OUT: OnceLock<PathBuf> = OnceLock::new();
    OUT.get_or_init(|| {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("smoke");
        let _ = std::fs::remove_dir_all(&root);
        let (cache, user, out) = (root.join("cache"), root.join("user"), root.join("out"));
        write_digits(&cache);
        write_embeddings(&user);
        let ran = lab()
            // One network of 1,500 digits is no judge of who sorts 300 better.
            .args(["run", "--all", "--size", "tiny", "--seeds", "3"])
            .arg("--cache")
            .arg(&cache)
            .arg("--out")
            .arg(&out)
            .env("NUQ_DATA", &user)
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}", said(&ran));
        out
    })
}

fn result(name: &str) -> Results {
    Results::read(results(), name).unwrap().unwrap()
}

fn holds(experiment: &str, claim: &str) -> bool {
    let found = result(experiment);
    let claim = found.claims.iter().find(|found| found.id == claim);
    claim.unwrap_or_else(|| panic!("{experiment} claims {:?}", found.claims)).holds
}

#[test]
fn every_experiment_leaves_its_files() {
    for experiment in ALL {
        let found = result(experiment.name);
        assert!(!found.tables.is_empty() && !found.figures.is_empty(), "{}", experiment.name);
        let folder = results().join(experiment.name);
        let table = std::fs::read_to_string(folder.join("table.md")).unwrap();
        assert!(table.contains("| --- |") && !table.contains("NaN"), "{table}");
        for figure in &found.figures {
            let svg = std::fs::read_to_string(folder.join(format!("{figure}.svg"))).unwrap();
            assert!(svg.starts_with("<svg") && !svg.contains("NaN"), "{figure}");
            assert!(std::fs::metadata(folder.join(format!("{figure}.png"))).unwrap().len() > 5000);
        }
    }
}

#[test]
fn nuq_sees_the_gap_between_the_moons() {
    assert!(holds("two-moons", "nuq-sees-the-gap"), "{:?}", result("two-moons").claims);
}

#[test]
fn the_toys_show_what_the_paper_says() {
    for claim in ["nuq-where-some-points-are", "plug-in-without-noise"] {
        assert!(holds("toy-reject", claim), "{:?}", result("toy-reject").claims);
    }
    assert!(holds("toy-uncertainty", "aleatoric-follows-truth"), "{:?}", result("toy-uncertainty").claims);
}

#[test]
fn uncertain_digits_are_the_wrong_ones() {
    // Whoever is told at random is as accurate as all.
    let found = result("rotated-mnist");
    for row in &found.tables[0].rows {
        let (mean, all) = (row.cells[0].mean().unwrap(), row.cells.last().and_then(Cell::mean).unwrap());
        assert!(mean > all, "{}: {mean} against {all}", row.name);
    }
    assert!(holds("rotated-mnist", "nuq-above-maxprob"), "{:?}", found.claims);
}

#[test]
fn outliers_are_found() {
    for experiment in ["mnist-vs-svhn", "ablation-density", "ablation-spectral"] {
        for row in &result(experiment).tables[0].rows {
            let area = row.cells[0].mean().unwrap();
            assert!(area > 0.6 || !row.name.contains("NUQ"), "{experiment}, {}: {area}", row.name);
        }
    }
    let table = &result("embeddings").tables[0];
    let area = |method: &str| table.cell(method, "svhn").and_then(Cell::mean).unwrap();
    assert!(area("NUQ") > 0.9 && area("DDU") > 0.9 && area("NUQ") > area("MaxProb"), "{table:?}");
    assert!(holds("text", "nuq-on-rostd"), "{:?}", result("text").claims);
}

#[test]
fn a_page_is_made_of_results() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("reproduction.md");
    let ran = lab().arg("page").arg("--results").arg(results()).arg("--page").arg(&page).output().unwrap();
    assert!(ran.status.success(), "{}", said(&ran));
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(!text.contains("{{") && !text.contains("has not been run"), "{text}");
    assert!(text.contains("| NUQ |") && folder.path().join("figures/lab-two-moons.png").is_file());
}
