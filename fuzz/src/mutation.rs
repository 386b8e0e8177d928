//! Mutations of inputs that contain JSON or are model files, for the targets that [`mutations!`](crate::mutations) gives to libFuzzer. Half of the
//! mutations are those of libFuzzer, which also damage the structure of the input. The functions here return `None` for them.

use std::sync::OnceLock;

use fastrand::Rng;
use serde_json::Value;

use crate::container::Container;
use crate::json;

/// Where the JSON text of an input is.
#[derive(Clone, Copy)]
pub enum Place {
    /// It begins after this number of bytes, and its end is the end of the value.
    After(usize),
    /// It begins after eight bytes, which state its length. Files of safetensors and rules are such inputs.
    AfterLength,
}

/// An input with a JSON text.
struct WithJson {
    head: Vec<u8>,
    document: Value,
    rest: Vec<u8>,
    place: Place,
}

impl WithJson {
    fn parse(bytes: &[u8], place: Place) -> Option<Self> {
        let (head, rest) = match place {
            Place::After(start) => bytes.split_at_checked(start)?,
            Place::AfterLength => bytes.split_at_checked(8)?,
        };
        let length = match place {
            Place::After(_) => json_len(rest)?,
            Place::AfterLength => u64::from_le_bytes(head.try_into().ok()?).try_into().ok()?,
        };
        let (text, rest) = rest.split_at_checked(length)?;
        let document = serde_json::from_slice(text).ok()?;
        Some(Self { head: head.to_vec(), document, rest: rest.to_vec(), place })
    }

    fn bytes(self) -> Vec<u8> {
        let text = self.document.to_string().into_bytes();
        let head = match self.place {
            Place::After(_) => self.head,
            Place::AfterLength => (text.len() as u64).to_le_bytes().to_vec(),
        };
        [head, text, self.rest].concat()
    }
}

/// The length of the JSON value at the beginning of a text; `None` if there is none.
pub fn json_len(text: &[u8]) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<serde::de::IgnoredAny>();
    values.next()?.ok()?;
    Some(values.byte_offset())
}

/// Mutates the JSON text of an input.
pub fn with_json(input: &[u8], seed: u32, place: Place, dictionary: &str) -> Option<Vec<u8>> {
    let mut random = Rng::with_seed(seed.into());
    let mut input = if random.bool() { WithJson::parse(input, place)? } else { return None };
    (0..random.u8(1..4)).for_each(|_| json::mutate(&mut input.document, words(dictionary), &mut random));
    Some(input.bytes())
}

/// Copies a value of the JSON text of one input into that of another.
pub fn cross_json(first: &[u8], second: &[u8], seed: u32, place: Place) -> Option<Vec<u8>> {
    let (mut input, other) = (WithJson::parse(first, place)?, WithJson::parse(second, place)?);
    json::cross(&mut input.document, &other.document, &mut Rng::with_seed(seed.into()));
    Some(input.bytes())
}

/// Mutates sections of a model file, and corrects the table and the checksums.
pub fn model_file(input: &[u8], seed: u32, dictionary: &str) -> Option<Vec<u8>> {
    let mut random = Rng::with_seed(seed.into());
    let mut container = if random.bool() { Container::parse(input)? } else { return None };
    if container.sections.is_empty() {
        return None;
    }
    (0..random.u8(1..4)).for_each(|_| mutate_section(&mut container, words(dictionary), &mut random));
    Some(container.bytes())
}

/// Copies a value of the metadata of one model file, or one of its sections, into another model file.
pub fn cross_model_files(first: &[u8], second: &[u8], seed: u32) -> Option<Vec<u8>> {
    let (mut file, other) = (Container::parse(first)?, Container::parse(second)?);
    let mut random = Rng::with_seed(seed.into());
    let copied = random.choice(&other.sections)?;
    match file.sections.iter_mut().find(|section| section.name == copied.name) {
        None => file.sections.push(copied.clone()),
        Some(own) => match (serde_json::from_slice(&own.bytes), serde_json::from_slice(&copied.bytes)) {
            (Ok(mut document), Ok(other)) => {
                json::cross(&mut document, &other, &mut random);
                own.bytes = document.to_string().into_bytes();
            }
            _ => own.bytes.clone_from(&copied.bytes),
        },
    }
    Some(file.bytes())
}

