//! Spectral normalization: the paper's table on what it does for DDU and NUQ.

use super::Lab;
use super::detection::{beside_svhn, dots, of_cifar, row, table};
use super::digits::{View, note};
use super::methods::{Method, NUQ, Variant};
use super::networks::{Base, Kind};
use super::seen::Layer;
use crate::LabError;
use crate::results::{Cell, Claim, Findings, Table, TableRow, Unit};

const METHODS: [Method; 3] =
    [Method::Ddu(Layer::Features), Method::Nuq(Layer::Features, Variant::Gaussians), NUQ];
/// The paper's numbers on CIFAR-100 against SVHN, for each method without and with it. Its NUQ has Gaussians for its density.
const PAPER: [Option<[&str; 2]>; 3] =
    [Some(["88.7 ± 4.3", "89.6 ± 1.6"]), Some(["86.8 ± 1.2", "89.7 ± 1.6"]), None];

const KEPT: &str = "accuracy kept";

pub(super) fn run(lab: &Lab) -> Result<Findings, LabError> {
    let (mut rows, mut rotated) = (Vec::new(), Vec::new());
    for (method, paper) in METHODS.into_iter().zip(PAPER) {
        for (j, kind) in [Kind::Plain, Kind::Spectral].into_iter().enumerate() {
            let name =
                if kind == Kind::Spectral { spectral(method.name()) } else { method.name().to_owned() };
            lab.say(&format!("ablation-spectral: {name}"));
            let scores = bases(lab, kind).map(|base| lab.scores(method, base));
            let row = row(&name, View::Test, scores)?;
            rows.push(beside_svhn(lab, row, paper.map(|numbers| numbers[j]))?);
            rotated.push(of_rotated(lab, method, kind, name)?);
        }
    }
    let table = of_cifar(table(lab, "ROC-AUC, MNIST against outliers (%)", "method", rows)?);
    let rotated = Table {
        title: "Rotated digits (%): accuracy among the most certain (mean of the curve), and ROC-AUC against outliers"
            .to_owned(),
        columns: std::iter::once(KEPT.to_owned()).chain(table.columns.iter().cloned()).collect(),
        rows: rotated,
        paper_of: None,
        ..table.clone()
    };
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
        tables: vec![table, rotated],
    })
}

fn bases(lab: &Lab, kind: Kind) -> impl Iterator<Item = Base> {
    (0..lab.seeds as u64).map(move |seed| Base { kind, seed })
}

fn of_rotated(lab: &Lab, method: Method, kind: Kind, name: String) -> Result<TableRow, LabError> {
    let mean = |curve: Vec<f64>| curve.iter().sum::<f64>() / curve.len() as f64;
    let kept = bases(lab, kind).map(|base| method.accuracy_kept(lab, base).map(mean));
    let kept = Cell::new(kept.collect::<Result<_, _>>()?);
    let areas = row(&name, View::Rotated, bases(lab, kind).map(|base| lab.scores(method, base)))?;
    Ok(TableRow { name, cells: std::iter::once(kept).chain(areas.cells).collect() })
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

/// What normalization costs the network.
fn accuracies(lab: &Lab) -> Result<String, LabError> {
    let accuracy = |kind| -> Result<f64, LabError> {
        let truth = &lab.digits()?.test.labels;
        let of = |base| Ok(lab.seen(base)?.view(View::Test).accuracy(truth));
        let all: Vec<f64> = bases(lab, kind).map(of).collect::<Result<_, LabError>>()?;
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
