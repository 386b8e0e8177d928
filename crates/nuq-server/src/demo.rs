//! The demonstration: a model of CIFAR-10 images that scores example rows continuously. The rows are test images for half a minute, then
//! images of house numbers (SVHN) for half a minute. House numbers belong to none of the classes: the share of rejected rows rises, and
//! the drift test raises an alarm.

use std::fs;
use std::io::Cursor;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nuq::calibrate::{Measure, Target, calibrate};
use nuq::{Embeddings, FittedModel, Model, NuqClassifier};
use nuq_io::{ArraySpec, EmbeddingsFile};
use tempfile::TempDir;
use zip::ZipArchive;

use crate::batch::Rows;
use crate::results::Selection;
use crate::served_model::ServedModel;
use crate::{App, Error, ModelSource, PictureSource};

/// Arrays that a ResNet-18 computed; `examples/README.md` describes them.
const FILES: [(&str, &[u8]); 4] = [
    ("train.npz", include_bytes!("../demo/train.npz")),
    ("held_out.npz", include_bytes!("../demo/held_out.npz")),
    ("test.npz", include_bytes!("../demo/test.npz")),
    ("svhn.npz", include_bytes!("../demo/svhn.npz")),
];

/// Pictures of the training rows, one file `ROW.webp` for each.
const PICTURES: &[u8] = include_bytes!("../demo/pictures.zip");

/// The name of the model.
pub(crate) const NAME: &str = "cifar10";
/// Time between two requests.
const PAUSE: Duration = Duration::from_millis(100);
/// Rows of each request.
const ROWS: usize = 3;
/// Number of requests with test images, and of requests with house numbers after them: half a minute each.
const REQUESTS: usize = 300;

/// The model file and the rows of the demonstration. The file is in a temporary folder, which is removed when this value is dropped.
pub(crate) struct Demo {
    folder: TempDir,
    test: Embeddings<'static>,
    house_numbers: Embeddings<'static>,
}

impl Demo {
    /// Fits the model, calibrates its threshold, and writes its file.
    pub(crate) fn prepare() -> Result<Self, Error> {
        let failed =
            |source| Error::System { what: "cannot write the files of the demonstration".to_owned(), source };
        let folder = tempfile::Builder::new().prefix("nuq-demo-").tempdir().map_err(failed)?;
        for (name, contents) in FILES {
            fs::write(folder.path().join(name), contents).map_err(failed)?;
        }
        let mut pictures = ZipArchive::new(Cursor::new(PICTURES)).expect("the pictures are a zip file");
        pictures.extract(folder.path().join("pictures")).map_err(|error| failed(error.into()))?;
        let array = |file: &str, name: &str| ArraySpec {
            path: folder.path().join(file),
            name: Some(name.to_owned()),
        };
        let embeddings = |file: &str| EmbeddingsFile::open(&array(file, "embeddings"))?.read();
        let labels = nuq_io::read_labels(&array("train.npz", "labels"))?;
        let fitted = fit(&embeddings("train.npz")?, &labels, &embeddings("held_out.npz")?);
        let model = fitted.expect("the arrays of the demonstration are valid");
        nuq_io::save(&model, &folder.path().join(format!("{NAME}.nuq")))?;
        let (test, house_numbers) = (embeddings("test.npz")?, embeddings("svhn.npz")?);
        Ok(Self { folder, test, house_numbers })
    }

    pub(crate) fn source(&self) -> ModelSource {
        ModelSource { name: NAME.to_owned(), path: self.path() }
    }

    pub(crate) fn pictures(&self) -> PictureSource {
        let folder = self.folder.path().join("pictures");
        PictureSource { model: Some(NAME.to_owned()), location: folder.to_string_lossy().into_owned() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(format!("{NAME}.nuq"))
    }

    /// Scores test images, then house numbers, and begins again.
    pub(crate) async fn replay(self, app: Arc<App>) {
        let Ok(served) = app.models.get(NAME).cloned() else { return };
        loop {
            for rows in [&self.test, &self.house_numbers] {
                for request in 0..REQUESTS {
                    let ids = (0..ROWS).map(|i| ((request * ROWS + i) % rows.len()) as u32);
                    score(&served, rows.gather(&ids.collect::<Vec<_>>())).await;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

/// A classifier with a threshold that rejects 5 % of the rows that have the distribution of the held-out rows.
fn fit(
    rows: &Embeddings<'static>,
    labels: &[nuq::Label],
    held_out: &Embeddings<'_>,
) -> Result<Model<'static>, nuq::Error> {
    let mut model = NuqClassifier::params().fit(rows, labels)?;
    let scores: Vec<f64> = model.predict(held_out)?.iter().map(|row| Measure::Epistemic.of(row)).collect();
    let threshold = calibrate(Measure::Epistemic, &scores, None, Target::FalseAlarm(0.05))?;
    model.rules_mut().set_threshold("guard", threshold, &scores)?;
    Ok(model.into())
}

async fn score(served: &ServedModel, embeddings: Embeddings<'static>) {
    let start = Instant::now();
    let rows = Rows { embeddings, logits: None };
    let results = served.batcher.submit(served.current(), rows, Arc::new(Selection::default())).results();
    match results.await {
        Ok(_) => served.state.record_request(start.elapsed().as_secs_f64()),
        Err(error) => tracing::warn!(error = error.message, "rows of the demonstration were not scored"),
    }
}
