//! Packages that run code at build time: build scripts and procedural macros. deny.toml lists them with reasons, and its lists must contain
//! exactly the packages of this kind in Cargo.lock.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use crate::steps::{Failed, cargo_output, root};

/// The two lists in deny.toml: the name of each list, the kind of target that `cargo metadata` states for its packages, and the start of
/// its lines. The second list is a comment, because cargo-deny has no such list.
const LISTS: [(&str, &str, &str); 2] =
    [("allow-build-scripts", "custom-build", ""), ("proc-macros", "proc-macro", "#    ")];

/// Checks that the lists of deny.toml contain exactly the packages of their kind in Cargo.lock, for all platforms and features, and that each
/// entry has a reason.
pub(crate) fn check() -> Result<(), Failed> {
    let metadata = ["metadata", "--locked", "--all-features", "--format-version", "1"];
    let metadata = serde_json::from_str(&cargo_output(&metadata)?)
        .map_err(|error| Failed(format!("cargo metadata: {error}")))?;
    let rules = fs::read_to_string(root().join("deny.toml"))
        .map_err(|error| Failed(format!("deny.toml: {error}")))?;
    let problems: Vec<String> = LISTS
        .iter()
        .flat_map(|&(list, kind, start)| {
            problems((list, start), &listed(&rules, list), &packages(&metadata, kind))
        })
        .collect();
    match &problems[..] {
        [] => Ok(()),
        problems => Err(Failed(format!("deny.toml: {}", problems.join("; ")))),
    }
}

/// The names of packages from registries that have a target of a kind. Packages of the workspace are not dependencies.
fn packages(metadata: &Value, kind: &str) -> BTreeSet<String> {
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let has_kind = |package: &Value| {
        array(&package["targets"])
            .iter()
            .any(|target| array(&target["kind"]).iter().any(|other| other == kind))
    };
    array(&metadata["packages"])
        .iter()
        .filter(|package| !package["source"].is_null() && has_kind(package))
        .filter_map(|package| package["name"].as_str().map(str::to_owned))
        .collect()
}

/// The names and reasons of a list, whose entries have the form `"name", # reason`.
fn listed(rules: &str, list: &str) -> BTreeMap<String, String> {
    let start = format!("{list} = [");
    let lines = rules.lines().map(|line| line.trim_start_matches(['#', ' ']));
    let lines = lines.skip_while(|line| *line != start).skip(1).take_while(|line| *line != "]");
    let entry = |line: &str| {
        let (name, rest) = line.strip_prefix('"')?.split_once('"')?;
        let reason = rest.trim_start_matches(',').trim().strip_prefix('#').unwrap_or_default().trim();
        Some((name.to_owned(), reason.to_owned()))
    };
    lines.filter_map(entry).collect()
}

/// The differences between a list and the present packages. `start` is the start of the lines of the list.
fn problems(
    (list, start): (&str, &str),
    listed: &BTreeMap<String, String>,
    present: &BTreeSet<String>,
) -> Vec<String> {
    let line = |name: &String| format!("`{start}\"{name}\", # REASON`");
    let missing = present.iter().filter(|name| !listed.contains_key(*name));
    let missing = missing.map(|name| {
        format!(
            "{name} runs code at build time and is not in the list {list}: add the line {} (the comment above the lists says \
             what a reason states)",
            line(name)
        )
    });
    let former = listed.keys().filter(|name| !present.contains(*name));
    let former =
        former.map(|name| format!("no package needs the entry {name} of the list {list}: remove its line"));
    let bare = listed.iter().filter(|(_, reason)| reason.is_empty());
    let bare = bare.map(|(name, _)| format!("{name} in the list {list} has no reason: write {}", line(name)));
    missing.chain(former).chain(bare).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const RULES: &str = "\
[bans.build]
allow-build-scripts = [
    \"ring\", # compiles C
    \"gone\", # not a dependency any more
    \"bare\",
]
# proc-macros = [
#    \"serde_derive\", # fields of JSON
# ]
";

    #[test]
    fn entries_of_both_lists_have_names_and_reasons() {
        let entries = listed(RULES, "allow-build-scripts");
        assert_eq!(entries.keys().collect::<Vec<_>>(), ["bare", "gone", "ring"]);
        assert_eq!((entries["ring"].as_str(), entries["bare"].as_str()), ("compiles C", ""));
        assert_eq!(listed(RULES, "proc-macros")["serde_derive"], "fields of JSON");
        assert!(listed(RULES, "other").is_empty());
    }

    #[test]
    fn actions_of_the_workflows_are_pinned_by_commit() {
        for file in ["ci.yml", "release.yml"] {
            let workflow = fs::read_to_string(root().join(".github/workflows").join(file)).unwrap();
            let actions = workflow.lines().filter_map(|line| Some(line.split_once("uses: ")?.1));
            for action in actions {
                let commit = action.split(['@', ' ']).nth(1).unwrap();
                assert!(
                    commit.len() == 40 && commit.chars().all(|c| c.is_ascii_hexdigit()),
                    "{file}: {action}"
                );
            }
        }
    }

    #[test]
    fn packages_that_differ_from_the_list_are_named() {
        let package = |name: &str, kind: &str, source: Value| json!({"name": name, "source": source, "targets": [{"kind": ["lib"]}, {"kind": [kind]}]});
        let metadata = json!({"packages": [
            package("ring", "custom-build", json!("registry")),
            package("bare", "custom-build", json!("registry")),
            package("new", "custom-build", json!("registry")),
            package("xtask", "custom-build", Value::Null),
            package("serde_derive", "proc-macro", json!("registry")),
            package("new_derive", "proc-macro", json!("registry")),
            package("plain", "test", json!("registry")),
        ]});
        let [script_problems, macro_problems] = LISTS.map(|(list, kind, start)| {
            problems((list, start), &listed(RULES, list), &packages(&metadata, kind))
        });
        assert_eq!(
            script_problems,
            [
                "new runs code at build time and is not in the list allow-build-scripts: add the line `\"new\", # REASON` (the \
                 comment above the lists says what a reason states)",
                "no package needs the entry gone of the list allow-build-scripts: remove its line",
                "bare in the list allow-build-scripts has no reason: write `\"bare\", # REASON`",
            ]
        );
        // The second list is a comment.
        assert!(
            matches!(&macro_problems[..], [problem] if problem.contains("add the line `#    \"new_derive\", # REASON`")),
            "{macro_problems:?}"
        );
    }
}
