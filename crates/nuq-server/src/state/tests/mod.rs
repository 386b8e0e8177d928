//! Tests of the state: models with changes, snapshots, recorded rows and failures. This file has what the tests share.

mod change;
mod check;
mod database;
mod drift;
mod journal;
mod model_file;
mod recorder;
mod snapshot;
mod undo;

use std::path::Path;
use std::sync::Arc;

use axum::http::StatusCode;
use nuq::calibrate::{Measure, Predictor, Rules, Target, calibrate};
use nuq::{Embeddings, FittedModel, Label, Model, NuqClassifier};
use tempfile::TempDir;

use super::*;
use crate::error::ApiError;
use crate::loaded_model::LoadedModel;

/// An observation in which all measures are `value` and the threshold `epistemic` accepts or rejects the row.
pub(super) fn observation(time_ms: u64, value: f64, accept: bool) -> Observation {
    Observation {
        time_ms,
        embedding: vec![1.0, 2.0],
        label: "a".to_owned(),
        probability: Some(0.5),
        aleatoric: value,
        log_epistemic: value,
        log_total: value,
        log_density: -value,
        predictor: Predictor::Nuq,
        p_value: None,
        accept: vec![("epistemic".to_owned(), accept)],
    }
}

fn rows(first: usize, count: usize) -> Embeddings<'static> {
    let values = (first..first + count).flat_map(|i| [(i % 17) as f32, (i % 5) as f32 + i as f32 / 100.0]);
    Embeddings::new(values.collect(), 2).unwrap()
}

fn labels(first: usize, count: usize) -> Labels {
    Labels::Classes((first..first + count).map(|i| Label::from(["a", "b", "c"][i % 3])).collect())
}

fn classifier() -> Model<'static> {
    let Labels::Classes(labels) = labels(0, 60) else { unreachable!("labels are classes") };
    let mut model = NuqClassifier::params().n_neighbors(5).fit(&rows(0, 60), &labels).unwrap();
    let scores: Vec<f64> = (0..50).map(f64::from).collect();
    let threshold = calibrate(Measure::Epistemic, &scores, None, Target::Coverage(0.9)).unwrap();
    model.rules_mut().set_threshold("epistemic", threshold, &scores).unwrap();
    Model::Classifier(model)
}

struct Fixture {
    folder: TempDir,
}

impl Fixture {
    fn new(model: &Model<'_>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        nuq_io::save(model, &folder.path().join("m.nuq")).unwrap();
        Self { folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("m.nuq")
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn options(&self) -> StateOptions {
        StateOptions { folder: Some(self.state()), is_ephemeral: false, drift_alpha: 0.01 }
    }

    fn load(&self) -> Served {
        Served::load(&self.options(), &self.file()).unwrap()
    }
}

struct Served {
    model: Arc<LoadedModel>,
    state: ModelState,
}

impl Served {
    fn load(options: &StateOptions, file: &Path) -> Result<Self, StateError> {
        let (model, file_rows, state) = State::open(options)?.load("m", file, Device::default(), true)?;
        Ok(Self { model: Arc::new(LoadedModel::new("m", model, 1, file_rows)), state })
    }

    fn change(
        &self,
        prepare: impl FnOnce(&Model<'_>) -> Result<Change, nuq::Error>,
    ) -> Result<AppliedChange, ApiError> {
        self.state.change(|| self.model.clone(), |model| Ok(prepare(model)?))
    }

    fn insert(&self, first: usize, count: usize) -> AppliedChange {
        self.change(|model| Change::insert(model, &rows(first, count), labels(first, count), None)).unwrap()
    }

    /// Relabels a row and returns the id of the change.
    fn relabel(&self, id: u32) -> u64 {
        let labels = Labels::Classes(vec![Label::from("c")]);
        self.change(|model| Change::relabel(model, &[id], labels)).unwrap().id
    }

    /// Stores a threshold and returns the id of the change.
    fn set(&self, name: &str) -> u64 {
        let scores = [1.0, 2.0, 3.0];
        let threshold = calibrate(Measure::Total, &scores, None, Target::Coverage(0.5)).unwrap();
        let applied = self.change(|model| {
            let mut rules = model.rules().clone();
            rules.set_threshold(name, threshold, &scores)?;
            Ok(Change::rules(model, name, rules))
        });
        applied.unwrap().id
    }

    fn undo(&self, id: u64) -> Result<AppliedChange, ApiError> {
        self.state.undo(|| self.model.clone(), id)
    }

    /// Records rows that the current version of the model has scored.
    fn record(&self, rows: Vec<Observation>) {
        self.state.record(rows, self.model.read().unwrap().version());
    }

    /// The model as the bytes of its file.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![];
        nuq_io::write_model(&self.model.read().unwrap(), &mut bytes).unwrap();
        bytes
    }

    fn rules(&self) -> Rules {
        self.model.read().unwrap().rules().clone()
    }

    /// The ids of the rows that are rows of the file.
    fn file_rows(&self) -> Vec<u32> {
        let model = self.model.read().unwrap();
        let rows = model.index().rows();
        rows.live_ids().into_iter().filter(|&id| self.model.is_row_of_model_file(rows, id)).collect()
    }
}
