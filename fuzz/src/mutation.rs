//! Mutations of inputs that contain JSON, are model files or are npz archives. [`mutations!`](crate::mutations) gives them to libFuzzer, which calls
//! [`mutate`](Structure::mutate) and [`cross`](Structure::cross) equally often.
//!
//! Random mutations rarely reach a branch that needs one certain value at one certain place. Most of the first calls of `mutate` therefore
//! return the changes of one place of each seed; a short run does not reach the end of them. Half of the other calls return `None`. The
//! mutations of libFuzzer are then used, which also damage the structure of the input.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use fastrand::Rng;

use crate::archive::Archive;
use crate::container::{Container, Section};
use crate::json::{self, Json};
use crate::vocabulary::Vocabulary;

/// The structure of the inputs of a target.
#[derive(Clone, Copy)]
pub enum Structure {
    /// Inputs with a JSON text.
    Json(TextPosition),
    /// Model files. The table and the checksums are corrected after a change.
    ModelFile,
    /// npz archives. The sizes and checksums are corrected after a change.
    Archive,
}

impl Structure {
    /// An input that differs from the given one, or the next change of a seed.
    pub fn mutate(self, input: &[u8], seed: u32, target: &str, dictionary: &str) -> Option<Vec<u8>> {
        let mut random = Rng::with_seed(seed.into());
        let RemainingEdits { vocabulary, edits } = self.edits_of_seeds(target, dictionary, &mut random);
        if random.u8(..4) > 0
            && let Some(edited) = edits.lock().unwrap_or_else(PoisonError::into_inner).next()
        {
            return Some(edited);
        }
        if random.bool() {
            return None;
        }
        let words = &vocabulary.words;
        match self {
            Self::Json(position) => {
                let mut input = WithJson::parse(input, position)?;
                (0..random.u8(1..4)).for_each(|_| input.document.mutate(words, &mut random));
                Some(input.bytes())
            }
            Self::ModelFile => {
                let mut container = Container::parse(input).filter(|file| !file.sections.is_empty())?;
                (0..random.u8(1..4)).for_each(|_| mutate_section(&mut container, words, &mut random));
                Some(container.bytes())
            }
            Self::Archive => {
                let mut archive = Archive::parse(input)?;
                archive.mutate(mutate_with_lib_fuzzer, &mut random);
                archive.bytes()
            }
        }
    }

    /// Copies a value of the JSON text of one input into that of another, a section of one model file into another, or a member of one archive
    /// into another.
    pub fn cross(self, first: &[u8], second: &[u8], seed: u32) -> Option<Vec<u8>> {
        let mut random = Rng::with_seed(seed.into());
        match self {
            Self::Json(position) => {
                let (mut input, other) =
                    (WithJson::parse(first, position)?, WithJson::parse(second, position)?);
                input.document.cross(&other.document, &mut random);
                Some(input.bytes())
            }
            Self::ModelFile => cross_model_files(first, second, &mut random),
            Self::Archive => {
                let (mut archive, other) = (Archive::parse(first)?, Archive::parse(second)?);
                archive.cross(&other, &mut random);
                archive.bytes()
            }
        }
    }

    /// The vocabulary of a target, and the changes of one place of each of its seeds, in a random order of the seeds. A program has one target.
    fn edits_of_seeds(self, target: &str, dictionary: &str, random: &mut Rng) -> &'static RemainingEdits {
        static EDITS: OnceLock<RemainingEdits> = OnceLock::new();
        EDITS.get_or_init(|| {
            let mut seeds = seeds(target);
            random.shuffle(&mut seeds);
            let vocabulary: &Vocabulary = Box::leak(Box::new(self.vocabulary(dictionary, target)));
            let edits = seeds.into_iter().flat_map(move |seed| self.edits(&seed, vocabulary));
            RemainingEdits { vocabulary, edits: Mutex::new(Box::new(edits.fuse())) }
        })
    }

    /// The words of a dictionary, and what the seeds of a target contain. A manifest may contain what a model in one file contains,
    /// and a model file what a manifest contains.
    fn vocabulary(self, dictionary: &str, target: &str) -> Vocabulary {
        let mut vocabulary = Vocabulary::of_dictionary(dictionary);
        match self {
            Self::Json(position) => {
                let inputs = seeds(target).into_iter().filter_map(|seed| WithJson::parse(&seed, position));
                inputs.for_each(|input| vocabulary.add_document(ROOT, &input.document));
            }
            Self::ModelFile => {
                let seeds = ["model", "manifest"].into_iter().flat_map(seeds);
                seeds.filter_map(|seed| Container::parse(&seed)).for_each(|file| vocabulary.add_file(&file));
            }
            Self::Archive => vocabulary.arrays = arrays(),
        }
        vocabulary
    }

    /// Inputs that differ from the given one in one place of a JSON text, in one section, or in one member of an archive.
    fn edits(self, input: &[u8], vocabulary: &Vocabulary) -> Vec<Vec<u8>> {
        match self {
            Self::Json(position) => WithJson::parse(input, position).map_or(vec![], |input| {
                let texts = edited_texts(&input.document, ROOT, vocabulary);
                texts.into_iter().map(|text| input.with_text(text)).collect()
            }),
            Self::ModelFile => {
                Container::parse(input).map_or(vec![], |file| edits_of_sections(&file, vocabulary))
            }
            Self::Archive => Archive::parse(input).map_or(vec![], |archive| {
                archive.edits(&vocabulary.arrays).filter_map(|edited| edited.bytes()).collect()
            }),
        }
    }
}

