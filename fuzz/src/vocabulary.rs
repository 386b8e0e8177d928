//! What the inputs of a target may contain: the words of its dictionary, the fields and sections of its seeds, and arrays.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::container::{Container, Section};
use crate::json::{self, Json};

/// Words, fields, sections and arrays.
#[derive(Default)]
pub struct Vocabulary {
    /// The words of the dictionary.
    pub words: Vec<Json>,
    /// The values of the fields of objects, first by the name of the object, then by the name of the field. Of the values that differ only in
    /// numbers, there is one.
    fields: BTreeMap<String, BTreeMap<String, Vec<Json>>>,
    /// The sections of model files, by name. Of the sections with the same name and length, there is one.
    sections: BTreeMap<String, Vec<Section>>,
    /// npy files, for the members of archives.
    pub arrays: Vec<Vec<u8>>,
}

impl Vocabulary {
    pub fn of_dictionary(dictionary: &str) -> Self {
        Self { words: json::words(dictionary), ..Self::default() }
    }

    /// Adds the fields of a document. The name of an object is that of the field or section that contains it.
    pub fn add_document(&mut self, name: &str, document: &Json) {
        for (path, name) in document.paths(name) {
            let Some(Json::Object(fields)) = document.at(&path) else { continue };
            for (field, value) in fields {
                let values = self.fields.entry(name.clone()).or_default().entry(field.clone()).or_default();
                if !values.iter().any(|known| without_numbers(known) == without_numbers(value)) {
                    values.push(value.clone());
                }
            }
        }
    }

    /// Adds the sections of a model file and the fields of its metadata.
    pub fn add_file(&mut self, file: &Container) {
        for section in &file.sections {
            if let Some(document) = Json::parse(&section.bytes) {
                self.add_document(&section.name, &document);
            }
            let known = self.sections.entry(section.name.clone()).or_default();
            if !known.iter().any(|known| known.bytes.len() == section.bytes.len()) {
                known.push(section.clone());
            }
        }
    }

    /// The fields of objects with a name, each with its values.
    pub(crate) fn fields(&self, name: &str) -> impl Iterator<Item = (&String, &Vec<Json>)> {
        self.fields.get(name).into_iter().flatten()
    }

    /// The sections of all seeds, each name with its sections.
    pub(crate) fn sections(&self) -> impl Iterator<Item = (&String, &Vec<Section>)> {
        self.sections.iter()
    }
}

/// The value with 0 in place of each number.
fn without_numbers(value: &Json) -> Json {
    match value {
        Json::Object(fields) => {
            Json::Object(fields.iter().map(|(name, value)| (name.clone(), without_numbers(value))).collect())
        }
        Json::Array(values) => Json::Array(values.iter().map(without_numbers).collect()),
        Json::Scalar(Value::Number(_)) => Json::Scalar(Value::from(0)),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_the_values_of_all_documents() {
        let mut vocabulary = Vocabulary::default();
        for text in
            [r#"{"a":{"kind":"x","b":1}}"#, r#"{"a":[{"kind":"y","b":2}]}"#, r#"{"kind":"z","a":null}"#]
        {
            vocabulary.add_document("meta", &Json::parse(text.as_bytes()).unwrap());
        }
        let fields = |name: &str| -> Vec<(String, usize)> {
            vocabulary.fields(name).map(|(field, values)| (field.clone(), values.len())).collect()
        };
        assert_eq!(fields("a"), [("b".to_owned(), 1), ("kind".to_owned(), 2)]);
        assert_eq!(fields("meta"), [("a".to_owned(), 3), ("kind".to_owned(), 1)]);
        assert_eq!(fields("kind"), []);
    }
}