/// The values of the dictionary of the target. A program has one target.
fn words(dictionary: &str) -> &'static [Value] {
    static WORDS: OnceLock<Vec<Value>> = OnceLock::new();
    WORDS.get_or_init(|| json::words(dictionary))
}

fn mutate_section(container: &mut Container, words: &[Value], random: &mut Rng) {
    let count = container.sections.len();
    let at = random.usize(..count);
    let other = random.usize(..count);
    match random.u8(..8) {
        // A file without sections cannot be mutated further.
        0 if count > 1 => drop(container.sections.remove(at)),
        1 => {
            let name = random.choice(words).and_then(Value::as_str);
            container.sections[at].name =
                name.map_or_else(|| container.sections[other].name.clone(), str::to_owned);
        }
        2 => container.sections[at].bytes = container.sections[other].bytes.clone(),
        3 => container.version = random.u32(..6),
        _ => {
            let bytes = &mut container.sections[at].bytes;
            match serde_json::from_slice(bytes) {
                Ok(mut document) => {
                    json::mutate(&mut document, words, random);
                    *bytes = document.to_string().into_bytes();
                }
                Err(_) => mutate_array(bytes, random),
            }
        }
    }
}

/// Changes the number of values of an array, or one value to a value at the limits of its type. The type is not known, so it is chosen.
fn mutate_array(bytes: &mut Vec<u8>, random: &mut Rng) {
    let width = if random.bool() { 4 } else { 8 };
    let count = bytes.len() / width;
    match random.u8(..6) {
        0 => bytes.truncate(random.usize(..=count) * width),
        1 => bytes.resize((count + random.usize(..4)) * width, 0),
        _ if count > 0 => {
            let at = random.usize(..count) * width;
            let value: [u8; 8] = match width {
                4 => {
                    let values = [f32::NAN, f32::INFINITY, f32::MAX, -1.0, 0.0, 1e-40, 1.0].map(f32::to_bits);
                    let ids = [0, 1, 2, 11, 12, u32::MAX];
                    let value = if random.bool() { random.choice(values) } else { random.choice(ids) };
                    u64::from(value.unwrap_or(0)).to_le_bytes()
                }
                _ => {
                    let values = [f64::NAN, f64::NEG_INFINITY, f64::MAX, -1.0, 0.0, 1e-310, 1.0];
                    random.choice(values).unwrap_or(0.0).to_le_bytes()
                }
            };
            bytes[at..at + width].copy_from_slice(&value[..width]);
        }
        _ => {}
    }
}

/// Defines the mutator and the crossover that libFuzzer calls, from two functions with the results of [`with_json`] and [`cross_json`], or of
/// [`model_file`] and [`cross_model_files`].
#[macro_export]
macro_rules! mutations {
    ($mutate:expr, $cross:expr) => {
        libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
            let mutate: fn(&[u8], u32) -> Option<Vec<u8>> = $mutate;
            match mutate(&data[..size], seed).filter(|mutated| mutated.len() <= max_size) {
                Some(mutated) => {
                    data[..mutated.len()].copy_from_slice(&mutated);
                    mutated.len()
                }
                None => libfuzzer_sys::fuzzer_mutate(data, size, max_size),
            }
        });
        libfuzzer_sys::fuzz_crossover!(|first: &[u8], second: &[u8], out: &mut [u8], seed: u32| {
            let cross: fn(&[u8], &[u8], u32) -> Option<Vec<u8>> = $cross;
            let crossed = cross(first, second, seed).filter(|crossed| crossed.len() <= out.len());
            let crossed = crossed.as_deref().unwrap_or(&first[..first.len().min(out.len())]);
            out[..crossed.len()].copy_from_slice(crossed);
            crossed.len()
        });
    };
}
