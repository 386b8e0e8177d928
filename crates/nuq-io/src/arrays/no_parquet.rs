//! Replaces the parquet reader if the feature `parquet` is disabled: opening a file is an error.

use std::fs::File;
use std::ops::Range;

use nuq::Label;

use super::{ArraySpec, KeptColumn};
use crate::Error;

/// An opened parquet file. No value of this type exists, because no file can be opened.
pub(crate) enum ParquetFile {}

/// The rows of an opened parquet file. No value of this type exists.
pub(crate) enum ParquetRows {}

impl ParquetFile {
    pub(crate) fn open(spec: &ArraySpec, _: File) -> Result<Self, Error> {
        Err(Error::WithoutParquet { path: spec.path.clone() })
    }

    pub(crate) fn len(&self) -> usize {
        match *self {}
    }

    pub(crate) fn embeddings(self, _: &ArraySpec, _: &[String], _: &[String]) -> Result<ParquetRows, Error> {
        match self {}
    }

    pub(crate) fn names(&self) -> Vec<String> {
        match *self {}
    }

    pub(crate) fn labels(self, _: &ArraySpec) -> Result<Vec<Label>, Error> {
        match self {}
    }

    pub(crate) fn targets(self, _: &ArraySpec) -> Result<Vec<f64>, Error> {
        match self {}
    }
}

impl ParquetRows {
    pub(crate) fn len(&self) -> usize {
        match *self {}
    }

    pub(crate) fn dim(&self) -> usize {
        match *self {}
    }

    pub(crate) fn column_names(&self) -> Option<Vec<String>> {
        match *self {}
    }

    pub(crate) fn kept(&mut self, _: &ArraySpec, _: Range<usize>) -> Result<Vec<KeptColumn>, Error> {
        match *self {}
    }

    pub(crate) fn values(&mut self, _: &ArraySpec, _: Range<usize>) -> Result<Vec<f32>, Error> {
        match *self {}
    }
}
