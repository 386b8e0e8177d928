//! Compares `docs/vocabulary.md` with the command line, the Rust types, a saved model and the columns of `nuq score`.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use clap::{CommandFactory, Parser};
use nuq::calibrate::{Measure, SetScore};
use nuq::{
    BandwidthRule, Covariance, Criterion, DensityBandwidth, DensityKind, Device, IndexKind, Kernel,
    Precision, Scale, Shrinkage, SquaredError, Variance,
};
use nuq_eval::evaluate::MethodId;
use nuq_io::{Format, Header};
use serde_json::Value;

use crate::args::Args;

/// The cells of all tables under a heading of the page, without the header lines.
fn tables(heading: &str) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/vocabulary.md");
    let page = fs::read_to_string(path).unwrap();
    let section = page.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
    let lines: Vec<&str> = section.lines().collect();
    let is_header = |i: usize| lines.get(i + 1).is_some_and(|next| next.starts_with("| --- "));
    let is_row =
        |i: &usize| lines[*i].starts_with("| ") && !lines[*i].starts_with("| --- ") && !is_header(*i);
    let cells =
        |i: usize| lines[i].trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
    (0..lines.len()).filter(is_row).map(cells).collect()
}

/// The text between the first pair of backticks of a cell.
fn code(cell: &str) -> Option<&str> {
    cell.split('`').nth(1)
}

/// Every option of the command line. The key is `COMMAND --OPTION` with the visible aliases and the short form.
fn options() -> BTreeMap<String, clap::Arg> {
    let nuq = Args::command();
    let mut options = BTreeMap::new();
    for command in nuq.get_subcommands().chain([&nuq]) {
        for argument in command.get_arguments().filter(|argument| argument.get_long().is_some()) {
            let aliases = argument.get_visible_aliases().unwrap_or_default();
            let aliases = aliases.iter().map(|alias| format!(", --{alias}"));
            let aliases: String =
                aliases.chain(argument.get_short().map(|short| format!(", -{short}"))).collect();
            let name = format!("{} --{}{aliases}", command.get_name(), argument.get_long().unwrap());
            options.insert(name, argument.clone());
        }
    }
    options
}

#[test]
fn every_option_of_the_command_line_is_listed() {
    let listed: Vec<String> = tables("Options").iter().map(|row| row[2].replace('`', "")).collect();
    let options = options();
    let mut expected: Vec<&String> = options.keys().collect();
    let mut sorted: Vec<&String> = listed.iter().collect();
    expected.sort();
    sorted.sort();
    assert_eq!(sorted, expected);
}

#[test]
fn every_choice_of_the_command_line_is_listed() {
    let mut listed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in tables("Choices") {
        let (option, word) = (code(&row[0]).unwrap(), code(&row[1]).unwrap());
        listed.entry(option.to_owned()).or_default().push(word.to_owned());
    }
    let mut expected = BTreeMap::new();
    for argument in options().values() {
        let words: Vec<String> =
            argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        if !words.is_empty() && argument.get_action().takes_values() {
            expected.insert(argument.get_long().unwrap().replace('-', "_"), words);
        }
    }
    assert_eq!(listed, expected);
}

/// The Rust value of a word, in `Debug` format.
fn rust_value(option: &str, word: &str) -> Option<String> {
    let debug = match option {
        "kernel" => format!("{:?}", word.parse::<Kernel>().unwrap()),
        "bandwidth" => match word.parse::<BandwidthRule<Criterion>>() {
            Ok(rule) => format!("{rule:?}"),
            Err(_) => format!("{:?}", word.parse::<BandwidthRule<SquaredError>>().unwrap()),
        },
        "density" => format!("{:?}", word.parse::<DensityKind>().unwrap()),
        "density_bandwidth" => format!("{:?}", word.parse::<DensityBandwidth>().unwrap()),
        "covariance" => format!("{:?}", word.parse::<Covariance>().unwrap()),
        "shrinkage" => format!("{:?}", word.parse::<Shrinkage>().unwrap()),
        "variance" => format!("{:?}", word.parse::<Variance>().unwrap()),
        "scale" => format!("{:?}", word.parse::<Scale>().unwrap()),
        "device" => format!("{:?}", word.replace('N', "1").parse::<Device>().unwrap()),
        "index" => format!("{:?}", word.parse::<IndexKind>().unwrap()),
        "precision" => format!("{:?}", word.parse::<Precision>().unwrap()),
        "measure" => format!("{:?}", word.parse::<Measure>().unwrap()),
        "set_score" => format!("{:?}", word.parse::<SetScore>().unwrap()),
        "method" => format!("{:?}", word.parse::<MethodId>().unwrap()),
        "header" => format!("{:?}", word.parse::<Header>().unwrap()),
        "format" => format!("{:?}", word.parse::<Format>().unwrap()),
        "metrics" => format!("{:?}", word.parse::<nuq_server::MetricsAccess>().unwrap()),
        "log_format" => format!("{:?}", word.parse::<nuq_server::LogFormat>().unwrap()),
        "log_level" => format!("{:?}", word.parse::<nuq_server::LogLevel>().unwrap()),
        _ => return None,
    };
    Some(debug)
}

