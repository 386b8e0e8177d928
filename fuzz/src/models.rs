//! Checks of opened models and baselines.

use std::fmt::Debug;
use std::path::Path;

use nuq::{Embeddings, FittedModel, Model};
use nuq_eval::baselines::{Batch, Members, Scorer, Uncertainties};
use nuq_io::{BaselineFile, Contents, ModelFile, open_any, write_baseline, write_model};

use crate::file;

/// Largest number of columns of the queries. A model or baseline with more columns is opened, but not used.
const MAX_COLUMNS: usize = 4096;

/// Opens a model or a baseline. If its checksums are correct, it is used, saved, opened again, used again and saved again. Both saved
/// files must have the same bytes; both models must have the same rules and names of columns, and give the same predictions or scores. With
/// a wrong checksum, it is used once; this must give an error or a result.
pub fn check(path: &Path) {
    match open_any(path) {
        Ok(Contents::Model(file)) if file.verify().is_ok() => check_model(&file),
        Ok(Contents::Baseline(file)) if file.verify().is_ok() => check_baseline(&file),
        Ok(Contents::Model(file)) => {
            let _ = queries(file.model.index().dim()).map(|queries| predictions(&file.model, &queries));
        }
        Ok(Contents::Baseline(file)) => {
            let _ = queries(columns(&file)).map(|queries| scores(&*file.scorer, &queries));
        }
        Err(_) => {}
    }
}

fn check_model(opened: &ModelFile) {
    let Some(queries) = queries(opened.model.index().dim()) else { return };
    let predictions = predictions(&opened.model, &queries);
    let Ok(bytes) = model_bytes(&opened.model) else { return };
    let again = nuq_io::open(&file::write("written.nuq", &bytes)).expect("a saved model can be opened");
    again.verify().expect("a saved model has correct checksums");
    assert_eq!(bytes, model_bytes(&again.model).expect("an opened model can be saved"), "bytes differ");
    assert_eq!(details(&opened.model), details(&again.model), "rules or names of columns differ");
    // The manifest of a sharded model contains Gaussians. A file with few rows does not: they are fitted to its rows when it is opened, and an
    // altered manifest may have had others.
    let has_gaussians =
        |file: &ModelFile| file.sections.iter().any(|section| section.name == "gaussians.means");
    if has_gaussians(opened) == has_gaussians(&again) {
        assert_eq!(predictions, self::predictions(&again.model, &queries), "predictions differ");
    }
}

/// The bytes of a model file.
pub fn model_bytes(model: &Model<'_>) -> Result<Vec<u8>, nuq_io::Error> {
    let mut bytes = vec![];
    write_model(model, &mut bytes).map(|()| bytes)
}

/// The rules and the names of the columns, as text.
fn details(model: &Model<'_>) -> String {
    format!("{:?} {:?}", model.rules(), model.column_names())
}

/// The predictions for queries and for left-out training rows, as text with all digits; if a prediction fails, the message of the error.
fn predictions(model: &Model<'_>, queries: &Embeddings<'_>) -> String {
    match model {
        Model::Classifier(model) => [model.predict(queries), model.leave_one_out()]
            .map(|predictions| text(predictions.as_deref()))
            .concat(),
        Model::Regressor(model) => [model.predict(queries), model.leave_one_out()]
            .map(|estimates| text(estimates.as_deref()))
            .concat(),
    }
}

fn text<T: Debug>(values: Result<&[T], &nuq::Error>) -> String {
    values.map_or_else(ToString::to_string, |values| format!("{values:?}"))
}

fn check_baseline(opened: &BaselineFile) {
    let Some(queries) = queries(columns(opened)) else { return };
    let scores = scores(&*opened.scorer, &queries);
    let Ok(bytes) = baseline_bytes(opened) else { return };
    let again =
        nuq_io::open_baseline(&file::write("written.nuq", &bytes)).expect("a saved baseline can be opened");
    again.verify().expect("a saved baseline has correct checksums");
    assert_eq!(bytes, baseline_bytes(&again).expect("an opened baseline can be saved"), "bytes differ");
    assert_eq!(
        format!("{:?}", opened.details),
        format!("{:?}", again.details),
        "thresholds or names of columns differ"
    );
    assert_eq!(scores, self::scores(&*again.scorer, &queries), "scores differ");
}

/// The number of columns of a baseline; two if it reads only logits.
fn columns(file: &BaselineFile) -> usize {
    file.details.training.as_ref().map_or(2, |training| training.columns)
}

fn baseline_bytes(file: &BaselineFile) -> Result<Vec<u8>, nuq_io::Error> {
    let mut bytes = vec![];
    write_baseline(&*file.scorer, &file.details, &mut bytes).map(|()| bytes)
}

/// The scores as text with all digits; if the baseline cannot score, the message of the error. The logits and the members of an ensemble are those of
/// two classes.
fn scores(scorer: &dyn Scorer, queries: &Embeddings<'_>) -> String {
    let logits = Embeddings::new(vec![2.0, -1.0, 0.0, 0.5, -3.0, 4.0], 2).expect("the logits are finite");
    let members = Members::new(vec![logits.clone(), logits.clone()]).expect("the members have equal shapes");
    let values = [0.0, 0.5, 1e6];
    let batch = Batch {
        embeddings: Some(queries),
        logits: Some(&logits),
        members: Some(&members),
        uncertainties: Some(Uncertainties { aleatoric: &values, epistemic: &values }),
        ..Batch::default()
    };
    match scorer.score(&batch) {
        Ok(scores) => format!("{scores:?}"),
        Err(error) => error.to_string(),
    }
}

/// Three rows: zeros, small values, and a row far away. `None` if there are no columns or more than [`MAX_COLUMNS`].
fn queries(columns: usize) -> Option<Embeddings<'static>> {
    let columns = (1..=MAX_COLUMNS).contains(&columns).then_some(columns)?;
    let row = |scale: f32| (0..columns).map(move |column| scale * (1.0 + column as f32));
    Embeddings::new(row(0.0).chain(row(0.1)).chain(row(1e6)).collect::<Vec<f32>>(), columns).ok()
}
