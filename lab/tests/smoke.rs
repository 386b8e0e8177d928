//! Runs every experiment at size tiny on a few digits and generated data, and checks files and claims.

#![allow(clippy::unwrap_used)]

mod arrays;
mod common;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use arrays::write_embeddings;
use common::{lab, stderr, write_digits};
use nuq_lab::experiments::ALL;
use nuq_lab::results::{Cell, Results};

/// Folder with the results of all experiments. The experiments run once and all tests share them.
fn results_folder() -> &'static PathBuf {
    static OUT: OnceLock<PathBuf> = OnceLock::new();
    OUT.get_or_init(|| {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("smoke");
        let _ = std::fs::remove_dir_all(&root);
        let (cache, user, out) = (root.join("cache"), root.join("user"), root.join("out"));
        write_digits(&cache);
        write_embeddings(&user);
        let ran = lab()
            // Several seeds, because comparisons on 300 digits with a single network are too noisy.
            .args(["run", "--all", "--size", "tiny", "--seeds", "3"])
            .arg("--cache")
            .arg(&cache)
            .arg("--out")
            .arg(&out)
            .env("NUQ_DATA", &user)
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}", stderr(&ran));
        out
    })
}

fn result(name: &str) -> Results {
    Results::read(results_folder(), name).unwrap().unwrap()
}

fn holds(experiment: &str, claim: &str) -> bool {
    let results = result(experiment);
    let claim = results.claims.iter().find(|candidate| candidate.id == claim);
    claim.unwrap_or_else(|| panic!("{experiment} has no such claim, only {:?}", results.claims)).holds
}

#[test]
fn every_experiment_writes_its_files() {
    for experiment in ALL {
        let results = result(experiment.name);
        assert!(!results.tables.is_empty() && !results.figures.is_empty(), "{}", experiment.name);
        let folder = results_folder().join(experiment.name);
        let table = std::fs::read_to_string(folder.join("table.md")).unwrap();
        assert!(table.contains("| --- |") && !table.contains("NaN"), "{table}");
        for figure in &results.figures {
            let svg = std::fs::read_to_string(folder.join(format!("{figure}.svg"))).unwrap();
            assert!(svg.starts_with("<svg") && !svg.contains("NaN"), "{figure}");
            assert!(std::fs::metadata(folder.join(format!("{figure}.png"))).unwrap().len() > 5000);
        }
    }
}

#[test]
fn nuq_detects_the_gap_between_the_moons() {
    assert!(holds("two-moons", "nuq-detects-gap"), "{:?}", result("two-moons").claims);
}

#[test]
fn toy_claims_hold() {
    for claim in ["nuq-few-points-n-at-least-100", "plug-in-without-noise"] {
        assert!(holds("toy-reject", claim), "{:?}", result("toy-reject").claims);
    }
    assert!(holds("toy-uncertainty", "aleatoric-follows-truth"), "{:?}", result("toy-uncertainty").claims);
}

#[test]
fn uncertain_digits_are_misclassified_more_often() {
    // The first cell is the mean selective accuracy, the last one the accuracy on all digits. For a random order of the digits, both would
    // be equal.
    let results = result("rotated-mnist");
    for row in &results.tables[0].rows {
        let (mean, all) = (row.cells[0].mean().unwrap(), row.cells.last().and_then(Cell::mean).unwrap());
        assert!(mean > all, "{}: {mean} against {all}", row.name);
    }
    assert!(holds("rotated-mnist", "nuq-above-maxprob"), "{:?}", results.claims);
}

#[test]
fn outliers_are_detected() {
    // The ablation of densities names its rows by density and layer. These three rows are the rows `NUQ`, `NUQ on logits` and `NUQ, GMM` of
    // the other two tables.
    let densities = ["auto, features", "auto, logits", "GMM, features"];
    let is_nuq = |name: &str| name.starts_with("NUQ") || densities.contains(&name);
    for (experiment, count) in [("mnist-vs-svhn", 2), ("ablation-density", 3), ("ablation-spectral", 4)] {
        let table = &result(experiment).tables[0];
        let rows: Vec<_> = table.rows.iter().filter(|row| is_nuq(&row.name)).collect();
        assert_eq!(rows.len(), count, "{experiment}: {table:?}");
        for row in rows {
            let area = row.cells[0].mean().unwrap();
            assert!(area > 0.6, "{experiment}, {}: {area}", row.name);
        }
    }
    let table = &result("embeddings").tables[0];
    let area = |method: &str| table.cell(method, "svhn").and_then(Cell::mean).unwrap();
    assert!(area("NUQ") > 0.9 && area("DDU") > 0.9 && area("NUQ") > area("MaxProb"), "{table:?}");
    assert!(holds("text", "nuq-on-rostd"), "{:?}", result("text").claims);
}

#[test]
fn page_is_written_from_results() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("reproduction.md");
    let ran =
        lab().arg("page").arg("--results").arg(results_folder()).arg("--page").arg(&page).output().unwrap();
    assert!(ran.status.success(), "{}", stderr(&ran));
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(!text.contains("{{") && !text.contains("has not been run"), "{text}");
    assert!(text.contains("| NUQ |") && folder.path().join("figures/lab-two-moons.png").is_file());
}
