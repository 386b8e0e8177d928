//! Running the program, on data that the tests make themselves: digits of seven strokes, and blobs that are none.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

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

/// A digit, somewhere, a little turned, with noise.
fn digit(class: usize, rng: &mut SeededRng) -> Vec<u8> {
    let (right, down) = (rng.below(5) as isize - 2, rng.below(5) as isize - 2);
    let light = 150.0 + 100.0 * rng.uniform();
    let (sine, cosine) = (40.0 * (rng.uniform() - 0.5)).to_radians().sin_cos();
    let is_lit = |x: isize, y: isize| {
        let strokes = PLACES.iter().zip(STROKES[class]).filter(|(_, has)| *has == 1);
        strokes
            .map(|(place, _)| place.map(|v| v as isize))
            .any(|[l, t, r, b]| (l..=r).contains(&x) && (t..=b).contains(&y))
    };
    let pixel = |i: usize| {
        let (x, y) = ((i % SIDE) as f64 - 13.5, (i / SIDE) as f64 - 13.5);
        let (x, y) = (cosine * x - sine * y + 13.5, sine * x + cosine * y + 13.5);
        let (x, y) = (x.round() as isize - right, y.round() as isize - down);
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
pub(crate) fn write_digits(cache: &Path) {
    let mut rng = SeededRng::new(1);
    let folder = cache.join("data/mnist");
    std::fs::create_dir_all(&folder).unwrap();
    for (part, n) in [("train", 600), ("t10k", 200)] {
        let classes: Vec<u8> = (0..n).map(|i| (i % 10) as u8).collect();
        let pixels: Vec<u8> = classes.iter().flat_map(|&class| digit(usize::from(class), &mut rng)).collect();
        std::fs::write(folder.join(format!("{part}-images-idx3-ubyte")), idx(&[n, SIDE, SIDE], &pixels))
            .unwrap();
        std::fs::write(folder.join(format!("{part}-labels-idx1-ubyte")), idx(&[n], &classes)).unwrap();
    }
    let folder = cache.join("data/fashion-mnist");
    std::fs::create_dir_all(&folder).unwrap();
    let pixels: Vec<u8> = (0..100).flat_map(|_| blob(&mut rng)).collect();
    std::fs::write(folder.join("t10k-images-idx3-ubyte.gz"), idx(&[100, SIDE, SIDE], &pixels)).unwrap();
}

/// The program, without what the machine's user set.
pub(crate) fn lab() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lab"));
    command.env_remove("NUQ_DATA");
    command
}

/// Standard error as text.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
