//! Saves a fitted model to one file and opens it.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use nuq::nuq_neighbors::{self, AbsentIndex, IndexParts, NeighborIndex};
use nuq::parts::GaussianParts;
use nuq::{Bandwidth, FittedModel, Model, NuqClassifier, NuqRegressor};

use crate::atomic::write_atomically_if;
use crate::baseline::{self, BASELINE, BaselineFile};
use crate::container::{self, Access, Container, Section, SectionInfo};
use crate::index::ROWS_ABSENT;
use crate::meta::{
    GaussiansMeta, IndexMeta, Meta, SmootherMeta, TaskMeta, classifier_parts, regressor_parts,
};
use crate::shards::{SHARDS, ShardFile};
use crate::threshold_meta::upgrade_regressor_threshold;
use crate::{Error, gaussians, index, rules_meta, shards};

const META: &str = "model";
const CLASSES: &str = "classes";
const TARGETS: &str = "targets";
const BANDWIDTHS: &str = "bandwidths";
const SAMPLE_WEIGHTS: &str = "sample_weights";
const HELD_OUT_SCORES: &str = "held_out_scores";

/// Name and version of this program, for the metadata of a file.
pub(crate) const WRITTEN_BY: &str = concat!("nuq ", env!("CARGO_PKG_VERSION"));

/// Writes a model to `path`, atomically: on failure a previous file at `path` is unchanged. Equal models give equal files.
///
/// If `path` is a folder that holds the shards of a sharded model, the manifest of the model is written. A sharded model is written
/// to any other path as one file with all rows, which are copied into memory. A model that was opened without rows is written
/// without rows.
///
/// # Errors
/// [`Error::Write`] if the file cannot be written, [`Error::Model`] if the model comes from a damaged file. For a folder also
/// [`Error::Damaged`] if a shard of the model is missing or damaged, and [`Error::Read`] if one cannot be read.
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
        Model::Classifier(model) => save_classifier(model, path, Rows::Stored),
        Model::Regressor(model) => save_regressor(model, path, Rows::Stored),
    }
}

/// Writes a model without its training rows, atomically, for rows that are in a vector database. `predict_from` of
/// the opened model computes predictions from neighbors that the database finds. They equal the predictions of the
/// model with rows, bit for bit. The file contains labels or targets, bandwidths, the Gaussians of the density,
/// thresholds and the ids of the rows.
///
/// # Errors
/// The errors of [`save`], and [`Error::Model`] for a kernel that is computed from the coordinates of the neighbors.
///
/// ```
/// use nuq::{Embeddings, FittedModel, Model, NuqRegressor};
///
/// let x = Embeddings::from_rows(&[[0.0], [1.0], [2.0]])?;
/// let model = NuqRegressor::params().n_neighbors(2).bandwidth(0.5).fit(&x, &[0.0, 1.0, 4.0])?;
/// let query = Embeddings::from_rows(&[[0.2]])?;
/// let neighbors = model.neighbors_of(&query, 2)?; // from the database
/// let expected = model.predict(&query)?[0].total();
/// let path = std::env::temp_dir().join(format!("nuq-without-rows-{}.nuq", std::process::id()));
/// nuq_io::save_without_rows(&Model::Regressor(model), &path)?;
///
/// let Model::Regressor(opened) = nuq_io::open(&path)?.model else { unreachable!() };
/// assert_eq!(opened.predict_from(&query, &neighbors)?[0].total(), expected);
/// assert!(opened.predict(&query).is_err());
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn save_without_rows(model: &Model<'_>, path: &Path) -> Result<(), Error> {
    match model {
        Model::Classifier(model) => save_classifier(model, path, Rows::Absent),
        Model::Regressor(model) => save_regressor(model, path, Rows::Absent),
    }
}

/// Whether a model file holds the training rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// The file contains the rows, as [`save`] writes it.
    Stored,
    /// The file contains only the ids of the rows, as [`save_without_rows`] writes it.
    Absent,
}

/// Writes a classifier, as [`save`] or [`save_without_rows`] does.
///
/// # Errors
/// The errors of these functions.
pub fn save_classifier(model: &NuqClassifier<'_>, path: &Path, rows: Rows) -> Result<(), Error> {
    save_to(model, path, rows, &|| Ok(()), |output| write_classifier(model, output))
}

