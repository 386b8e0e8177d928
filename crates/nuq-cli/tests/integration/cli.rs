//! Help, usage errors and the demo.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::common::nuq_command;

fn nuq(arguments: &[&str], folder: &Path) -> Output {
    let mut command = nuq_command();
    // Help texts are wrapped to the width in COLUMNS, if it is set.
    command.args(arguments).current_dir(folder).env_remove("COLUMNS").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn help_lists_the_commands() {
    let output = nuq(&["--help"], Path::new("."));
    assert!(output.status.success());
    let help: Vec<String> = text(&output.stdout).lines().map(|line| line.trim_end().to_owned()).collect();
    insta::assert_snapshot!(help.join("\n"), @r#"
    Estimate the uncertainty of a trained network's predictions from its embeddings

    NUQ (Nonparametric Uncertainty Quantification) compares the embedding of an input with the
    embeddings of the training data. Results go to standard output; messages and progress go to standard
    error.

    Usage: nuq [OPTIONS] <COMMAND>

    Commands:
      fit           Fit a model to embeddings and labels (or targets), and save it
      score         Predict each row of a file: label, probability, uncertainties and decision
      calibrate     Choose a threshold, prediction sets or intervals on held-out rows and store them in
                    the model
      evaluate      Compare NUQ with baseline methods on test rows and out-of-distribution rows
      inspect       Show the file of a model or baseline: options, classes, thresholds, index and
                    sections
      label-issues  List training rows whose label is probably wrong
      suggest       Choose rows of a file to label next: uncertain and diverse
      serve         Serve models over HTTP, by the Open Inference Protocol and as JSON
      demo          Fit the Two Moons data, print a table and draw the uncertainty maps
      completions   Print a completion script for a shell
      man           Write manual pages, one for each command
      help          Print this message or the help of the given subcommand(s)

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Common options:
          --json
              Print the result as one JSON object, and each message and error as one line of JSON; with
              --out -, the report is one line of JSON on standard error

              [env: NUQ_JSON]

          --device <DEVICE>
              Device of the neighbor search: the CPU, an NVIDIA GPU, or the one with the lower estimated
              time; the results are the same

              cuda is the first GPU, cuda:1 the second one. A GPU searches exactly: `nuq fit` then uses
              --index exact, and a model with a graph is an error. A GPU needs the NVIDIA driver, cuBLAS
              and NVRTC. The CUDA toolkit and PyTorch contain cuBLAS and NVRTC.

              [env: NUQ_DEVICE]
              [default: auto]
              [possible values: auto, cpu, cuda, cuda:N]

          --progress <STYLE>
              How progress is shown on standard error

              Possible values:
              - auto:  A progress bar on a terminal, nothing elsewhere
              - plain: Plain lines

              [env: NUQ_PROGRESS]
              [default: auto]

      -q, --quiet
              Print only results and errors; a command that writes a file prints nothing, unless --json
              is given

              [env: NUQ_QUIET]

          --threads <N>
              Number of threads, at least 1 and at most 16 per processor [default: the number of
              processors]

              [env: NUQ_THREADS]

    Typical use:
      nuq fit --embeddings train.npz:embeddings --labels train.npz:labels --out model.nuq
      nuq calibrate --model model.nuq --embeddings held_out.npy --target coverage=0.9 --name main
      nuq score --model model.nuq --embeddings new.npy --threshold main --out scores.csv

    Exit codes:
      0    success
      1    the data are invalid, or the value of an option is invalid for the method (--bandwidth -1)
      2    the command line cannot be parsed, an option is missing or contradicts other options or the
           files, or the value of an option is invalid for the command (--threads 0)
      3    a file cannot be read or written
      4    the memory is exhausted, or no threads can be started; no partial file is left
      129  ended by SIGHUP; no partial file is left
      130  interrupted by Ctrl-C (SIGINT); no partial file is left
      141  standard output was closed early, as by `| head`; output files are complete
      143  ended by SIGTERM; no partial file is left

    Messages that cannot be written to standard error are lost; the exit code does not depend on them.
    "#);
}

#[test]
fn an_unknown_command_is_a_usage_error() {
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
fn the_demo_prints_a_table_and_writes_a_figure() {
    let folder = tempfile::tempdir().unwrap();
    let output = nuq(&["demo", "--out", "a/b"], folder.path());
    assert!(output.status.success());
    assert_eq!(text(&output.stderr), "", "progress is shown on terminals only");
    for (column, size) in [(0, 200), (1, 2000)] {
        // The indented lines are for points inside the moons, between them and far away: first three lines of aleatoric, then three of
        // epistemic uncertainty. The last two columns are for 200 and 2000 training points.
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
fn the_demo_does_not_depend_on_the_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let figure = |out: &str, threads: &str| {
        let mut command = nuq_command();
        command.args(["demo", "--out", out]).current_dir(folder.path()).env("RAYON_NUM_THREADS", threads);
        assert!(command.output().unwrap().status.success());
        fs::read(folder.path().join(out).join("two-moons.svg")).unwrap()
    };
    assert!(figure("one", "1") == figure("three", "3"));
}

#[test]
fn too_many_threads_are_reduced_with_a_message() {
    let output = nuq(&["--threads", "100000", "completions", "bash"], Path::new("."));
    assert!(output.status.success());
    let message = text(&output.stderr);
    assert!(
        message.starts_with("--threads 100000: ")
            && message.ends_with(" threads are used, 16 per processor\n")
    );
    let quiet = nuq(&["--threads", "100000", "--quiet", "completions", "bash"], Path::new("."));
    assert!(quiet.status.success() && quiet.stderr.is_empty());
}

#[test]
fn a_folder_that_cannot_be_created_is_an_error_with_exit_code_3() {
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
