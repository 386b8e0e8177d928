//! The command line as a user sees it: help, results, mistakes.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn nuq(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nuq")).args(arguments).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn help_reads_like_a_table_of_contents() {
    let output = nuq(&["--help"], Path::new("."));
    assert!(output.status.success());
    let help: Vec<String> = text(&output.stdout).lines().map(|line| line.trim_end().to_owned()).collect();
    insta::assert_snapshot!(help.join("\n"), @r#"
    When not to trust a network: uncertainty from its embeddings.

    Results go to standard output, everything else to standard error. Exit codes: 0 done; 1 the data, or a number given for an option, were refused; 2 the command line was not understood; 3 a file could not be read or written; 130 interrupted, with nothing half-written.

    Usage: nuq [OPTIONS] <COMMAND>

    Commands:
      fit           Fit a model to embeddings and labels, and save it
      score         Label, probability, uncertainties and decision of each row of a file
      calibrate     A threshold with a promise, chosen on held-out rows and kept in the model
      evaluate      How good it is, beside every method that the arrays allow: a table, a page, figures
      inspect       What a model file holds: rows, classes, bandwidths, index, sections
      label-issues  Training rows whose label the others find unlikely, the worst first
      suggest       Rows of a file that are worth a label: uncertain, and not all of one kind
      demo          See it work: fit Two Moons, print a table, draw the uncertainty maps
      completions   Completions for a shell, to be put where it looks for them
      man           Manual pages, one for each command
      help          Print this message or the help of the given subcommand(s)

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Everywhere:
          --json
              Print results as JSON

          --progress <HOW>
              How a long run shows that it lives: a bar on a terminal, or plain lines

              Possible values:
              - auto:  A bar on a terminal, nothing elsewhere
              - plain: Plain lines

              [default: auto]

          --quiet
              Say nothing but results and errors. A command that writes its result to a file then prints nothing, unless --json asks

          --threads <N>
              Threads to use; all processors when not given
    "#);
}

#[test]
fn a_word_that_is_no_command_is_a_usage_error() {
    let output = nuq(&["dmo"], Path::new("."));
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(text(&output.stderr), @r#"
    error: unrecognized subcommand 'dmo'

      tip: a similar subcommand exists: 'demo'

    Usage: nuq [OPTIONS] <COMMAND>

    For more information, try '--help'.
    "#);
}

#[test]
fn the_demo_prints_its_table_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let output = nuq(&["demo", "--out", "a/b"], folder.path());
    assert!(output.status.success());
    assert_eq!(text(&output.stderr), "", "progress is for terminals only");
    for (column, size) in [(0, 200), (1, 2000)] {
        // Inside, between, far: first aleatoric, then epistemic.
        let table = text(&output.stdout);
        let rows = table.lines().filter(|line| line.starts_with("  "));
        let values: Vec<f64> =
            rows.map(|row| row.split_whitespace().rev().nth(1 - column).unwrap().parse().unwrap()).collect();
        let [aleatoric, epistemic] = [&values[..3], &values[3..]];
        assert!(aleatoric[1] > 0.1 && aleatoric[0] < 0.02, "{size} points: {aleatoric:?}");
        assert!(epistemic[0] < epistemic[1] && 100.0 * epistemic[1] < epistemic[2], "{size}: {epistemic:?}");
    }
    let svg = fs::read_to_string(folder.path().join("a/b/two-moons.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.contains("@font-face") && svg.contains(">Epistemic<"));
    let png = fs::read(folder.path().join("a/b/two-moons.png")).unwrap();
    let decoded = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
    assert!(decoded.info().width > 2000);
    assert_eq!(fs::read_dir(folder.path().join("a/b")).unwrap().count(), 2, "no temporary file is left");
}

#[test]
fn the_demo_gives_the_same_bytes_every_time() {
    let folder = tempfile::tempdir().unwrap();
    let figure = |out: &str, threads: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nuq"));
        command.args(["demo", "--out", out]).current_dir(folder.path()).env("RAYON_NUM_THREADS", threads);
        assert!(command.output().unwrap().status.success());
        fs::read(folder.path().join(out).join("two-moons.svg")).unwrap()
    };
    assert!(figure("one", "1") == figure("three", "3"));
}

#[test]
fn a_folder_that_cannot_be_made_is_named_with_its_own_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("taken"), "a file").unwrap();
    let output = nuq(&["demo", "--out", "taken"], folder.path());
    assert_eq!(output.status.code(), Some(3));
    assert!(
        text(&output.stderr).starts_with("nuq: cannot write taken: it is a file, not a folder"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(text(&output.stdout), "");
}