#[test]
fn the_rust_value_of_every_choice_is_listed() {
    for row in tables("Choices") {
        let (option, word) = (code(&row[0]).unwrap(), code(&row[1]).unwrap());
        let Some(debug) = rust_value(option, word) else { continue };
        let variant = code(&row[2]).unwrap().rsplit("::").next().unwrap();
        let mut identifiers = debug.split(|c: char| !c.is_alphanumeric() && c != '_');
        assert!(identifiers.any(|name| name == variant), "{option} {word}: {variant} is not in {debug}");
    }
}

/// The sources of all crates.
fn sources() -> String {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut folders, mut text) = (vec![crates], String::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text += &fs::read_to_string(path).unwrap();
            }
        }
    }
    text
}

/// Whether the sources define a function, type, field or variant with this name.
fn is_defined(sources: &str, name: &str) -> bool {
    let forms = ["fn NAME(", "fn NAME<", "struct NAME", "enum NAME", "trait NAME", "mod NAME;", "pub NAME: "];
    let variants = [" NAME,\n", " NAME(", " NAME {", " NAME => "];
    forms.iter().chain(&variants).any(|form| sources.contains(&form.replace("NAME", name)))
}

#[test]
fn the_rust_items_of_options_and_results_exist() {
    let sources = sources();
    let cells = tables("Options").into_iter().chain(tables("Results")).map(|row| row[1].clone());
    let mut checked = 0;
    for cell in cells {
        for item in cell.split('`').skip(1).step_by(2) {
            for name in item.split("::").filter(|name| !name.starts_with("nuq")) {
                let name = name.trim_end_matches("()");
                assert!(is_defined(&sources, name), "{item}: {name} is not defined");
                checked += 1;
            }
        }
    }
    assert!(checked > 100, "{checked}");
}

fn run(words: &[&str]) {
    let arguments = [&["nuq"], words, &["--quiet"]].concat();
    let mut args = Args::try_parse_from(arguments).unwrap();
    // A number of threads from the environment variable NUQ_THREADS would be an error: the tests of this process share one thread
    // pool, whose size cannot be changed.
    args.common.threads = None;
    crate::prepare_and_execute(args).unwrap();
}

/// The section `model` of a model file. The number of sections is at byte 12. From byte 32 on, each section has an entry of 64 bytes: its
/// name, its offset at byte 40 of the entry, and its length at byte 48.
fn model_section(path: &Path) -> Value {
    let bytes = fs::read(path).unwrap();
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let sections = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let entries: Vec<usize> = (0..sections).map(|i| 32 + 64 * i).collect();
    let entry = entries.iter().find(|&&at| bytes[at..].starts_with(b"model\0")).unwrap();
    let (offset, length) = (number(entry + 40), number(entry + 48));
    serde_json::from_slice(&bytes[offset..offset + length]).unwrap()
}

/// A temporary folder with forty rows of two classes (`x.csv`, `y.csv`), to which models are written.
struct Example {
    folder: tempfile::TempDir,
}

