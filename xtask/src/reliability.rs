//! Counts of the long tests (fuzzing, faults, kills, soak, sanitizers), and the table of them in docs/reliability.md.
//!
//! Each command writes one file `target/reliability/COMMAND.json`:
//!
//! ```json
//! {"command": "faults", "commit": "9319590", "machine": "2 threads, x86_64 linux",
//!  "lines": [{"name": "fit", "count": 123, "unit": "faults", "failures": 0, "note": "open, write, fsync", "commit": "9319590"}]}
//! ```
//!
//! `cargo xtask docs reliability` copies the lines of these files to `reliability/counts`, which is part of the repository, and writes the
//! table from there. Commands that were not run in this checkout thereby keep their lines.
//!
//! Files may come from other programs: `command`, and `name`, `count` and `unit` of each line, are required. The other fields of the
//! example, and the date `finished`, are optional. All further fields are ignored.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::steps::{Failed, root};

/// One count of a command.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    /// What was tested, such as the name of a fuzz target. It identifies the line in its file.
    pub(crate) name: String,
    pub(crate) count: u64,
    /// What is counted, a plural noun.
    pub(crate) unit: &'static str,
    pub(crate) failures: u64,
    /// One short sentence, or empty.
    pub(crate) note: String,
}

impl Line {
    fn json(&self) -> Value {
        let Self { name, count, unit, failures, note } = self;
        json!({"name": name, "count": count, "unit": unit, "failures": failures, "note": note})
    }
}

/// The commands in the order of the table.
const COMMANDS: [&str; 5] = ["fuzz", "faults", "kills", "soak", "sanitize"];

const PAGE: &str = "docs/reliability.md";
const FIGURE: &str = "docs/figures/soak.svg";
/// The lines of the page between which the table is written.
const START: &str = "<!-- The table is written by `cargo xtask docs reliability`. -->";
const END: &str = "<!-- End of the table. -->";

fn folder() -> PathBuf {
    root().join("target/reliability")
}

/// The folder of the counts of which the table is written.
fn counts_folder() -> PathBuf {
    root().join("reliability/counts")
}

/// Writes the counts of a command. A line of an earlier run is kept unless a new line has its name; the new line then takes its place. The
/// function `record` of reliability/record.py does the same.
pub(crate) fn record(command: &str, lines: &[Line]) -> Result<(), Failed> {
    record_in(&folder(), command, lines)
}

fn record_in(folder: &Path, command: &str, lines: &[Line]) -> Result<(), Failed> {
    let path = folder.join(format!("{command}.json"));
    let failed = |problem: String| Failed(format!("{}: {problem}", path.display()));
    fs::create_dir_all(folder).map_err(|error| failed(error.to_string()))?;
    // Other threads and other processes may record their lines at the same time. The lock ends with this function.
    let lock = fs::File::create(path.with_extension("lock")).map_err(|error| failed(error.to_string()))?;
    lock.lock().map_err(|error| failed(error.to_string()))?;
    let mut all: Vec<Value> = match fs::read_to_string(&path) {
        Ok(text) => {
            let file = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
            lines_of(&file).map_err(&failed)?
        }
        Err(error) if error.kind() == ErrorKind::NotFound => vec![],
        Err(error) => return Err(failed(error.to_string())),
    };
    // Lines that are kept may come from an older commit, so each line contains its commit.
    for line in lines {
        let mut line = line.json();
        line["commit"] = json!(commit());
        replace_or_add(&mut all, line);
    }
    let file = json!({"command": command, "commit": commit(), "machine": machine(), "lines": all});
    write_json(&path, &file).map_err(failed)
}

/// The lines of a file. Lines of older files have no commit; the commit of their file is the last one that they can come from.
fn lines_of(file: &Value) -> Result<Vec<Value>, String> {
    let lines = file["lines"].as_array().ok_or_else(|| "it has no array `lines`".to_owned())?;
    let mut lines = lines.clone();
    for line in lines.iter_mut().filter_map(Value::as_object_mut) {
        line.entry("commit").or_insert_with(|| json!(file["commit"].as_str().unwrap_or_default()));
    }
    Ok(lines)
}

/// The short name of the commit, followed by `+` if files differ from it.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(root()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let is_changed =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|text| !text.is_empty());
    let commit = git(&["rev-parse", "--short", "HEAD"]).unwrap_or_default();
    if is_changed && !commit.is_empty() { commit + "+" } else { commit }
}

