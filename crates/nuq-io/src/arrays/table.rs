//! Reads csv and tsv tables, with or without a header.
//!
//! Unless [`Header`] decides it, the first line is a header in each of these cases:
//! - none of its cells is a number or a missing value such as `NA`, and a cell of another line is a number;
//! - it holds the names 0, 1, 2, … that pandas gives to unnamed columns, at least 0 and 1, see below;
//! - it has several names, and the first is empty, as pandas writes the name of its index; that column is then ignored;
//! - it holds the names of all requested columns.
//!
//! With [`Header::No`], columns are selected by their numbers, counted from 0 as in the names that pandas gives them.
//!
//! Four cases are ambiguous, and are errors:
//! - the first line holds 0, 1, 2, … in fewer than ten columns, and another line consists of integers too;
//! - the first line of embeddings holds integers that may be column numbers, see [`are_column_numbers`], there are other lines, and none
//!   of them consists of integers;
//! - the first line holds the names of all requested columns, or its first cell is empty, but it may be a row, see [`may_be_row`];
//! - the first line of labels may be a label or the name of the column, see [`may_be_name`].

use std::collections::{HashMap, HashSet};

use csv::StringRecord;
use nuq::Label;

use super::input::Input;
use super::records::{Record, Records};
use super::table_rows::{Block, CoordinateColumns, TableFile, TableRows, is_beyond_range};
use super::{ArraySpec, Header, ReadOptions};
use crate::{Error, Position};

/// A table whose first line has been read.
pub(crate) struct Table<'s> {
    spec: &'s ArraySpec,
    records: Records,
    /// The separator of the cells.
    delimiter: u8,
    /// Whether the table can be opened again.
    can_reopen: bool,
    header: Header,
    /// The first line; `None` if the file is empty.
    first: Option<Record>,
    first_line: FirstLine,
    /// Whether the first column is the index that pandas writes without a name.
    has_index: bool,
    /// Whether the header is 0, 1, 2, … in fewer than [`NUMBERED_COLUMNS`] columns. As soon as another line consists of integers, such a
    /// header is ambiguous. The function [`may_be_row`] tests other headers.
    is_short_numbering: bool,
}

/// A first line 0, 1, 2, … with at least this many columns is certainly a header.
const NUMBERED_COLUMNS: usize = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FirstLine {
    Header,
    Row,
    /// No cell is a number or a missing value. The line is a header if a cell of another line is a number.
    Strings,
}

impl<'s> Table<'s> {
    /// Reads the first line of a table. With [`Header::Auto`], a first line that contains all of `names` is a header.
    pub(crate) fn open(
        spec: &'s ArraySpec,
        input: Input,
        delimiter: u8,
        names: &[String],
        header: Header,
    ) -> Result<Self, Error> {
        let can_reopen = input.can_reopen();
        let mut records = Records::open(spec, input, delimiter);
        let first = records.next()?;
        let cells = first.as_ref().map(|first| &first.cells);
        let first_line = match header {
            Header::Yes => FirstLine::Header,
            Header::No => FirstLine::Row,
            Header::Auto => cells.map_or(FirstLine::Row, |cells| first_line(cells, names)),
        };
        let is_ambiguous =
            header == Header::Auto && cells.is_some_and(|cells| may_be_row(cells, names, &first_line));
        let has_index = first_line == FirstLine::Header && cells.is_some_and(has_empty_name);
        let is_short_numbering = header == Header::Auto
            && first_line == FirstLine::Header
            && cells.is_some_and(|cells| cells.len() < NUMBERED_COLUMNS && is_numbered(cells));
        let is_empty = header != Header::No
            && cells.is_some_and(|cells| cells.len() > 1 && cells.iter().all(|cell| cell.trim().is_empty()));
        let table = Self {
            spec,
            delimiter: records.delimiter(),
            records,
            can_reopen,
            header,
            first,
            first_line,
            has_index,
            is_short_numbering,
        };
        match (is_ambiguous, is_empty) {
            (true, _) => Err(table.ambiguous()),
            (_, true) => Err(table.bad(
                "all cells of its first line are empty: remove the line, or read it as a row with --header no".to_owned(),
            )),
            _ => Ok(table),
        }
    }

