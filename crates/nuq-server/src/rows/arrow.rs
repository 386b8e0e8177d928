//! Arrow streams in blocks: one column of lists, or one column of numbers per coordinate.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_ipc::reader::StreamReader;
use arrow_schema::{ArrowError, DataType, SchemaRef};

use super::{BLOCK, Blocks, BodyReader, Columns, Failure, embeddings};
use crate::batch::Rows;
use crate::error::ApiError;

pub(super) struct ArrowBlocks {
    reader: StreamReader<BodyReader>,
    columns: Columns,
    /// Values that were read but not yet returned.
    values: Vec<f32>,
    /// Number of the row that `values` begin with.
    first: usize,
    /// Whether a block was returned. A body without rows has one empty block.
    is_started: bool,
    failure: Failure,
}

impl ArrowBlocks {
    pub(super) fn open(body: BodyReader, columns: Columns) -> Result<Self, ApiError> {
        let failure = body.failure();
        let reader = guarded(|| StreamReader::try_new(body, None)).map_err(|error| failure.or(error))?;
        check_schema(&reader.schema(), &columns)?;
        Ok(Self { reader, columns, values: Vec::new(), first: 0, is_started: false, failure })
    }
}

impl Blocks for ArrowBlocks {
    fn next(&mut self) -> Result<Option<Rows>, ApiError> {
        let columns = self.columns.count;
        while self.values.len() < BLOCK * columns {
            // The limits apply to each record batch.
            self.reader.get_mut().restart();
            let batch = guarded(|| self.reader.next().transpose()).map_err(|error| self.failure.or(error))?;
            let Some(batch) = batch else { break };
            let row = self.first + self.values.len() / columns;
            append(&batch, columns, row, &mut self.values)?;
        }
        if self.values.is_empty() && self.is_started {
            return Ok(None);
        }
        self.is_started = true;
        let rest = self.values.split_off(self.values.len().min(BLOCK * columns));
        let block = std::mem::replace(&mut self.values, rest);
        let first = self.first;
        self.first += block.len() / columns;
        Ok(Some(Rows { embeddings: embeddings(block, columns, first)?, logits: None }))
    }
}

/// Calls a function of the Arrow library, which panics on some damaged data.
fn guarded<T>(read: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, ApiError> {
    let damaged = |problem: String| ApiError::invalid(format!("the Arrow stream cannot be read: {problem}"));
    match nuq_io::catch_panic(read) {
        Some(result) => result.map_err(|error| damaged(error.to_string())),
        None => Err(damaged("it is damaged".to_owned())),
    }
}

fn check_schema(schema: &SchemaRef, columns: &Columns) -> Result<(), ApiError> {
    let fields = schema.fields();
    if let [field] = fields.as_ref()
        && let DataType::FixedSizeList(item, _) | DataType::List(item) | DataType::LargeList(item) =
            field.data_type()
    {
        return check_type(field.name(), item.data_type());
    }
    fields.iter().try_for_each(|field| check_type(field.name(), field.data_type()))?;
    columns.check_count(fields.len())?;
    columns.check_names(&fields.iter().map(|field| field.name().clone()).collect::<Vec<_>>())
}

fn check_type(name: &str, kind: &DataType) -> Result<(), ApiError> {
    if kind.is_floating() || kind.is_integer() {
        return Ok(());
    }
    Err(ApiError::invalid(format!(
        "the column {name:?} has the type {kind}: send numbers, as one column of lists or one column per coordinate"
    )))
}

/// Appends the rows of a record batch.
fn append(batch: &RecordBatch, columns: usize, row: usize, values: &mut Vec<f32>) -> Result<(), ApiError> {
    let missing = || {
        ApiError::invalid(format!("the record batch at row {row} has missing values: send finite numbers"))
    };
    if batch.columns().iter().any(|column| column.null_count() > 0) {
        return Err(missing());
    }
    let lists =
        (batch.num_columns() == 1).then(|| batch.column(0)).filter(|column| column.data_type().is_list());
    let Some(lists) = lists else {
        let parts = batch.columns().iter().map(numbers).collect::<Result<Vec<_>, _>>()?;
        values.reserve(batch.num_rows() * columns);
        (0..batch.num_rows()).for_each(|i| values.extend(parts.iter().map(|part| part[i])));
        return Ok(());
    };
    for i in 0..lists.len() {
        let list = match lists.data_type() {
            DataType::FixedSizeList(..) => lists.as_fixed_size_list().value(i),
            DataType::List(_) => lists.as_list::<i32>().value(i),
            _ => lists.as_list::<i64>().value(i),
        };
        if list.null_count() > 0 {
            return Err(missing());
        }
        if list.len() != columns {
            return Err(ApiError::invalid(format!(
                "row {} has {} values, but the model was fitted to {columns} columns",
                row + i,
                list.len()
            )));
        }
        values.extend(numbers(&list)?);
    }
    Ok(())
}

/// Numbers as `f32`.
fn numbers(array: &ArrayRef) -> Result<Vec<f32>, ApiError> {
    Ok(match array.data_type() {
        DataType::Float16 => each::<Float16Type>(array, |value| value.to_f32()),
        DataType::Float32 => array.as_primitive::<Float32Type>().values().to_vec(),
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>().values();
            if let Some(value) =
                values.iter().find(|value| value.is_finite() && (**value as f32).is_infinite())
            {
                return Err(ApiError::invalid(format!(
                    "the value {value:e} exceeds the range of 32-bit numbers"
                )));
            }
            values.iter().map(|&value| value as f32).collect()
        }
        DataType::Int8 => each::<Int8Type>(array, f32::from),
        DataType::Int16 => each::<Int16Type>(array, f32::from),
        DataType::Int32 => each::<Int32Type>(array, |value| value as f32),
        DataType::Int64 => each::<Int64Type>(array, |value| value as f32),
        DataType::UInt8 => each::<UInt8Type>(array, f32::from),
        DataType::UInt16 => each::<UInt16Type>(array, f32::from),
        DataType::UInt32 => each::<UInt32Type>(array, |value| value as f32),
        DataType::UInt64 => each::<UInt64Type>(array, |value| value as f32),
        other => return Err(ApiError::invalid(format!("values of the type {other} are not numbers"))),
    })
}

fn each<P: ArrowPrimitiveType>(array: &ArrayRef, of: impl Fn(P::Native) -> f32) -> Vec<f32> {
    array.as_primitive::<P>().values().iter().map(|&value| of(value)).collect()
}
