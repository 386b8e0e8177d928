//! Data that the tests make themselves: digits of seven strokes, blobs that are none, and embeddings.

use std::io::{Cursor, Write};
use std::path::Path;
use std::process::{Command, Output};

use nuq_io::{NpzArray, write_npz};
use nuq_neighbors::SeededRng;

const SIDE: usize = 28;

/// Which strokes a digit has: top, upper left, upper right, middle, lower left, lower right, bottom.
const STROKES: [[u8; 7]; 10] = [
    [1, 1, 1, 0, 1, 1, 1],
    [0, 0, 1, 0, 0, 1, 0],
    [1, 0, 1, 1, 1, 0, 1],
    [1, 0, 1, 1, 0, 1, 1],
    [0, 1, 1, 1, 0, 1, 0],
    [1, 1, 0, 1, 0, 1, 1],
    [1, 1, 0, 1, 1, 1, 1],
    [1, 0, 1, 0, 0, 1, 0],
    [1, 1, 1, 1, 1, 1, 1],
    [1, 1, 1, 1, 0, 1, 1],
];

/// Left, top, right and bottom of each stroke.
const PLACES: [[usize; 4]; 7] = [
    [9, 5, 18, 7],
    [8, 6, 10, 13],
    [17, 6, 19, 13],
    [9, 13, 18, 15],
    [8, 14, 10, 22],
    [17, 14, 19, 22],
    [9, 21, 18, 23],
];

/// A digit, somewhere, with noise.
fn digit(class: usize, rng: &mut SeededRng) -> Vec<u8> {
    let (right, down) = (rng.below(7) as isize - 3, rng.below(7) as isize - 3);
    let light = 150.0 + 100.0 * rng.uniform();
    let is_lit = |x: isize, y: isize| {
        let strokes = PLACES.iter().zip(STROKES[class]).filter(|(_, has)| *has == 1);
        strokes.map(|(place, _)| place.map(|v| v as isize)).any(|[l, t, r, b]| (l..=r).contains(&x) && (t..=b).contains(&y))
    };
    let pixel = |i: usize| {
        let (x, y) = ((i % SIDE) as isize - right, (i / SIDE) as isize - down);
        let base = if is_lit(x, y) { light } else { 0.0 };
        (base + 25.0 * rng.normal()).clamp(0.0, 255.0) as u8
    };
    (0..SIDE * SIDE).map(pixel).collect()
}

/// A bright box of any size: no digit.
fn blob(rng: &mut SeededRng) -> Vec<u8> {
    let [left, top] = [2 + rng.below(8), 2 + rng.below(8)];
    let [right, bottom] = [left + 8 + rng.below(10), top + 8 + rng.below(10)];
    let light = 100.0 + 150.0 * rng.uniform();
    let pixel = |i: usize| {
        let inside = (left..right).contains(&(i % SIDE)) && (top..bottom).contains(&(i / SIDE));
        ((if inside { light } else { 0.0 }) + 40.0 * rng.normal()).clamp(0.0, 255.0) as u8
    };
    (0..SIDE * SIDE).map(pixel).collect()
}

fn idx(sizes: &[usize], bytes: &[u8]) -> Vec<u8> {
    let mut file = vec![0, 0, 8, sizes.len() as u8];
    sizes.iter().for_each(|size| file.extend((*size as u32).to_be_bytes()));
    file.extend(bytes);
    file
}

/// Stand-ins for MNIST and Fashion-MNIST, where the laboratory looks for them.
pub fn write_digits(cache: &Path) {
    let mut rng = SeededRng::new(1);
    let folder = cache.join("data/mnist");
    std::fs::create_dir_all(&folder).unwrap();
    for (part, n) in [("train", 600), ("t10k", 200)] {
        let classes: Vec<u8> = (0..n).map(|i| (i % 10) as u8).collect();
        let pixels: Vec<u8> = classes.iter().flat_map(|&class| digit(usize::from(class), &mut rng)).collect();
        std::fs::write(folder.join(format!("{part}-images-idx3-ubyte")), idx(&[n, SIDE, SIDE], &pixels)).unwrap();
        std::fs::write(folder.join(format!("{part}-labels-idx1-ubyte")), idx(&[n], &classes)).unwrap();
    }
    let folder = cache.join("data/fashion-mnist");
    std::fs::create_dir_all(&folder).unwrap();
    let pixels: Vec<u8> = (0..100).flat_map(|_| blob(&mut rng)).collect();
    std::fs::write(folder.join("t10k-images-idx3-ubyte.gz"), idx(&[100, SIDE, SIDE], &pixels)).unwrap();
}

/// Rows around centers, with logits that a softmax head would give; outliers lie elsewhere.
struct Cluster {
    embeddings: Vec<f64>,
    logits: Vec<f64>,
    labels: Vec<i64>,
}

const CLASSES: usize = 3;
const DIM: usize = 6;

fn cluster(n: usize, is_outlier: bool, rng: &mut SeededRng) -> Cluster {
    let mut made = Cluster { embeddings: vec![], logits: vec![], labels: vec![] };
    for i in 0..n {
        let class = i % CLASSES;
        let center = |j: usize| match is_outlier {
            true => if j >= CLASSES { 2.5 } else { 1.0 },
            false => if j == class { 3.0 } else { 0.0 },
        };
        let row: Vec<f64> = (0..DIM).map(|j| center(j) + 0.6 * rng.normal()).collect();
        made.logits.extend((0..CLASSES).map(|c| 2.0 * row[c] + 0.3 * rng.normal()));
        made.embeddings.extend(row);
        made.labels.push(class as i64);
    }
    made
}

/// A folder as NUQ_DATA names one, with embeddings of images and of text.
pub fn write_embeddings(user: &Path) {
    let mut rng = SeededRng::new(2);
    let images = user.join("data/cifar10-resnet18");
    std::fs::create_dir_all(&images).unwrap();
    for (name, n, is_outlier) in [("train", 300, false), ("test", 150, false), ("ood_svhn", 100, true)] {
        let Cluster { embeddings, logits, labels } = cluster(n, is_outlier, &mut rng);
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

fn text_archive(rng: &mut SeededRng) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let mut put = |name: String, shape: &[usize], values: &[f64]| {
        let shape: Vec<String> = shape.iter().map(usize::to_string).collect();
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}\n", shape.join(", "));
        archive.start_file(format!("{name}.npy"), zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(b"\x93NUMPY\x01\x00").unwrap();
        archive.write_all(&(header.len() as u16).to_le_bytes()).unwrap();
        archive.write_all(header.as_bytes()).unwrap();
        values.iter().for_each(|&v| archive.write_all(&(v as f32).to_le_bytes()).unwrap());
    };
    for (name, n, is_outlier) in [("train", 90, false), ("test", 120, false), ("ood_ood", 60, true)] {
        let Cluster { embeddings, logits, labels } = cluster(n, is_outlier, rng);
        put(format!("{name}_feat"), &[n, DIM], &embeddings);
        put(format!("{name}_logits"), &[n, CLASSES], &logits);
        put(format!("{name}_labels"), &[n], &labels.iter().map(|&l| l as f64).collect::<Vec<_>>());
        let members: Vec<f64> = (0..4).flat_map(|_| logits.iter().map(|z| z + 0.5 * rng.normal()).collect::<Vec<_>>()).collect();
        put(format!("{name}_mc_logits"), &[4, n, CLASSES], &members);
    }
    archive.finish().unwrap().into_inner()
}

/// The program, without what the machine's user set.
pub fn lab() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lab"));
    command.env_remove("NUQ_DATA");
    command
}

/// Standard error as text.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
