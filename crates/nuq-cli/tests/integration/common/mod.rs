//! Runs the binary on the example embeddings of the repository.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use nuq_io::{EmbeddingsFile, read_labels};

/// A program in an environment without the variables that are options of nuq, such as `NUQ_QUIET`. With these variables, nuq would print other
/// results than the tests expect.
pub(crate) fn clean_command(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("NUQ_") {
            command.env_remove(name);
        }
    }
    command
}

/// The program nuq, see [`clean_command`].
pub(crate) fn nuq_command() -> Command {
    clean_command(env!("CARGO_BIN_EXE_nuq"))
}

pub(crate) fn nuq(arguments: &[&str], folder: &Path) -> Output {
    nuq_command().args(arguments).current_dir(folder).output().unwrap()
}

pub(crate) fn example(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    root.join("examples/cifar10").join(name).to_string_lossy().into_owned()
}

pub(crate) fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A folder with a model fitted to the example, and the output of the fit.
pub(crate) fn fitted(options: &[&str]) -> (tempfile::TempDir, Output) {
    let folder = tempfile::tempdir().unwrap();
    let (x, y) = (example("train.npz:embeddings"), example("train.npz:labels"));
    let arguments = [&["fit", "--embeddings", &x, "--labels", &y, "--out", "model.nuq"], options].concat();
    let output = nuq(&arguments, folder.path());
    assert!(output.status.success(), "{}", err(&output));
    (folder, output)
}

/// A folder with 200 rows of the example (`x.csv`, `y.csv`) and a model fitted to them (`model.nuq`). `nuq evaluate` trains some baselines,
/// such as SNGP and DUQ, on the rows of the model; with so few rows this is fast.
pub(crate) fn fitted_to_few_rows() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let embeddings = EmbeddingsFile::open(&example("train.npz:embeddings").parse().unwrap()).unwrap();
    let x = embeddings.read().unwrap();
    let y = read_labels(&example("train.npz:labels").parse().unwrap()).unwrap();
    let line = |row: &[f32]| row.iter().map(f32::to_string).collect::<Vec<_>>().join(",") + "\n";
    fs::write(folder.path().join("x.csv"), x.rows().take(200).map(line).collect::<String>()).unwrap();
    let labels = y.iter().take(200).map(|label| format!("{label}\n"));
    fs::write(folder.path().join("y.csv"), labels.collect::<String>()).unwrap();
    let fit = ["fit", "--embeddings", "x.csv", "--labels", "y.csv", "--out", "model.nuq", "--quiet"];
    let output = nuq(&fit, folder.path());
    assert!(output.status.success(), "{}", err(&output));
    folder
}

/// A folder with a table of six points (`t.csv`) and a model fitted to it (`m.nuq`). The last column of the table is the class.
pub(crate) fn table(classes: [&str; 6], options: &[&str]) -> (tempfile::TempDir, Output) {
    let folder = tempfile::tempdir().unwrap();
    let rows = ["0,0", "0,1", "1,0", "5,5", "5,6", "6,5"];
    let lines: Vec<String> =
        rows.iter().zip(classes).map(|(row, class)| format!("{row},{class}\n")).collect();
    fs::write(folder.path().join("t.csv"), format!("x,y,class\n{}", lines.concat())).unwrap();
    let fit = ["fit", "--embeddings", "t.csv", "--labels", "t.csv:class", "--out", "m.nuq"];
    let output = nuq(&[&fit[..], options].concat(), folder.path());
    assert!(output.status.success(), "{}", err(&output));
    (folder, output)
}