    /// The next line after the first one.
    fn next(&mut self) -> Result<Option<Record>, Error> {
        let record = self.records.next()?;
        self.check_numbering(record)
    }

    /// The next row of coordinates after the first line.
    fn next_row(&mut self) -> Result<Option<Record>, Error> {
        let record = self.records.next_row()?;
        self.check_numbering(record)
    }

    /// Returns an error if `is_short_numbering` is set and this line consists of integers: the first line 0, 1, 2, … is then ambiguous.
    fn check_numbering(&self, record: Option<Record>) -> Result<Option<Record>, Error> {
        let is_integers = |record: &Record| record.cells.iter().all(|cell| integer(cell).is_some());
        if self.is_short_numbering && record.as_ref().is_some_and(is_integers) {
            return Err(self.ambiguous());
        }
        Ok(record)
    }

    /// The cells of the first line, if it is or may be a header; otherwise empty.
    pub(crate) fn names(&self) -> Vec<String> {
        match (&self.first, self.first_line) {
            (Some(first), FirstLine::Header | FirstLine::Strings) => {
                first.cells.iter().map(|name| name.trim().to_owned()).collect()
            }
            _ => vec![],
        }
    }

    /// All columns except `without` as numbers, and the cells of the columns `kept`, which are copied to the results.
    pub(crate) fn numbers(
        mut self,
        without: &[String],
        kept: &[String],
        options: ReadOptions,
    ) -> Result<TableRows, Error> {
        if self.first_line == FirstLine::Strings {
            self.first_line = FirstLine::Header;
        }
        let mut excluded: HashSet<usize> = HashSet::new();
        for name in without {
            excluded.insert(self.column(&self.spec.named(name))?);
        }
        let kept = kept.iter().map(|name| self.column(&self.spec.named(name)));
        let kept: Vec<usize> = kept.collect::<Result<_, _>>()?;
        excluded.extend(self.has_index.then_some(0));
        let columns = self.first.as_ref().map_or(0, |first| first.cells.len());
        let dim = columns - excluded.len();
        if columns > 0 && dim == 0 {
            return Err(self.bad("no column is left: all columns are excluded".to_owned()));
        }
        let first = self.first.take();
        let (names, mut next) = match self.first_line {
            FirstLine::Header => (first, self.next_row()?),
            FirstLine::Row | FirstLine::Strings => (None, first),
        };
        if next.is_none() {
            return Err(self.bad("the table has no rows".to_owned()));
        }
        let columns = CoordinateColumns { excluded, kept, dim };
        let is_streamed = options.in_blocks && self.can_reopen;
        let mut numbering = Numbering::default();
        let mut block = Block::new(0, &columns);
        while let Some(record) = next {
            numbering.add(&record.cells);
            self.check_more_rows(options, numbering.rows)?;
            block.push(self.spec, &columns, &record, |column, cell| {
                let name = names.as_ref().map(|names| names.cells[column].trim().to_owned());
                self.bad_coordinate(record.line, column, name, cell)
            })?;
            // A cell of the first row that is not a number is reported before a wrong number of columns, because its column may be the
            // one that must be excluded.
            if numbering.rows == 1 {
                options.check_columns(self.spec, dim)?;
            }
            if is_streamed {
                block.clear();
            }
            next = self.next_row()?;
        }
        if self.header == Header::Auto && names.is_none() && numbering.is_ambiguous() {
            return Err(self.ambiguous());
        }
        let file = is_streamed.then(|| TableFile {
            spec: self.spec.clone(),
            delimiter: self.delimiter,
            has_header: names.is_some(),
            reader: None,
        });
        let column_names = names.map(|names| {
            let cells = names.cells.iter().enumerate();
            let cells = cells.filter(|(column, _)| !columns.excluded.contains(column));
            cells.map(|(_, name)| name.trim().to_owned()).collect()
        });
        Ok(TableRows { rows: numbering.rows, columns, column_names, file, block })
    }