/// The name of the JSON text of an input.
const ROOT: &str = "";

/// The changes of one place of each seed that were not executed yet.
struct RemainingEdits {
    vocabulary: &'static Vocabulary,
    edits: Mutex<Box<dyn Iterator<Item = Vec<u8>> + Send>>,
}

/// The seeds of a target in the order of their names.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    files(&format!("seeds/{target}"), |_| true)
}

/// npy files: the seeds of their target, and those of the tests of nuq-io.
fn arrays() -> Vec<Vec<u8>> {
    let is_array = |path: &Path| path.extension().is_some_and(|extension| extension == "npy");
    [seeds("npy"), files("../crates/nuq-io/tests/data", is_array)].concat()
}

/// The chosen files of a folder in the order of their names.
fn files(folder: &str, is_chosen: impl Fn(&Path) -> bool) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = fs::read_dir(folder).expect("the folder exists");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("the folder can be listed").path()).collect();
    paths.retain(|path| is_chosen(path));
    paths.sort();
    paths.into_iter().map(|path| fs::read(path).expect("the file can be read")).collect()
}

/// Where the JSON text of an input is.
#[derive(Clone, Copy)]
pub enum TextPosition {
    /// It begins after this number of bytes, and its end is the end of the value.
    After(usize),
    /// It begins after eight bytes, which state its length. Files of safetensors and rules are such inputs.
    AfterLength,
}

/// An input with a JSON text.
struct WithJson {
    head: Vec<u8>,
    document: Json,
    rest: Vec<u8>,
    position: TextPosition,
}

impl WithJson {
    fn parse(bytes: &[u8], position: TextPosition) -> Option<Self> {
        let (head, rest) = match position {
            TextPosition::After(start) => bytes.split_at_checked(start)?,
            TextPosition::AfterLength => bytes.split_at_checked(8)?,
        };
        let length = match position {
            TextPosition::After(_) => json_len(rest)?,
            TextPosition::AfterLength => u64::from_le_bytes(head.try_into().ok()?).try_into().ok()?,
        };
        let (text, rest) = rest.split_at_checked(length)?;
        Some(Self { head: head.to_vec(), document: Json::parse(text)?, rest: rest.to_vec(), position })
    }

    fn bytes(&self) -> Vec<u8> {
        self.with_text(self.document.bytes())
    }

    /// The input with another text.
    fn with_text(&self, text: Vec<u8>) -> Vec<u8> {
        let length = (text.len() as u64).to_le_bytes();
        let head = match self.position {
            TextPosition::After(_) => &self.head[..],
            TextPosition::AfterLength => &length,
        };
        [head, &text, &self.rest].concat()
    }
}

/// All texts that differ in one place from the text of a document, or from its text with arrays in place of objects.
fn edited_texts(document: &Json, name: &str, vocabulary: &Vocabulary) -> Vec<Vec<u8>> {
    let text = document.bytes();
    let damaged = json::damaged_texts(&text);
    // The edits of a document without objects are already those of its arrays.
    let sequences = Some(document.as_sequences()).filter(|sequences| sequences != document);
    let default = Vocabulary::default();
    let sequences = sequences.iter().flat_map(|sequences| sequences.edits(name, &default));
    let edits = document.edits(name, vocabulary).chain(sequences).map(|document| document.bytes());
    edits.chain(damaged).collect()
}

/// The length of the JSON value at the beginning of a text; `None` if there is none.
pub fn json_len(text: &[u8]) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<serde::de::IgnoredAny>();
    values.next()?.ok()?;
    Some(values.byte_offset())
}

