//! Where trained networks are kept, so that each is trained once and a training that was stopped goes on.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use nuq_io::write_atomically;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};

use super::recipe::{Architecture, HeadKind, Recipe};
use crate::{LabError, Labeled};

/// The key of our JSON in the file's metadata.
const NOTE: &str = "nuq-lab";

/// A folder of trained networks and of trainings that are not over.
///
/// A file is named for its recipe and a hash of recipe and data, and is a safetensors file: weights and, while training is not over,
/// the optimizer's state; its metadata tell the recipe, the epochs done and the seconds they took as JSON. It is written under a
/// temporary name and renamed: whoever finds it finds all of it.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// A cache in a folder, which is made when something is stored.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Whether a training is over and its network here.
    pub fn has(&self, recipe: &Recipe, data: &Labeled) -> Result<bool, LabError> {
        let stored = Checkpoint::load(&self.path(recipe, data))?;
        Ok(stored.is_some_and(|checkpoint| checkpoint.note.epochs >= recipe.epochs))
    }

    /// The file of a training.
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
            "v{FORMAT}-{architecture}-{head}{spectral}-seed{}-{hash:016x}.safetensors",
            recipe.seed
        ))
    }
}

/// To be raised when the same recipe comes to mean another network: a layer, an initialization or a loss that changed.
const FORMAT: u32 = 2;

/// 64 bits of Fowler, Noll and Vo's hash over the recipe, the pictures and their labels, word by word.
fn hash(recipe: &Recipe, data: &Labeled) -> u64 {
    // `Debug` shows every field, as JSON does, and cannot fail.
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

/// What the file's metadata tell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) recipe: Recipe,
    /// Channels, rows and columns of the pictures.
    pub(crate) shape: [usize; 3],
    /// Epochs done.
    pub(crate) epochs: usize,
    /// Steps done.
    pub(crate) steps: usize,
    /// How long they took.
    pub(crate) seconds: f64,
}

/// A training between two epochs, as plain numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Checkpoint {
    pub(crate) note: Note,
    /// Shape and values by name.
    pub(crate) tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
}

impl Checkpoint {
    /// Writes all of the file or nothing.
    pub(crate) fn store(&self, path: &Path) -> Result<(), LabError> {
        let damaged = |problem: String| LabError::Checkpoint { path: path.to_owned(), problem };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)
                .map_err(|source| LabError::File { path: folder.to_owned(), source })?;
        }
        let note = serde_json::to_string(&self.note).map_err(|error| damaged(error.to_string()))?;
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
            .map_err(|error| damaged(error.to_string()))?;
        let metadata = HashMap::from([(NOTE.to_owned(), note)]);
        let file =
            safetensors::serialize(views, Some(metadata)).map_err(|error| damaged(error.to_string()))?;
        Ok(write_atomically(path, |writer| writer.write_all(&file))?)
    }

    /// Reads a file, or `None` where there is none.
    pub(crate) fn load(path: &Path) -> Result<Option<Self>, LabError> {
        let damaged = |problem: String| LabError::Checkpoint { path: path.to_owned(), problem };
        if !path.exists() {
            return Ok(None);
        }
        let file = fs::read(path).map_err(|source| LabError::File { path: path.to_owned(), source })?;
        let (_, metadata) = SafeTensors::read_metadata(&file).map_err(|error| damaged(error.to_string()))?;
        let note = metadata.metadata().as_ref().and_then(|metadata| metadata.get(NOTE));
        let note = note.ok_or_else(|| damaged("it is not a checkpoint of the laboratory".to_owned()))?;
        let note = serde_json::from_str(note).map_err(|error| damaged(error.to_string()))?;
        let views = SafeTensors::deserialize(&file).map_err(|error| damaged(error.to_string()))?;
        let tensors = views
            .iter()
            .map(|(name, view)| (name.to_owned(), (view.shape().to_vec(), floats(&view))))
            .collect();
        Ok(Some(Self { note, tensors }))
    }

    /// Takes all tensors under a prefix out, without it.
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
        let note = Note { recipe: Recipe::moons(4), shape: [1, 1, 2], epochs: 3, steps: 21, seconds: 0.25 };
        let tensors = BTreeMap::from([
            ("model.a".to_owned(), (vec![2, 2], vec![1.0, -0.5, f32::MIN_POSITIVE, 3.25])),
            ("other.b".to_owned(), (vec![1], vec![7.0])),
        ]);
        Checkpoint { note, tensors }
    }

    fn moons(values: [f32; 4]) -> Labeled {
        Labeled::new(Images::new(1, 1, 2, values.to_vec()).unwrap(), vec![0, 1], 2).unwrap()
    }

    #[test]
    fn what_is_stored_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep").join("a.safetensors");
        assert_eq!(Checkpoint::load(&path).unwrap(), None);
        checkpoint().store(&path).unwrap();
        let mut loaded = Checkpoint::load(&path).unwrap().unwrap();
        assert_eq!(loaded, checkpoint());
        assert_eq!(loaded.take("model.").keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!(loaded.tensors.len(), 1);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn a_damaged_file_is_named_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.safetensors");
        checkpoint().store(&path).unwrap();
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 3]).unwrap();
        let message = Checkpoint::load(&path).unwrap_err().to_string();
        assert!(message.contains("a.safetensors") && message.contains("delete the file"), "{message}");
    }

    #[test]
    fn recipe_data_and_seed_each_have_their_file() {
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
