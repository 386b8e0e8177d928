//! Checks the schema in the footer of a parquet file before the parquet library reads it.
//!
//! Each element of a schema states the number of its children. The library allocates memory for that number,
//! and it calls itself once per level of nesting, so a damaged number can exhaust the memory, and a deep schema can exhaust the stack.
//! Both would end the process.

use super::thrift::{BINARY, Compact, STRUCT};

/// Largest number of nested groups. Files have at most a few.
const MAX_DEPTH: usize = 64;

/// Field ids in the definition of the format. The fields of the footer are the version, the schema, the number of rows, and fields with
/// higher ids. The fields 1 to 9 of a schema element are integers, except the name.
const VERSION: i64 = 1;
const SCHEMA: i64 = 2;
const NUM_ROWS: i64 = 3;
const NAME: i64 = 4;
const NUM_CHILDREN: i64 = 5;
const LAST_INTEGER: i64 = 9;

/// The problem of the schema of a footer, if the library must not read it.
pub(super) fn problem(footer: &[u8]) -> Option<&'static str> {
    children(footer).and_then(|children| problem_of(&children))
}

/// The problem of a schema whose elements have these numbers of children. The elements are in depth-first order.
fn problem_of(children: &[i64]) -> Option<&'static str> {
    // The numbers of children that are still to come, from the root to the current group.
    let mut groups: Vec<i64> = vec![];
    for &count in children {
        if usize::try_from(count).is_ok_and(|count| count > children.len()) {
            return Some("its schema states more children than it has elements");
        }
        while groups.pop_if(|remaining| *remaining == 0).is_some() {}
        if let Some(remaining) = groups.last_mut() {
            *remaining -= 1;
        }
        if count > 0 {
            groups.push(count);
        }
        if groups.len() > MAX_DEPTH {
            return Some("its schema is nested too deeply");
        }
    }
    None
}

/// The number of children of each element of the schema; `None` if the library returns an error before it uses the schema. The library
/// uses the schema as soon as it has read it. It ignores the stated types of the fields that it knows, and so does this function.
fn children(footer: &[u8]) -> Option<Vec<i64>> {
    let mut reader = Compact::new(footer);
    let mut children = None;
    // `fields` returns `None` after the schema was read, and also if the footer is damaged. Both end the search.
    let _ = reader.fields(|reader, id, kind| match id {
        SCHEMA => {
            children = schema(reader);
            None
        }
        VERSION | NUM_ROWS => reader.varint().map(|_| ()),
        _ => reader.skip(kind, 0),
    });
    children
}

/// The number of children of each element of a schema.
fn schema(reader: &mut Compact<'_>) -> Option<Vec<i64>> {
    let (count, element) = reader.list()?;
    let mut children = vec![];
    for _ in 0..count {
        if element != STRUCT {
            return None;
        }
        let mut number = 0;
        reader.fields(|reader, id, kind| match id {
            NUM_CHILDREN => {
                // A number beyond 32 bits is not valid. It exceeds the number of elements, so `problem_of` reports it.
                let value = reader.integer()?;
                number = if i32::try_from(value).is_ok() { value } else { i64::MAX };
                Some(())
            }
            NAME => reader.skip(BINARY, 0),
            1..=LAST_INTEGER => reader.varint().map(|_| ()),
            _ => reader.skip(kind, 0),
        })?;
        children.push(number);
    }
    Some(children)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_children_are_bounded_by_the_number_of_elements() {
        assert_eq!(problem_of(&[]), None);
        assert_eq!(problem_of(&[2, 0, 1, 0]), None);
        assert_eq!(problem_of(&[2, 0, 5, 0]), Some("its schema states more children than it has elements"));
        // The library returns an error for negative numbers.
        assert_eq!(problem_of(&[-1]), None);
    }

    #[test]
    fn the_depth_of_a_schema_is_bounded() {
        let nested = |depth: usize| [vec![1; depth], vec![0]].concat();
        assert_eq!(problem_of(&nested(MAX_DEPTH)), None);
        assert_eq!(problem_of(&nested(MAX_DEPTH + 1)), Some("its schema is nested too deeply"));
        // Groups beside each other are not nested.
        let beside: Vec<i64> = std::iter::once(200).chain([1, 0].repeat(200)).collect();
        assert_eq!(problem_of(&beside), None);
    }

    #[test]
    fn the_schema_is_found_among_other_fields() {
        // version = 1; schema = [{num_children = 1}, {name = "x"}]; num_rows = 3; a list of two booleans; a map; the end.
        let footer = [
            0x15, 2, 0x19, 0x2c, 0x55, 2, 0, 0x48, 1, b'x', 0, 0x16, 6, 0x19, 0x21, 1, 2, 0x1b, 1, 0x58, 2,
            1, b'y', 0,
        ];
        assert_eq!(children(&footer), Some(vec![1, 0]));
        for length in 0..footer.len() {
            // The schema ends with byte 10. Later damage does not hide it.
            let expected = (length > 10).then(|| vec![1, 0]);
            assert_eq!(children(&footer[..length]), expected, "{length}");
        }
        // A list of 2⁶² - 1 elements.
        assert_eq!(children(&[0x29, 0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f]), None);
        // The stated type of the number of children is a wrong one, which the library ignores.
        assert_eq!(children(&[0x29, 0x1c, 0x58, 0x80, 0x80, 0x04, 0, 0]), Some(vec![0x8000]));
    }
}
