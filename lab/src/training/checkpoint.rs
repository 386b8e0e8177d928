//! Cache of trained networks and of checkpoints of unfinished trainings.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use nuq_io::write_atomically;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};

use super::recipe::{Architecture, HeadKind, Recipe};
use crate::{LabError, Labeled};

/// Key of the JSON metadata in the safetensors file.
const METADATA_KEY: &str = "nuq-lab";

/// A folder of trained networks and of checkpoints of unfinished trainings.
///
/// Each training has one safetensors file, whose name contains a hash of recipe and data. The file contains the weights and, until
/// training is complete, the state of the optimizer. Recipe, completed epochs and training time are JSON metadata. Files are
/// written under a temporary name and renamed. A file with its final name is therefore never partly written.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// Creates a cache in a folder. The folder is created when the first file is stored.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Whether the cache contains the completely trained network.
    ///
    /// # Errors
    /// If the checkpoint exists but cannot be read.
    pub fn has(&self, recipe: &Recipe, data: &Labeled) -> Result<bool, LabError> {
        let stored = Checkpoint::load(&self.path(recipe, data))?;
        Ok(stored.is_some_and(|checkpoint| checkpoint.metadata.epochs >= recipe.epochs))
    }

    /// Path of the checkpoint of a training.
    #[must_use]
    pub fn path(&self, recipe: &Recipe, data: &Labeled) -> PathBuf {
        let architecture = match recipe.architecture {
            Architecture::Mlp { .. } => "mlp",
            Architecture::Cnn { .. } => "cnn",
            Architecture::ResNet18 { .. } => "resnet18",
            Architecture::ResNet50 { .. } => "resnet50",
        };
        let head = match recipe.head {
            HeadKind::Softmax => "softmax",
            HeadKind::Duq { .. } => "duq",
            HeadKind::Sngp { .. } => "sngp",
        };
        let spectral = if recipe.spectral.is_some() { "-spectral" } else { "" };
        let hash = hash(recipe, data);
        self.folder.join(format!(
            "v{TRAINING_VERSION}-{architecture}-{head}{spectral}-seed{}-{hash:016x}.safetensors",
            recipe.seed
        ))
    }
}

/// Version of the training code, part of file names. Increase it when the same recipe gives a different network, for example after a
/// change of layers, initialization or loss.
const TRAINING_VERSION: u32 = 2;

/// 64-bit hash of the recipe, the shape of the images, the number of classes, the labels and the pixels. It is computed as FNV-1a, but each
/// step takes a whole value instead of a byte.
fn hash(recipe: &Recipe, data: &Labeled) -> u64 {
    // `Debug` contains every field and, unlike JSON serialization, cannot fail.
    let recipe = format!("{recipe:?}");
    let shape = data.images.shape().into_iter().chain([data.n_classes]);
    let words = recipe
        .bytes()
        .map(u64::from)
        .chain(shape.map(|size| size as u64))
        .chain(data.labels.iter().map(|&label| label as u64))
        .chain(data.images.pixels.iter().map(|value| u64::from(value.to_bits())));
    words.fold(0xcbf2_9ce4_8422_2325, |hash, word| (hash ^ word).wrapping_mul(0x0100_0000_01b3))
}

/// Metadata of a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) recipe: Recipe,
    /// Image shape: channels, rows, columns.
    pub(crate) shape: [usize; 3],
    /// Number of completed epochs.
    pub(crate) epochs: usize,
    /// Number of completed steps.
    pub(crate) steps: usize,
    /// Training time in seconds.
    pub(crate) seconds: f64,
}

/// State of a training after an epoch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Checkpoint {
    pub(crate) metadata: Metadata,
    /// Shape and values of each tensor, by name.
    pub(crate) tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
}