/// Writes a regressor, as [`save`] or [`save_without_rows`] does.
///
/// # Errors
/// The errors of these functions.
pub fn save_regressor(model: &NuqRegressor<'_>, path: &Path, rows: Rows) -> Result<(), Error> {
    save_to(model, path, rows, &|| Ok(()), |output| write_regressor(model, output))
}

/// Writes a model as [`save`] does, if `check` succeeds directly before the previous file is replaced.
pub(crate) fn save_if(model: &Model<'_>, path: &Path, check: &Check<'_>) -> Result<(), Error> {
    match model {
        Model::Classifier(model) => {
            save_to(model, path, Rows::Stored, check, |output| write_classifier(model, output))
        }
        Model::Regressor(model) => {
            save_to(model, path, Rows::Stored, check, |output| write_regressor(model, output))
        }
    }
}

/// The destination of a model.
struct Output<'o> {
    /// The path in error messages.
    path: &'o Path,
    /// Whether the rows are listed as shards instead of stored.
    is_manifest: bool,
    rows: Rows,
    /// Receives the sections and their verification.
    put: &'o mut Put<'o>,
}

/// A check that a file may be replaced. In [`Put`], it verifies sections after they were written: the rows may be part of a mapped file that was
/// changed in the meantime.
pub(crate) type Check<'c> = dyn Fn() -> io::Result<()> + 'c;

type Put<'p> = dyn FnMut(&[Section<'_>], &Check<'_>) -> Result<(), Error> + 'p;

impl Output<'_> {
    fn model_error(&self, source: nuq::Error) -> Error {
        Error::Model { path: self.path.to_owned(), source }
    }
}

