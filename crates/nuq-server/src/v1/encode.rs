//! Writes results as JSON, JSON lines, csv or npz, one block of rows after the other.

use std::fmt::Write as _;

use axum::http::{HeaderValue, StatusCode};
use nuq::Label;
use nuq_io::{NpzArray, write_npz};
use serde_json::json;

use crate::error::ApiError;
use crate::results::{Cell, Column, Output, Results, Values};
use crate::served_model::model_changed;

/// The format of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseFormat {
    Json,
    JsonLines,
    Csv,
    Npz,
}

impl ResponseFormat {
    /// The first known format of the header `Accept`; JSON without this header.
    pub(super) fn of(accept: Option<&HeaderValue>) -> Result<Self, ApiError> {
        let Some(accept) = accept.and_then(|accept| accept.to_str().ok()) else { return Ok(Self::Json) };
        let known = |media: &str| match media.split(';').next().unwrap_or_default().trim() {
            "application/json" | "application/*" | "*/*" => Some(Self::Json),
            "application/x-ndjson" | "application/ndjson" | "application/jsonl" => Some(Self::JsonLines),
            "text/csv" | "text/*" => Some(Self::Csv),
            "application/x-npz" | "application/zip" => Some(Self::Npz),
            _ => None,
        };
        accept.split(',').find_map(known).ok_or_else(|| {
            let message = "the header Accept must name application/json, application/x-ndjson, text/csv or application/x-npz";
            ApiError::new(StatusCode::NOT_ACCEPTABLE, "not_acceptable", message)
        })
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::JsonLines => "application/x-ndjson",
            Self::Csv => "text/csv; charset=utf-8",
            Self::Npz => "application/x-npz",
        }
    }
}

/// Writes the blocks of a response.
pub(super) struct Encoder {
    format: ResponseFormat,
    /// The name of the model.
    name: String,
    /// Number of rows that have been written.
    rows: usize,
    /// The version of the model that has computed the first block.
    version: Option<u64>,
    /// The columns of the first block, with their widths.
    columns: Vec<(Output, Option<usize>)>,
    /// All results so far, for npz, which is written at the end.
    all: Option<Results>,
}

impl Encoder {
    pub(super) fn new(format: ResponseFormat, name: &str) -> Self {
        Self { format, name: name.to_owned(), rows: 0, version: None, columns: vec![], all: None }
    }

    /// The next part of the response; empty if nothing is to be sent yet. `version` is the version of the model that has computed the
    /// results. A response in JSON states the version, so it is an error if the blocks have different ones. In the other formats, it is an
    /// error only if the columns differ, because a change has removed a threshold.
    pub(super) fn block(
        &mut self,
        results: &Results,
        version: u64,
        max_rows: usize,
    ) -> Result<Vec<u8>, ApiError> {
        let columns: Vec<_> = results.columns.iter().map(|column| (column.output, column.width)).collect();
        let is_first = self.version.is_none();
        if is_first {
            (self.version, self.columns) = (Some(version), columns);
        } else if self.columns != columns
            || self.format == ResponseFormat::Json && self.version != Some(version)
        {
            return Err(model_changed());
        }
        let mut bytes = Vec::new();
        match self.format {
            ResponseFormat::Npz => {
                if self.rows + results.rows > max_rows {
                    let message = format!(
                        "an npz response has at most {max_rows} rows (--max-rows): accept text/csv or application/x-ndjson, which \
                         are streamed"
                    );
                    return Err(ApiError::too_large("too_many_rows", message));
                }
                match &mut self.all {
                    Some(all) => all.append(results.clone()),
                    None => self.all = Some(results.clone()),
                }
            }
            ResponseFormat::Csv => {
                if is_first {
                    bytes = csv_header(results).into_bytes();
                }
                self.csv_rows(results, &mut bytes);
            }
            ResponseFormat::JsonLines => self.json_rows(results, "\n", &mut bytes),
            ResponseFormat::Json => {
                if is_first {
                    let head = format!("{{\"model\":{},\"version\":{version},\"rows\":[", json!(self.name));
                    bytes = head.into_bytes();
                }
                self.json_rows(results, "", &mut bytes);
            }
        }
        self.rows += results.rows;
        Ok(bytes)
    }

    /// The end of the response.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        match (self.format, self.all.take()) {
            (ResponseFormat::Json, _) => b"]}\n".to_vec(),
            (ResponseFormat::Npz, Some(all)) => npz(self.rows, &all),
            _ => Vec::new(),
        }
    }

    /// The last line of a response in JSON lines if an error occurred after the beginning of the response; `None` for other formats.
    pub(super) fn error(&self, error: &ApiError) -> Option<Vec<u8>> {
        let line = || format!("{}\n", json!({ "error": { "code": error.code, "message": error.message } }));
        (self.format == ResponseFormat::JsonLines).then(|| line().into_bytes())
    }

    /// Writes rows as JSON objects. Each object is followed by `end`. If `end` is empty, the objects are separated by commas.
    fn json_rows(&self, results: &Results, end: &str, bytes: &mut Vec<u8>) {
        for i in 0..results.rows {
            if end.is_empty() && self.rows + i > 0 {
                bytes.push(b',');
            }
            bytes.extend_from_slice(format!("{{\"row\":{}", self.rows + i).as_bytes());
            for column in results.columns.iter().filter(|column| column.width.is_none()) {
                bytes.extend_from_slice(format!(",\"{}\":", column.output).as_bytes());
                column.values.write_json(i, bytes);
            }
            write_neighbors(results, i, bytes);
            bytes.push(b'}');
            bytes.extend_from_slice(end.as_bytes());
        }
    }

    fn csv_rows(&self, results: &Results, bytes: &mut Vec<u8>) {
        let mut text = String::new();
        for i in 0..results.rows {
            let _ = write!(text, "{}", self.rows + i);
            for column in results.columns.iter().filter(|column| column.width.is_none()) {
                write_cell(&mut text, column, i);
            }
            let (neighbors, width) = neighbor_columns(results);
            for j in 0..width {
                neighbors.iter().for_each(|column| write_cell(&mut text, column, i * width + j));
            }
            text.push('\n');
        }
        bytes.extend_from_slice(text.as_bytes());
    }
}