    pub(crate) fn targets(mut self, options: ReadOptions) -> Result<Vec<f64>, Error> {
        if self.first_line == FirstLine::Strings {
            self.first_line = FirstLine::Header;
        }
        let mut targets = Vec::new();
        let name = self.spec.name.clone();
        self.for_each_cell(|table, line, cell| {
            let target = cell.parse().map_err(|_| {
                if let Some(problem) = wrong_separator(line, cell, table.delimiter) {
                    return table.bad(problem);
                }
                let column = name.as_ref().map_or("the target".to_owned(), |name| format!("column `{name}`"));
                table.bad(format!("line {line}, {column} is `{cell}`, not a number"))
            })?;
            table.reserve(&mut targets, 1)?;
            targets.push(target);
            table.check_more_rows(options, targets.len())?;
            Ok(())
        })?;
        Ok(targets)
    }

    /// A column as labels: integers if all cells are integers in their canonical form (`1`), or if all are such integers with zeros
    /// after a decimal point (`1.0`); strings otherwise. Other numbers with a point, a decimal comma or an exponent are errors, unless
    /// there are strings too.
    pub(crate) fn labels(mut self, options: ReadOptions) -> Result<Vec<Label>, Error> {
        let first = self.first.as_ref().map_or(0, |first| first.line);
        let (mut cells, mut others): (Vec<LabelCell>, usize) = (Vec::new(), 0);
        self.for_each_cell(|table, line, cell| {
            table.reserve(&mut cells, 1)?;
            cells.push(LabelCell { line, text: cell.to_owned() });
            // The first line may be a header, so it is not counted here.
            others += usize::from(line > first);
            table.check_more_rows(options, others)
        })?;
        // Blank lines before the header are no labels.
        let labels = cells.iter().position(|cell| cell.line == first).map_or(0, |header| header + 1);
        if self.first_line == FirstLine::Strings
            && cells.iter().skip(labels).any(|cell| is_numeric_label(&cell.text))
        {
            cells.drain(..labels);
        } else if self.header == Header::Auto && self.first_line != FirstLine::Header && may_be_name(&cells) {
            return Err(self.ambiguous());
        }
        options.check_rows(self.spec, cells.len())?;
        if let Some(missing) = cells.iter().find(|cell| Label::MISSING.contains(&cell.text.as_str())) {
            let (at, value) = (Position::Line(missing.line), missing.text.clone());
            return Err(Error::MissingLabel { spec: self.spec.clone(), at, value });
        }
        let all = |integer: fn(&str) -> Option<Label>| {
            cells.iter().map(|cell| integer(&cell.text)).collect::<Option<Vec<Label>>>()
        };
        if let Some(integers) = all(canonical_integer).or_else(|| all(integer_as_float)) {
            return Ok(integers);
        }
        if cells.iter().all(|cell| is_numeric_label(&cell.text))
            && let Some(problem) = float_label(&cells, self.delimiter)
        {
            return Err(self.bad(problem));
        }
        Ok(cells.into_iter().map(|cell| Label::Text(cell.text)).collect())
    }

