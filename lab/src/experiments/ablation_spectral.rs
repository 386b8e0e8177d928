//! Spectral normalization: the paper's table on what it does for DDU and NUQ.

use nuq::{Covariance, Density, NuqClassifier, Shrinkage};

use super::Lab;
use super::detection::{dots, of_cifar, row, table};
use super::digits::{Base, Kind, Layer, Seen, View, note};
use super::methods::{ddu, nuq};
use crate::LabError;
use crate::results::{Claim, Findings, Table, Unit};

type Scores = fn(&Lab, &Seen) -> Result<Vec<Vec<f64>>, LabError>;

const METHODS: [(&str, Scores); 3] = [
    ("DDU", |lab, base| ddu(lab, base, Layer::Features)),
    ("NUQ, GMM", |lab, base| {
        let density = Density::Gaussians { covariance: Covariance::Full, shrinkage: Shrinkage::LedoitWolf };
        nuq(lab, base, Layer::Features, &NuqClassifier::params().density(density))
    }),
    ("NUQ", |lab, base| nuq(lab, base, Layer::Features, &NuqClassifier::params())),
];
/// The paper's numbers on CIFAR-100 against SVHN, for each method without and with it. Its NUQ has Gaussians for its density.
const PAPER: [Option<[&str; 2]>; 3] =
    [Some(["88.7 ± 4.3", "89.6 ± 1.6"]), Some(["86.8 ± 1.2", "89.7 ± 1.6"]), None];

pub(super) fn run(lab: &Lab) -> Result<Findings, LabError> {
    let mut rows = Vec::new();
    for (i, (method, scores)) in METHODS.into_iter().enumerate() {
        for (j, kind) in [Kind::Plain, Kind::Spectral].into_iter().enumerate() {
            let name = if kind == Kind::Spectral { spectral(method) } else { method.to_owned() };
            lab.say(&format!("ablation-spectral: {name}"));
            let of_seed = |seed| scores(lab, &*lab.seen(Base { kind, seed })?);
            let mut row = row(&name, View::Test, (0..seeds(lab)).map(of_seed))?;
            if lab.digits()?.outliers[0].name == "SVHN" {
                row.cells[0].paper = PAPER[i].map(|numbers| numbers[j].to_owned());
            }
            rows.push(row);
        }
    }
    let table = of_cifar(table(lab, "ROC-AUC, MNIST against outliers (%)", "method", rows)?);
    let claims = claims(&table);
    let figure = dots(
        "With and without spectral normalization",
        "How well DDU and NUQ, the latter by two densities, tell outliers from MNIST's test digits.",
        "ROC-AUC (%)",
        &table,
        table.columns.len(),
    );
    let paper = "The paper's numbers are of CIFAR-100 by a ResNet-50 against SVHN, and its NUQ has Gaussians for its density (GMM).";
    let notes = vec![note(lab)?, paper.to_owned(), accuracies(lab)?];
    Ok(Findings {
        claims,
        notes,
        figures: vec![("ablation-spectral".to_owned(), figure)],
        tables: vec![table],
    })
}

fn spectral(method: &str) -> String {
    format!("{method}, spectral")
}

fn claims(table: &Table) -> Vec<Claim> {
    let text = |value: f64| Unit::Percent.text(value, None);
    let claim = |id: &str, method: &str, whose: &str| {
        let mean = |row: &str| table.row_mean(row).unwrap_or(f64::NAN);
        let (without, with) = (mean(method), mean(&spectral(method)));
        let statement = format!(
            "Spectral normalization makes NUQ with {whose} density better at finding outliers (mean over sets)."
        );
        Claim::new(id, &statement, with > without, format!("{} with, {} without", text(with), text(without)))
    };
    vec![
        claim("spectral-helps-gmm", "NUQ, GMM", "the paper's"),
        claim("spectral-helps", "NUQ", "its default"),
    ]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::numbers;

    #[test]
    fn claims_can_fail() {
        let rows = [
            ("NUQ, GMM", [0.9, 0.9]),
            ("NUQ, GMM, spectral", [0.95, 0.9]),
            ("NUQ", [0.99, 0.9]),
            ("NUQ, spectral", [0.95, 0.9]),
        ];
        let claims = claims(&numbers(["SVHN", "KMNIST"], &rows));
        assert_eq!([claims[0].holds, claims[1].holds], [true, false]);
    }
}
