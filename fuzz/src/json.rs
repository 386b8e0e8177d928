//! Mutations of JSON values. The mutations of libFuzzer change bytes, after which a text is rarely JSON with the expected fields. These mutations
//! change values, so that the code after the parser is reached more often.

use std::fmt::{self, Formatter};

use fastrand::Rng;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::vocabulary::Vocabulary;

/// A JSON value. Unlike in [`Value`], the fields of an object keep their order, and a field may occur more than once.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    Object(Vec<(String, Json)>),
    Array(Vec<Json>),
    /// A value that is neither an object nor an array.
    Scalar(Value),
}

/// The positions of fields and elements that lead from the root of a document to a value.
pub(crate) type Path = Vec<usize>;

/// A change of a document at one place.
enum Edit {
    Replace(Json),
    Remove,
    /// The field or the element occurs twice.
    Repeat,
    /// Adds a field to an object, or an element to an array.
    Insert(String, Json),
    /// An object becomes the array of its first values. Structures may be read from arrays too.
    Sequence(usize),
}

impl Json {
    /// The value of a text, if it is JSON.
    pub fn parse(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }

    /// The text of the value without spaces.
    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("the names of all fields are strings")
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Scalar(value) => value.as_str(),
            _ => None,
        }
    }

    /// Changes a document at one place. `words` are values that the document may contain elsewhere.
    pub fn mutate(&mut self, words: &[Self], random: &mut Rng) {
        let paths = self.paths("");
        let (path, _) = random.choice(&paths).expect("a document has a root");
        let value = self.at(path).expect("the place is one of the document");
        let edit = match random.u8(..8) {
            0 => Edit::Remove,
            1 => Edit::Repeat,
            2 if matches!(value, Self::Object(_)) => Edit::Sequence(random.usize(..=value.children().len())),
            3 if !matches!(value, Self::Scalar(_)) => {
                let names: Vec<&str> = words.iter().filter_map(Self::as_str).collect();
                let name = random.choice(names).unwrap_or("name").to_owned();
                Edit::Insert(name, self.chosen(&paths, words, random))
            }
            4 => match random.choice(steps(value)) {
                Some(step) => Edit::Replace(step),
                None => Edit::Replace(Self::Array(vec![value.clone()])),
            },
            _ => Edit::Replace(self.chosen(&paths, words, random)),
        };
        self.apply(path, edit);
    }

    /// A value at the limits of its type, one of `words`, or another value of the document.
    fn chosen(&self, paths: &[(Path, String)], words: &[Self], random: &mut Rng) -> Self {
        let value = match random.u8(..3) {
            0 => random.choice(limit_values()),
            1 => random.choice(words).cloned(),
            _ => random.choice(paths).and_then(|(path, _)| self.at(path)).cloned(),
        };
        value.unwrap_or(Self::Scalar(Value::Null))
    }

    /// Copies one value of another document to the same place of this document. If this document has no such place, a value that contains the
    /// chosen one is copied.
    pub fn cross(&mut self, other: &Self, random: &mut Rng) {
        let (path, _) = random.choice(other.paths("")).expect("a document has a root");
        let (mut to, mut from) = (self, other);
        for index in path {
            let next = match (&*to, from) {
                (Self::Object(own), Self::Object(fields)) => {
                    own.iter().position(|(name, _)| *name == fields[index].0)
                }
                (Self::Array(own), Self::Array(_)) if index < own.len() => Some(index),
                (Self::Array(_), Self::Array(_)) => None,
                _ => break,
            };
            let Some(next) = next else {
                match (to, from) {
                    (Self::Object(own), Self::Object(fields)) => own.push(fields[index].clone()),
                    (Self::Array(own), Self::Array(values)) => own.push(values[index].clone()),
                    _ => {}
                }
                return;
            };
            to = to.child_mut(next).expect("the position is one of the value");
            from = from.children()[index];
        }
        *to = from.clone();
    }

    /// All documents that differ from this one in one place. Words replace only texts, and values of the seeds only fields with the same name
    /// in objects with the same name; objects get fields that they have in the seeds. The document has the name `name`. Of the elements of an
    /// array, the first and the last one are changed.
    pub fn edits(&self, name: &str, vocabulary: &Vocabulary) -> impl Iterator<Item = Self> {
        let mut edits = vec![];
        let paths = self.paths(name).into_iter().filter(|(path, _)| self.is_first_or_last(path));
        for (path, name) in paths {
            let value = self.at(&path).expect("the place is one of the document");
            let words = vocabulary.words.iter().filter(|_| value.as_str().is_some()).cloned();
            let replacements = limit_values().into_iter().chain(steps(value)).chain(words).map(Edit::Replace);
            let unknown = Edit::Insert("unknown".to_owned(), Self::Scalar(Value::Null));
            let others = [Edit::Remove, Edit::Repeat, unknown];
            edits.extend(replacements.chain(others).map(|edit| (path.clone(), edit)));
            let Self::Object(fields) = value else { continue };
            edits.extend((0..=fields.len()).map(|count| (path.clone(), Edit::Sequence(count))));
            edits.extend(changed_sequences(fields).map(|sequence| (path.clone(), Edit::Replace(sequence))));
            for (field, values) in vocabulary.fields(&name) {
                let at = fields.iter().position(|(own, _)| own == field);
                edits.extend(values.iter().cloned().map(|new| match at {
                    Some(at) => ([&path[..], &[at]].concat(), Edit::Replace(new)),
                    None => (path.clone(), Edit::Insert(field.clone(), new)),
                }));
            }
        }
        edits.into_iter().filter_map(|(path, edit)| {
            let mut document = self.clone();
            document.apply(&path, edit);
            (document != *self).then_some(document)
        })
    }

    /// The document with each object replaced by the array of its values.
    pub fn as_sequences(&self) -> Self {
        match self {
            Self::Scalar(_) => self.clone(),
            _ => Self::Array(self.children().into_iter().map(Self::as_sequences).collect()),
        }
    }

    /// Whether all elements of arrays that lead to a place are the first or the last one of their array.
    fn is_first_or_last(&self, path: &[usize]) -> bool {
        let mut value = self;
        path.iter().all(|&index| {
            let children = value.children();
            let is_inner = matches!(value, Self::Array(_)) && index > 0 && index + 1 < children.len();
            value = children[index];
            !is_inner
        })
    }

    fn children(&self) -> Vec<&Self> {
        match self {
            Self::Object(fields) => fields.iter().map(|(_, value)| value).collect(),
            Self::Array(values) => values.iter().collect(),
            Self::Scalar(_) => vec![],
        }
    }

    fn child_mut(&mut self, index: usize) -> Option<&mut Self> {
        match self {
            Self::Object(fields) => fields.get_mut(index).map(|(_, value)| value),
            Self::Array(values) => values.get_mut(index),
            Self::Scalar(_) => None,
        }
    }

    /// The places of all values of a document, each with the name of the value: that of its field, or that of the array that contains it. The
    /// root has the empty place and the name `name`.
    pub(crate) fn paths(&self, name: &str) -> Vec<(Path, String)> {
        let mut paths = vec![(vec![], name.to_owned())];
        for (index, child) in self.children().into_iter().enumerate() {
            let name = if let Self::Object(fields) = self { &fields[index].0 } else { name };
            let inner = child.paths(name).into_iter();
            paths.extend(inner.map(|(path, name)| ([vec![index], path].concat(), name)));
        }
        paths
    }

    pub(crate) fn at(&self, path: &[usize]) -> Option<&Self> {
        path.iter().try_fold(self, |value, &index| value.children().get(index).copied())
    }

    fn at_mut(&mut self, path: &[usize]) -> Option<&mut Self> {
        path.iter().try_fold(self, |value, &index| value.child_mut(index))
    }

    /// Edits that are not possible at the place, such as a removal of the root, change nothing.
    fn apply(&mut self, path: &[usize], edit: Edit) {
        match (edit, path.split_last()) {
            (Edit::Remove, Some((&last, parent))) => match self.at_mut(parent) {
                Some(Self::Object(fields)) => drop(fields.remove(last)),
                Some(Self::Array(values)) => drop(values.remove(last)),
                _ => {}
            },
            (Edit::Repeat, Some((&last, parent))) => match self.at_mut(parent) {
                Some(Self::Object(fields)) => fields.insert(last, fields[last].clone()),
                Some(Self::Array(values)) => values.insert(last, values[last].clone()),
                _ => {}
            },
            (Edit::Remove | Edit::Repeat, None) => {}
            (edit, _) => {
                let Some(value) = self.at_mut(path) else { return };
                match (edit, value) {
                    (Edit::Insert(name, new), Self::Object(fields)) => fields.push((name, new)),
                    (Edit::Insert(_, new), Self::Array(values)) => values.push(new),
                    (Edit::Sequence(count), Self::Object(fields)) => {
                        let values = fields.drain(..).map(|(_, value)| value).take(count).collect();
                        *self.at_mut(path).expect("the place exists") = Self::Array(values);
                    }
                    (Edit::Replace(new), value) => *value = new,
                    _ => {}
                }
            }
        }
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Object(fields) => serializer.collect_map(fields.iter().map(|(name, value)| (name, value))),
            Self::Array(values) => serializer.collect_seq(values),
            Self::Scalar(value) => value.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut fields = vec![];
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Json::Object(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Json, A::Error> {
        let mut values = vec![];
        while let Some(value) = sequence.next_element()? {
            values.push(value);
        }
        Ok(Json::Array(values))
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Scalar(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Scalar(value.into()))
    }
}

/// The arrays of the values of an object in which one value is replaced.
fn changed_sequences(fields: &[(String, Json)]) -> impl Iterator<Item = Json> {
    (0..fields.len()).flat_map(move |at| {
        limit_values().into_iter().map(move |new| {
            let mut values: Vec<Json> = fields.iter().map(|(_, value)| value.clone()).collect();
            values[at] = new;
            Json::Array(values)
        })
    })
}

/// All texts that differ from a JSON text at one delimiter: the text ends there, the delimiter is missing, or another byte precedes it. Most of
/// them are not JSON. Commas between numbers are left out.
pub fn damaged_texts(text: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let is_digit = |at: usize| text.get(at).is_some_and(u8::is_ascii_digit);
    let is_delimiter =
        move |at: usize| b"{}[]:,\"".contains(&text[at]) && !(at > 0 && is_digit(at - 1) && is_digit(at + 1));
    (0..text.len()).filter(move |at| is_delimiter(*at)).flat_map(move |at| {
        let (before, after) = text.split_at(at);
        let cut = [before.to_vec(), [before, &after[1..]].concat()];
        cut.into_iter().chain([b'x', b'1', b',', b'\\', 0xff].map(|byte| [before, &[byte], after].concat()))
    })
}

/// The values of a dictionary of libFuzzer. A line is a quoted text. Texts that are not JSON become strings; lines that are not UTF-8 text
/// in the notation of JSON are left out.
pub fn words(dictionary: &str) -> Vec<Json> {
    let texts = dictionary.lines().filter_map(|line| serde_json::from_str::<String>(line).ok());
    texts.map(|text| Json::parse(text.as_bytes()).unwrap_or(Json::Scalar(Value::String(text)))).collect()
}

/// Values that differ from a number by a small amount or a factor.
fn steps(value: &Json) -> Vec<Json> {
    let Json::Scalar(Value::Number(number)) = value else { return vec![] };
    let value = number.as_f64().unwrap_or(0.0);
    let mut steps = vec![json!(-value), json!(value * 1e3), json!(value * 1e-3), json!(value + 0.5)];
    if let Some(integer) = number.as_i64() {
        steps.extend(
            [integer.wrapping_add(1), integer.wrapping_sub(1), integer.wrapping_mul(2)].map(Value::from),
        );
    }
    steps.into_iter().map(Json::Scalar).collect()
}

/// Values at the limits of their types, and empty values.
fn limit_values() -> Vec<Json> {
    let scalars = [
        json!(null),
        json!(true),
        json!(false),
        json!(""),
        json!(0),
        json!(-1),
        json!(1),
        json!(2),
        json!(u32::MAX),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(0.5),
        json!(-0.0),
        json!(f64::MAX),
        json!(f64::MIN_POSITIVE),
        json!(5e-324),
    ];
    [Json::Array(vec![]), Json::Object(vec![])].into_iter().chain(scalars.map(Json::Scalar)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    fn text(json: &Json) -> String {
        String::from_utf8(json.bytes()).unwrap()
    }

    #[test]
    fn a_text_is_written_as_it_was_read() {
        let written = r#"{"b":[1,-2,2.5,true,null,"x"],"a":{},"a":[]}"#;
        assert_eq!(text(&parsed(written)), written);
    }

    #[test]
    fn a_value_is_copied_to_the_same_place() {
        let other = parsed(r#"{"a":{"b":[1,{"c":2}]}}"#);
        let mut reached = std::collections::BTreeSet::new();
        for seed in 0..100 {
            let mut document = parsed(r#"{"a":{"b":[3]},"d":4}"#);
            document.cross(&other, &mut Rng::with_seed(seed));
            reached.insert(text(&document));
        }
        let expected = [
            r#"{"a":{"b":[1,{"c":2}]}}"#,
            r#"{"a":{"b":[1,{"c":2}]},"d":4}"#,
            r#"{"a":{"b":[1]},"d":4}"#,
            r#"{"a":{"b":[3,{"c":2}]},"d":4}"#,
        ];
        assert_eq!(reached, expected.map(str::to_owned).into());
    }

    #[test]
    fn edits_are_all_changes_of_one_place() {
        let mut vocabulary = Vocabulary::of_dictionary(r#""word""#);
        vocabulary.add_document("root", &parsed(r#"{"b":{"c":1},"d":2,"e":{"f":3}}"#));
        let document = parsed(r#"{"a":["x"],"b":7}"#);
        let edits = document.edits("root", &vocabulary);
        let edits: Vec<String> = edits.map(|edit| text(&edit)).collect();
        for expected in [
            "null",
            "[]",
            r#"[["x"]]"#,
            r#"[["x"],7]"#,
            r#"[["x"],null]"#,
            r#"{"a":["x"],"b":7,"unknown":null}"#,
            r#"{"b":7}"#,
            r#"{"a":["x"],"a":["x"],"b":7}"#,
            r#"{"a":[],"b":7}"#,
            r#"{"a":["x","x"],"b":7}"#,
            r#"{"a":["x",null],"b":7}"#,
            r#"{"a":["word"],"b":7}"#,
            r#"{"a":["x"],"b":8}"#,
            r#"{"a":["x"],"b":7.5}"#,
            r#"{"a":["x"],"b":{"c":1}}"#,
            r#"{"a":["x"],"b":7,"d":2}"#,
        ] {
            assert!(edits.iter().any(|edit| edit == expected), "{expected} is not among {edits:?}");
        }
        // The word is a text, so it does not replace the number. The field belongs to another object.
        assert!(!edits.iter().any(|edit| edit.contains(r#""b":"word""#) || edit.contains(r#""b":7,"f""#)));
    }

    #[test]
    fn inner_elements_of_arrays_are_not_edited() {
        let document = parsed("[1,2,3]");
        let vocabulary = Vocabulary::default();
        let edits = document.edits("root", &vocabulary);
        let edits: Vec<String> = edits.map(|edit| text(&edit)).collect();
        assert!(edits.contains(&"[1,2,-1]".to_owned()) && edits.contains(&"[2,2,3]".to_owned()));
        assert!(!edits.contains(&"[1,null,3]".to_owned()));
        assert_eq!(text(&parsed(r#"{"a":{"b":[1]},"c":2}"#).as_sequences()), "[[[1]],2]");
    }

    #[test]
    fn texts_are_damaged_at_every_delimiter() {
        let damaged: Vec<_> = damaged_texts(b"[1,{}]").collect();
        for expected in [&b""[..], b"1,{}]", b"[1{}]", b"[1,{", b"[1,{x}]", b"[1,{}\xff]"] {
            assert!(damaged.iter().any(|text| text == expected), "{:?}", String::from_utf8_lossy(expected));
        }
        assert_eq!(damaged.len(), 5 * 7);
    }

    #[test]
    fn mutations_reach_values_of_the_dictionary_and_keep_a_document_readable() {
        let words = words("# a comment\n\"\\\"kind\\\"\"\n\"null\"\n\"index.rows\"\n\"\\x93NUMPY\"\n");
        let expected = [json!("kind"), json!(null), json!("index.rows")];
        assert_eq!(words, expected.map(Json::Scalar));
        let mut inserted = false;
        for seed in 0..1000 {
            let mut document = parsed(r#"{"a":[1,2.5,true],"b":{"text":"x"}}"#);
            document.mutate(&words, &mut Rng::with_seed(seed));
            let text = text(&document);
            assert_eq!(parsed(&text), document);
            inserted |= text.contains(r#""kind":"#);
        }
        assert!(inserted);
    }
}
