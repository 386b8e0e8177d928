//! Tests of labels: booleans, integers or strings, and the errors of other values.

use std::fs;

use nuq::Label;
use nuq_io::{ArraySpec, Error, NpzArray, Position, read_labels, write_npz};

fn csv(text: impl AsRef<[u8]>) -> Result<Vec<Label>, Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("y.csv");
    fs::write(&path, text).unwrap();
    read_labels(&ArraySpec { path, name: None })
}

fn npy(descr: &str, rows: usize, values: &[u8]) -> Result<Vec<Label>, Error> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({rows},), }}\n");
    let length = (header.len() as u16).to_le_bytes();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("y.npy");
    fs::write(&path, [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), values].concat()).unwrap();
    read_labels(&ArraySpec { path, name: None })
}

fn assert_error(labels: Result<Vec<Label>, Error>, end: &str) {
    let error = labels.unwrap_err().to_string();
    assert!(error.ends_with(end), "{error}");
}

#[test]
fn a_leading_zero_a_plus_sign_or_a_negative_zero_makes_all_labels_strings() {
    let words = |words: &[&str]| words.iter().map(|&word| Label::from(word)).collect::<Vec<_>>();
    assert_eq!(csv("1\n01\n001\n").unwrap(), words(&["1", "01", "001"]));
    for other in ["+1", "-0", "00"] {
        assert_eq!(csv(format!("1\n{other}\n2\n1\n")).unwrap(), words(&["1", other, "2", "1"]));
    }
}

#[test]
fn integers_and_decimals_without_a_fraction_are_integers() {
    for text in ["1.0\n2.0\n-3.00\n", "class\n1.0\n2.0\n-3.0\n"] {
        assert_eq!(csv(text).unwrap(), [1, 2, -3].map(Label::from), "{text}");
    }
    let large = i128::from(u64::MAX);
    let integers = csv(format!("class\n-3\n0\n {large}\n")).unwrap();
    assert_eq!(integers, [Label::Int(-3), Label::Int(0), Label::Int(large)]);
}

#[test]
fn fractions_are_errors() {
    let end = "not an integer: give integers or strings, or use --targets for numbers";
    assert_error(csv("1\n0.5\n"), &format!("y.csv: the label of line 2 is 0.5, {end}"));
    assert_error(csv("class\n1\n2\n-0.5\n"), &format!("the label of line 4 is -0.5, {end}"));
    assert_error(csv("1.0\n1e0\n0.5\n"), &format!("the label of line 3 is 0.5, {end}"));
    assert_error(csv("1\ninf\n"), &format!("the label of line 2 is inf, {end}"));
    let error = csv("class\n\"1,5\"\n\"2,5\"\n").unwrap_err().to_string();
    assert!(error.contains("line 2 has the cell `1,5`: numbers with a decimal comma"), "{error}");
    let values = [1.0f32, 0.5].map(f32::to_le_bytes).concat();
    assert_error(npy("<f4", 2, &values), &format!("y.npy: the label of row 1 is 0.5, {end}"));
    // A number among strings is a string.
    assert_eq!(csv("1\ncat\n0.5\n1\n").unwrap()[2], *"0.5");
}

#[test]
fn integers_of_more_than_128_bits_are_errors() {
    let label = "340282366920938463463374607431768211455";
    assert_error(
        csv(format!("1\n{label}\n")),
        &format!(
            "the label of line 2 is {label}, outside the range of 128-bit integers: give smaller integers or strings"
        ),
    );
}

#[test]
fn floats_that_may_be_rounded_integers_are_errors() {
    let end = "floats of this type and size do not represent every integer, so labels may have been rounded; give integers or strings";
    for (value, text) in [(1e16, "10000000000000000"), (-1e16, "-10000000000000000")] {
        let values = [9e15, value].map(f64::to_le_bytes).concat();
        assert_error(
            npy("<f8", 2, &values),
            &format!("y.npy: the label of row 1 is the float {text}: {end}"),
        );
    }
    assert_eq!(npy("<f8", 1, &9e15f64.to_le_bytes()).unwrap(), [Label::Int(9_000_000_000_000_000)]);
    // 16777217 is rounded to 16777216 in 32 bits, and 2049 to 2048 in 16 bits.
    let error = |text: &str| format!("y.npy: the label of row 0 is the float {text}: {end}");
    assert_error(npy("<f4", 1, &16_777_217f32.to_le_bytes()), &error("16777216"));
    assert_eq!(npy("<f4", 1, &16_777_215f32.to_le_bytes()).unwrap(), [Label::Int(16_777_215)]);
    assert_error(npy("<f2", 1, &0x6800u16.to_le_bytes()), &error("2048"));
}