fn machine() -> String {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    format!("{threads} threads, {} {}", std::env::consts::ARCH, std::env::consts::OS)
}

/// Writes the table of all recorded counts into docs/reliability.md, and copies the figure of the last soak run, if there is one, to
/// docs/figures.
pub(crate) fn write_page() -> Result<(), Failed> {
    let path = root().join(PAGE);
    let failed = |problem: String| Failed(format!("{PAGE}: {problem}"));
    let page = fs::read_to_string(&path).map_err(|error| failed(error.to_string()))?;
    copy_lines(&folder(), &counts_folder())?;
    let table = table(&files(&counts_folder())?)?;
    let page =
        with_table(&page, &table).ok_or_else(|| failed(format!("it has no lines `{START}` and `{END}`")))?;
    fs::write(&path, page).map_err(|error| failed(error.to_string()))?;
    match fs::copy(folder().join("soak.svg"), root().join(FIGURE)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Failed(format!("{FIGURE}: {error}"))),
        _ => Ok(()),
    }
}

/// Copies the lines of all files of a folder into the files of the same names in another folder. Lines there are kept unless a copied line
/// has the same name.
fn copy_lines(from: &Path, to: &Path) -> Result<(), Failed> {
    for path in json_files(from) {
        let failed = |path: &Path, problem: String| Failed(format!("{}: {problem}", path.display()));
        let read = |path: &Path| fs::read_to_string(path).map_err(|error| failed(path, error.to_string()));
        let target = to.join(path.file_name().unwrap_or_default());
        let mut file: Value =
            serde_json::from_str(&read(&path)?).map_err(|error| failed(&path, error.to_string()))?;
        let new = lines_of(&file).map_err(|problem| failed(&path, problem))?;
        let mut lines = match target.exists() {
            true => {
                let old = serde_json::from_str(&read(&target)?)
                    .map_err(|error| failed(&target, error.to_string()))?;
                lines_of(&old).map_err(|problem| failed(&target, problem))?
            }
            false => vec![],
        };
        new.into_iter().for_each(|line| replace_or_add(&mut lines, line));
        file["lines"] = json!(lines);
        write_json(&target, &file).map_err(|problem| failed(&target, problem))?;
    }
    Ok(())
}

/// Puts a line in the place of the line with the same name, or after the last line.
fn replace_or_add(lines: &mut Vec<Value>, line: Value) {
    match lines.iter_mut().find(|other| other["name"] == line["name"]) {
        Some(other) => *other = line,
        None => lines.push(line),
    }
}

/// A reader finds the old file or the new one.
fn write_json(path: &Path, file: &Value) -> Result<(), String> {
    let text = serde_json::to_string_pretty(file).expect("the keys are strings");
    let partial = path.with_extension("json.new");
    fs::write(&partial, text + "\n")
        .and_then(|()| fs::rename(&partial, path))
        .map_err(|error| error.to_string())
}

/// The JSON files of a folder; none if the folder does not exist.
fn json_files(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths
}

/// The recorded files that exist, in the order of [`COMMANDS`], and then others by name.
fn files(folder: &Path) -> Result<Vec<(PathBuf, String)>, Failed> {
    let mut paths = json_files(folder);
    if paths.is_empty() {
        let commands = COMMANDS.map(|command| format!("cargo xtask {command}")).join(", ");
        return Err(Failed(format!("{} has no counts: run {commands}", folder.display())));
    }
    let place = |path: &PathBuf| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        (COMMANDS.iter().position(|command| *command == stem).unwrap_or(COMMANDS.len()), stem)
    };
    paths.sort_by_key(place);
    paths
        .into_iter()
        .map(|path| match fs::read_to_string(&path) {
            Ok(text) => Ok((path, text)),
            Err(error) => Err(Failed(format!("{}: {error}", path.display()))),
        })
        .collect()
}

