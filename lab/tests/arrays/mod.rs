//! Writes generated embeddings and logits as npz files.

#![allow(clippy::unwrap_used)]

use std::io::{Cursor, Write};
use std::path::Path;

use nuq_io::{NpzArray, write_npz};
use nuq_neighbors::SeededRng;

/// Embeddings around class centers with matching logits, or outliers away from the centers.
struct Rows {
    embeddings: Vec<f64>,
    logits: Vec<f64>,
    labels: Vec<i64>,
}

const CLASSES: usize = 3;
const DIM: usize = 6;

fn generate(n: usize, is_outlier: bool, rng: &mut SeededRng) -> Rows {
    let mut rows = Rows { embeddings: vec![], logits: vec![], labels: vec![] };
    for i in 0..n {
        let class = i % CLASSES;
        let center = |j: usize| match is_outlier {
            true => {
                if j >= CLASSES {
                    2.5
                } else {
                    1.0
                }
            }
            false => {
                if j == class {
                    3.0
                } else {
                    0.0
                }
            }
        };
        let row: Vec<f64> = (0..DIM).map(|j| center(j) + 0.6 * rng.normal()).collect();
        rows.logits.extend((0..CLASSES).map(|c| 2.0 * row[c] + 0.3 * rng.normal()));
        rows.embeddings.extend(row);
        rows.labels.push(class as i64);
    }
    rows
}

/// Writes a data folder for `NUQ_DATA` with embeddings of images and of text.
pub(crate) fn write_embeddings(user: &Path) {
    let mut rng = SeededRng::new(2);
    let images = user.join("data/cifar10-resnet18");
    std::fs::create_dir_all(&images).unwrap();
    for (name, n, is_outlier) in [("train", 300, false), ("test", 150, false), ("ood_svhn", 100, true)] {
        let Rows { embeddings, logits, labels } = generate(n, is_outlier, &mut rng);
        let arrays = [
            NpzArray::numbers("embeddings", &embeddings, Some(DIM)),
            NpzArray::numbers("logits", &logits, Some(CLASSES)),
            NpzArray::integers("labels", &labels, None),
        ];
        write_npz(&mut std::fs::File::create(images.join(format!("{name}.npz"))).unwrap(), &arrays).unwrap();
    }
    let text = user.join("data/text");
    std::fs::create_dir_all(&text).unwrap();
    std::fs::write(text.join("rostd_0.01.npz"), text_archive(&mut rng)).unwrap();
}

/// An npz archive for the experiment `text`. `mc_logits` has four noisy copies of the logits, in place of four passes with dropout.
fn text_archive(rng: &mut SeededRng) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let mut write_array = |name: String, shape: &[usize], values: &[f64]| {
        let shape: Vec<String> = shape.iter().map(usize::to_string).collect();
        let header =
            format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}\n", shape.join(", "));
        archive.start_file(format!("{name}.npy"), zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(b"\x93NUMPY\x01\x00").unwrap();
        archive.write_all(&(header.len() as u16).to_le_bytes()).unwrap();
        archive.write_all(header.as_bytes()).unwrap();
        values.iter().for_each(|&v| archive.write_all(&(v as f32).to_le_bytes()).unwrap());
    };
    for (name, n, is_outlier) in [("train", 90, false), ("test", 120, false), ("ood_ood", 60, true)] {
        let Rows { embeddings, logits, labels } = generate(n, is_outlier, rng);
        write_array(format!("{name}_feat"), &[n, DIM], &embeddings);
        write_array(format!("{name}_logits"), &[n, CLASSES], &logits);
        write_array(format!("{name}_labels"), &[n], &labels.iter().map(|&l| l as f64).collect::<Vec<_>>());
        let members: Vec<f64> =
            (0..4).flat_map(|_| logits.iter().map(|z| z + 0.5 * rng.normal()).collect::<Vec<_>>()).collect();
        write_array(format!("{name}_mc_logits"), &[4, n, CLASSES], &members);
    }
    archive.finish().unwrap().into_inner()
}