impl Checkpoint {
    /// Writes the file atomically.
    pub(crate) fn store(&self, path: &Path) -> Result<(), LabError> {
        // Not `LabError::Checkpoint`, whose advice is to delete the file: the file does not exist yet, or is the valid one of a former epoch.
        let failed = |problem: String| {
            let source = io::Error::other(format!("the checkpoint cannot be stored: {problem}"));
            LabError::File { path: path.to_owned(), source }
        };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)
                .map_err(|source| LabError::File { path: folder.to_owned(), source })?;
        }
        let metadata = serde_json::to_string(&self.metadata).map_err(|error| failed(error.to_string()))?;
        let bytes: Vec<(&str, &[usize], Vec<u8>)> = self
            .tensors
            .iter()
            .map(|(name, (shape, values))| {
                (
                    name.as_str(),
                    shape.as_slice(),
                    values.iter().flat_map(|value| value.to_le_bytes()).collect(),
                )
            })
            .collect();
        let views = bytes
            .iter()
            .map(|(name, shape, bytes)| Ok((*name, TensorView::new(Dtype::F32, shape.to_vec(), bytes)?)))
            .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()
            .map_err(|error| failed(error.to_string()))?;
        let metadata = HashMap::from([(METADATA_KEY.to_owned(), metadata)]);
        let file =
            safetensors::serialize(views, Some(metadata)).map_err(|error| failed(error.to_string()))?;
        Ok(write_atomically(path, |writer| writer.write_all(&file))?)
    }

    /// Reads a file. Returns `None` if it does not exist.
    pub(crate) fn load(path: &Path) -> Result<Option<Self>, LabError> {
        let invalid = |problem: String| LabError::Checkpoint { path: path.to_owned(), problem };
        if !path.exists() {
            return Ok(None);
        }
        let file = fs::read(path).map_err(|source| LabError::File { path: path.to_owned(), source })?;
        let (_, metadata) = SafeTensors::read_metadata(&file).map_err(|error| invalid(error.to_string()))?;
        let metadata = metadata.metadata().as_ref().and_then(|metadata| metadata.get(METADATA_KEY));
        let metadata = metadata.ok_or_else(|| invalid("it is not a checkpoint of `lab`".to_owned()))?;
        let metadata = serde_json::from_str(metadata).map_err(|error| invalid(error.to_string()))?;
        let views = SafeTensors::deserialize(&file).map_err(|error| invalid(error.to_string()))?;
        let tensors = views
            .iter()
            .map(|(name, view)| (name.to_owned(), (view.shape().to_vec(), floats(&view))))
            .collect();
        Ok(Some(Self { metadata, tensors }))
    }

    /// Removes all tensors with a prefix and returns them without the prefix.
    pub(crate) fn take(&mut self, prefix: &str) -> BTreeMap<String, (Vec<usize>, Vec<f32>)> {
        let (taken, rest): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.tensors).into_iter().partition(|(name, _)| name.starts_with(prefix));
        self.tensors = rest;
        taken.into_iter().map(|(name, tensor)| (name[prefix.len()..].to_owned(), tensor)).collect()
    }
}

fn floats(view: &TensorView<'_>) -> Vec<f32> {
    view.data().as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Images;

    fn checkpoint() -> Checkpoint {
        let metadata =
            Metadata { recipe: Recipe::moons(4), shape: [1, 1, 2], epochs: 3, steps: 21, seconds: 0.25 };
        let tensors = BTreeMap::from([
            ("model.a".to_owned(), (vec![2, 2], vec![1.0, -0.5, f32::MIN_POSITIVE, 3.25])),
            ("other.b".to_owned(), (vec![1], vec![7.0])),
        ]);
        Checkpoint { metadata, tensors }
    }

    fn moons(values: [f32; 4]) -> Labeled {
        Labeled::new(Images::new(1, 1, 2, values.to_vec()).unwrap(), vec![0, 1], 2).unwrap()
    }

    #[test]
    fn checkpoint_round_trips() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep").join("a.safetensors");
        assert_eq!(Checkpoint::load(&path).unwrap(), None);
        checkpoint().store(&path).unwrap();
        let mut loaded = Checkpoint::load(&path).unwrap().unwrap();
        assert_eq!(loaded, checkpoint());
        assert_eq!(loaded.take("model.").keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!(loaded.tensors.len(), 1);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file remains");
    }

    #[test]
    fn damaged_file_error_names_file_and_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.safetensors");
        checkpoint().store(&path).unwrap();
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 3]).unwrap();
        let message = Checkpoint::load(&path).unwrap_err().to_string();
        assert!(message.contains("a.safetensors") && message.contains("delete the file"), "{message}");
    }

    #[test]
    fn failed_store_does_not_advise_to_delete_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.safetensors");
        let mut checkpoint = checkpoint();
        checkpoint.tensors.insert("model.c".to_owned(), (vec![2, 2], vec![1.0]));
        let message = checkpoint.store(&path).unwrap_err().to_string();
        assert!(message.contains("a.safetensors: the checkpoint cannot be stored: "), "{message}");
        assert!(!message.contains("delete") && !path.exists(), "{message}");
    }

    #[test]
    fn path_depends_on_recipe_data_and_seed() {
        let cache = Cache::new("cache");
        let path = |recipe: Recipe, values| cache.path(&recipe, &moons(values));
        let one = path(Recipe::moons(0), [0.0, 1.0, 0.5, 0.5]);
        assert_eq!(one, path(Recipe::moons(0), [0.0, 1.0, 0.5, 0.5]));
        assert_ne!(one, path(Recipe::moons(1), [0.0, 1.0, 0.5, 0.5]));
        assert_ne!(one, path(Recipe { epochs: 7, ..Recipe::moons(0) }, [0.0, 1.0, 0.5, 0.5]));
        assert_ne!(one, path(Recipe::moons(0), [0.0, 1.0, 0.5, 0.25]));
        assert!(one.to_string_lossy().contains("mlp-softmax-seed0-"), "{one:?}");
    }
}
