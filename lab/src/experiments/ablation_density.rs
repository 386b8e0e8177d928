//! NUQ's density, and the layer that NUQ and DDU look at: the paper's tables on densities and layers.

use super::Lab;
use super::detection::{beside_svhn, dots, of_cifar, row, table};
use super::digits::{View, note};
use super::methods::{Method, Variant};
use super::networks::Base;
use super::seen::Layer;
use crate::LabError;
use crate::results::{Claim, Findings, Table, Unit};

const LAYERS: [(&str, Layer); 2] = [("features", Layer::Features), ("logits", Layer::Logits)];
/// NUQ's densities, and DDU for the table of layers, where the paper's NUQ is that with GMM.
const DENSITIES: [(&str, Option<Variant>); 4] = [
    ("RBF", Some(Variant::Rbf)),
    ("logistic", Some(Variant::Logistic)),
    ("GMM", Some(Variant::Gaussians)),
    ("DDU", None),
];
/// The paper's numbers on CIFAR-100 against SVHN, a row for each layer: of NUQ's densities, then of DDU.
const PAPER: [[&str; 4]; 2] = [
    ["84.4 ± 3.2", "84.8 ± 2.9", "89.7 ± 1.6", "89.6 ± 1.6"],
    ["84.7 ± 3.1", "86.7 ± 2.6", "88.2 ± 0.6", "88.2 ± 0.6"],
];

pub(super) fn run(lab: &Lab) -> Result<Findings, LabError> {
    let mut rows = Vec::new();
    for ((layer_name, layer), paper) in LAYERS.into_iter().zip(PAPER) {
        for ((density, variant), paper) in DENSITIES.into_iter().zip(paper) {
            let name = format!("{density}, {layer_name}");
            lab.say(&format!("ablation-density: {name}"));
            let method = variant.map_or(Method::Ddu(layer), |variant| Method::Nuq(layer, variant));
            let scores = (0..lab.seeds as u64).map(|seed| lab.scores(method, Base::plain(seed)));
            rows.push(beside_svhn(lab, row(&name, View::Test, scores)?, Some(paper))?);
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

fn claims(table: &Table) -> Vec<Claim> {
    let mean = |row: &str| table.row_mean(row).unwrap_or(f64::NAN);
    let [rbf, logistic, gmm, _] = DENSITIES.map(|(density, _)| mean(&format!("{density}, features")));
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
