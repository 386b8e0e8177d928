//! A fitted model in one file.

use std::path::Path;

use nuq::parts::SmootherParts;
use nuq::{Bandwidth, Model, NeighborIndex, NuqClassifier, NuqRegressor};

use crate::container::{self, Container, Section, SectionInfo};
use crate::meta::{IndexMeta, Meta, SmootherMeta, TaskMeta, classifier_parts, regressor_parts};
use crate::{Error, index, write_atomically};

const META: &str = "model";
const CLASSES: &str = "classes";
const TARGETS: &str = "targets";
const BANDWIDTHS: &str = "bandwidths";

/// Writes a model to `path`, in place of what was there: all of it, or nothing. The same model gives the same bytes.
///
/// ```
/// use nuq::{Embeddings, Model, NuqClassifier};
///
/// let x = Embeddings::from_rows(&[[0.0], [0.1], [1.0], [1.1]])?;
/// let model = Model::Classifier(NuqClassifier::params().n_neighbors(2).fit(&x, &["a", "a", "b", "b"])?);
/// let path = std::env::temp_dir().join(format!("nuq-example-{}.nuq", std::process::id()));
/// nuq_io::save(&model, &path)?;
///
/// let Model::Classifier(opened) = nuq_io::open(&path)?.model else { unreachable!() };
/// assert_eq!(opened.predict(&x)?.label(3), "b");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn save(model: &Model<'_>, path: &Path) -> Result<(), Error> {
    match model {
        Model::Classifier(model) => save_classifier(model, path),
        Model::Regressor(model) => save_regressor(model, path),
    }
}

/// The same for a classifier that is not put into a [`Model`].
pub fn save_classifier(model: &NuqClassifier<'_>, path: &Path) -> Result<(), Error> {
    let parts = model.parts();
    write(
        TaskMeta::of_classifier(&parts),
        &parts.smoother,
        &OfRows::Classes(parts.of_row),
        model.index(),
        path,
    )
}

/// The same for a regressor.
pub fn save_regressor(model: &NuqRegressor<'_>, path: &Path) -> Result<(), Error> {
    let parts = model.parts();
    write(
        TaskMeta::of_regressor(&parts),
        &parts.smoother,
        &OfRows::Targets(parts.targets),
        model.index(),
        path,
    )
}

fn write(
    task: TaskMeta,
    smoother: &SmootherParts,
    of_rows: &OfRows,
    index: &dyn NeighborIndex,
    path: &Path,
) -> Result<(), Error> {
    // What came from a file that is damaged must not get new checksums.
    index.verify_once().map_err(|source| Error::Model { path: path.to_owned(), source: source.into() })?;
    let parts = index.parts();
    let meta = Meta {
        written_by: format!("nuq {}", env!("CARGO_PKG_VERSION")),
        task,
        smoother: SmootherMeta::of(smoother),
        index: IndexMeta::from(&parts),
    };
    let json = serde_json::to_vec(&meta).expect("plain data");
    let mut sections = vec![Section { name: META, bytes: &json }];
    match of_rows {
        OfRows::Classes(classes) => {
            sections.push(Section { name: CLASSES, bytes: bytemuck::cast_slice(classes) });
        }
        OfRows::Targets(targets) => {
            sections.push(Section { name: TARGETS, bytes: bytemuck::cast_slice(targets) });
        }
    }
    if let Bandwidth::PerDimension(many) | Bandwidth::PerPoint(many) = &smoother.bandwidth {
        sections.push(Section { name: BANDWIDTHS, bytes: bytemuck::cast_slice(many) });
    }
    sections.extend(index::sections(&parts));
    write_atomically(path, |file| container::write(file, &sections))
}

enum OfRows {
    Classes(Vec<u32>),
    Targets(Vec<f64>),
}

/// A model that was opened, and what its file says of itself.
#[derive(Debug)]
pub struct ModelFile {
    /// The model. Rows and links stay in the file until they are needed, and are checked then.
    pub model: Model<'static>,
    /// The nuq that wrote the file.
    pub written_by: String,
    /// The sections of the file.
    pub sections: Vec<SectionInfo>,
    container: Container,
}

impl ModelFile {
    /// Reads all of the file and compares it with its checksums; without this, large sections are when they are needed.
    pub fn verify(&self) -> Result<(), Error> {
        self.sections.iter().try_for_each(|section| self.container.check(&section.name))?;
        self.container.check_padding()
    }
}

/// Opens a model that [`save`] wrote.
pub fn open(path: &Path) -> Result<ModelFile, Error> {
    let container = Container::open(path)?;
    let meta: Meta = serde_json::from_slice(container.read(META)?)
        .map_err(|problem| Error::damaged(path, META, problem.to_string()))?;
    let index = index::restore(&container, &meta.index)?;
    let bandwidths = match meta.smoother.has_many_bandwidths() {
        true => numbers::<f64>(&container, BANDWIDTHS)?,
        false => vec![],
    };
    let smoother: SmootherParts = meta.smoother.parts(bandwidths, meta.index.graph.as_ref());
    let contradiction = || Error::damaged(path, META, "its parts contradict each other");
    let refused = |source| Error::Model { path: path.to_owned(), source };
    let model = match meta.task {
        TaskMeta::Classification { labels, variance, curve } => {
            let of_row = numbers::<u32>(&container, CLASSES)?;
            let parts = classifier_parts((labels, variance, curve), smoother, of_row);
            let parts = parts.ok_or_else(contradiction)?;
            Model::Classifier(NuqClassifier::from_parts(parts, index).map_err(refused)?)
        }
        TaskMeta::Regression { curve } => {
            let targets = numbers::<f64>(&container, TARGETS)?;
            let parts = regressor_parts(curve, smoother, targets).ok_or_else(contradiction)?;
            Model::Regressor(NuqRegressor::from_parts(parts, index).map_err(refused)?)
        }
    };
    let sections = container.sections().to_vec();
    Ok(ModelFile { model, written_by: meta.written_by, sections, container })
}

/// The numbers of a section, checked and copied.
fn numbers<T: bytemuck::AnyBitPattern + Send + Sync>(
    container: &Container,
    name: &'static str,
) -> Result<Vec<T>, Error> {
    container.check(name)?;
    Ok(container.values::<T>(name)?.to_vec())
}
