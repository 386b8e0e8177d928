//! SECURITY.md names the test of each claim. The named tests must exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::steps::{Failed, root};

/// Checks that every test that SECURITY.md names is a function of a Rust or Python file at the stated path.
pub(crate) fn check() -> Result<(), Failed> {
    let page = fs::read_to_string(root().join("SECURITY.md"))
        .map_err(|error| Failed(format!("SECURITY.md: {error}")))?;
    let missing: Vec<String> = named_tests(&page)
        .into_iter()
        .filter(|(file, name)| !exists(file, name))
        .map(|(file, name)| format!("{file}::{name}"))
        .collect();
    match &missing[..] {
        [] => Ok(()),
        missing => Err(Failed(format!("SECURITY.md names tests that do not exist: {}", missing.join(", ")))),
    }
}

/// The tests in the tables of a page, as files and names of functions. `file.rs::name` without a folder is in the folder of the test before it,
/// and `name` alone is in the file of the test before it.
fn named_tests(page: &str) -> BTreeSet<(String, String)> {
    let mut tests = BTreeSet::new();
    for line in page.lines().filter(|line| line.starts_with('|')) {
        let mut file = String::new();
        // Every second part is code, because it is between two backticks.
        for code in line.split('`').skip(1).step_by(2) {
            let (path, name) = match code.split_once("::") {
                Some((path, name)) => (path, name),
                None if !file.is_empty() && is_function(code) => ("", code),
                None => continue,
            };
            if path.contains('/') {
                file = path.to_owned();
            } else if !path.is_empty() {
                file = Path::new(&file).with_file_name(path).to_string_lossy().into_owned();
            }
            tests.insert((file.clone(), name.to_owned()));
        }
    }
    tests
}

fn is_function(text: &str) -> bool {
    text.contains('_') && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Whether a file contains a test that is run. Paths are relative to the folder `crates`, except those that begin with `bindings/`.
fn exists(file: &str, name: &str) -> bool {
    let folder = if file.starts_with("bindings/") { root() } else { root().join("crates") };
    let source = fs::read_to_string(folder.join(file)).unwrap_or_default();
    let lines: Vec<&str> = source.lines().map(str::trim_start).collect();
    let function = format!("fn {name}()");
    let in_rust = lines.iter().position(|line| line.starts_with(&function)).is_some_and(|at| {
        // Attributes stand above the function.
        let attributes = || lines[..at].iter().rev().take_while(|line| line.starts_with("#["));
        attributes().any(|line| *line == "#[test]") && !attributes().any(|line| line.starts_with("#[ignore"))
    });
    in_rust || name.starts_with("test_") && lines.iter().any(|line| line.starts_with(&format!("def {name}(")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_read_from_tables() {
        let page = "\
no_table `a/b.rs::outside`
| claim about `x_y` | `nuq-io/src/a.rs::first_test`, `second_test`; `b.rs::third_test` |
| claim | fuzz target `http` |
";
        let tests: Vec<String> =
            named_tests(page).into_iter().map(|(file, name)| format!("{file}::{name}")).collect();
        assert_eq!(
            tests,
            ["nuq-io/src/a.rs::first_test", "nuq-io/src/a.rs::second_test", "nuq-io/src/b.rs::third_test"]
        );
    }

    #[test]
    fn functions_are_found_in_their_file_only() {
        assert!(exists("nuq-io/src/atomic.rs", "a_folder_is_not_replaced"));
        assert!(!exists("nuq-io/src/atomic.rs", "a_folder_is"));
        // A helper of tests is no test.
        assert!(exists(
            "nuq-cli/tests/integration/serve_secrets.rs",
            "keys_are_in_no_output_response_or_file"
        ));
        assert!(!exists("nuq-io/src/folder.rs", "open"));
        assert!(!exists("nuq-io/src/container.rs", "a_folder_is_not_replaced"));
        assert!(exists("bindings/python/tests/test_persistence.py", "test_invalid_files_are_errors"));
    }
}
