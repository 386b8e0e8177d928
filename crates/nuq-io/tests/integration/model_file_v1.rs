//! Model files of format version 1 open, and their predictions equal those of the program that wrote them.
//!
//! `tests/data/models-v1/NAME.nuq` is a model, `NAME.json` holds queries, predictions and thresholds. Both were written by
//! the last version of nuq that wrote format version 1.

use std::fs;
use std::path::{Path, PathBuf};

use nuq::calibrate::Measure;
use nuq::{Embeddings, FittedModel, Model};
use serde_json::Value;

const NAMES: [&str; 4] =
    ["classifier-kde", "classifier-gmm", "classifier-auto-hnsw", "regressor-aleatoric-threshold"];

fn file(name: &str, extension: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/models-v1");
    folder.join(name).with_extension(extension)
}

fn version(path: &Path) -> u32 {
    u32::from_le_bytes(fs::read(path).unwrap()[8..12].try_into().unwrap())
}

/// Numbers that are not finite are stored as strings.
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| value.as_str().unwrap().parse().unwrap())
}

fn assert_equal(actual: f64, expected: &Value, field: &str) {
    let expected = number(expected);
    let is_close = actual == expected || (actual - expected).abs() <= 1e-10 * expected.abs().max(1.0);
    assert!(is_close, "{field} is {actual}, expected {expected}");
}

fn queries(expected: &Value) -> Embeddings<'static> {
    let rows = expected["queries"].as_array().unwrap();
    let dim = rows[0].as_array().unwrap().len();
    let values = rows.iter().flat_map(|row| row.as_array().unwrap()).map(|v| number(v) as f32);
    Embeddings::new(values.collect(), dim).unwrap()
}

fn assert_predicts(model: &Model<'_>, expected: &Value) {
    let queries = queries(expected);
    assert_eq!(model.n_neighbors() as u64, expected["n_neighbors"]);
    let rows = expected["predictions"].as_array().unwrap();
    assert_eq!(rows.len(), queries.len());
    match model {
        Model::Classifier(model) => {
            let predictions = model.predict(&queries).unwrap();
            for (i, row) in rows.iter().enumerate() {
                assert_eq!(predictions.label(i).to_string(), row["label"].as_str().unwrap());
                assert_equal(predictions[i].probability, &row["probability"], "probability");
                assert_equal(predictions[i].aleatoric, &row["aleatoric"], "aleatoric");
                assert_equal(predictions[i].log_epistemic, &row["log_epistemic"], "log_epistemic");
                assert_equal(predictions[i].log_total, &row["log_total"], "log_total");
                assert_equal(predictions[i].log_density, &row["log_density"], "log_density");
                assert_equal(
                    predictions[i].log_standard_error,
                    &row["log_standard_error"],
                    "log_standard_error",
                );
            }
        }
        Model::Regressor(model) => {
            let estimates = model.predict(&queries).unwrap();
            for (estimate, row) in estimates.iter().zip(rows) {
                assert_equal(estimate.mean, &row["mean"], "mean");
                assert_equal(estimate.log_aleatoric, &row["log_aleatoric"], "log_aleatoric");
                assert_equal(estimate.log_epistemic, &row["log_epistemic"], "log_epistemic");
                assert_equal(estimate.log_total, &row["log_total"], "log_total");
                assert_equal(estimate.log_density, &row["log_density"], "log_density");
            }
        }
    }
    let thresholds = expected["thresholds"].as_array().unwrap();
    assert_eq!(model.thresholds().len(), thresholds.len());
    for expected in thresholds {
        let threshold = &model.thresholds()[expected["name"].as_str().unwrap()];
        assert_eq!(threshold.measure.to_string(), expected["measure"].as_str().unwrap());
        assert_eq!(threshold.score.rows as u64, expected["rows"]);
        // A threshold of version 1 limits the logarithm of a regressor's aleatoric variance. The opened threshold limits the variance.
        let is_log = matches!(model, Model::Regressor(_)) && threshold.measure == Measure::Aleatoric;
        let value = if is_log { threshold.score.value.ln() } else { threshold.score.value };
        assert_equal(value, &expected["value"], "threshold");
    }
}

#[test]
fn files_of_version_1_predict_the_same_numbers() {
    for name in NAMES {
        let path = file(name, "nuq");
        assert_eq!(version(&path), 1, "{name}");
        let expected: Value = serde_json::from_slice(&fs::read(file(name, "json")).unwrap()).unwrap();
        let opened = nuq_io::open(&path).unwrap();
        opened.verify().unwrap();
        assert_predicts(&opened.model, &expected);
    }
}

#[test]
fn files_of_version_1_are_saved_as_version_3() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.nuq");
    for name in NAMES {
        nuq_io::save(&nuq_io::open(&file(name, "nuq")).unwrap().model, &path).unwrap();
        assert_eq!(version(&path), 3);
        let expected: Value = serde_json::from_slice(&fs::read(file(name, "json")).unwrap()).unwrap();
        assert_predicts(&nuq_io::open(&path).unwrap().model, &expected);
        let bytes = fs::read(&path).unwrap();
        // In version 1, the density `gmm` has the name `gaussians`. Files of version 3 may have sections whose names begin with
        // `gaussians`. These files do not, because the Gaussians of these opened models are not fitted yet.
        for old in ["\"neighbors\"", "gaussians", "asked", "half_precision", "promise"] {
            let is_there = bytes.windows(old.len()).any(|window| window == old.as_bytes());
            assert!(!is_there, "{name} is written with the old word {old}");
        }
    }
}
