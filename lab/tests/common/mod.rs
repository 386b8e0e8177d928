//! Shared test code: runs the program and writes small data sets.

#![allow(clippy::unwrap_used)]

use std::io::Read;
use std::path::Path;
use std::process::{Command, Output};

use nuq_neighbors::SeededRng;

const SIDE: usize = 28;

/// A noisy bright rectangle of random size.
fn rectangle(rng: &mut SeededRng) -> Vec<u8> {
    let [left, top] = [2 + rng.below(8), 2 + rng.below(8)];
    let [right, bottom] = [left + 8 + rng.below(10), top + 8 + rng.below(10)];
    let brightness = 100.0 + 150.0 * rng.uniform();
    let pixel = |i: usize| {
        let inside = (left..right).contains(&(i % SIDE)) && (top..bottom).contains(&(i / SIDE));
        ((if inside { brightness } else { 0.0 }) + 40.0 * rng.normal()).clamp(0.0, 255.0) as u8
    };
    (0..SIDE * SIDE).map(pixel).collect()
}

/// A file in the IDX format of MNIST: array sizes, then bytes.
fn idx(sizes: &[usize], bytes: &[u8]) -> Vec<u8> {
    let mut file = vec![0, 0, 8, sizes.len() as u8];
    sizes.iter().for_each(|size| file.extend((*size as u32).to_be_bytes()));
    file.extend(bytes);
    file
}

/// Writes the MNIST digits of `tests/data` and, in place of Fashion-MNIST, images of rectangles to the cache.
pub(crate) fn write_digits(cache: &Path) {
    let folder = cache.join("data/mnist");
    std::fs::create_dir_all(&folder).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    for part in ["train", "t10k"] {
        for name in [format!("{part}-images-idx3-ubyte"), format!("{part}-labels-idx1-ubyte")] {
            let compressed = std::fs::File::open(source.join(format!("{name}.gz"))).unwrap();
            let mut bytes = Vec::new();
            flate2::read::GzDecoder::new(compressed).read_to_end(&mut bytes).unwrap();
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }
    let folder = cache.join("data/fashion-mnist");
    std::fs::create_dir_all(&folder).unwrap();
    let mut rng = SeededRng::new(1);
    let pixels: Vec<u8> = (0..100).flat_map(|_| rectangle(&mut rng)).collect();
    // The reader accepts uncompressed files under this name.
    std::fs::write(folder.join("t10k-images-idx3-ubyte.gz"), idx(&[100, SIDE, SIDE], &pixels)).unwrap();
}

/// The program, without the environment variable `NUQ_DATA` of the user.
pub(crate) fn lab() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lab"));
    command.env_remove("NUQ_DATA");
    command
}

/// The stderr of a finished program.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
