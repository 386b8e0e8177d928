//! Ablation of the density and of the layer: the paper's tables on densities and layers.

use super::Context;
use super::detection::{dots, row, table, with_cifar100_header, with_paper_svhn};
use super::digits::{View, note};
use super::methods::{Method, Variant};
use super::network_outputs::Layer;
use super::networks::NetworkId;
use crate::LabError;
use crate::results::{Claim, Findings, Table, Unit};

const LAYERS: [(&str, Layer); 2] = [("features", Layer::Features), ("logits", Layer::Logits)];
/// Densities of NUQ, and DDU (`None`) for the comparison of layers. In the paper's table of layers, NUQ uses the GMM density.
const DENSITIES: [(&str, Option<Variant>); 5] = [
    ("auto", Some(Variant::Default)),
    ("RBF", Some(Variant::Rbf)),
    ("logistic", Some(Variant::Logistic)),
    ("GMM", Some(Variant::Gaussians)),
    ("DDU", None),
];
/// ROC-AUC (%) of the paper on CIFAR-100 against SVHN. One row per layer, one column per entry of [`DENSITIES`].
const PAPER: [[Option<&str>; 5]; 2] = [
    [None, Some("84.4 ± 3.2"), Some("84.8 ± 2.9"), Some("89.7 ± 1.6"), Some("89.6 ± 1.6")],
    [None, Some("84.7 ± 3.1"), Some("86.7 ± 2.6"), Some("88.2 ± 0.6"), Some("88.2 ± 0.6")],
];

pub(super) fn run(context: &Context) -> Result<Findings, LabError> {
    let mut rows = Vec::new();
    for ((layer_name, layer), paper) in LAYERS.into_iter().zip(PAPER) {
        for ((density, variant), paper) in DENSITIES.into_iter().zip(paper) {
            let name = format!("{density}, {layer_name}");
            context.log(&format!("ablation-density: {name}"));
            let method = variant.map_or(Method::Ddu(layer), |variant| Method::Nuq(layer, variant));
            let scores = (0..context.seeds as u64).map(|seed| context.scores(method, NetworkId::plain(seed)));
            rows.push(with_paper_svhn(context, row(&name, View::Test, scores)?, paper)?);
        }
    }
    let title =
        "ROC-AUC (%) of outliers against MNIST test digits, by NUQ's epistemic uncertainty and by DDU";
    let table = with_cifar100_header(table(context, title, "density and layer", rows)?);
    let claims = claims(&table);
    let figure = dots(
        "Densities and layers",
        "Outlier detection on MNIST by NUQ's epistemic uncertainty and by DDU.",
        "ROC-AUC (%)",
        &table,
        table.columns.len(),
    );
    Ok(Findings {
        claims,
        notes: vec![
            note(context)?,
            "The paper's numbers are for a ResNet-50 on CIFAR-100 against SVHN. In the paper's table of layers, NUQ uses the GMM density.".to_owned(),
        ],
        figures: vec![("ablation-density".to_owned(), figure)],
        tables: vec![table],
    })
}

fn claims(table: &Table) -> Vec<Claim> {
    let mean = |row: &str| table.row_mean(row).unwrap_or(f64::NAN);
    let [_, rbf, logistic, gmm, _] = DENSITIES.map(|(density, _)| mean(&format!("{density}, features")));
    let logits = mean("GMM, logits");
    let text = |value: f64| Unit::Percent.text(value, None);
    vec![
        Claim::new(
            "logistic-near-rbf",
            "On features, the ROC-AUC of the logistic kernel differs by at most two points from that of the RBF kernel (mean over sets).",
            (rbf - logistic).abs() <= 0.02,
            format!("RBF {}, logistic {}", text(rbf), text(logistic)),
        ),
        Claim::new(
            "gmm-on-features-is-best",
            "The GMM on features is the best of the paper's densities for NUQ: its ROC-AUC is above those of both kernels and of the GMM on \
             logits (mean over sets).",
            gmm > rbf && gmm > logistic && gmm > logits,
            format!(
                "GMM {}, RBF {}, logistic {}; GMM on logits {}",
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
