//! Outlier sets: images that do not come from the training distribution.
//!
//! MNIST and Fashion-MNIST are downloaded by `lab get-data`. SVHN in gray, notMNIST and KMNIST are read from the user's data folder
//! (parameter `user`, environment variable `NUQ_DATA`), if present. Smooth noise is generated.

use std::path::Path;

use nuq_io::ArraySpec;

use super::get::{self, FASHION_MNIST, MNIST, Source};
use super::smooth_noise::smooth_noise;
use super::{DataError, idx, sets};
use crate::{Images, LabError};

/// An outlier set.
#[derive(Debug, Clone)]
pub struct Outliers {
    /// Name in tables.
    pub name: &'static str,
    /// Images of the set.
    pub images: Images,
}

/// Name and file of the sets in the user's data folder.
const FILES: [(&str, &str); 3] = [
    ("SVHN", "svhn_gray28_1898.npz"),
    ("KMNIST", "kmnist-test-imgs.npz"),
    ("notMNIST", "notmnist-images-idx3-ubyte.gz"),
];

/// All available outlier sets for MNIST, with at most `limit` images each. SVHN, the set of the paper, is first if available.
///
/// # Errors
/// If no set except smooth noise is available, or a file cannot be read.
pub fn for_mnist(cache: &Path, user: Option<&Path>, limit: usize) -> Result<Vec<Outliers>, LabError> {
    let sets = for_network(MNIST, [1, 28, 28], cache, user, limit)?;
    if sets.len() > 1 {
        return Ok(sets);
    }
    let Source { title, name, .. } = FASHION_MNIST;
    let (folder, cache) = (get::folder(cache, name), cache.to_owned());
    Err(DataError::NotDownloaded { title, name, cache, folder }.into())
}

/// All available sets with the given image shape except the training set, with at most `limit` images each. The last set is smooth noise.
///
/// # Errors
/// If a file cannot be read.
pub fn for_network(
    training_set: Source,
    shape: [usize; 3],
    cache: &Path,
    user: Option<&Path>,
    limit: usize,
) -> Result<Vec<Outliers>, LabError> {
    let mut sets = if shape == GRAY { gray_sets(training_set, cache, user, limit)? } else { Vec::new() };
    let images = smooth_noise(limit.min(2000), shape, 0)?;
    sets.push(Outliers { name: "Smooth noise", images });
    Ok(sets)
}

/// Image shape of MNIST and of all sets except CIFAR.
const GRAY: [usize; 3] = [1, 28, 28];

/// The available sets of gray 28 × 28 images.
fn gray_sets(
    training_set: Source,
    cache: &Path,
    user: Option<&Path>,
    limit: usize,
) -> Result<Vec<Outliers>, LabError> {
    let mut sets = Vec::new();
    for (name, file) in FILES {
        let path = user.map(|folder| folder.join("data/digits-ood").join(file));
        if let Some(path) = path.filter(|path| path.is_file()) {
            sets.push(Outliers { name, images: read(&path)?.first(limit) });
        }
    }
    for source in [MNIST, FASHION_MNIST].into_iter().filter(|source| source.name != training_set.name) {
        let path = sets::test_images_path(cache, source);
        if path.is_file() {
            sets.push(Outliers { name: source.title, images: read_idx(&path)?.first(limit) });
        }
    }
    Ok(sets)
}

fn read_idx(path: &Path) -> Result<Images, LabError> {
    let images = idx::read_images(path)?;
    if images.shape() != GRAY {
        let problem = format!("its images have {} × {} pixels, not 28 × 28", images.height, images.width);
        return Err(DataError::BadFile { path: path.to_owned(), problem }.into());
    }
    Ok(images)
}

fn read(path: &Path) -> Result<Images, LabError> {
    if path.extension().is_some_and(|extension| extension == "gz") {
        return read_idx(path);
    }
    // An array of gray images has three dimensions (n × height × width), as an array of ensemble members has, so the same reader is used.
    let images = nuq_io::read_members(&ArraySpec { path: path.to_owned(), name: None })?;
    let (height, width) = images.first().map_or((0, 0), |image| (image.len(), image.dim()));
    let largest = images.iter().flat_map(|image| image.as_slice()).fold(0.0f32, |largest, v| largest.max(*v));
    if (height, width) != (28, 28) || largest <= 1.0 {
        let problem = "it must contain 28 × 28 images with values from 0 to 255".to_owned();
        return Err(DataError::BadFile { path: path.to_owned(), problem }.into());
    }
    let pixels = images.iter().flat_map(|image| image.as_slice()).map(|value| value / 255.0);
    Images::new(1, height, width, pixels.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_notmnist(user: &Path, bytes: &[u8]) {
        let folder = user.join("data/digits-ood");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("notmnist-images-idx3-ubyte.gz"), bytes).unwrap();
    }

    #[test]
    fn missing_sets_error_contains_the_download_command() {
        let cache = tempfile::tempdir().unwrap();
        let error = for_mnist(cache.path(), None, 10).unwrap_err().to_string();
        assert!(error.contains("download it with `lab get-data fashion-mnist --cache "), "{error}");
    }

    #[test]
    fn sets_of_the_user_folder_are_read() {
        let (cache, user) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut bytes = vec![0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 28, 0, 0, 0, 28];
        [0, 255, 51].iter().for_each(|&gray| bytes.extend([gray; 28 * 28]));
        write_notmnist(user.path(), &bytes);
        let sets = for_mnist(cache.path(), Some(user.path()), 2).unwrap();
        assert_eq!((sets.len(), sets[0].name, sets[1].name), (2, "notMNIST", "Smooth noise"));
        assert_eq!(sets[0].images.pixels, [[0.0; 28 * 28], [1.0; 28 * 28]].concat());
        // The only set of color images is smooth noise.
        let sets = for_network(MNIST, [3, 32, 32], cache.path(), Some(user.path()), 2).unwrap();
        assert_eq!((sets.len(), sets[0].images.shape()), (1, [3, 32, 32]));
    }

    #[test]
    fn images_of_another_size_are_an_error_that_names_the_file() {
        let (cache, user) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write_notmnist(user.path(), &[0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 7, 7]);
        let error = for_mnist(cache.path(), Some(user.path()), 2).unwrap_err().to_string();
        let expected = "notmnist-images-idx3-ubyte.gz: its images have 1 × 2 pixels, not 28 × 28";
        assert!(error.ends_with(expected), "{error}");
    }
}