/// Copies a value of the metadata of one model file, or one of its sections, into another model file.
fn cross_model_files(first: &[u8], second: &[u8], random: &mut Rng) -> Option<Vec<u8>> {
    let (mut file, other) = (Container::parse(first)?, Container::parse(second)?);
    let copied = random.choice(&other.sections)?;
    match file.sections.iter_mut().find(|section| section.name == copied.name) {
        None => file.sections.push(copied.clone()),
        Some(own) => match (Json::parse(&own.bytes), Json::parse(&copied.bytes)) {
            (Some(mut document), Some(other)) => {
                document.cross(&other, random);
                own.bytes = document.bytes();
            }
            _ => own.bytes.clone_from(&copied.bytes),
        },
    }
    Some(file.bytes())
}

/// All files that differ from the given one in one section. A section is removed, repeated, or replaced by the sections with its name in
/// the seeds; metadata change at one place; a section without metadata gets the bytes of each other one, or one of its values changes.
fn edits_of_sections(file: &Container, vocabulary: &Vocabulary) -> Vec<Vec<u8>> {
    let file_with = |sections: Vec<Section>| Container { version: file.version, sections }.bytes();
    let with = |at: usize, sections: Vec<Section>| {
        let mut edited = file.sections.clone();
        edited.splice(at..=at, sections);
        file_with(edited)
    };
    let mut edits = vec![];
    for (at, section) in file.sections.iter().enumerate() {
        edits.extend([vec![], vec![section.clone(); 2]].map(|sections| with(at, sections)));
        let changed: Vec<Vec<u8>> = match Json::parse(&section.bytes) {
            Some(document) => edited_texts(&document, &section.name, vocabulary),
            None => {
                let others = file.sections.iter().map(|other| other.bytes.clone());
                let edits = edits_of_array(&section.bytes).chain(others);
                edits.filter(|bytes| *bytes != section.bytes).collect()
            }
        };
        edits.extend(changed.into_iter().map(|bytes| with(at, vec![Section { bytes, ..section.clone() }])));
    }
    for (name, sections) in vocabulary.sections() {
        let at = file.sections.iter().position(|own| own.name == *name);
        let is_own = |section: &&Section| at.is_some_and(|at| file.sections[at].bytes == section.bytes);
        edits.extend(sections.iter().filter(|section| !is_own(section)).map(|section| match at {
            Some(at) => with(at, vec![section.clone()]),
            None => file_with([&file.sections[..], &[section.clone()]].concat()),
        }));
    }
    edits
}

fn mutate_section(container: &mut Container, words: &[Json], random: &mut Rng) {
    let count = container.sections.len();
    let at = random.usize(..count);
    let other = random.usize(..count);
    match random.u8(..8) {
        // A file without sections cannot be mutated further.
        0 if count > 1 => drop(container.sections.remove(at)),
        1 => {
            let name = random.choice(words).and_then(Json::as_str);
            container.sections[at].name =
                name.map_or_else(|| container.sections[other].name.clone(), str::to_owned);
        }
        2 => container.sections[at].bytes = container.sections[other].bytes.clone(),
        3 => container.version = random.u32(..6),
        _ => {
            let bytes = &mut container.sections[at].bytes;
            match Json::parse(bytes) {
                Some(mut document) => {
                    document.mutate(words, random);
                    *bytes = document.bytes();
                }
                None => mutate_array(bytes, random),
            }
        }
    }
}

/// Values at the limits of the types of arrays, as bytes: numbers in single and in double precision, and ids of rows.
fn limits() -> impl Iterator<Item = Vec<u8>> + Clone {
    let singles = [f32::NAN, f32::INFINITY, f32::MAX, -1.0, 0.0, 1e-40, 1.0].map(f32::to_le_bytes);
    let ids = [1, 2, 11, 12, u32::MAX].map(u32::to_le_bytes);
    let doubles = [f64::NAN, f64::NEG_INFINITY, f64::MAX, -1.0, 0.0, 1e-310, 1.0].map(f64::to_le_bytes);
    let of_four = singles.into_iter().chain(ids).map(|value| value.to_vec());
    of_four.chain(doubles.into_iter().map(|value| value.to_vec()))
}

/// Sets the value at the position `at` of an array of such values.
fn set(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(old) = bytes.get_mut(at * value.len()..(at + 1) * value.len()) {
        old.copy_from_slice(value);
    }
}

/// Mutates bytes as libFuzzer does. They may become longer by up to 64 bytes.
fn mutate_with_lib_fuzzer(bytes: &mut Vec<u8>) {
    let size = bytes.len();
    bytes.resize(size + 64, 0);
    let max_size = bytes.len();
    let mutated = libfuzzer_sys::fuzzer_mutate(bytes, size, max_size);
    bytes.truncate(mutated);
}