/// Calls `write` with the file at `path`, or with the manifest if `path` is a folder. The file is replaced if `check` succeeds.
fn save_to(
    model: &impl FittedModel,
    path: &Path,
    rows: Rows,
    check: &Check<'_>,
    write: impl FnOnce(Output<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    if rows == Rows::Absent {
        model.check_without_rows().map_err(|source| Error::Model { path: path.to_owned(), source })?;
    }
    let is_manifest = path.is_dir() && rows == Rows::Stored;
    let save = |path: &Path| {
        let mut put = |sections: &[Section<'_>], verify: &Check<'_>| {
            let write = |file: &mut BufWriter<&File>| {
                container::write(file, sections)?;
                verify()
            };
            write_atomically_if(path, write, check)
        };
        write(Output { path, is_manifest, rows, put: &mut put })
    };
    if is_manifest { shards::replace_manifest(model, path, save) } else { save(path) }
}

/// Writes a model to a writer, such as standard output. The bytes equal the contents of a file that [`save`] writes.
///
/// # Errors
/// The errors of [`save`].
pub fn write_model(model: &Model<'_>, to: &mut dyn Write) -> Result<(), Error> {
    let path = Path::new("the output");
    let mut put = |sections: &[Section<'_>], verify: &Check<'_>| {
        let written = container::write(to, sections).and_then(|()| verify());
        written.map_err(|source| Error::Write { path: path.to_owned(), source })
    };
    let output = Output { path, is_manifest: false, rows: Rows::Stored, put: &mut put };
    match model {
        Model::Classifier(model) => write_classifier(model, output),
        Model::Regressor(model) => write_regressor(model, output),
    }
}

fn write_classifier(model: &NuqClassifier<'_>, output: Output<'_>) -> Result<(), Error> {
    let labels = Section { name: CLASSES, bytes: bytemuck::cast_slice(model.training_classes()) };
    write(model, TaskMeta::of_classifier(model), labels, output)
}

fn write_regressor(model: &NuqRegressor<'_>, output: Output<'_>) -> Result<(), Error> {
    let targets = Section { name: TARGETS, bytes: bytemuck::cast_slice(model.targets()) };
    write(model, TaskMeta::of_regressor(model), targets, output)
}

/// A file with rows also contains the Gaussians of a density if they are already fitted and their size is at most the size of the rows in
/// `f32` divided by this number.
const GAUSSIANS_SHARE: usize = 8;

/// The index of a model in its file.
enum IndexOutput<'a> {
    Stored(IndexParts<'a>),
    /// The section `shards` of a manifest.
    Listed(IndexMeta, Vec<u8>),
    /// The section `index.rows.absent` of a file without rows. All ids are below its only number.
    Absent(IndexMeta, [u64; 1]),
}

impl<'a> IndexOutput<'a> {
    fn of(model: &'a impl FittedModel, output: &Output<'_>) -> Result<Self, Error> {
        let (index, rows) = (model.index(), model.index().rows());
        if output.rows == Rows::Absent || !rows.is_stored() {
            let removed = (0..rows.id_bound() as u32).filter(|&id| !rows.contains(id)).collect();
            let scale = rows.scale().map(<[f64]>::to_vec);
            let meta = IndexMeta { dim: rows.dim(), removed, scale, graph: None };
            return Ok(Self::Absent(meta, [rows.id_bound() as u64]));
        }
        if let Some(shards) = rows.sharded().filter(|_| output.is_manifest) {
            return Ok(Self::Listed(IndexMeta::of_shards(shards), shards::section(shards)));
        }
        // Damaged arrays of an opened file must not be written with valid checksums.
        index.verify_once().map_err(|source| output.model_error(source.into()))?;
        Ok(Self::Stored(index.parts()))
    }

    fn meta(&self) -> IndexMeta {
        match self {
            Self::Stored(parts) => IndexMeta::from(parts),
            Self::Listed(meta, _) | Self::Absent(meta, _) => meta.clone(),
        }
    }

    fn sections(&self) -> Vec<Section<'_>> {
        match self {
            Self::Stored(parts) => index::sections(parts),
            Self::Listed(_, listed) => vec![Section { name: SHARDS, bytes: listed }],
            Self::Absent(_, bound) => {
                vec![Section { name: ROWS_ABSENT, bytes: bytemuck::cast_slice(bound) }]
            }
        }
    }

    /// The Gaussians of the density. A file with rows contains them only if they are already fitted and small, because they can be fitted
    /// to the rows when they are first used.
    fn gaussians(&self, model: &impl FittedModel) -> Result<Option<GaussianParts>, nuq::Error> {
        match self {
            Self::Stored(_) => {
                let index = model.index();
                let row_bytes = index.len().saturating_mul(index.dim()).saturating_mul(size_of::<f32>());
                Ok(model.small_gaussian_parts(row_bytes / GAUSSIANS_SHARE))
            }
            Self::Listed(..) | Self::Absent(..) => model.gaussian_parts(),
        }
    }
}

/// Passes the sections of a model to its destination.
fn write(
    model: &impl FittedModel,
    task: TaskMeta,
    labels_or_targets: Section<'_>,
    output: Output<'_>,
) -> Result<(), Error> {
    let smoother = model.smoother_parts();
    let index = IndexOutput::of(model, &output)?;
    let gaussians = index.gaussians(model).map_err(|source| output.model_error(source))?;
    let mut meta = Meta {
        written_by: WRITTEN_BY.to_owned(),
        task,
        smoother: SmootherMeta::of(model, &smoother),
        index: index.meta(),
    };
    meta.smoother.gaussians = gaussians.as_ref().map(|parts| GaussiansMeta { tied: parts.is_tied });
    let json = serde_json::to_vec(&meta).expect("the metadata has string keys only");
    let mut sections = vec![Section { name: META, bytes: &json }, labels_or_targets];
    if let Bandwidth::PerDimension(many) | Bandwidth::PerPoint(many) = &smoother.bandwidth {
        sections.push(Section { name: BANDWIDTHS, bytes: bytemuck::cast_slice(many) });
    }
    if let Some(weights) = &smoother.sample_weights {
        sections.push(Section { name: SAMPLE_WEIGHTS, bytes: bytemuck::cast_slice(weights) });
    }
    let held_out_scores = rules_meta::held_out_scores(model.rules());
    if meta.smoother.has_held_out_scores() {
        sections.push(Section { name: HELD_OUT_SCORES, bytes: bytemuck::cast_slice(&held_out_scores) });
    }
    sections.extend(gaussians.iter().flat_map(gaussians::sections));
    sections.extend(index.sections());
    (output.put)(&sections, &|| model.index().rows().verify_unchanged().map_err(io::Error::other))
}

/// An opened model and the metadata of its file.
#[derive(Debug)]
pub struct ModelFile {
    /// The model. It has no rows if it was written by [`save_without_rows`]. Rows and the links of the HNSW graph are mapped,
    /// or copied by [`open_in_memory`]; their checksums are verified before the first search.
    pub model: Model<'static>,
    /// Name and version of the program that wrote the file.
    pub written_by: String,
    /// The sections of the file, in the order of its table.
    pub sections: Vec<SectionInfo>,
    container: Container,
    /// The shard files of a sharded model.
    shards: Vec<Container>,
}

impl ModelFile {
    /// Reads the whole file, and the shards of a sharded model, and verifies all checksums. Without this call, large
    /// sections are verified before the first search.
    ///
    /// # Errors
    /// [`Error::Damaged`] with the name of the first damaged section.
    pub fn verify(&self) -> Result<(), Error> {
        self.container.verify_all()?;
        self.shards.iter().try_for_each(Container::verify_all)
    }

    /// Releases the pages of the mapped file and of its shards, because mapped pages count as memory of the process until the system
    /// reclaims them. The next use of the rows reads them again, usually from the page cache of the system. This has no effect on a
    /// file that was copied into memory.
    pub fn release_pages(&self) {
        self.container.release_pages();
        self.shards.iter().for_each(Container::release_pages);
    }

    /// Checks that the file holds training rows, for uses that search them.
    ///
    /// # Errors
    /// [`Error::Model`] with the path if it was written by [`save_without_rows`].
    pub fn require_rows(&self) -> Result<(), Error> {
        if self.model.index().rows().is_stored() {
            return Ok(());
        }
        let source = nuq_neighbors::Error::RowsNotStored.into();
        Err(Error::Model { path: self.container.path().to_owned(), source })
    }

    /// A number that identifies the contents of the file. It is computed from the stored checksums, without reading the
    /// sections. Files with different contents have different numbers unless their checksums collide.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.container.fingerprint()
    }
}

/// Opens a model that [`save`] wrote, of this format version or an earlier one: a file, or the folder of a sharded model. Rows and
/// the links of the HNSW graph are mapped, not read.
///
/// # Errors
/// [`Error::Read`], [`Error::NotAModel`], [`Error::NewerFormat`], [`Error::WrongKind`] for the file of a baseline,
/// [`Error::Damaged`] with the name of a section, or [`Error::Model`] if the values of the model contradict each other.
pub fn open(path: &Path) -> Result<ModelFile, Error> {
    open_as(path, Access::Mapped)
}

/// Opens a model as [`open`] does, but reads its file into memory, so that later changes of the file have no effect. This is intended
/// for a process that serves the model for a long time. The shards of a sharded model are mapped, because they may exceed the memory.
///
/// # Errors
/// Those of [`open`].
pub fn open_in_memory(path: &Path) -> Result<ModelFile, Error> {
    open_as(path, Access::Copied)
}

fn open_as(path: &Path, access: Access) -> Result<ModelFile, Error> {
    let container = Container::open_as(path, access)?;
    if container.has(BASELINE) {
        let (path, found) = (path.to_owned(), baseline::kind(&container)?);
        return Err(Error::WrongKind { path, found, expected: "a classifier or regressor" });
    }
    read(container)
}

/// The contents of a file that holds a model or a baseline.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one value per opened file")]
pub enum Contents {
    /// A classifier or regressor.
    Model(ModelFile),
    /// A baseline.
    Baseline(BaselineFile),
}

/// Opens a model that [`save`] wrote, or a baseline that [`save_baseline`](crate::save_baseline) wrote.
///
/// # Errors
/// [`Error::Read`], [`Error::NotAModel`], [`Error::NewerFormat`], [`Error::Damaged`] with the name of a section, or
/// [`Error::Model`] if the values of the model contradict each other.
pub fn open_any(path: &Path) -> Result<Contents, Error> {
    let container = Container::open(path)?;
    Ok(match container.has(BASELINE) {
        true => Contents::Baseline(baseline::read(container)?),
        false => Contents::Model(read(container)?),
    })
}

/// The contents of a model file in words, for an error message.
pub(crate) fn kind(container: &Container) -> Result<&'static str, Error> {
    Ok(match meta(container)?.task {
        TaskMeta::Classification { .. } => "a classifier",
        TaskMeta::Regression { .. } => "a regressor",
    })
}

