//! Stored outputs of the implementation of the paper's authors, read from npz files.

use std::fs::File;
use std::path::{Path, PathBuf};

use ndarray::ArrayD;
use ndarray_npy::{NpzReader, ReadNpzError, ReadableElement};

/// One npz file.
pub struct Golden {
    reader: NpzReader<File>,
    path: PathBuf,
}

impl Golden {
    /// Opens a file. Panics with the name of the file if it cannot be opened.
    pub fn open(path: &Path) -> Self {
        let file = File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let reader = NpzReader::new(file).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Self { reader, path: path.to_owned() }
    }

    /// The names of the arrays.
    pub fn names(&mut self) -> Vec<String> {
        self.reader.names().expect("the zip directory is readable")
    }

    /// An array of any numeric type as `f64`, row-major, with its shape.
    pub fn array(&mut self, name: &str) -> (Vec<f64>, Vec<usize>) {
        self.read(name, |v: f64| v)
            .or_else(|_| self.read(name, |v: f32| f64::from(v)))
            .or_else(|_| self.read(name, |v: i64| v as f64))
            .or_else(|_| self.read(name, |v: i32| f64::from(v)))
            .or_else(|_| self.read(name, |v: i16| f64::from(v)))
            .unwrap_or_else(|e| panic!("{}:{name}: {e}", self.path.display()))
    }

    /// The values of an array.
    pub fn values(&mut self, name: &str) -> Vec<f64> {
        self.array(name).0
    }

    /// The rows of a matrix.
    pub fn rows(&mut self, name: &str) -> Vec<Vec<f64>> {
        let (values, shape) = self.array(name);
        values.chunks(shape[1]).map(<[f64]>::to_vec).collect()
    }

    fn read<T: ReadableElement + Copy>(
        &mut self,
        name: &str,
        widen: impl Fn(T) -> f64,
    ) -> Result<(Vec<f64>, Vec<usize>), ReadNpzError> {
        let array: ArrayD<T> = self.reader.by_name(name)?;
        Ok((array.iter().map(|&v| widen(v)).collect(), array.shape().to_vec()))
    }
}
