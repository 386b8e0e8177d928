//! Mutations of JSON values. The mutations of libFuzzer change bytes, after which a text is rarely JSON with the expected fields. These mutations
//! change values, so that the code after the parser is reached more often.

use fastrand::Rng;
use serde_json::{Value, json};

/// Changes a document: replaces, removes or inserts one value. `words` are values that the document may contain elsewhere.
pub fn mutate(document: &mut Value, words: &[Value], random: &mut Rng) {
    let places = places(document);
    let place = random.choice(&places).expect("a document has a root");
    let other = random.choice(&places).and_then(|place| document.pointer(place)).cloned();
    let new = match random.u8(..3) {
        0 => special(random),
        1 => random.choice(words).cloned(),
        _ => other,
    };
    let new = new.unwrap_or(Value::Null);
    match random.u8(..5) {
        0 => remove(document, place),
        1 => insert(document, place, key(words, random), new),
        2 => step(document, place, random),
        _ => set(document, place, new),
    }
}

/// Copies one value of another document to the same place of this document.
pub fn cross(document: &mut Value, other: &Value, random: &mut Rng) {
    let places = places(other);
    let mut place = random.choice(&places).expect("a document has a root").as_str();
    // If the document has no such place, a value that contains the chosen one is copied.
    while let Some((parent, _)) = place.rsplit_once('/')
        && !document.pointer(parent).is_some_and(|parent| parent.is_object() || parent.is_array())
    {
        place = parent;
    }
    set(document, place, other.pointer(place).cloned().unwrap_or(Value::Null));
}

/// The values of a dictionary of libFuzzer. A line is a quoted text. Texts that are not JSON become strings; lines that are not UTF-8 text
/// in the notation of JSON are left out.
pub fn words(dictionary: &str) -> Vec<Value> {
    let texts = dictionary.lines().filter_map(|line| serde_json::from_str::<String>(line).ok());
    texts.map(|text| serde_json::from_str(&text).unwrap_or(Value::String(text))).collect()
}

/// JSON pointers of all values of a document; the root has the pointer "".
fn places(document: &Value) -> Vec<String> {
    let mut places = vec![String::new()];
    let mut at = 0;
    while let Some(place) = places.get(at).cloned() {
        match document.pointer(&place) {
            Some(Value::Object(fields)) => {
                let names = fields.keys().map(|name| name.replace('~', "~0").replace('/', "~1"));
                places.extend(names.map(|name| format!("{place}/{name}")));
            }
            Some(Value::Array(values)) => {
                places.extend((0..values.len()).map(|index| format!("{place}/{index}")));
            }
            _ => {}
        }
        at += 1;
    }
    places
}

/// The value that contains a place, and the name or index of the place in it; `None` for the root.
fn parent<'d, 'p>(document: &'d mut Value, place: &'p str) -> Option<(&'d mut Value, String, &'p str)> {
    let (parent, last) = place.rsplit_once('/')?;
    Some((document.pointer_mut(parent)?, last.replace("~1", "/").replace("~0", "~"), last))
}

fn set(document: &mut Value, place: &str, new: Value) {
    match parent(document, place) {
        None => *document = new,
        Some((Value::Object(fields), name, _)) => {
            fields.insert(name, new);
        }
        Some((Value::Array(values), _, index)) => {
            match index.parse().ok().and_then(|at: usize| values.get_mut(at)) {
                Some(value) => *value = new,
                None => values.push(new),
            }
        }
        Some(_) => {}
    }
}

fn remove(document: &mut Value, place: &str) {
    match parent(document, place) {
        Some((Value::Object(fields), name, _)) => {
            fields.remove(&name);
        }
        Some((Value::Array(values), _, index)) => {
            let index = index.parse().ok().filter(|&index: &usize| index < values.len());
            index.map(|index| values.remove(index));
        }
        _ => {}
    }
}

/// Inserts a value into an object or an array; other values are replaced.
fn insert(document: &mut Value, place: &str, name: String, new: Value) {
    match document.pointer_mut(place) {
        Some(Value::Object(fields)) => {
            fields.insert(name, new);
        }
        Some(Value::Array(values)) => values.push(new),
        Some(value) => *value = new,
        None => {}
    }
}

/// Changes a number by a small amount or a factor, and a boolean to the other one.
fn step(document: &mut Value, place: &str, random: &mut Rng) {
    let Some(value) = document.pointer_mut(place) else { return };
    *value = match &*value {
        Value::Bool(flag) => json!(!flag),
        Value::Number(number) => match (number.as_i64(), random.u8(..4)) {
            (Some(number), 0) => json!(number.wrapping_add(1)),
            (Some(number), 1) => json!(number.wrapping_sub(1)),
            (Some(number), 2) => json!(number.wrapping_mul(2)),
            (_, 0) => json!(number.as_f64().map(|number| -number)),
            (_, 1) => json!(number.as_f64().map(|number| number * 1e3)),
            (_, 2) => json!(number.as_f64().map(|number| number * 1e-3)),
            _ => json!(number.as_f64().map(|number| number + 0.5)),
        },
        other => json!([other]),
    };
}

fn key(words: &[Value], random: &mut Rng) -> String {
    let names: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
    random.choice(names).unwrap_or("name").to_owned()
}

/// Values at the limits of their types, and empty values.
fn special(random: &mut Rng) -> Option<Value> {
    random.choice([
        json!(null),
        json!(true),
        json!(false),
        json!(""),
        json!([]),
        json!({}),
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
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_copied_to_the_same_place() {
        let other = json!({"a": {"b": [1, {"c": 2}]}});
        let mut reached = std::collections::BTreeSet::new();
        for seed in 0..100 {
            let mut document = json!({"a": {"b": [3]}, "d": 4});
            cross(&mut document, &other, &mut Rng::with_seed(seed));
            reached.insert(document.to_string());
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
    fn mutations_reach_values_of_the_dictionary_and_keep_a_document_readable() {
        let words = words("# a comment\n\"\\\"kind\\\"\"\n\"null\"\n\"index.rows\"\n\"\\x93NUMPY\"\n");
        assert_eq!(words, [json!("kind"), json!(null), json!("index.rows")]);
        let mut inserted = false;
        for seed in 0..1000 {
            let mut document = json!({"a/b": [1, 2.5, true], "~": {"text": "x"}});
            mutate(&mut document, &words, &mut Rng::with_seed(seed));
            inserted |= document.get("kind").is_some();
        }
        assert!(inserted);
    }
}