#[test]
fn integers_with_an_exponent_or_in_mixed_forms_are_errors() {
    let mixed = "write all labels in the same form, as integers, for example";
    assert_error(csv("2\n1.0\n1\n"), &format!("the label of line 2 is `1.0`: {mixed} 1"));
    assert_error(csv("1.0\n1e0\n"), &format!("the label of line 1 is `1.0`: {mixed} 1"));
    let end = "write labels as integers, without exponent and decimal point, for example";
    for other in ["1e0", "1.", "1.000e+00", "1E0"] {
        assert_error(csv(format!("2\n{other}\n1\n")), &format!("the label of line 2 is `{other}`: {end} 1"));
    }
    assert_error(
        csv("class\n0.000e+00\n1.000e+00\n"),
        &format!("the label of line 2 is `0.000e+00`: {end} 0"),
    );
    // Numbers among strings are strings.
    assert_eq!(csv("1e0\ncat\n1\n1e0\n").unwrap()[0], *"1e0");
}

#[test]
fn a_blank_line_before_the_header_is_ignored() {
    assert_eq!(csv("\nlabel\n1\n2\n").unwrap(), [Label::from(1), Label::from(2)]);
    assert!(csv("\n1\n2\n").is_err());
}

#[test]
fn a_blank_line_is_a_missing_label() {
    assert_error(csv("cat\n\ndog\n"), "the label of line 2 is missing: remove the row");
    assert_error(csv("class\r\n1\r\n2\r\n\r\n1\r\n"), "the label of line 4 is missing: remove the row");
    // Blank lines at the end are ignored.
    assert_eq!(csv("1\n2\n\n\n").unwrap(), [1, 2].map(Label::from));
}

#[test]
fn missing_labels_are_errors() {
    let end = |at: &str, word: &str| {
        format!("the label of {at} is missing (`{word}`): remove the row; if `{word}` is a class, rename it")
    };
    let values = [1.0f64, f64::NAN].map(f64::to_le_bytes).concat();
    assert_error(npy("<f8", 2, &values), "the label of row 1 is missing: remove the row");
    for word in Label::MISSING.iter().filter(|word| !word.is_empty()) {
        for [first, last] in [["1", "2"], ["1.0", "2.0"], ["cat", "dog"], ["0.5", "1"]] {
            assert_error(csv(format!("{first}\n{word}\n{last}\n")), &end("line 2", word));
        }
        assert_error(csv(format!("class\n1\n{word}\n2\n")), &end("line 3", word));
        let values = format!("cat\0{word:\0<4}");
        assert_error(npy("|S4", 2, values.as_bytes()), &end("row 1", word));
    }
    assert_error(npy("|S3", 2, b"cat\0\0\0"), "the label of row 1 is missing: remove the row");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    fs::write(&path, "x,class\n0.5,1\n1.5,\n").unwrap();
    let labels = read_labels(&ArraySpec { path, name: Some("class".to_owned()) });
    assert!(matches!(&labels, Err(Error::MissingLabel { at: Position::Line(3), .. })), "{labels:?}");
    assert_error(labels, "t.csv:class: the label of line 3 is missing: remove the row");
}

#[test]
fn labels_that_are_not_unicode_are_errors() {
    assert_error(csv(b"cat\n\xfcber\n"), "y.csv: line 2 is not valid UTF-8: re-encode the file as UTF-8");
    let end = "y.npy: the label of row 1 is not valid UTF-8: re-encode the labels as UTF-8";
    assert_error(npy("|S4", 2, b"cat\0\xfcber"), end);
    let surrogate = [u32::from(b'a'), 0xd800].map(u32::to_le_bytes).concat();
    let end = "y.npy: the label of row 1 holds a code point that is not a Unicode character, for example half of a surrogate \
               pair: replace it and save the labels again";
    assert_error(npy("<U1", 2, &surrogate), end);
    assert_eq!(npy("|S4", 2, b"cat\0\xc3\xbcbe").unwrap(), [Label::from("cat"), Label::from("übe")]);
}

#[test]
fn boolean_arrays_are_boolean_labels() {
    assert_eq!(npy("|b1", 3, &[0, 1, 2]).unwrap(), [false, true, true].map(Label::Bool));
}

#[test]
fn labels_of_a_matrix_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("y.npz");
    let mut bytes = Vec::new();
    write_npz(&mut bytes, &[NpzArray::numbers("y", &[1.0, 2.0, 3.0, 4.0], Some(2))]).unwrap();
    fs::write(&path, bytes).unwrap();
    assert_error(
        read_labels(&ArraySpec { path, name: None }),
        "has the shape 2 × 2; needed: one entry per row",
    );
}