/// The table as Markdown, with one line per count.
fn table(files: &[(PathBuf, String)]) -> Result<String, Failed> {
    let mut text =
        "| command | tested | count | failures | remarks |\n| --- | --- | ---: | ---: | --- |\n".to_owned();
    let mut sources = vec![];
    for (path, file) in files {
        let failed = |problem: String| Failed(format!("{}: {problem}", path.display()));
        let file: Value = serde_json::from_str(file).map_err(|error| failed(error.to_string()))?;
        let command =
            file["command"].as_str().ok_or_else(|| failed("it has no text `command`".to_owned()))?;
        let lines = file["lines"].as_array().ok_or_else(|| failed("it has no array `lines`".to_owned()))?;
        for (i, line) in lines.iter().enumerate() {
            let row = row(command, line)
                .map_err(|field| failed(format!("line {i} of `lines` has no `{field}`")))?;
            text += &row;
        }
        sources.push(format!("`{command}`: {}", source(&file, lines).join(", ")));
    }
    Ok(format!("{text}\nCommits and machines: {}.\n", sources.join("; ")))
}

/// The commits of a file and its lines, the machine and the date, as far as they are stated.
fn source<'f>(file: &'f Value, lines: &'f [Value]) -> Vec<&'f str> {
    let text = |value: &'f Value, field: &str| value[field].as_str().filter(|text| !text.is_empty());
    let commits = lines.iter().filter_map(|line| text(line, "commit"));
    let mut source: Vec<&str> = vec![];
    for value in commits.chain(["commit", "machine", "finished"].iter().filter_map(|field| text(file, field)))
    {
        if !source.contains(&value) {
            source.push(value);
        }
    }
    source
}

/// A line of the table; the error is the name of a missing field.
fn row(command: &str, line: &Value) -> Result<String, &'static str> {
    let cell = |text: &str| text.replace('|', "\\|").replace(['\n', '\r'], " ");
    let name = line["name"].as_str().ok_or("name")?;
    let unit = line["unit"].as_str().ok_or("unit")?;
    let count = match &line["count"] {
        Value::Number(number) => with_separators(&number.to_string()),
        _ => return Err("count"),
    };
    let failures = line["failures"].as_u64().unwrap_or(0);
    let note = cell(line["note"].as_str().unwrap_or_default());
    Ok(format!("| `{command}` | {} | {count} {} | {failures} | {note} |\n", cell(name), cell(unit)))
}

/// A number with a comma before each group of three digits of its whole part.
fn with_separators(number: &str) -> String {
    let (whole, rest) = number.find('.').map_or((number, ""), |at| number.split_at(at));
    let mut text = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + rest
}