    /// Calls `read` with line and trimmed text of each cell of the requested column, or of the only one. A first line that may
    /// be a header is included.
    fn for_each_cell(
        &mut self,
        mut read: impl FnMut(&Self, u64, &str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // The column is checked before other lines are read.
        let column = self.column(self.spec)?;
        let mut read_record = |table: &Self, record: &Record| {
            // A blank line of a table with one column is an empty cell.
            if record.cells.len() == 1 && record.blank_lines > 0 {
                read(table, record.line - record.blank_lines, "")?;
            }
            read(table, record.line, record.cells.get(column).unwrap_or_default().trim())
        };
        if self.first_line != FirstLine::Header
            && let Some(first) = &self.first
        {
            read_record(self, first)?;
        }
        while let Some(record) = self.next()? {
            read_record(self, &record)?;
        }
        Ok(())
    }

    /// The requested column, or the only one if none was requested.
    fn column(&self, spec: &ArraySpec) -> Result<usize, Error> {
        let cells: Vec<&str> =
            self.first.iter().flat_map(|first| first.cells.iter()).map(str::trim).collect();
        let index = usize::from(self.has_index);
        let Some(name) = &spec.name else {
            return if cells.len() == index + 1 { Ok(index) } else { Err(self.no_such_column(spec, &cells)) };
        };
        if self.header == Header::No {
            return match name.parse() {
                Ok(column) if column < cells.len() => Ok(column),
                _ => {
                    let problem = format!(
                        "columns have no names with --header no: give the number of a column, 0 to {}, in place of `{name}`",
                        cells.len().saturating_sub(1)
                    );
                    Err(Error::BadFile { spec: spec.clone(), problem })
                }
            };
        }
        let mut columns = (index..cells.len()).filter(|&i| cells[i] == name);
        match (columns.next(), columns.next()) {
            (Some(column), None) if self.first_line == FirstLine::Header => Ok(column),
            (Some(first), Some(second)) => {
                let problem =
                    format!("columns {first} and {second} have the same name `{name}`: rename one of them");
                Err(Error::BadFile { spec: spec.clone(), problem })
            }
            _ => Err(self.no_such_column(spec, &cells)),
        }
    }

    fn no_such_column(&self, spec: &ArraySpec, cells: &[&str]) -> Error {
        let unnamed = |i: usize| format!("(column {i}, unnamed)");
        let cells = &cells[usize::from(self.has_index)..];
        if let (FirstLine::Row, Some(name)) = (self.first_line, &spec.name)
            && !cells.is_empty()
        {
            let problem = format!(
                "its first line is read as a row, so that no column has the name `{name}`: select columns by their numbers, 0 to {}, \
                 with --header no; if the first line holds names, add --header yes",
                cells.len() - 1
            );
            return Error::BadFile { spec: self.spec.clone(), problem };
        }
        // A long list would hide the message.
        let shown = cells.iter().take(20);
        let mut present: Vec<String> = match self.first_line {
            FirstLine::Row => (0..shown.len()).map(unnamed).collect(),
            FirstLine::Header | FirstLine::Strings => shown.map(|&name| name.to_owned()).collect(),
        };
        present.extend((cells.len() > 20).then(|| format!("… ({} columns)", cells.len())));
        Error::NoSuchColumn { spec: spec.clone(), present }
    }

    fn reserve<T>(&self, values: &mut Vec<T>, additional: usize) -> Result<(), Error> {
        values.try_reserve(additional).map_err(|_| self.bad("it does not fit into memory".to_owned()))
    }

    /// Stops reading if there are more rows than expected.
    fn check_more_rows(&self, options: ReadOptions, rows: usize) -> Result<(), Error> {
        match options.rows {
            Some(expected) if rows > expected => {
                Err(Error::RowCount { spec: self.spec.clone(), got: None, expected })
            }
            _ => Ok(()),
        }
    }

    fn bad(&self, problem: String) -> Error {
        Error::BadFile { spec: self.spec.clone(), problem }
    }

    fn ambiguous(&self) -> Error {
        let problem = "its first line may be a header or a row: choose with --header yes or --header no";
        self.bad(problem.to_owned())
    }

    /// The error of a cell of a coordinate that is not a number in the range of `f32`. The message suggests a correction where one is
    /// known, such as writing decimal points or excluding the column.
    fn bad_coordinate(&self, line: u64, column: usize, name: Option<String>, cell: &str) -> Error {
        if let Some(problem) = wrong_separator(line, cell, self.delimiter) {
            return self.bad(problem);
        }
        if is_beyond_range(cell) {
            let name = name.map_or_else(|| column.to_string(), |name| format!("`{name}`"));
            return self.bad(format!(
                "line {line}, column {name} is {cell}, beyond the range of f32 (±3.4e38): rescale the data"
            ));
        }
        self.bad(match name {
            Some(name) => {
                format!(
                    "line {line}, column `{name}` is `{cell}`, not a number; if `{name}` is not a coordinate, exclude it as {}",
                    self.spec.excluding(&name).argument()
                )
            }
            None => format!("line {line}, column {column} is `{cell}`, not a number"),
        })
    }
}

/// Classifies the first line without the other lines, by the rules in the module documentation.
fn first_line(cells: &StringRecord, names: &[String]) -> FirstLine {
    let has = |name: &String| cells.iter().any(|cell| cell.trim() == name);
    if !names.is_empty() && names.iter().all(has) {
        return FirstLine::Header;
    }
    if has_empty_name(cells) || cells.len() > 1 && is_numbered(cells) {
        return FirstLine::Header;
    }
    let is_missing = |cell: &str| !cell.trim().is_empty() && Label::MISSING.contains(&cell.trim());
    if cells.iter().any(|cell| is_number(cell) || is_missing(cell)) {
        FirstLine::Row
    } else {
        FirstLine::Strings
    }
}

/// Whether the first of several names is empty, as pandas writes the name of its index.
fn has_empty_name(cells: &StringRecord) -> bool {
    cells.len() > 1 && cells[0].trim().is_empty()
}

/// Whether the cells are 0, 1, 2, ….
fn is_numbered(cells: &StringRecord) -> bool {
    cells.iter().enumerate().all(|(i, cell)| cell.trim() == i.to_string())
}

/// Whether a first line that contains the requested names, or whose first cell is empty as in a header that pandas writes, may
/// nevertheless be a row: all its cells, except an empty first one, are numbers, and they are not increasing integers as column numbers
/// are.
fn may_be_row(cells: &StringRecord, names: &[String], first_line: &FirstLine) -> bool {
    let has_index = has_empty_name(cells);
    let others = || cells.iter().skip(usize::from(has_index));
    let is_increasing = || {
        let numbers: Option<Vec<u64>> = others().map(integer).collect();
        numbers.is_some_and(|numbers| numbers.windows(2).all(|pair| pair[0] < pair[1]))
    };
    let is_header = *first_line == FirstLine::Header && (has_index || !names.is_empty());
    is_header && others().all(is_number) && !is_increasing()
}

/// Whether a cell is a number with a decimal comma, or holds the semicolon of a line such as `1,5;2,5` that was split at its commas.
fn has_decimal_comma(cell: &str) -> bool {
    let parts: Vec<&str> = cell.split(';').collect();
    let is_number = |part: &&str| part.replacen(',', ".", 1).trim().parse::<f64>().is_ok();
    (parts.len() > 1 || cell.contains(',')) && parts.iter().all(is_number)
}

/// The problem of a cell that holds several numbers, or a number with a decimal comma.
fn wrong_separator(line: u64, cell: &str, delimiter: u8) -> Option<String> {
    if has_decimal_comma(cell) {
        return Some(decimal_commas(line, cell, delimiter));
    }
    let mut numbers = cell.split_whitespace();
    (numbers.clone().count() > 1 && numbers.all(is_number)).then(|| {
        format!(
            "line {line} has the cell `{cell}`: numbers that are separated by spaces are not supported; separate them by commas, for \
             example in Python with pandas.read_csv(path, sep=r'\\s+', header=None).to_csv(path, index=False, header=False)"
        )
    })
}

/// The problem of a number with a decimal comma. A table whose first line has such a number has no header. The suggested pandas call then
/// has `header=None`, because pandas would otherwise read the first row as a header.
fn decimal_commas(line: u64, cell: &str, delimiter: u8) -> String {
    let (read, write) = if line == 1 { (", header=None", ", header=False") } else { ("", "") };
    // A cell with a semicolon shows that the table was split at its decimal commas.
    let separator = if cell.contains(';') { ';' } else { char::from(delimiter) };
    let separator = separator.escape_default();
    format!(
        "line {line} has the cell `{cell}`: numbers with a decimal comma are not supported; write decimal points, for example in \
         Python with pandas.read_csv(path, sep='{separator}', decimal=','{read}).to_csv(path, sep='{separator}', index=False{write})"
    )
}

fn is_number(cell: &str) -> bool {
    cell.trim().parse::<f64>().is_ok()
}

/// A label and its line.
struct LabelCell {
    line: u64,
    text: String,
}

/// Whether a label is a number, also with a decimal comma. NaN does not count: it is a missing label, which a column
/// of strings may contain too.
fn is_numeric_label(cell: &str) -> bool {
    cell.parse::<f64>().is_ok_and(|value| !value.is_nan()) || has_decimal_comma(cell)
}

/// The problem of labels that are numbers, if one of them is not written as an integer.
fn float_label(cells: &[LabelCell], delimiter: u8) -> Option<String> {
    let is_fraction = |cell: &&LabelCell| cell.text.parse::<f64>().is_ok_and(|value| value.fract() != 0.0);
    if let Some(LabelCell { line, text }) = cells.iter().find(is_fraction) {
        return Some(format!(
            "the label of line {line} is {text}, not an integer: give integers or strings, or use --targets for numbers"
        ));
    }
    let is_float = |cell: &&LabelCell| cell.text.parse::<i128>().is_err();
    let LabelCell { line, text } = cells.iter().find(is_float)?;
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(format!(
            "the label of line {line} is {text}, outside the range of 128-bit integers: give smaller integers or strings"
        ));
    }
    Some(match text.parse::<f64>() {
        // Labels such as `1.0` are integers if all labels have this form.
        Ok(value) if integer_as_float(text).is_some() => format!(
            "the label of line {line} is `{text}`: write all labels in the same form, as integers, for example {value}"
        ),
        Ok(value) => format!(
            "the label of line {line} is `{text}`: write labels as integers, without exponent and decimal point, for example {value}"
        ),
        Err(_) => decimal_commas(*line, text, delimiter),
    })
}

