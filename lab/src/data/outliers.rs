//! Pictures that are unlike those a network learned from: what it should be unsure about.
//!
//! MNIST and Fashion-MNIST come with `lab get-data`. SVHN in gray, notMNIST and KMNIST are taken from the user's folder where it has
//! them. Smooth noise is made here.

use std::path::Path;

use nuq_io::ArraySpec;

use super::get::{self, FASHION_MNIST, MNIST, Source};
use super::smooth_noise::smooth_noise;
use super::{DataError, idx, sets};
use crate::{Images, LabError};

/// A set by name.
#[derive(Debug, Clone)]
pub struct Outliers {
    /// Its name, as tables show it.
    pub name: &'static str,
    /// Its pictures.
    pub images: Images,
}

/// Files of the user's folder that hold sets.
const FILES: [(&str, &str); 3] = [
    ("SVHN", "svhn_gray28_1898.npz"),
    ("KMNIST", "kmnist-test-imgs.npz"),
    ("notMNIST", "notmnist-images-idx3-ubyte.gz"),
];

/// Every set that is there but MNIST, at most `most` pictures of each; SVHN, the paper's, first. Without any it is said how to have one.
pub fn all(cache: &Path, user: Option<&Path>, most: usize) -> Result<Vec<Outliers>, LabError> {
    let sets = beside(MNIST, [1, 28, 28], cache, user, most)?;
    if sets.len() > 1 {
        return Ok(sets);
    }
    let Source { title, name, .. } = FASHION_MNIST;
    let (folder, cache) = (get::folder(cache, name), cache.to_owned());
    Err(DataError::NotBrought { title, name, cache, folder }.into())
}

/// Every set that is there and has the shape of a network's pictures, but the one that it learned from. Smooth noise, the last, always is.
pub fn beside(
    learned: Source,
    shape: [usize; 3],
    cache: &Path,
    user: Option<&Path>,
    most: usize,
) -> Result<Vec<Outliers>, LabError> {
    let mut sets = if shape == GRAY { gray(learned, cache, user, most)? } else { Vec::new() };
    let images = smooth_noise(most.min(2000), shape, 0)?;
    sets.push(Outliers { name: "Smooth noise", images });
    Ok(sets)
}

/// The shape of digits, and of all sets but CIFAR.
const GRAY: [usize; 3] = [1, 28, 28];

/// The sets of 28 × 28 in gray that are there.
fn gray(learned: Source, cache: &Path, user: Option<&Path>, most: usize) -> Result<Vec<Outliers>, LabError> {
    let mut sets = Vec::new();
    for (name, file) in FILES {
        let path = user.map(|folder| folder.join("data/digits-ood").join(file));
        if let Some(path) = path.filter(|path| path.is_file()) {
            sets.push(Outliers { name, images: read(&path)?.first(most) });
        }
    }
    for source in [MNIST, FASHION_MNIST].into_iter().filter(|source| source.name != learned.name) {
        let path = sets::test_images(cache, source);
        if path.is_file() {
            sets.push(Outliers { name: source.title, images: idx::read_images(&path)?.first(most) });
        }
    }
    Ok(sets)
}

fn read(path: &Path) -> Result<Images, LabError> {
    if path.extension().is_some_and(|ending| ending == "gz") {
        return idx::read_images(path);
    }
    // Pictures of gray lie as members do: height × width of each.
    let pictures = nuq_io::read_members(&ArraySpec { path: path.to_owned(), name: None })?;
    let (height, width) = pictures.first().map_or((0, 0), |picture| (picture.len(), picture.dim()));
    let largest = pictures.iter().flat_map(|picture| picture.as_slice()).fold(0.0f32, |top, v| top.max(*v));
    if (height, width) != (28, 28) || largest <= 1.0 {
        let problem = "it must hold pictures of 28 × 28 with values from 0 to 255".to_owned();
        return Err(DataError::BadFile { path: path.to_owned(), problem }.into());
    }
    let pixels = pictures.iter().flat_map(|picture| picture.as_slice()).map(|value| value / 255.0);
    Images::new(1, height, width, pixels.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_any_set_the_command_is_told() {
        let cache = tempfile::tempdir().unwrap();
        let refused = all(cache.path(), None, 10).unwrap_err().to_string();
        assert!(refused.contains("bring it with `lab get-data fashion-mnist --cache "), "{refused}");
    }

    #[test]
    fn the_sets_of_a_user_are_found() {
        let (cache, user) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folder = user.path().join("data/digits-ood");
        std::fs::create_dir_all(&folder).unwrap();
        let mut bytes = vec![0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 1];
        bytes.extend([0, 255, 51]);
        std::fs::write(folder.join("notmnist-images-idx3-ubyte.gz"), bytes).unwrap();
        let sets = all(cache.path(), Some(user.path()), 2).unwrap();
        assert_eq!((sets.len(), sets[0].name, sets[1].name), (2, "notMNIST", "Smooth noise"));
        assert_eq!(sets[0].images.pixels, [0.0, 1.0]);
        // Of colors there is nothing but noise.
        let sets = beside(MNIST, [3, 32, 32], cache.path(), Some(user.path()), 2).unwrap();
        assert_eq!((sets.len(), sets[0].images.shape()), (1, [3, 32, 32]));
    }
}
