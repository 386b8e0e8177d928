//! NUQ's density, and the layer that NUQ and DDU look at: the paper's tables on densities and layers.

use nuq::{Covariance, Density, Kernel, NuqClassifier, Params, Shrinkage};

use super::Lab;
use super::detection::{dots, of_cifar, row, table};
use super::digits::{Base, Layer, View, note};
use super::methods::{ddu, nuq};
use crate::LabError;
use crate::results::{Claim, Findings, Table, TableRow, Unit};

const LAYERS: [(&str, Layer); 2] = [("features", Layer::Features), ("logits", Layer::Logits)];
const DENSITIES: [&str; 3] = ["RBF", "logistic", "GMM"];
/// DDU for the table of layers, where the paper's NUQ is that with GMM.
const DDU: &str = "DDU";
/// The paper's numbers on CIFAR-100 against SVHN, a row for each layer: of NUQ's densities, then of DDU.
const PAPER: [[&str; 4]; 2] = [
    ["84.4 ± 3.2", "84.8 ± 2.9", "89.7 ± 1.6", "89.6 ± 1.6"],
    ["84.7 ± 3.1", "86.7 ± 2.6", "88.2 ± 0.6", "88.2 ± 0.6"],
];

fn params(density: &str) -> Params<nuq::Classification> {
    let params = NuqClassifier::params();
    match density {
        "logistic" => params.kernel(Kernel::Logistic),
        "GMM" => params
            .density(Density::Gaussians { covariance: Covariance::Full, shrinkage: Shrinkage::LedoitWolf }),
        _ => params,
    }
}

pub(super) fn run(lab: &Lab) -> Result<Findings, LabError> {
    let mut rows = Vec::new();
    for (i, (layer_name, layer)) in LAYERS.into_iter().enumerate() {
        for (j, density) in DENSITIES.into_iter().chain([DDU]).enumerate() {
            let mut row = row_of(lab, density, layer, &format!("{density}, {layer_name}"))?;
            if lab.digits()?.outliers[0].name == "SVHN" {
                row.cells[0].paper = Some(PAPER[i][j].to_owned());
            }
            rows.push(row);
        }
    }
    let title =
        "ROC-AUC of NUQ's epistemic uncertainty by density and layer, and of DDU, MNIST against outliers (%)";
    let table = of_cifar(table(lab, title, "density and layer", rows)?);
    let claims = claims(&table);
    let figure = dots(
        "Densities and layers",
        "How well NUQ's epistemic uncertainty and DDU tell outliers from MNIST's test digits.",
        "ROC-AUC (%)",
        &table,
        table.columns.len(),
    );
    Ok(Findings {
        claims,
        notes: vec![
            note(lab)?,
            "The paper's numbers are of CIFAR-100 by a ResNet-50 against SVHN; the NUQ of its table of layers is that with GMM.".to_owned(),
        ],
        figures: vec![("ablation-density".to_owned(), figure)],
        tables: vec![table],
    })
}

fn row_of(lab: &Lab, density: &str, layer: Layer, name: &str) -> Result<TableRow, LabError> {
    lab.say(&format!("ablation-density: {name}"));
    let params = params(density);
    let scores = |seed| {
        let base = lab.seen(Base::spectral(seed))?;
        if density == DDU { ddu(lab, &base, layer) } else { nuq(lab, &base, layer, &params) }
    };
    row(name, View::Test, (0..lab.seeds as u64).map(scores))
}

fn claims(table: &Table) -> Vec<Claim> {
    let mean = |row: &str| table.row_mean(row).unwrap_or(f64::NAN);
    let [rbf, logistic, gmm] = DENSITIES.map(|density| mean(&format!("{density}, features")));
    let logits = mean("GMM, logits");
    let text = |value: f64| Unit::Percent.text(value, None);
    vec![
        Claim::new(
            "logistic-near-rbf",
            "The logistic kernel is within two points of the RBF kernel (features, mean over sets).",
            (rbf - logistic).abs() <= 0.02,
            format!("RBF {}, logistic {}", text(rbf), text(logistic)),
        ),
        Claim::new(
            "gaussians-of-features-are-best",
            "Gaussians of features are the best density for NUQ: above both kernels, and above Gaussians of logits (mean over sets).",
            gmm > rbf && gmm > logistic && gmm > logits,
            format!(
                "GMM {}, RBF {}, logistic {}; GMM of logits {}",
                text(gmm),
                text(rbf),
                text(logistic),
                text(logits)
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::numbers;

    #[test]
    fn claims_can_fail() {
        let verdicts = |logistic: f64, gmm: f64| {
            let rows = [
                ("RBF, features", [0.95]),
                ("logistic, features", [logistic]),
                ("GMM, features", [gmm]),
                ("GMM, logits", [0.96]),
            ];
            claims(&numbers(["SVHN"], &rows)).iter().map(|claim| claim.holds).collect::<Vec<_>>()
        };
        assert_eq!([verdicts(0.94, 0.99), verdicts(0.9, 0.955)], [[true, true], [false, false]]);
    }
}