fn integer(cell: &str) -> Option<u64> {
    cell.trim().parse().ok()
}

/// A label that is an integer. Forms such as `01` and `+1` are strings, so that they do not become the same class as `1`.
fn canonical_integer(cell: &str) -> Option<Label> {
    let value: i128 = cell.parse().ok()?;
    (value.to_string() == cell).then_some(Label::Int(value))
}

/// A label that is an integer with zeros after the point, as pandas writes integers that it stores as floats.
fn integer_as_float(cell: &str) -> Option<Label> {
    let (integer, zeros) = cell.split_once('.')?;
    if zeros.is_empty() || zeros.bytes().any(|digit| digit != b'0') {
        return None;
    }
    canonical_integer(integer)
}

/// Whether the first of the labels may be the name of the column. This is so if it occurs only once, and
/// - it is a number, there are other labels, and none of them is a number, or
/// - it is a string, and every other label, if there are any, occurs at least twice.
fn may_be_name(cells: &[LabelCell]) -> bool {
    let [first, rest @ ..] = cells else { return false };
    if rest.iter().any(|cell| cell.text == first.text) {
        return false;
    }
    if is_numeric_label(&first.text) {
        return !rest.is_empty() && !rest.iter().any(|cell| is_number(&cell.text));
    }
    let mut counts: HashMap<&str, usize> = HashMap::new();
    rest.iter().for_each(|cell| *counts.entry(&cell.text).or_default() += 1);
    counts.values().all(|&count| count > 1)
}

/// Whether integers may be the numbers of columns, in any order: more than two integers that all differ, or 0 and 1, or 1 and 2.
fn are_column_numbers(mut numbers: Vec<u64>) -> bool {
    numbers.sort_unstable();
    numbers == [0, 1]
        || numbers == [1, 2]
        || numbers.len() > 2 && numbers.windows(2).all(|pair| pair[0] < pair[1])
}

/// Compares the first row of a table with the others, to detect column numbers.
#[derive(Debug, Default)]
struct Numbering {
    rows: usize,
    /// Whether the first row may be column numbers.
    is_numbered: bool,
    /// Whether another row consists of integers.
    has_integer_row: bool,
}

impl Numbering {
    fn add(&mut self, cells: &StringRecord) {
        self.rows += 1;
        if self.rows == 1 {
            let numbers: Option<Vec<u64>> = cells.iter().map(integer).collect();
            self.is_numbered = numbers.is_some_and(are_column_numbers);
        } else if self.is_numbered && !self.has_integer_row {
            self.has_integer_row = cells.iter().all(|cell| integer(cell).is_some());
        }
    }

    fn is_ambiguous(&self) -> bool {
        self.rows > 1 && self.is_numbered && !self.has_integer_row
    }
}