fn meta(container: &Container) -> Result<Meta, Error> {
    serde_json::from_slice(container.read(META)?)
        .map_err(|problem| Error::damaged(container.path(), META, problem.to_string()))
}

fn read(container: Container) -> Result<ModelFile, Error> {
    let meta = meta(&container)?;
    let (index, shards) = match container.has(SHARDS) {
        true => shards::restore(&container, &meta.index)?,
        false => (index::restore(&container, &meta.index)?, vec![]),
    };
    restored(container, meta, index, shards)
}

/// The manifest of a sharded model, opened without its shards.
#[derive(Debug)]
pub struct Manifest {
    /// The model without rows. Its predictions are computed from the merged neighbors of all shards.
    pub model: Model<'static>,
    /// The shards in the order of their rows.
    pub shards: Vec<ShardFile>,
    /// The divisors of the coordinates, if the model searches a scaled space.
    pub scale: Option<Vec<f64>>,
}

/// Opens the manifest of a sharded model, for a cluster in which other machines hold the shards. The shard files are not opened and
/// need not exist.
///
/// # Errors
/// The errors of [`open`], and [`Error::Damaged`] if the file lists no shards, or if the density has Gaussians and the file does not
/// contain them.
pub fn open_manifest(path: &Path) -> Result<Manifest, Error> {
    let container = Container::open(path)?;
    let (meta, shards) = (meta(&container)?, shards::listed(&container)?);
    if meta.smoother.gaussians.is_none() && meta.smoother.density_has_gaussians() {
        let problem = "the Gaussians of the density are missing, because an earlier version of nuq wrote the manifest: load the model \
                       and save it to the same folder";
        return Err(Error::damaged(container.path(), "gaussians", problem));
    }
    let scale = meta.index.scale.clone();
    // The numbers come from the file, and no shard is opened to verify them.
    let rows = shards.iter().try_fold(0usize, |rows, shard| rows.checked_add(shard.rows));
    let rows = rows.ok_or_else(|| Error::damaged(container.path(), SHARDS, "it lists too many rows"))?;
    let index = AbsentIndex::new(meta.index.dim, rows, &[], scale.clone());
    let index = index.map_err(|source| index::restore_error(&container, source))?;
    let model = restored(container, meta, Box::new(index), vec![])?.model;
    Ok(Manifest { model, shards, scale })
}