/// The columns of neighbors, and the number of neighbors of each row.
fn neighbor_columns(results: &Results) -> (Vec<&Column>, usize) {
    let columns: Vec<&Column> = results.columns.iter().filter(|column| column.width.is_some()).collect();
    let width = columns.first().and_then(|column| column.width).unwrap_or(0);
    (columns, width)
}

/// The name of a field of a neighbor.
fn neighbor_field(output: Output) -> &'static str {
    match output {
        Output::NeighborIds => "id",
        Output::NeighborDistances => "distance",
        Output::NeighborLabels => "label",
        _ => "target",
    }
}

fn write_neighbors(results: &Results, row: usize, bytes: &mut Vec<u8>) {
    let (columns, width) = neighbor_columns(results);
    if columns.is_empty() {
        return;
    }
    bytes.extend_from_slice(b",\"neighbors\":[");
    for j in 0..width {
        bytes.extend_from_slice(if j > 0 { b",{" } else { b"{" });
        for (k, column) in columns.iter().enumerate() {
            let separator = if k > 0 { "," } else { "" };
            bytes.extend_from_slice(format!("{separator}\"{}\":", neighbor_field(column.output)).as_bytes());
            column.values.write_json(row * width + j, bytes);
        }
        bytes.push(b'}');
    }
    bytes.push(b']');
}

fn csv_header(results: &Results) -> String {
    let mut names = vec!["row".to_owned()];
    names.extend(
        results
            .columns
            .iter()
            .filter(|column| column.width.is_none())
            .map(|column| column.output.to_string()),
    );
    let (neighbors, width) = neighbor_columns(results);
    for j in 1..=width {
        names
            .extend(neighbors.iter().map(|column| format!("neighbor_{j}_{}", neighbor_field(column.output))));
    }
    names.join(",") + "\n"
}

fn write_cell(text: &mut String, column: &Column, i: usize) {
    text.push(',');
    let first = text.len();
    let _ = write!(text, "{}", Cell(&column.values, i));
    if text[first..].contains(['"', ',', '\n', '\r']) {
        let quoted = format!("\"{}\"", text[first..].replace('"', "\"\""));
        text.truncate(first);
        text.push_str(&quoted);
    }
}

/// All results as the arrays of an npz archive.
fn npz(rows: usize, results: &Results) -> Vec<u8> {
    let numbers: Vec<i64> = (0..rows as i64).collect();
    let mut arrays = vec![NpzArray::integers("row", &numbers, None)];
    arrays.extend(results.columns.iter().map(array));
    let mut bytes = Vec::new();
    write_npz(&mut bytes, &arrays).expect("arrays are written to memory");
    bytes
}

fn array(column: &Column) -> NpzArray<'static> {
    let (name, width) = (column.output.name(), column.width);
    match &column.values {
        Values::Numbers(values) => NpzArray::numbers(name, values, width),
        Values::Booleans(values) => NpzArray::booleans(name, values, width),
        Values::Ids(values) => {
            let values: Vec<i64> = values.iter().map(|&id| i64::from(id)).collect();
            NpzArray::integers(name, &values, width)
        }
        Values::Labels(labels) => label_array(name, labels, width),
    }
}

/// An array of labels: of booleans or of 64-bit integers if all labels have this type, otherwise of strings.
fn label_array(name: &'static str, labels: &[Label], width: Option<usize>) -> NpzArray<'static> {
    let boolean = |label: &Label| if let Label::Bool(value) = label { Some(*value) } else { None };
    let integer =
        |label: &Label| if let Label::Int(value) = label { i64::try_from(*value).ok() } else { None };
    if let Some(values) =
        labels.iter().map(boolean).collect::<Option<Vec<bool>>>().filter(|all| !all.is_empty())
    {
        return NpzArray::booleans(name, &values, width);
    }
    if let Some(values) =
        labels.iter().map(integer).collect::<Option<Vec<i64>>>().filter(|all| !all.is_empty())
    {
        return NpzArray::integers(name, &values, width);
    }
    let texts: Vec<String> = labels.iter().map(Label::to_string).collect();
    NpzArray::strings(name, &texts, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_that_states_a_version_or_has_fixed_columns_is_of_one_version() {
        let block = |output| {
            let values = Values::Numbers(vec![0.5]);
            Results { rows: 1, columns: vec![Column { output, width: None, values }] }
        };
        let (total, mean) = (block(Output::Total), block(Output::Mean));
        for (format, fails) in [(ResponseFormat::Json, true), (ResponseFormat::Csv, false)] {
            let mut encoder = Encoder::new(format, "m");
            encoder.block(&total, 5, 10).unwrap();
            encoder.block(&total, 5, 10).unwrap();
            assert_eq!(encoder.block(&total, 6, 10).is_err(), fails);
            assert_eq!(encoder.block(&mean, 6, 10).unwrap_err().code, "model_changed");
        }
    }
}
