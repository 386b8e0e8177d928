//! NUQ's density: the paper's tables on densities and layers.

use nuq::{Covariance, Density, Kernel, NuqClassifier, Params, Shrinkage};

use super::Lab;
use super::detection::{dots, row, table};
use super::digits::{Base, Layer, View, note};
use super::methods::nuq;
use crate::LabError;
use crate::results::{Cell, Claim, Findings, Table, Unit};

const LAYERS: [(&str, Layer); 2] = [("features", Layer::Features), ("logits", Layer::Logits)];
const DENSITIES: [&str; 3] = ["RBF", "logistic", "GMM"];
/// The paper's numbers on CIFAR-100 against SVHN, a row for each layer.
const PAPER: [[&str; 3]; 2] =
    [["84.4 ± 3.2", "84.8 ± 2.9", "89.7 ± 1.6"], ["84.7 ± 3.1", "86.7 ± 2.6", "88.2 ± 0.6"]];

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
        for (j, density) in DENSITIES.into_iter().enumerate() {
            let name = format!("{density}, {layer_name}");
            lab.say(&format!("ablation-density: {name}"));
            let params = params(density);
            let scores = |seed| nuq(lab, &*lab.seen(Base::spectral(seed))?, layer, &params);
            let mut row = row(&name, View::Test, (0..lab.seeds as u64).map(scores))?;
            if lab.digits()?.outliers[0].name == "SVHN" {
                row.cells[0].paper = Some(PAPER[i][j].to_owned());
            }
            rows.push(row);
        }
    }
    let table =
        table(lab, "ROC-AUC of NUQ's epistemic uncertainty, MNIST against outliers (%)", "density", rows)?;
    let claims = vec![logistic_near_rbf(&table)];
    let figure = dots(
        "Densities and layers",
        "How well NUQ's epistemic uncertainty tells outliers from MNIST's test digits.",
        &table,
    );
    Ok(Findings {
        claims,
        notes: vec![
            note(lab)?,
            "The paper's numbers are of CIFAR-100 by a ResNet-50 against SVHN.".to_owned(),
        ],
        figures: vec![("ablation-density".to_owned(), figure)],
        tables: vec![table],
    })
}

fn logistic_near_rbf(table: &Table) -> Claim {
    let mean = |row: &str| {
        let areas = table.columns.iter().filter_map(|set| table.cell(row, set).and_then(Cell::mean));
        areas.sum::<f64>() / table.columns.len() as f64
    };
    let (rbf, logistic) = (mean("RBF, features"), mean("logistic, features"));
    let text = |value: f64| Unit::Percent.text(value, None);
    Claim::new(
        "logistic-near-rbf",
        "The logistic kernel is within two points of the RBF kernel (features, mean over sets).",
        (rbf - logistic).abs() <= 0.02,
        format!("RBF {}, logistic {}", text(rbf), text(logistic)),
    )
}
