//! Ablation of spectral normalization: the paper's table on DDU and NUQ.

use super::Context;
use super::detection::{dots, row, table, with_cifar100_header, with_paper_svhn};
use super::digits::{View, note};
use super::methods::{Method, NUQ, Variant};
use super::network_outputs::Layer;
use super::networks::{Kind, NetworkId};
use crate::LabError;
use crate::results::{Cell, Claim, Findings, Table, TableRow, Unit};

const METHODS: [Method; 3] =
    [Method::Ddu(Layer::Features), Method::Nuq(Layer::Features, Variant::Gaussians), NUQ];
/// ROC-AUC (%) of the paper on CIFAR-100 against SVHN, without and with spectral normalization. The paper's NUQ uses the GMM density.
const PAPER: [Option<[&str; 2]>; 3] =
    [Some(["88.7 ± 4.3", "89.6 ± 1.6"]), Some(["86.8 ± 1.2", "89.7 ± 1.6"]), None];

const SELECTIVE: &str = "mean selective accuracy";

pub(super) fn run(context: &Context) -> Result<Findings, LabError> {
    let (mut rows, mut rotated) = (Vec::new(), Vec::new());
    for (method, paper) in METHODS.into_iter().zip(PAPER) {
        for (j, kind) in [Kind::Plain, Kind::Spectral].into_iter().enumerate() {
            let name =
                if kind == Kind::Spectral { spectral_name(method.name()) } else { method.name().to_owned() };
            context.log(&format!("ablation-spectral: {name}"));
            let scores = network_ids(context, kind).map(|id| context.scores(method, id));
            let row = row(&name, View::Test, scores)?;
            rows.push(with_paper_svhn(context, row, paper.map(|numbers| numbers[j]))?);
            rotated.push(rotated_row(context, method, kind, name)?);
        }
    }
    let table = with_cifar100_header(table(
        context,
        "ROC-AUC (%) of outliers against MNIST test digits",
        "method",
        rows,
    )?);
    let rotated = Table {
        title: "Mean of the selective accuracy curve on rotated digits (%), and ROC-AUC (%) of outliers against rotated digits"
            .to_owned(),
        columns: std::iter::once(SELECTIVE.to_owned()).chain(table.columns.iter().cloned()).collect(),
        rows: rotated,
        paper_data_set: None,
        ..table.clone()
    };
    let claims = claims(&table);
    let figure = dots(
        "Networks with and without spectral normalization",
        "Outlier detection on MNIST by DDU and by NUQ with two densities.",
        "ROC-AUC (%)",
        &table,
        table.columns.len(),
    );
    let paper = "The paper's numbers are for a ResNet-50 on CIFAR-100 against SVHN. In the paper, NUQ uses the GMM density.";
    let notes = vec![note(context)?, paper.to_owned(), accuracies(context)?];
    Ok(Findings {
        claims,
        notes,
        figures: vec![("ablation-spectral".to_owned(), figure)],
        tables: vec![table, rotated],
    })
}

fn network_ids(context: &Context, kind: Kind) -> impl Iterator<Item = NetworkId> {
    (0..context.seeds as u64).map(move |seed| NetworkId { kind, seed })
}

fn rotated_row(context: &Context, method: Method, kind: Kind, name: String) -> Result<TableRow, LabError> {
    let mean = |curve: Vec<f64>| curve.iter().sum::<f64>() / curve.len() as f64;
    let accuracies = network_ids(context, kind).map(|id| method.accuracy_curve(context, id).map(mean));
    let accuracy = Cell::new(accuracies.collect::<Result<_, _>>()?);
    let areas = row(&name, View::Rotated, network_ids(context, kind).map(|id| context.scores(method, id)))?;
    Ok(TableRow { name, cells: std::iter::once(accuracy).chain(areas.cells).collect() })
}

fn spectral_name(method: &str) -> String {
    format!("{method}, spectral")
}

fn claims(table: &Table) -> Vec<Claim> {
    let text = |value: f64| Unit::Percent.text(value, None);
    let claim = |id: &str, method: &str, density: &str| {
        let mean = |row: &str| table.row_mean(row).unwrap_or(f64::NAN);
        let (without, with) = (mean(method), mean(&spectral_name(method)));
        let statement = format!(
            "Spectral normalization improves the outlier detection of NUQ with {density} density (mean over sets)."
        );
        Claim::new(id, &statement, with > without, format!("with {}, without {}", text(with), text(without)))
    };
    vec![
        claim("spectral-helps-gmm", "NUQ, GMM", "the paper's (GMM)"),
        claim("spectral-helps", "NUQ", "the default"),
    ]
}

/// Accuracy of the networks with and without spectral normalization.
fn accuracies(context: &Context) -> Result<String, LabError> {
    let accuracy = |kind| -> Result<f64, LabError> {
        let truth = &context.digits()?.test.labels;
        let accuracy = |id| Ok(context.network_outputs(id)?.view(View::Test).accuracy(truth));
        let all: Vec<f64> = network_ids(context, kind).map(accuracy).collect::<Result<_, LabError>>()?;
        Ok(all.iter().sum::<f64>() / all.len() as f64)
    };
    Ok(format!(
        "The accuracy of the networks on MNIST test digits is {:.2} % with spectral normalization and {:.2} % without.",
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
