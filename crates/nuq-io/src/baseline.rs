//! Saves a fitted baseline, which is another uncertainty score of the crate `nuq-eval`, to one file and opens it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use nuq::calibrate::ScoreThreshold;
use nuq::nuq_neighbors::Error as IndexError;
use nuq_eval::baselines::{Array, ArrayValues, BaselineParts, Param, Scorer, restore};
use nuq_eval::evaluate::MethodId;
use serde::{Deserialize, Serialize};

use crate::atomic::write_atomically_if;
use crate::container::{self, Container, Section, SectionInfo};
use crate::index::ROWS_ABSENT;
use crate::meta::{IndexMeta, LabelMeta};
use crate::model::{Check, WRITTEN_BY, numbers};
use crate::threshold_meta::ScoreThresholdMeta;
use crate::{Error, index, word};

/// The section with all small values, as JSON. Arrays are in sections `baseline.NAME`.
pub(crate) const BASELINE: &str = "baseline";

/// The section `baseline`. These types define the format.
#[derive(Debug, Serialize, Deserialize)]
struct BaselineMeta {
    /// Name and version of the program that wrote the file; informative only.
    written_by: String,
    #[serde(with = "word")]
    method: MethodId,
    params: BTreeMap<String, ParamMeta>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    labels: Vec<LabelMeta>,
    arrays: BTreeMap<String, ArrayMeta>,
    /// Absent for methods that are not fitted to rows, and in files of earlier programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    training: Option<TrainingRows>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    thresholds: BTreeMap<String, ScoreThresholdMeta>,
    /// The index of the training rows, for methods that search it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    index: Option<IndexMeta>,
}

/// Everything that the file of a baseline stores in addition to the fitted method.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BaselineDetails {
    /// The rows that the method was fitted to; `None` for methods that are not fitted to rows, and in files of earlier programs.
    pub training: Option<TrainingRows>,
    /// Thresholds on the score, by name.
    pub thresholds: BTreeMap<String, ScoreThreshold>,
}

/// The rows that a baseline was fitted to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrainingRows {
    /// The number of rows.
    pub rows: usize,
    /// The number of columns.
    pub columns: usize,
    /// The names of the columns; `None` if they have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column_names: Option<Vec<String>>,
}

