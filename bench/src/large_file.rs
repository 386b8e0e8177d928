//! Large npy files of synthetic rows, written in blocks and removed at the end.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::data::Source;
use crate::peers;

/// Number of rows that are drawn and written at once. It is a multiple of the number of classes of each benchmark, so row i has the class i
/// modulo the number of classes.
pub(crate) const BLOCK: usize = 10_000;

/// A file that is removed on drop.
pub(crate) struct Temporary(pub(crate) PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // A file that remains under target/ is harmless.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Writes `rows` rows as an npy file, block by block; block i is drawn with the seed `seed + i`. The values begin at a multiple of 64
/// bytes, as in files of numpy.
pub(crate) fn write(path: &Path, source: &Source, rows: usize, seed: u64) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path).map_err(failed)?);
    let shape = format!("({rows}, {})", source.dim());
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    let padded = (10 + header.len() + 1).next_multiple_of(64) - 10;
    file.write_all(b"\x93NUMPY\x01\x00").map_err(failed)?;
    file.write_all(&(padded as u16).to_le_bytes()).map_err(failed)?;
    file.write_all(format!("{header:<0$}\n", padded - 1).as_bytes()).map_err(failed)?;
    for first in (0..rows).step_by(BLOCK) {
        let (values, _) = source.draw(BLOCK.min(rows - first), seed + (first / BLOCK) as u64);
        for value in values.as_slice() {
            file.write_all(&value.to_le_bytes()).map_err(failed)?;
        }
    }
    file.flush().map_err(failed)
}

/// Checks that the folder has space for files of this many bytes.
pub(crate) fn check_space(folder: &Path, bytes: f64) -> Result<(), String> {
    const GB: f64 = 1e9;
    // Systems without `df` are not checked.
    let Ok(printed) = peers::run(Command::new("df").arg("-Pk").arg(folder)) else { return Ok(()) };
    let free = printed.lines().nth(1).and_then(|line| line.split_whitespace().nth(3)?.parse::<f64>().ok());
    match free.map(|kib| 1024.0 * kib) {
        Some(free) if free < bytes => Err(format!(
            "{} has {:.1} GB of free space, and {:.1} GB are needed: free some, or give fewer rows",
            folder.display(),
            free / GB,
            bytes / GB
        )),
        _ => Ok(()),
    }
}

/// The sizes `[ROWS] [COLUMNS]` of a benchmark, or its default.
pub(crate) fn sizes(
    bench: &str,
    arguments: &[&str],
    (rows, columns): (usize, usize),
) -> Result<(usize, usize), String> {
    let number = |word: &&str| word.parse().ok().filter(|&n| n > 0);
    let numbers: Option<Vec<usize>> = arguments.iter().map(number).collect();
    match numbers.as_deref() {
        Some([]) => Ok((rows, columns)),
        Some([rows]) => Ok((*rows, columns)),
        Some([rows, columns]) => Ok((*rows, *columns)),
        _ => Err(format!("usage: cargo xtask bench {bench} [ROWS] [COLUMNS]")),
    }
}
