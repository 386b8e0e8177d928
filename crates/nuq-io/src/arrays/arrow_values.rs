//! Converts Arrow arrays to numbers or labels.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use nuq::Label;

use super::element::Element;

/// Numbers as `f32`; nulls are NaN. Empty for other types.
pub(super) fn f32s(array: &ArrayRef) -> Vec<f32> {
    match array.data_type() {
        DataType::Float32 if array.null_count() == 0 => array.as_primitive::<Float32Type>().values().to_vec(),
        DataType::Float32 => each::<Float32Type, f32>(array, f32::NAN, |v| v),
        DataType::Float16 => each::<Float16Type, f32>(array, f32::NAN, |v| v.to_f32()),
        _ => f64s(array).into_iter().map(|v| v as f32).collect(),
    }
}

/// Position and value of the first finite `f64` that overflows `f32`.
pub(super) fn first_overflow(array: &ArrayRef) -> Option<(usize, f64)> {
    if *array.data_type() != DataType::Float64 {
        return None;
    }
    let is_overflow = |v: &f64| v.is_finite() && (*v as f32).is_infinite();
    f64s(array).into_iter().enumerate().find(|(_, v)| is_overflow(v))
}

/// Numbers as `f64`; nulls are NaN. Empty for other types.
pub(super) fn f64s(array: &ArrayRef) -> Vec<f64> {
    match array.data_type() {
        DataType::Float16 => each::<Float16Type, f64>(array, f64::NAN, |v| v.to_f64()),
        DataType::Float32 => each::<Float32Type, f64>(array, f64::NAN, f64::from),
        DataType::Float64 => each::<Float64Type, f64>(array, f64::NAN, |v| v),
        _ => {
            let integers = integers(array).unwrap_or_default().into_iter();
            integers.enumerate().map(|(i, v)| if array.is_null(i) { f64::NAN } else { v as f64 }).collect()
        }
    }
}

/// An entry that is not a label.
pub(super) enum BadEntry {
    /// A number that is not an integer, or a float that may be a rounded integer.
    Number(f64),
    /// Bytes that are not UTF-8.
    Text,
}

/// Whether values of a type are read as labels.
pub(super) fn are_labels(kind: &DataType) -> bool {
    matches!(kind, DataType::Utf8 | DataType::Binary | DataType::Boolean)
        || kind.is_floating()
        || kind.is_integer()
}

/// Labels of an array without nulls; `None` if values of its type are not labels. The error has the row and the kind
/// of an entry that is not a label.
pub(super) fn labels(array: &ArrayRef) -> Result<Option<Vec<Label>>, (usize, BadEntry)> {
    Ok(match array.data_type() {
        DataType::Utf8 => {
            let texts = array.as_string::<i32>();
            Some((0..texts.len()).map(|i| Label::from(texts.value(i))).collect())
        }
        // Some writers store strings as binary values without the annotation that they are strings.
        DataType::Binary => {
            let texts = array.as_binary::<i32>();
            let text = |i: usize| match str::from_utf8(texts.value(i)) {
                Ok(text) => Ok(Label::from(text)),
                Err(_) => Err((i, BadEntry::Text)),
            };
            Some((0..texts.len()).map(text).collect::<Result<_, _>>()?)
        }
        DataType::Boolean => {
            let flags = array.as_boolean();
            Some((0..flags.len()).map(|i| Label::from(flags.value(i))).collect())
        }
        // Integers stored as floats.
        kind if kind.is_floating() => {
            let element = match kind {
                DataType::Float16 => Element::F16,
                DataType::Float32 => Element::F32,
                _ => Element::F64,
            };
            let (values, limit) = (f64s(array), element.largest_label());
            match values.iter().position(|v| v.fract() != 0.0 || v.abs() > limit) {
                None => Some(values.iter().map(|&v| Label::Int(v as i128)).collect()),
                Some(row) => return Err((row, BadEntry::Number(values[row]))),
            }
        }
        _ => integers(array).map(|values| values.into_iter().map(Label::Int).collect()),
    })
}

/// Integers; nulls are 0. `None` for other types.
pub(super) fn integers(array: &ArrayRef) -> Option<Vec<i128>> {
    Some(match array.data_type() {
        DataType::Int8 => each::<Int8Type, i128>(array, 0, i128::from),
        DataType::Int16 => each::<Int16Type, i128>(array, 0, i128::from),
        DataType::Int32 => each::<Int32Type, i128>(array, 0, i128::from),
        DataType::Int64 => each::<Int64Type, i128>(array, 0, i128::from),
        DataType::UInt8 => each::<UInt8Type, i128>(array, 0, i128::from),
        DataType::UInt16 => each::<UInt16Type, i128>(array, 0, i128::from),
        DataType::UInt32 => each::<UInt32Type, i128>(array, 0, i128::from),
        DataType::UInt64 => each::<UInt64Type, i128>(array, 0, i128::from),
        _ => return None,
    })
}

fn each<P: ArrowPrimitiveType, T: Copy>(array: &ArrayRef, missing: T, of: impl Fn(P::Native) -> T) -> Vec<T> {
    let array = array.as_primitive::<P>();
    array.iter().map(|value| value.map_or(missing, &of)).collect()
}