/// The page with a new table; `None` if the lines around the table are missing.
fn with_table(page: &str, table: &str) -> Option<String> {
    let start = page.find(START)? + START.len();
    let end = start + page[start..].find(END)?;
    Some(format!("{}\n\n{table}\n{}", &page[..start], &page[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, count: u64) -> Line {
        Line { name: name.to_owned(), count, unit: "executions", failures: 0, note: "a | b".to_owned() }
    }

    #[test]
    fn a_new_run_replaces_only_lines_with_the_same_name_and_the_table_has_all_files() {
        let folder = std::env::temp_dir().join(format!("nuq-reliability-{}", std::process::id()));
        record_in(&folder, "fuzz", &[line("npy", 5), line("npz", 6)]).ok().unwrap();
        record_in(&folder, "fuzz", &[line("npz", 1_234_567), line("http", 8)]).ok().unwrap();
        fs::write(folder.join("kills.json"), r#"{"command": "kills", "lines": [], "extra": 1}"#).unwrap();
        fs::write(folder.join("other.json"), r#"{"command": "other", "commit": "abc", "lines": [{"name": "x", "count": 1.5, "unit": "hours"}]}"#)
            .unwrap();
        let files = files(&folder).ok().unwrap();
        let text = table(&files).ok().unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(
            rows,
            [
                "| `fuzz` | npy | 5 executions | 0 | a \\| b |",
                "| `fuzz` | npz | 1,234,567 executions | 0 | a \\| b |",
                "| `fuzz` | http | 8 executions | 0 | a \\| b |",
                "| `other` | x | 1.5 hours | 0 |  |",
            ]
        );
        assert!(text.contains("`other`: abc"), "{text}");
    }

    #[test]
    fn lines_that_are_recorded_at_the_same_time_are_all_kept() {
        let folder = std::env::temp_dir().join(format!("nuq-reliability-lock-{}", std::process::id()));
        std::thread::scope(|scope| {
            for at in 0..8 {
                let folder = &folder;
                scope.spawn(move || record_in(folder, "fuzz", &[line(&at.to_string(), at)]).ok().unwrap());
            }
        });
        let file = serde_json::from_str(&fs::read_to_string(folder.join("fuzz.json")).unwrap()).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(lines_of(&file).unwrap().len(), 8);
    }

    #[test]
    fn a_kept_line_keeps_the_commit_of_its_run() {
        let folder = std::env::temp_dir().join(format!("nuq-reliability-commits-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        // The first line is from before lines had commits.
        let old = r#"{"command": "fuzz", "commit": "aaa", "lines": [
            {"name": "npy", "count": 1, "unit": "executions"},
            {"name": "npz", "count": 1, "unit": "executions", "commit": "bbb"}]}"#;
        fs::write(folder.join("fuzz.json"), old).unwrap();
        record_in(&folder, "fuzz", &[line("http", 8)]).ok().unwrap();
        let file = serde_json::from_str(&fs::read_to_string(folder.join("fuzz.json")).unwrap()).unwrap();
        let lines = lines_of(&file).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let commits: Vec<&str> = lines.iter().map(|line| line["commit"].as_str().unwrap()).collect();
        assert_eq!(commits, ["aaa", "bbb", commit().as_str()]);
    }

    #[test]
    fn lines_of_commands_that_were_not_run_here_are_kept() {
        let folder = std::env::temp_dir().join(format!("nuq-reliability-copies-{}", std::process::id()));
        let (recorded, counts) = (folder.join("recorded"), folder.join("counts"));
        record_in(&counts, "fuzz", &[line("npy", 5), line("npz", 6)]).ok().unwrap();
        record_in(&counts, "kills", &[line("fit", 7)]).ok().unwrap();
        copy_lines(&recorded, &counts).ok().unwrap();
        record_in(&recorded, "fuzz", &[line("npz", 8), line("http", 9)]).ok().unwrap();
        copy_lines(&recorded, &counts).ok().unwrap();
        let text = table(&files(&counts).ok().unwrap()).ok().unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let counts = ["| npy | 5 ", "| npz | 8 ", "| http | 9 ", "| fit | 7 "];
        assert!(counts.iter().all(|count| text.contains(count)), "{text}");
        assert!(!text.contains("| npz | 6 "), "{text}");
    }

    #[test]
    fn the_commits_of_all_lines_are_stated() {
        // The first file is from before lines had commits.
        let old = r#"{"command": "kills", "commit": "aaa", "machine": "m",
                     "lines": [{"name": "fit", "count": 1, "unit": "kills"}]}"#;
        let new = r#"{"command": "kills", "commit": "bbb+", "machine": "m", "finished": "today",
                     "lines": [{"name": "fit", "count": 1, "unit": "kills", "commit": "aaa"},
                               {"name": "save", "count": 1, "unit": "kills", "commit": "bbb+"}]}"#;
        for (text, expected) in [(old, "`kills`: aaa, m."), (new, "`kills`: aaa, bbb+, m, today.")] {
            let table = table(&[("kills.json".into(), text.to_owned())]).ok().unwrap();
            assert!(table.contains(expected), "{table}");
        }
    }

    #[test]
    fn missing_fields_and_invalid_files_are_named() {
        let error = |text: &str| table(&[("a.json".into(), text.to_owned())]).err().unwrap().0;
        assert!(error("{").starts_with("a.json: "), "{}", error("{"));
        assert_eq!(error("{}"), "a.json: it has no text `command`");
        assert_eq!(error(r#"{"command": "kills"}"#), "a.json: it has no array `lines`");
        let lines = r#"{"command": "kills", "lines": [{"name": "fit", "unit": "kills", "count": "3"}]}"#;
        assert_eq!(error(lines), "a.json: line 0 of `lines` has no `count`");
    }

    #[test]
    fn the_table_replaces_the_one_between_the_marks() {
        let page = format!("before\n{START}\n\nold\n\n{END}\nafter\n");
        let new = with_table(&page, "new\n").unwrap();
        assert_eq!(new, format!("before\n{START}\n\nnew\n\n{END}\nafter\n"));
        assert_eq!(with_table(&new, "new\n").unwrap(), new);
        assert_eq!(with_table("no marks", "new"), None);
        assert!(with_table(&fs::read_to_string(root().join(PAGE)).unwrap(), "").is_some());
    }
}