impl TrainingRows {
    /// Checks the column names of other rows. If the training rows have no names, every list is valid, except the numbers 0, 1, 2, …
    /// in another order.
    ///
    /// # Errors
    /// [`nuq::Error::ColumnNames`] for other names or another order.
    pub fn check_column_names<S: AsRef<str>>(&self, names: &[S]) -> Result<(), nuq::Error> {
        nuq::column_names::check(self.column_names.as_deref(), names)
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum ParamMeta {
    /// The parameter was not given, and its value depends on the data.
    Default,
    Integer(u64),
    Number(f64),
    Word(String),
}

#[derive(Debug, Serialize, Deserialize)]
struct ArrayMeta {
    r#type: ElementType,
    shape: Vec<usize>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ElementType {
    F64,
    F32,
    U32,
}

/// Writes a fitted baseline to `path`, atomically, as [`save`](crate::save) writes a model. Equal baselines give equal files.
///
/// ```
/// use nuq::calibrate::{Predictor, ScoreThreshold, Target};
/// use nuq::{Embeddings, Shrinkage};
/// use nuq_eval::baselines::{Batch, Mahalanobis, Scorer};
/// use nuq_io::BaselineDetails;
///
/// let x = Embeddings::from_rows(&[[0.0, 0.1], [0.2, 0.0], [1.0, 1.3], [1.1, 0.9]])?;
/// let fitted = Mahalanobis::fit(&x, &["a", "a", "b", "b"], Shrinkage::LedoitWolf)?;
/// let path = std::env::temp_dir().join(format!("nuq-baseline-{}.nuq", std::process::id()));
/// let batch = Batch { embeddings: Some(&x), ..Batch::default() };
/// let threshold =
///     ScoreThreshold::calibrate(&fitted.score(&batch)?, None, Predictor::Network, Target::Coverage(0.5))?;
/// let thresholds = [("half".to_owned(), threshold)].into();
/// nuq_io::save_baseline(&fitted, &BaselineDetails { thresholds, ..Default::default() }, &path)?;
///
/// let opened = nuq_io::open_baseline(&path)?;
/// assert_eq!(opened.method.name(), "mahalanobis");
/// assert_eq!(opened.scorer.score(&batch)?, fitted.score(&batch)?);
/// assert_eq!(opened.details.thresholds["half"], threshold);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::Write`] if the file cannot be written, [`Error::UnknownScorer`] for a scorer that is not a method of `nuq-eval`,
/// [`Error::Model`] if the baseline comes from a damaged file.
pub fn save_baseline(scorer: &dyn Scorer, details: &BaselineDetails, path: &Path) -> Result<(), Error> {
    save_baseline_if(scorer, details, path, &|| Ok(()))
}

/// Writes a baseline as [`save_baseline`] does, if `check` succeeds directly before the previous file is replaced.
pub(crate) fn save_baseline_if(
    scorer: &dyn Scorer,
    details: &BaselineDetails,
    path: &Path,
    check: &Check<'_>,
) -> Result<(), Error> {
    write(scorer, details, path, |sections, verify| {
        let write = |file: &mut BufWriter<&File>| {
            container::write(file, sections)?;
            verify()
        };
        write_atomically_if(path, write, check)
    })
}

/// Writes a fitted baseline to a writer, such as standard output. The bytes equal the contents of a file that
/// [`save_baseline`] writes.
///
/// # Errors
/// The errors of [`save_baseline`].
pub fn write_baseline(
    scorer: &dyn Scorer,
    details: &BaselineDetails,
    to: &mut dyn Write,
) -> Result<(), Error> {
    let path = Path::new("the output");
    write(scorer, details, path, |sections, verify| {
        let written = container::write(to, sections).and_then(|()| verify());
        written.map_err(|source| Error::Write { path: path.to_owned(), source })
    })
}

/// Passes the sections of a baseline to `put`, with a check that verifies them after they were written: rows may be part of a mapped file that was
/// changed in the meantime. Errors name `path` as the file; nothing is written to it here.
fn write(
    scorer: &dyn Scorer,
    details: &BaselineDetails,
    path: &Path,
    put: impl FnOnce(&[Section<'_>], &Check<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let parts = scorer
        .parts()
        .ok_or_else(|| Error::UnknownScorer { path: path.to_owned(), scorer: scorer.name() })?;
    let searched = scorer.index();
    // Damaged arrays of an opened file must not be written with valid checksums.
    if let Some(index) = searched {
        index
            .verify_once()
            .map_err(|source| Error::Model { path: path.to_owned(), source: source.into() })?;
    }
    let index = searched.map(|index| index.parts());
    let meta = BaselineMeta {
        written_by: WRITTEN_BY.to_owned(),
        method: parts.method,
        params: parts.params.into_iter().map(|(name, param)| (name, param.into())).collect(),
        labels: parts.labels.iter().map(LabelMeta::from).collect(),
        arrays: parts.arrays.iter().map(|(name, array)| (name.clone(), array.into())).collect(),
        training: details.training.clone(),
        thresholds: details
            .thresholds
            .iter()
            .map(|(name, threshold)| (name.clone(), ScoreThresholdMeta(*threshold)))
            .collect(),
        index: index.as_ref().map(IndexMeta::from),
    };
    let json = serde_json::to_vec(&meta).expect("the metadata has string keys only");
    let arrays: Vec<(String, &[u8])> =
        parts.arrays.iter().map(|(name, array)| (section_of(name), bytes(&array.values))).collect();
    let mut sections = vec![Section { name: BASELINE, bytes: &json }];
    sections.extend(arrays.iter().map(|(name, bytes)| Section { name, bytes }));
    if let Some(index) = &index {
        sections.extend(index::sections(index));
    }
    put(&sections, &|| {
        let unchanged = searched.map_or(Ok(()), |index| index.rows().verify_unchanged());
        unchanged.map_err(io::Error::other)
    })
}

/// An opened baseline and the metadata of its file.
pub struct BaselineFile {
    /// The fitted baseline. Rows of an index are mapped; their checksums are verified before the first search.
    pub scorer: Box<dyn Scorer>,
    /// The method.
    pub method: MethodId,
    /// The parameters of the fit, by name.
    pub params: BTreeMap<String, Param>,
    /// The training rows and the thresholds.
    pub details: BaselineDetails,
    /// Name and version of the program that wrote the file.
    pub written_by: String,
    /// The sections of the file, in the order of its table.
    pub sections: Vec<SectionInfo>,
    container: Container,
}

impl BaselineFile {
    /// Reads the whole file and verifies all checksums.
    ///
    /// # Errors
    /// [`Error::Damaged`] with the name of the first damaged section.
    pub fn verify(&self) -> Result<(), Error> {
        self.container.verify_all()
    }
}

impl std::fmt::Debug for BaselineFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { method, params, details, written_by, sections, .. } = self;
        f.debug_struct("BaselineFile")
            .field("method", method)
            .field("params", params)
            .field("details", details)
            .field("written_by", written_by)
            .field("sections", sections)
            .finish_non_exhaustive()
    }
}

/// Opens a baseline that [`save_baseline`] wrote.
///
/// # Errors
/// [`Error::Read`], [`Error::NotAModel`], [`Error::NewerFormat`], [`Error::WrongKind`] for the file of a classifier or regressor,
/// [`Error::Damaged`] with the name of a section, or [`Error::Model`] if the values of the index contradict each other.
pub fn open_baseline(path: &Path) -> Result<BaselineFile, Error> {
    let container = Container::open(path)?;
    if container.has(BASELINE) {
        return read(container);
    }
    let found = crate::model::kind(&container)?.to_owned();
    Err(Error::WrongKind { path: path.to_owned(), found, expected: "a baseline" })
}

pub(crate) fn read(container: Container) -> Result<BaselineFile, Error> {
    let damaged = |section: &str, problem: String| Error::damaged(container.path(), section, problem);
    let BaselineMeta { written_by, method, params, labels, arrays, training, thresholds, index } =
        meta(&container)?;
    let names =
        training.as_ref().and_then(|training| Some((training.columns, training.column_names.as_ref()?)));
    if names.is_some_and(|(columns, names)| columns != names.len()) {
        return Err(damaged(BASELINE, "there is not one name per column".to_owned()));
    }
    // Earlier programs wrote other names for some parameters.
    let renamed = |name: String| match &*name {
        "k" => "n_neighbors".to_owned(),
        "known_quantile" => "epistemic_quantile".to_owned(),
        "ambiguous_quantile" => "aleatoric_quantile".to_owned(),
        _ => name,
    };
    let params: BTreeMap<String, Param> =
        params.into_iter().map(|(name, param)| (renamed(name), param.into())).collect();
    let labels = labels.into_iter().map(LabelMeta::label).collect::<Option<Vec<_>>>();
    let labels = labels.ok_or_else(|| damaged(BASELINE, "an integer label is not valid".to_owned()))?;
    let arrays = arrays.into_iter().map(|(name, meta)| {
        let values = match meta.r#type {
            ElementType::F64 => ArrayValues::F64(numbers(&container, &section_of(&name))?),
            ElementType::F32 => ArrayValues::F32(numbers(&container, &section_of(&name))?),
            ElementType::U32 => ArrayValues::U32(numbers(&container, &section_of(&name))?),
        };
        Ok((name, Array { shape: meta.shape, values }))
    });
    let arrays = arrays.collect::<Result<BTreeMap<_, _>, Error>>()?;
    let index = match &index {
        Some(_) if container.has(ROWS_ABSENT) => {
            return Err(damaged(ROWS_ABSENT, "the file of a baseline must contain the rows".to_owned()));
        }
        Some(meta) => Some(index::restore(&container, meta)?),
        None => None,
    };
    let parts = BaselineParts { method, params: params.clone(), labels, arrays };
    let scorer = restore(parts, index).map_err(|error| match error {
        nuq_eval::Error::Model(nuq::Error::Neighbors(IndexError::Damaged { section, problem })) => {
            match section_of(&section) {
                array if container.has(&array) => damaged(&array, problem),
                _ => damaged(BASELINE, format!("{section}: {problem}")),
            }
        }
        other => damaged(BASELINE, other.to_string()),
    })?;
    let sections = container.sections().to_vec();
    let thresholds = thresholds.into_iter().map(|(name, threshold)| (name, threshold.0)).collect();
    let details = BaselineDetails { training, thresholds };
    Ok(BaselineFile { scorer, method, params, details, written_by, sections, container })
}

/// The contents of a baseline file in words, for an error message.
pub(crate) fn kind(container: &Container) -> Result<String, Error> {
    Ok(format!("the baseline {}", meta(container)?.method))
}

fn meta(container: &Container) -> Result<BaselineMeta, Error> {
    serde_json::from_slice(container.read(BASELINE)?)
        .map_err(|problem| Error::damaged(container.path(), BASELINE, problem.to_string()))
}

fn section_of(array: &str) -> String {
    format!("{BASELINE}.{array}")
}

fn bytes(values: &ArrayValues) -> &[u8] {
    match values {
        ArrayValues::F64(values) => bytemuck::cast_slice(values),
        ArrayValues::F32(values) => bytemuck::cast_slice(values),
        ArrayValues::U32(values) => bytemuck::cast_slice(values),
    }
}

impl From<&Array> for ArrayMeta {
    fn from(array: &Array) -> Self {
        let r#type = match array.values {
            ArrayValues::F64(_) => ElementType::F64,
            ArrayValues::F32(_) => ElementType::F32,
            ArrayValues::U32(_) => ElementType::U32,
        };
        Self { r#type, shape: array.shape.clone() }
    }
}

impl From<Param> for ParamMeta {
    fn from(param: Param) -> Self {
        match param {
            Param::Default => ParamMeta::Default,
            Param::Integer(value) => ParamMeta::Integer(value),
            Param::Number(value) => ParamMeta::Number(value),
            Param::Word(word) => ParamMeta::Word(word),
        }
    }
}

impl From<ParamMeta> for Param {
    fn from(param: ParamMeta) -> Self {
        match param {
            ParamMeta::Default => Param::Default,
            ParamMeta::Integer(value) => Param::Integer(value),
            ParamMeta::Number(value) => Param::Number(value),
            ParamMeta::Word(word) => Param::Word(word),
        }
    }
}