/// Changes the number of values of an array, or one value. The type is not known, so it is chosen at random.
fn mutate_array(bytes: &mut Vec<u8>, random: &mut Rng) {
    let width = if random.bool() { 4 } else { 8 };
    let count = bytes.len() / width;
    match random.u8(..6) {
        0 => bytes.truncate(random.usize(..=count) * width),
        1 => bytes.resize((count + random.usize(..4)) * width, 0),
        _ => {
            let value = random.choice(limits().collect::<Vec<_>>()).expect("there are values");
            let at = random.usize(..(bytes.len() / value.len()).max(1));
            set(bytes, at, &value);
        }
    }
}

/// Arrays with another number of values, or with another first or last value.
fn edits_of_array(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let lengths = [
        0,
        4,
        bytes.len().saturating_sub(8),
        bytes.len().saturating_sub(4),
        bytes.len() + 4,
        bytes.len() + 8,
    ];
    let resized = lengths.into_iter().map(|length| {
        let mut bytes = bytes.to_vec();
        bytes.resize(length, 0);
        bytes
    });
    let replaced = limits().flat_map(|value| {
        let last = (bytes.len() / value.len()).saturating_sub(1);
        [0, last].map(|at| {
            let mut bytes = bytes.to_vec();
            set(&mut bytes, at, &value);
            bytes
        })
    });
    resized.chain(replaced)
}

/// Defines the mutator and the crossover that libFuzzer calls, from the [`Structure`] of the inputs and the dictionary of the target.
#[macro_export]
macro_rules! mutations {
    ($structure:expr, $dictionary:literal) => {
        libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
            let words = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/dictionaries/", $dictionary));
            let mutated = $structure.mutate(&data[..size], seed, env!("CARGO_BIN_NAME"), words);
            match mutated.filter(|mutated| mutated.len() <= max_size) {
                Some(mutated) => {
                    data[..mutated.len()].copy_from_slice(&mutated);
                    mutated.len()
                }
                None => libfuzzer_sys::fuzzer_mutate(data, size, max_size),
            }
        });
        libfuzzer_sys::fuzz_crossover!(|first: &[u8], second: &[u8], out: &mut [u8], seed: u32| {
            let crossed = $structure.cross(first, second, seed).filter(|crossed| crossed.len() <= out.len());
            // libFuzzer chooses another mutation if the length is 0.
            let crossed = crossed.unwrap_or_default();
            out[..crossed.len()].copy_from_slice(&crossed);
            crossed.len()
        });
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::small_models;

    #[test]
    fn a_model_file_has_edits_of_every_section() {
        let file = small_models::small_model();
        let edits = Structure::ModelFile.edits(&file, &Vocabulary::default());
        let names =
            |file: &Container| file.sections.iter().map(|section| section.name.clone()).collect::<Vec<_>>();
        let original = Container::parse(&file).unwrap();
        let edited: Vec<_> = edits.iter().map(|edit| Container::parse(edit).unwrap()).collect();
        for (at, name) in names(&original).iter().enumerate() {
            let is_removed = |file: &Container| !names(file).contains(name);
            assert_eq!(edited.iter().filter(|file| is_removed(file)).count(), 1, "{name}");
            let is_changed = |file: &&Container| {
                file.sections.len() == original.sections.len()
                    && file.sections[at].bytes != original.sections[at].bytes
            };
            assert!(edited.iter().filter(is_changed).count() > 10, "{name}");
        }
    }

    #[test]
    fn the_length_before_a_text_is_corrected() {
        let input = [&7_u64.to_le_bytes()[..], br#"{"a":1}xyz"#].concat();
        let edits = Structure::Json(TextPosition::AfterLength).edits(&input, &Vocabulary::default());
        let expected = [&2_u64.to_le_bytes()[..], b"{}xyz"].concat();
        assert!(edits.contains(&expected));
    }

    #[test]
    fn the_seeds_of_every_target_with_structure_have_edits() {
        let json = Structure::Json;
        let targets = [
            ("model", Structure::ModelFile),
            ("manifest", Structure::ModelFile),
            ("rules", json(TextPosition::AfterLength)),
            ("safetensors", json(TextPosition::AfterLength)),
            ("http", json(TextPosition::After(2))),
            ("changes", json(TextPosition::After(1))),
            ("npz", Structure::Archive),
        ];
        for (target, structure) in targets {
            let seeds = seeds(target);
            let vocabulary = structure.vocabulary("", target);
            assert!(seeds.iter().any(|seed| structure.edits(seed, &vocabulary).len() > 50), "{target}");
        }
    }
}