impl Example {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let row = |i: u32| format!("{},{}\n", i % 7, 10 * (i % 2) + i % 5);
        fs::write(folder.path().join("x.csv"), format!("a,b\n{}", (0..40).map(row).collect::<String>()))
            .unwrap();
        fs::write(folder.path().join("y.csv"), "0\n1\n".repeat(20)).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_string_lossy().into_owned()
    }

    /// The section `model` after `nuq fit` with these options.
    fn fit(&self, options: &[&str]) -> Value {
        let (x, y, m) = (self.path("x.csv"), self.path("y.csv"), self.path("m.nuq"));
        run(&[&["fit", "--embeddings", &x, "--labels", &y, "--out", &m], options].concat());
        model_section(Path::new(&m))
    }

    /// The section `model` after `nuq calibrate` with these options. The threshold or sets are called `NAME`.
    fn calibrate(&self, options: &[&str]) -> Value {
        let (x, y, m) = (self.path("x.csv"), self.path("y.csv"), self.path("m.nuq"));
        let files = ["calibrate", "--model", &m, "--embeddings", &x, "--labels", &y, "--name", "NAME"];
        run(&[&files[..], options].concat());
        model_section(Path::new(&m))
    }
}

impl Example {
    /// The section `model` after a temperature was fitted.
    fn fit_temperature(&self) -> Value {
        let (z, y, m) = (self.path("z.csv"), self.path("y.csv"), self.path("m.nuq"));
        fs::write(&z, "1,0\n0,2\n1,0\n1,0\n".repeat(10)).unwrap();
        run(&["calibrate", "--model", &m, "--temperature", "--logits", &z, "--labels", &y]);
        model_section(Path::new(&m))
    }

    /// The section `model` of a regressor with intervals.
    fn intervals(&self) -> Value {
        let (x, y, m) = (self.path("x.csv"), self.path("y.csv"), self.path("r.nuq"));
        run(&["fit", "--embeddings", &x, "--targets", &y, "--out", &m]);
        run(&["calibrate", "--model", &m, "--embeddings", &x, "--targets", &y, "--target", "intervals=0.5"]);
        model_section(Path::new(&m))
    }
}

/// The value at a path of keys, such as `smoother.density.kind`.
fn at<'v>(model: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(model, |value, key| value.get(key))
}

#[test]
fn listed_keys_exist_in_the_model_file() {
    let example = Example::new();
    let mut models = vec![
        example.fit(&["--density", "gmm", "--scale-free", "--index", "hnsw"]),
        example.fit(&["--density-bandwidth", "1"]),
        example.calibrate(&["--target", "risk=0.9"]),
    ];
    models.push(example.calibrate(&["--target", "coverage=0.5"]));
    models.push(example.calibrate(&["--target", "sets=0.5"]));
    models.push(example.fit_temperature());
    models.push(example.intervals());
    let rows = [tables("Options"), tables("Choices")].concat();
    for row in rows.iter().filter(|row| !row.last().unwrap().starts_with("section")) {
        let Some(path) = code(row.last().unwrap()) else { continue };
        assert!(models.iter().any(|model| at(model, path).is_some()), "{path}");
    }
}

#[test]
fn the_model_file_stores_the_word_of_each_choice() {
    let example = Example::new();
    for row in tables("Choices") {
        let (option, word) = (code(&row[0]).unwrap(), code(&row[1]).unwrap());
        let Some(path) = code(&row[3]) else { continue };
        let flag = format!("--{}", option.replace('_', "-"));
        let model = match option {
            "measure" => {
                example.fit(&[]);
                example.calibrate(&["--target", "coverage=0.5", &flag, word])
            }
            "set_score" => {
                example.fit(&[]);
                example.calibrate(&["--target", "sets=0.5", &flag, word])
            }
            "covariance" => example.fit(&["--density", "gmm", &flag, word]),
            "precision" => example.fit(&["--index", "hnsw", &flag, word]),
            _ => example.fit(&[&flag, word]),
        };
        assert_eq!(at(&model, path), Some(&Value::from(word)), "{option} {word}");
    }
}

#[test]
fn columns_of_score_are_listed() {
    let example = Example::new();
    example.fit(&[]);
    let (x, m, out) = (example.path("x.csv"), example.path("m.nuq"), example.path("s.csv"));
    let score = ["score", "--model", &m, "--embeddings", &x, "--out", &out];
    example.calibrate(&["--target", "sets=0.5"]);
    let options = ["--reject-cost", "0.5", "--output-neighbors", "1", "--sets", "NAME"];
    run(&[&score[..], &options].concat());
    let scores = fs::read_to_string(&out).unwrap();
    let columns: Vec<&str> = scores.lines().next().unwrap().split(',').collect();
    let listed = tables("Results");
    let listed: Vec<&str> = listed.iter().map(|row| code(&row[0]).unwrap()).collect();
    assert_eq!(columns, listed);
}
