//! Spectral normalization: the paper's table on what it does for DDU and NUQ.

use nuq::NuqClassifier;

use super::Lab;
use super::detection::{dots, row, table};
use super::digits::{Base, Kind, Layer, Seen, View, note};
use super::methods::{ddu, nuq};
use crate::LabError;
use crate::results::{Cell, Claim, Findings, Unit};

type Scores = fn(&Lab, &Seen) -> Result<Vec<Vec<f64>>, LabError>;

const METHODS: [(&str, Scores); 2] = [
    ("DDU", |lab, base| ddu(lab, base, Layer::Features)),
    ("NUQ", |lab, base| nuq(lab, base, Layer::Features, &NuqClassifier::params())),
];
/// The paper's numbers on CIFAR-100 against SVHN, for each method without and with it.
const PAPER: [[&str; 2]; 2] = [["88.7 ± 4.3", "89.6 ± 1.6"], ["86.8 ± 1.2", "89.7 ± 1.6"]];

pub(super) fn run(lab: &Lab) -> Result<Findings, LabError> {
    let mut rows = Vec::new();
    for (i, (method, scores)) in METHODS.into_iter().enumerate() {
        for (j, kind) in [Kind::Plain, Kind::Spectral].into_iter().enumerate() {
            let name = if kind == Kind::Spectral { format!("{method}, spectral") } else { method.to_owned() };
            lab.say(&format!("ablation-spectral: {name}"));
            let of_seed = |seed| scores(lab, &*lab.seen(Base { kind, seed })?);
            let mut row = row(&name, View::Test, (0..seeds(lab)).map(of_seed))?;
            if lab.digits()?.outliers[0].name == "SVHN" {
                row.cells[0].paper = Some(PAPER[i][j].to_owned());
            }
            rows.push(row);
        }
    }
    let table = table(lab, "ROC-AUC, MNIST against outliers (%)", "method", rows)?;
    let mean = |row: &str| {
        let areas = table.columns.iter().filter_map(|set| table.cell(row, set).and_then(Cell::mean));
        areas.sum::<f64>() / table.columns.len() as f64
    };
    let text = |value: f64| Unit::Percent.text(value, None);
    let (plain, spectral) = (mean("NUQ"), mean("NUQ, spectral"));
    let claims = vec![Claim::new(
        "spectral-helps",
        "Spectral normalization makes NUQ better at finding outliers (mean over sets).",
        spectral > plain,
        format!("{} with, {} without", text(spectral), text(plain)),
    )];
    let figure = dots(
        "With and without spectral normalization",
        "How well both methods tell outliers from MNIST's test digits.",
        &table,
    );
    let mut notes =
        vec![note(lab)?, "The paper's numbers are of CIFAR-100 by a ResNet-50 against SVHN.".to_owned()];
    notes.push(accuracies(lab)?);
    Ok(Findings {
        claims,
        notes,
        figures: vec![("ablation-spectral".to_owned(), figure)],
        tables: vec![table],
    })
}

/// Networks without it serve nothing else: two of them are trained.
fn seeds(lab: &Lab) -> u64 {
    lab.seeds.min(2) as u64
}

/// What normalization costs the network.
fn accuracies(lab: &Lab) -> Result<String, LabError> {
    let accuracy = |kind| -> Result<f64, LabError> {
        let truth = &lab.digits()?.test.labels;
        let of = |seed| Ok(lab.seen(Base { kind, seed })?.view(View::Test).accuracy(truth));
        let all: Vec<f64> = (0..seeds(lab)).map(of).collect::<Result<_, LabError>>()?;
        Ok(all.iter().sum::<f64>() / all.len() as f64)
    };
    Ok(format!(
        "The networks' accuracy on MNIST's test digits is {:.2} % with it and {:.2} % without.",
        100.0 * accuracy(Kind::Spectral)?,
        100.0 * accuracy(Kind::Plain)?
    ))
}
