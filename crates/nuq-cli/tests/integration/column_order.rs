//! Columns of logits in another order than the classes: `nuq evaluate` reports them if the values show another order, and `nuq score` and
//! `nuq evaluate` reject them if the header shows another order.

use std::fs;

use crate::common::{err, nuq};

#[test]
fn the_message_about_columns_in_another_order_suggests_the_option_classes() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, lines: Vec<String>| fs::write(folder.path().join(name), lines.concat()).unwrap();
    // Sorted as text, the names are a9, c0, c1, c10, c2, …
    let name = |class: usize| if class == 11 { "a9".to_owned() } else { format!("c{class}") };
    let rows = || (0..240).map(|i| (i, i % 12));
    write("x.csv", rows().map(|(i, class)| format!("{},{}.5\n", 10 * class, i % 7)).collect());
    write("y.csv", rows().map(|(_, class)| format!("{}\n", name(class))).collect());
    let logits =
        |class: usize| (0..12).map(|c| if c == class { "5" } else { "0" }).collect::<Vec<_>>().join(",");
    write("logits.csv", rows().map(|(_, class)| logits(class) + "\n").collect());
    let fit = [
        "fit",
        "--embeddings",
        "x.csv",
        "--labels",
        "y.csv",
        "--bandwidth",
        "1",
        "--out",
        "m.nuq",
        "--header",
        "no",
    ];
    let output = nuq(&fit, folder.path());
    assert!(output.status.success(), "{}", err(&output));
    let evaluate = [
        "evaluate",
        "--model",
        "m.nuq",
        "--test",
        "x.csv",
        "--labels",
        "y.csv",
        "--logits",
        "logits.csv",
        "--header",
        "no",
        "--resamples",
        "100",
    ];
    let output = nuq(&evaluate, folder.path());
    assert!(output.status.success(), "{}", err(&output));
    let classes: Vec<String> = (0..12).map(name).collect();
    let classes = classes.join(",");
    let expected = format!("in the order {classes}; if that is their order, give it with --classes");
    let stderr = err(&output).replace('\n', " ");
    assert!(
        stderr.contains("logits.csv: the columns seem to have another order than a9,c0,c1,c10,c2,"),
        "{stderr}"
    );
    assert!(stderr.contains(&expected), "{stderr}");
    let right = nuq(&[&evaluate[..], &["--classes", &classes]].concat(), folder.path());
    assert!(right.status.success() && !err(&right).contains("another order"), "{}", err(&right));
    // If --classes is wrong, the message gives the order of the columns in the file.
    let swapped = classes.replace("c0,c1,c2,", "c2,c0,c1,").replace("c3,c4,c5", "c5,c3,c4");
    let wrong = nuq(&[&evaluate[..], &["--classes", &swapped]].concat(), folder.path());
    assert!(err(&wrong).replace('\n', " ").contains(&expected), "{}", err(&wrong));
}

#[test]
fn logits_with_names_of_classes_in_another_order_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("x.csv", "u,v\n0,0.5\n0,1\n1,0\n8,8.5\n8,9\n9,8\n");
    write("y.csv", "class\nbee\nbee\nbee\nant\nant\nant\n");
    let logits = "5,0\n5,0\n5,0\n0,5\n0,5\n0,5\n";
    write("bee-ant.csv", &format!("bee,ant\n{logits}"));
    write("other.csv", &format!("first,second\n{logits}"));
    let run = |words: &str| nuq(&words.split(' ').collect::<Vec<_>>(), folder.path());
    assert!(run("fit -e x.csv -l y.csv --header yes --k 2 -o m.nuq").status.code() == Some(0));
    for command in
        ["score -m m.nuq -e x.csv -o s.csv", "evaluate -m m.nuq --test x.csv --labels y.csv --resamples 100"]
    {
        let output = run(&format!("{command} --header yes --logits bee-ant.csv"));
        let expected = "bee-ant.csv: its columns are named bee,ant, but are read as the logits of the classes ant,bee: \
                        give --classes bee,ant";
        assert!(err(&output).contains(expected), "{}", err(&output));
        for right in ["--logits bee-ant.csv --classes bee,ant", "--logits other.csv"] {
            let output = run(&format!("{command} --header yes {right}"));
            assert!(output.status.success(), "{}", err(&output));
        }
    }
}