fn restored(
    container: Container,
    meta: Meta,
    index: Box<dyn NeighborIndex + 'static>,
    shards: Vec<Container>,
) -> Result<ModelFile, Error> {
    let path = container.path();
    let bandwidths = match meta.smoother.has_many_bandwidths() {
        true => numbers::<f64>(&container, BANDWIDTHS)?,
        false => vec![],
    };
    let mut smoother = meta.smoother.parts(bandwidths, meta.index.dim, meta.index.graph.as_ref());
    if container.has(SAMPLE_WEIGHTS) {
        smoother.sample_weights = Some(numbers::<f64>(&container, SAMPLE_WEIGHTS)?);
    }
    if let Some(gaussians) = &meta.smoother.gaussians {
        smoother.gaussians = Some(gaussians::read(&container, gaussians, meta.index.dim)?);
    }
    let held_out_scores = match meta.smoother.has_held_out_scores() {
        true => numbers::<f64>(&container, HELD_OUT_SCORES)?,
        false => vec![],
    };
    let smoother = (smoother, &held_out_scores[..]);
    let contradiction = || Error::damaged(path, META, "its values contradict each other");
    let invalid = |source| Error::Model { path: path.to_owned(), source };
    let model = match meta.task {
        TaskMeta::Classification { labels, variance, curve } => {
            let class_of_row = numbers::<u32>(&container, CLASSES)?;
            let parts = classifier_parts((labels, variance, curve), &meta.smoother, smoother, class_of_row);
            let parts = parts.ok_or_else(contradiction)?;
            Model::Classifier(NuqClassifier::from_parts(parts, index).map_err(invalid)?)
        }
        TaskMeta::Regression { curve } => {
            let targets = numbers::<f64>(&container, TARGETS)?;
            let parts = regressor_parts(curve, &meta.smoother, smoother, targets);
            let mut parts = parts.ok_or_else(contradiction)?;
            if container.version() < 2 {
                parts.rules.thresholds.values_mut().for_each(upgrade_regressor_threshold);
            }
            Model::Regressor(NuqRegressor::from_parts(parts, index).map_err(invalid)?)
        }
    };
    let sections = container.sections().to_vec();
    Ok(ModelFile { model, written_by: meta.written_by, sections, container, shards })
}

/// Copies the numbers of a section after verifying its checksum.
pub(crate) fn numbers<T: bytemuck::AnyBitPattern + Send + Sync>(
    container: &Container,
    name: &str,
) -> Result<Vec<T>, Error> {
    container.verify(name)?;
    Ok(container.values::<T>(name)?.to_vec())
}
