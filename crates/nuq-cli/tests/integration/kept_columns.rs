//! `nuq score --id-column` and `--keep-columns`: columns of the table that are copied to the output.

use std::fs;

use crate::common::{err, nuq, out};

fn example() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("x.csv"), "x,y\n0,0.5\n0,1\n1,0\n8,8.5\n8,9\n9,8\n").unwrap();
    fs::write(folder.path().join("y.csv"), "a\na\na\nb\nb\nb\n").unwrap();
    let table = "image,x,split,y,label\n007,0,\"test, small\",0.25,a\n008,8,,8.25,b\n009,nan,train,1,b\n";
    fs::write(folder.path().join("q.csv"), table).unwrap();
    let fit = ["fit", "--embeddings", "x.csv", "--labels", "y.csv", "--bandwidth", "1", "--out", "m.nuq"];
    let output = nuq(&fit, folder.path());
    assert!(output.status.success(), "{}", err(&output));
    folder
}

#[test]
fn kept_columns_follow_the_row_number() {
    let folder = example();
    let score = |more: &[&str]| {
        let words = ["score", "--model", "m.nuq", "--embeddings", "q.csv:-label", "--on-bad-rows", "skip"];
        nuq(&[&words[..], &["--id-column", "image", "--keep-columns", "split"], more].concat(), folder.path())
    };
    let csv = out(&score(&["--out", "-"]));
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("row,image,split,label,probability,"), "{csv}");
    assert!(lines[1].starts_with("0,007,\"test, small\",a,"), "{csv}");
    assert!(lines[2].starts_with("1,008,,b,"), "{csv}");
    // A skipped row keeps its id.
    assert!(lines[3].starts_with("2,009,train,,,"), "{csv}");
    let json = out(&score(&["--out", "-", "--json"]));
    assert!(json.contains("\"image\":\"007\"") && json.contains("\"split\":null"), "{json}");
    assert!(score(&["--out", "s.npz"]).status.success());
    let ids =
        nuq_io::read_labels(&format!("{}:image", folder.path().join("s.npz").display()).parse().unwrap());
    assert_eq!(ids.unwrap()[2], *"009");
    let tsv = score(&["--out", "s.tsv"]);
    assert!(tsv.status.success(), "{}", err(&tsv));
    assert!(fs::read_to_string(folder.path().join("s.tsv")).unwrap().contains("\n0\t007\ttest, small\ta\t"));
}

#[test]
fn columns_that_cannot_be_kept_are_errors() {
    let folder = example();
    fs::write(folder.path().join("reserved.csv"), "neighbor_1_id,x,y\n7,0,0\n").unwrap();
    for (more, code, expected) in [
        (
            "--embeddings q.csv --id-column image --keep-columns split,label",
            2,
            "the column `label` cannot be kept: this name is used or reserved for columns of the results",
        ),
        // Without --output-neighbors, the results have no such column; the name is reserved.
        (
            "--embeddings reserved.csv --id-column neighbor_1_id",
            2,
            "the column `neighbor_1_id` cannot be kept: this name is used or reserved",
        ),
        ("--embeddings q.csv --id-column image --keep-columns image", 2, "the column `image` is kept twice"),
        ("--embeddings q.csv --id-column id", 1, "has no column `id`; there are: image, x, split, y, label"),
        ("--embeddings a.npy --id-column id", 1, "an array has no column `id`: only columns of csv"),
    ] {
        let header = b"\x93NUMPY\x01\x00";
        let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }\n";
        let array = [&header[..], &(text.len() as u16).to_le_bytes(), text.as_bytes(), &[0; 8]].concat();
        fs::write(folder.path().join("a.npy"), array).unwrap();
        let words: Vec<&str> = more.split(' ').collect();
        let score = ["score", "--model", "m.nuq", "--on-bad-rows", "skip", "--out", "s.csv"];
        let output = nuq(&[&score[..], &words].concat(), folder.path());
        assert_eq!(output.status.code(), Some(code), "{}", err(&output));
        assert!(err(&output).contains(expected), "{}", err(&output));
        assert!(!folder.path().join("s.csv").exists());
    }
}
