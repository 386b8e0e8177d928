//! Names of thresholds are never used as paths. A symbolic link at the path of a sharded model is followed if it points to a folder;
//! any other link is an error.

use std::fs;
use std::path::Path;

use crate::common::{err, nuq, out, table};

/// The paths of all files below a folder.
fn files(folder: &Path) -> Vec<String> {
    let mut names = vec![];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => names.extend(files(&path)),
            false => names.push(path.to_string_lossy().into_owned()),
        }
    }
    names.sort();
    names
}

/// A new folder and its subfolder `a/b`, which contains the table and the model of [`table`]. The paths `..` and `../..` of the subfolder
/// are inside the new folder.
fn nested() -> (tempfile::TempDir, std::path::PathBuf) {
    let (source, _) = table(["a", "a", "a", "b", "b", "b"], &["--bandwidth", "1"]);
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("a/b");
    fs::create_dir_all(&inner).unwrap();
    for name in ["t.csv", "m.nuq"] {
        fs::copy(source.path().join(name), inner.join(name)).unwrap();
    }
    (folder, inner)
}

#[test]
fn names_of_thresholds_are_not_paths() {
    let (folder, inner) = nested();
    let absolute = folder.path().join("absolute").to_string_lossy().into_owned();
    let before = files(folder.path());
    for name in ["../x", "../../x", absolute.as_str(), "..", ".", "sub/x", "a\\b", "con", "x\ny"] {
        let rows = "t.csv:-class";
        let calibrate = ["calibrate", "--model", "m.nuq", "--embeddings", rows, "--target", "coverage=0.5"];
        let output = nuq(&[&calibrate[..], &["--name", name]].concat(), &inner);
        assert!(output.status.success(), "{name}: {}", err(&output));
        let score = ["score", "--model", "m.nuq", "--embeddings", rows, "--threshold", name, "--out", "-"];
        let output = nuq(&score, &inner);
        assert!(output.status.success(), "{name}: {}", err(&output));
        let inspect = nuq(&["inspect", "--model", "m.nuq", "--json"], &inner);
        let shown: serde_json::Value = serde_json::from_str(&out(&inspect)).unwrap();
        assert!(shown.to_string().contains(&serde_json::json!(name).to_string()), "{name}: {shown}");
        let output = nuq(&["calibrate", "--model", "m.nuq", "--remove", name], &inner);
        assert!(output.status.success(), "{name}: {}", err(&output));
        assert_eq!(files(folder.path()), before, "{name}");
    }
}

#[cfg(unix)]
#[test]
fn a_link_at_the_path_of_a_sharded_model_must_point_to_a_folder() {
    use std::os::unix::fs::symlink;
    let (folder, inner) = nested();
    let elsewhere = folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, inner.join("link")).unwrap();
    symlink(folder.path().join("missing"), inner.join("dangling")).unwrap();
    symlink(inner.join("t.csv"), inner.join("file")).unwrap();
    let fit = |name: &str| {
        let arguments = ["fit", "--embeddings", "t.csv", "--labels", "t.csv:class", "--shards", "3"];
        nuq(&[&arguments[..], &["--bandwidth", "1", "--out", name]].concat(), &inner)
    };
    let output = fit("link");
    assert!(output.status.success(), "{}", err(&output));
    assert!(elsewhere.join("manifest.nuq").is_file() && inner.join("link").is_symlink());
    let table = fs::read(inner.join("t.csv")).unwrap();
    for name in ["dangling", "file"] {
        let output = fit(name);
        assert!(!output.status.success() && err(&output).contains(name), "{name}: {}", err(&output));
    }
    assert!(!folder.path().join("missing").exists());
    assert_eq!(fs::read(inner.join("t.csv")).unwrap(), table);
}
