//! `cargo xtask unsafe`: every use of `unsafe` in the repository, with its reason.
//!
//! A block, an implementation, an `extern` block or an attribute needs a comment `// SAFETY: …` directly above its statement. A function or
//! a trait needs a section `# Safety` in its documentation, or such a comment. Types of unsafe functions, such as `unsafe extern "C" fn()`,
//! do nothing and need no reason. The lint `undocumented_unsafe_blocks` covers blocks and implementations too; this command also covers the
//! functions, and it lists everything.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::rust_tokens::{Token, comments_by_line, tokens};
use crate::steps::{Failed, root};

/// The folders with Rust code.
const FOLDERS: [&str; 6] = ["bench", "bindings", "crates", "fuzz", "lab", "xtask"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Block,
    Function,
    Implementation,
    Trait,
    ExternBlock,
    Attribute,
}

impl Kind {
    const ALL: [Self; 6] =
        [Self::Block, Self::Function, Self::Implementation, Self::Trait, Self::ExternBlock, Self::Attribute];

    fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Function => "function",
            Self::Implementation => "implementation",
            Self::Trait => "trait",
            Self::ExternBlock => "extern block",
            Self::Attribute => "attribute",
        }
    }

    /// The kind that follows from the tokens after `unsafe`; `None` for the type of a function.
    fn of(following: &[Token<'_>]) -> Option<Self> {
        let word = |place: usize| following.get(place).map_or("", |token| token.text);
        match word(0) {
            "{" => Some(Self::Block),
            "impl" => Some(Self::Implementation),
            "trait" | "auto" => Some(Self::Trait),
            "(" => Some(Self::Attribute),
            "fn" => Self::of_function(word(1)),
            "extern" => {
                // The name of the ABI is optional.
                let next = usize::from(word(1).starts_with('"')) + 1;
                match word(next) {
                    "{" => Some(Self::ExternBlock),
                    "fn" => Self::of_function(word(next + 1)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// A declared function has a name; a type has none.
    fn of_function(next: &str) -> Option<Self> {
        (next != "(").then_some(Self::Function)
    }
}

/// One use of `unsafe`.
#[derive(Debug)]
struct Use {
    /// The number of the line, from 1.
    line: usize,
    kind: Kind,
    /// The text of the comment; `None` if there is none.
    reason: Option<String>,
}

/// The uses of one file.
struct FileUses {
    path: PathBuf,
    uses: Vec<Use>,
}

impl fmt::Display for FileUses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} ({})", self.path.display(), self.uses.len())?;
        for found in &self.uses {
            let reason = found.reason.as_deref().unwrap_or("NO REASON IS GIVEN");
            writeln!(f, "  {}:{} {}: {reason}", self.path.display(), found.line, found.kind.name())?;
        }
        Ok(())
    }
}

/// Prints every use of `unsafe` with its reason, grouped by file, and the counts.
pub(crate) fn list() -> Result<(), Failed> {
    let files = scan()?;
    files.iter().for_each(|file| print!("{file}"));
    println!("{}", counts(&files));
    fail_without_reason(&files)
}

/// Checks that every use of `unsafe` has a reason. Only the counts are printed.
pub(crate) fn check() -> Result<(), Failed> {
    let files = scan()?;
    eprintln!("xtask: unsafe: {}", counts(&files));
    fail_without_reason(&files)
}

fn counts(files: &[FileUses]) -> String {
    let count =
        |kind: Kind| files.iter().flat_map(|file| &file.uses).filter(|found| found.kind == kind).count();
    let plural = |kind: Kind, n: usize| format!("{n} {}{}", kind.name(), if n == 1 { "" } else { "s" });
    let kinds: Vec<String> = Kind::ALL
        .into_iter()
        .map(|kind| (kind, count(kind)))
        .filter(|(_, n)| *n > 0)
        .map(|(kind, n)| plural(kind, n))
        .collect();
    format!("{} in {} files", kinds.join(", "), files.len())
}

fn fail_without_reason(files: &[FileUses]) -> Result<(), Failed> {
    let without_reason: Vec<String> = files
        .iter()
        .flat_map(|file| file.uses.iter().map(move |found| (file, found)))
        .filter(|(_, found)| found.reason.is_none())
        .map(|(file, found)| format!("{}:{} ({})", file.path.display(), found.line, found.kind.name()))
        .collect();
    if without_reason.is_empty() {
        return Ok(());
    }
    Err(Failed(format!(
        "unsafe code without a comment `// SAFETY: …`, or a section `# Safety` in the documentation of a function or a trait: {}",
        without_reason.join(", ")
    )))
}

/// All files with uses, in the order of their paths.
fn scan() -> Result<Vec<FileUses>, Failed> {
    let mut paths = vec![];
    for folder in FOLDERS {
        collect(&root().join(folder), &mut paths)?;
    }
    paths.sort();
    let mut files = vec![];
    for path in paths {
        let source =
            fs::read_to_string(&path).map_err(|error| Failed(format!("{}: {error}", path.display())))?;
        let uses = uses_in(&source);
        if !uses.is_empty() {
            let path = path.strip_prefix(root()).unwrap_or(&path).to_owned();
            files.push(FileUses { path, uses });
        }
    }
    Ok(files)
}

/// Adds the Rust files of a folder and its subfolders, except for build outputs and hidden folders.
fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<(), Failed> {
    let failed = |error: std::io::Error| Failed(format!("{}: {error}", folder.display()));
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() && name != "target" && !name.starts_with('.') {
            collect(&path, paths)?;
        } else if kind.is_file() && name.ends_with(".rs") {
            paths.push(path);
        }
    }
    Ok(())
}

fn uses_in(source: &str) -> Vec<Use> {
    let tokens = tokens(source);
    let comments = comments_by_line(&tokens, source);
    let code: Vec<Token<'_>> = tokens.into_iter().filter(|token| !token.is_comment).collect();
    let lines: Vec<&str> = source.lines().collect();
    let found = |(i, token): (usize, &Token<'_>)| {
        let kind = Kind::of(&code[i + 1..])?;
        Some(Use { line: token.line, kind, reason: reason(token.line, kind, &lines, &comments, &code) })
    };
    code.iter().enumerate().filter(|(_, token)| token.text == "unsafe").filter_map(found).collect()
}

/// The reason of a use of `unsafe` in a line: the comment above its statement.
///
/// `comments` has one entry per line: the comment if the line contains nothing but a comment, otherwise `None`.
fn reason(
    line: usize,
    kind: Kind,
    lines: &[&str],
    comments: &[Option<String>],
    code: &[Token<'_>],
) -> Option<String> {
    // The number of the line above, from 1.
    let mut above = line - 1;
    while above > 0 {
        let place = above - 1;
        if comments[place].is_some() {
            let start = (0..=place).rev().take_while(|&at| comments[at].is_some()).last().unwrap_or(place);
            let text: Vec<&str> = comments[start..=place].iter().flatten().map(String::as_str).collect();
            return justification(&text, kind);
        }
        let is_attribute = lines[place].trim_start().starts_with("#[");
        // If the line above contains no code or ends with one of these characters, the statement begins below that line.
        let last = code.iter().rev().find(|token| token.line == above).map_or("", |token| token.text);
        if !is_attribute && matches!(last, "" | ";" | "{" | "}") {
            return None;
        }
        above -= 1;
    }
    None
}

/// The part of a comment that states the reason, in one line.
fn justification(comment: &[&str], kind: Kind) -> Option<String> {
    let declares = matches!(kind, Kind::Function | Kind::Trait);
    let start = comment.iter().rposition(|line| {
        line.trim_start().starts_with("SAFETY:") || declares && line.trim() == "# Safety"
    })?;
    let first = comment[start].trim().trim_start_matches("SAFETY:").trim_start_matches("# Safety").trim();
    let rest = comment[start + 1..].iter().map(|line| line.trim());
    let rest = rest.take_while(|line| !line.starts_with('#') && !line.starts_with("```"));
    let words: Vec<&str> = [first].into_iter().chain(rest).filter(|line| !line.is_empty()).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Line, kind and reason of each use.
    fn uses(source: &str) -> Vec<(usize, Kind, Option<String>)> {
        uses_in(source).into_iter().map(|found| (found.line, found.kind, found.reason)).collect()
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn blocks_need_a_comment_above_their_statement() {
        let source = "\
fn f() {
    // SAFETY: the map is
    // read-only.
    let map = unsafe { map() };
    // Another comment.
    unsafe { g() };
    // SAFETY: the slice has two values.
    let x =
        long_name(unsafe { *p })
            .unwrap();
    let y = unsafe { *p };
}
";
        assert_eq!(
            uses(source),
            [
                (4, Kind::Block, some("the map is read-only.")),
                (6, Kind::Block, None),
                (9, Kind::Block, some("the slice has two values.")),
                (11, Kind::Block, None),
            ]
        );
    }

    #[test]
    fn functions_and_traits_need_a_section_with_text_and_other_declarations_a_comment() {
        let source = "\
/// Reads.
///
/// # Safety
/// The pointer is valid.
///
/// # Errors
/// None.
#[inline]
pub unsafe fn read(p: *const u8) -> u8 {}

/// Reads.
pub(crate) unsafe extern \"C\" fn undocumented() {}

// SAFETY: it holds no pointer.
unsafe impl Send for A {}
unsafe impl Sync for A {}

/// # Safety
unsafe trait Empty {}

type Call = unsafe extern \"C\" fn(u8) -> u8;
type Other = unsafe fn();

// SAFETY: the functions are those of libc.
unsafe extern \"C\" {
    fn getpid() -> i32;
}
";
        assert_eq!(
            uses(source),
            [
                (9, Kind::Function, some("The pointer is valid.")),
                (12, Kind::Function, None),
                (15, Kind::Implementation, some("it holds no pointer.")),
                (16, Kind::Implementation, None),
                (19, Kind::Trait, None),
                (25, Kind::ExternBlock, some("the functions are those of libc.")),
            ]
        );
    }

    #[test]
    fn an_implementation_is_not_justified_by_documentation() {
        let source = "/// # Safety\n/// It is safe.\nunsafe impl Send for A {}\n";
        assert_eq!(uses(source), [(3, Kind::Implementation, None)]);
    }

    #[test]
    fn literals_and_comments_are_not_code() {
        let source = r###"
// unsafe { in a comment }
/* unsafe { /* nested */ unsafe { */
/// unsafe { in documentation }
const A: &str = "unsafe { \" unsafe {";
const B: &str = r#"unsafe { " unsafe {"#;
const C: char = '"'; const D: char = '\''; fn e<'a>(x: &'a str) {}
const E: &[u8] = b"unsafe {"; const F: u8 = b'"';
// SAFETY: real.
const G: u8 = unsafe { 1 };
"###;
        assert_eq!(uses(source), [(10, Kind::Block, some("real."))]);
    }

    #[test]
    fn the_files_of_the_repository_are_found() {
        let files = scan().ok().unwrap();
        assert!(files.iter().any(|file| file.path == Path::new("crates/nuq-io/src/file_bytes.rs")));
        assert!(files.iter().all(|file| file.path.components().all(|part| part.as_os_str() != "target")));
    }
}
