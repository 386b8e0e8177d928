//! Reads the logits of several ensemble members: one array of members × rows × classes.

use nuq::Embeddings;

use super::{ArrayFile, ArraySpec, Contents, IndexError, ReadOptions, StoredArray, open};
use crate::Error;

/// Description of the valid shapes.
pub(super) const SHAPE: &str =
    "an array of members × rows × classes, none of them zero (numpy.stack of one array per member)";

/// Reads the logits of several ensemble members (the networks of a deep ensemble, dropout samples, or transformed inputs) for the same
/// rows: an array of members × rows × classes in a .npy, .npz or .safetensors file. The result has one array of rows × classes per
/// member.
///
/// # Errors
/// If the file cannot be read, if it does not contain a three-dimensional array of numbers with at least one member, row and class, or
/// if a value is not finite or overflows `f32`.
///
/// ```
/// use nuq_io::{ArraySpec, read_members};
/// let path = std::env::temp_dir().join(format!("nuq-members-{}.npy", std::process::id()));
/// let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1, 3), }\n";
/// let values: Vec<u8> = (0..6u8).flat_map(|v| f32::from(v).to_le_bytes()).collect();
/// let file = [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), &values].concat();
/// std::fs::write(&path, file)?;
/// let members = read_members(&ArraySpec { path: path.clone(), name: None })?;
/// assert_eq!((members.len(), members[1].row(0)), (2, &[3.0, 4.0, 5.0][..]));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read_members(spec: &ArraySpec) -> Result<Vec<Embeddings<'static>>, Error> {
    read_members_with(ReadOptions::new(), spec)
}

pub(super) fn read_members_with(
    options: ReadOptions,
    spec: &ArraySpec,
) -> Result<Vec<Embeddings<'static>>, Error> {
    let table = || {
        let problem = format!("a table has no third dimension: save {SHAPE} to a .npy or .npz file");
        Error::BadFile { spec: spec.clone(), problem }
    };
    if let Some("csv" | "tsv" | "parquet") = spec.extension().as_deref() {
        return Err(table());
    }
    let opened = open(spec, &[], options, Contents::Members)?;
    let ArrayFile::Stored(mut stored) = opened else { return Err(table()) };
    match stored.shape[..] {
        [members, rows, classes] if members > 0 && rows > 0 && classes > 0 => {
            // Verify the size in the header before allocating memory for it.
            stored.source.verify_length(spec, members * rows * classes * stored.element.size())?;
            if stored.is_fortran {
                stored.members_in_fortran_order(spec, members, rows, classes)
            } else {
                (0..members).map(|member| stored.member(spec, member, rows, classes)).collect()
            }
        }
        _ => Err(Error::Shape { spec: spec.clone(), shape: stored.shape, expected: SHAPE }),
    }
}

impl StoredArray {
    /// Reads one member of an array in C order. In this order the values of a member are contiguous.
    fn member(
        &mut self,
        spec: &ArraySpec,
        member: usize,
        rows: usize,
        classes: usize,
    ) -> Result<Embeddings<'static>, Error> {
        let len = rows * classes * self.element.size();
        let bytes = self.source.read(spec, member * len, len)?;
        let overflow = self.element.first_overflow(&bytes);
        checked(spec, member, self.element.f32s(&bytes), classes, overflow)
    }

    /// Reads all members of an array in Fortran order. In this order the values of a class are contiguous: row by
    /// row, one value per member.
    fn members_in_fortran_order(
        &mut self,
        spec: &ArraySpec,
        members: usize,
        rows: usize,
        classes: usize,
    ) -> Result<Vec<Embeddings<'static>>, Error> {
        let mut values = vec![vec![0f32; rows * classes]; members];
        let mut overflow = vec![None; members];
        let len = members * rows * self.element.size();
        for class in 0..classes {
            let bytes = self.source.read(spec, class * len, len)?;
            for (at, value) in self.element.f32s(&bytes).into_iter().enumerate() {
                values[at % members][at / members * classes + class] = value;
            }
            if self.element.first_overflow(&bytes).is_some() {
                for (member, overflow) in
                    overflow.iter_mut().enumerate().filter(|(_, overflow)| overflow.is_none())
                {
                    let of_member = bytes.chunks_exact(self.element.size()).skip(member).step_by(members);
                    let first =
                        self.element.first_overflow(&of_member.flatten().copied().collect::<Vec<u8>>());
                    *overflow = first.map(|(row, value)| (row * classes + class, value));
                }
            }
        }
        let all = values.into_iter().zip(overflow).enumerate();
        all.map(|(member, (values, overflow))| checked(spec, member, values, classes, overflow)).collect()
    }
}

/// The logits of a member, or an error if a value is not finite or overflows `f32`. `overflow` is the position of a finite value that
/// overflows `f32`, if there is one, and that value.
fn checked(
    spec: &ArraySpec,
    member: usize,
    values: Vec<f32>,
    classes: usize,
    overflow: Option<(usize, f64)>,
) -> Result<Embeddings<'static>, Error> {
    let logits = match overflow {
        Some((at, value)) => Err(IndexError::OutOfRange { row: at / classes, column: at % classes, value }),
        None => Embeddings::new(values, classes),
    };
    logits.map_err(|source| Error::Member { spec: spec.clone(), member, source: Box::new(source.into()) })
}
