//! Ablation of the number of neighbors: the paper's figure on K.

use nuq::{Density, DensityBandwidth, ExactIndex, FittedModel, NeighborIndex, Neighbors, NuqClassifier};
use nuq_report::{AxisScale, Chart, ChartAxis, ChartLine, ChartPanel, Emphasis, Figure};

use super::Context;
use super::detection::areas;
use super::digits::{View, note};
use super::methods::epistemic;
use super::network_outputs::{Layer, NetworkOutputs};
use super::networks::NetworkId;
use crate::LabError;
use crate::results::{Better, Cell, Claim, Findings, Table, TableRow, Unit};
use crate::training::Outputs;

const NEIGHBORS: [usize; 9] = [1, 2, 3, 5, 10, 20, 50, 100, 200];
const ACCURACY: &str = "leave-one-out accuracy";
/// According to the paper, results do not change for K at or above this value.
const REFERENCE_K: usize = 20;

pub(super) fn run(context: &Context) -> Result<Findings, LabError> {
    let outliers = context.digits()?.outliers.iter().map(|set| set.name.to_owned());
    let columns: Vec<String> = outliers.chain([ACCURACY.to_owned()]).collect();
    let mut rows: Vec<TableRow> = NEIGHBORS
        .map(|k| TableRow { name: k.to_string(), cells: vec![Cell::default(); columns.len()] })
        .into();
    for seed in 0..context.seeds as u64 {
        for (row, values) in rows.iter_mut().zip(evaluate_seed(context, seed)?) {
            row.cells.iter_mut().zip(values).for_each(|(cell, value)| cell.values.push(value));
        }
    }
    let table = Table {
        title: "ROC-AUC (%) of outliers against MNIST test digits, by NUQ's epistemic uncertainty, and leave-one-out accuracy (%) of NUQ on training digits"
            .to_owned(),
        corner: "K".to_owned(),
        columns,
        rows,
        unit: Unit::Percent,
        better: Better::Neither,
        paper_data_set: None,
    };
    let claims = vec![flatness_claim(&table)];
    Ok(Findings {
        claims,
        notes: vec![
            note(context)?,
            format!(
                "The density is a kernel density. Its default bandwidth depends on K through the distance to the K-th neighbor. Here the \
                 bandwidth for K = {REFERENCE_K} is used for every K, so that only the number of neighbors changes."
            ),
        ],
        figures: vec![("ablation-neighbors".to_owned(), figure(&table))],
        tables: vec![table],
    })
}

/// For each K: ROC-AUC of each outlier set, then leave-one-out accuracy.
fn evaluate_seed(context: &Context, seed: u64) -> Result<Vec<Vec<f64>>, LabError> {
    let network = context.network_outputs(NetworkId::plain(seed))?;
    let index = ExactIndex::new(&network.train(context)?.embeddings)?;
    // One search with the largest K contains the neighbors for every K.
    let max_k = NEIGHBORS[NEIGHBORS.len() - 1];
    let search = |outputs: &Outputs| index.search(&outputs.embeddings, max_k);
    let neighbors: Vec<Neighbors> = network.views().iter().map(search).collect::<Result<_, _>>()?;
    let bandwidth = density_bandwidth(context, &network)?;
    let evaluate_k = |k: usize| {
        context.log(&format!("ablation-neighbors: network {seed}, K = {k}"));
        let density = Density::Kde { bandwidth: DensityBandwidth::Fixed(bandwidth) };
        let params = NuqClassifier::params().n_neighbors(k).density(density);
        let model = network.fit(context, Layer::Features, &params)?;
        let scores = network.views().iter().zip(&neighbors).map(|(outputs, neighbors)| {
            Ok(epistemic(&model.predict_from(&outputs.embeddings, &neighbors.nearest(k)?)?))
        });
        let mut values = areas(&scores.collect::<Result<Vec<_>, LabError>>()?, View::Test)?;
        let accuracy = model.bandwidth_curve().map(|curve| curve.points[curve.chosen].score.accuracy);
        values
            .push(accuracy.ok_or(LabError::NotAvailable { what: "leave-one-out accuracy", n_neighbors: k })?);
        Ok(values)
    };
    NEIGHBORS.into_iter().map(evaluate_k).collect()
}

/// The default density bandwidth for K = [`REFERENCE_K`].
fn density_bandwidth(context: &Context, network: &NetworkOutputs) -> Result<f64, LabError> {
    let model = network.fit(context, Layer::Features, &NuqClassifier::params().n_neighbors(REFERENCE_K))?;
    let what = "density bandwidth";
    model.density_bandwidth().ok_or(LabError::NotAvailable { what, n_neighbors: REFERENCE_K })
}

fn flatness_claim(table: &Table) -> Claim {
    let range = |column: &String| {
        let large_k = NEIGHBORS.iter().filter(|k| **k >= REFERENCE_K);
        let means: Vec<f64> =
            large_k.filter_map(|k| table.cell(&k.to_string(), column).and_then(Cell::mean)).collect();
        means.iter().copied().fold(f64::NEG_INFINITY, f64::max)
            - means.iter().copied().fold(f64::INFINITY, f64::min)
    };
    let widest = table.columns.iter().map(range).fold(0.0, f64::max);
    Claim::new(
        "flat-from-20",
        "For 20 to 200 neighbors, the ROC-AUC of every set and the accuracy vary by less than one point.",
        widest < 0.01,
        format!("largest range: {:.2} points", 100.0 * widest),
    )
}

fn figure(table: &Table) -> Figure {
    let line = |(i, name): (usize, &String)| ChartLine {
        name: name.clone(),
        emphasis: if i == 0 { Emphasis::Strong } else { Emphasis::Normal },
        points: NEIGHBORS
            .iter()
            .filter_map(|k| Some((*k as f64, table.cell(&k.to_string(), name)?.mean()?)))
            .collect(),
    };
    let (sets, accuracy) = table.columns.split_at(table.columns.len() - 1);
    let accuracy = ChartLine { emphasis: Emphasis::Strong, ..line((0, &accuracy[0])) };
    let panel = |title: &str, lines| ChartPanel {
        y: ChartAxis::new(title, AxisScale::Percent),
        height: 150.0,
        lines,
    };
    let chart = Chart {
        title: "Number of neighbors".to_owned(),
        caption: "Outlier detection by NUQ's epistemic uncertainty, and leave-one-out accuracy of NUQ on training digits.".to_owned(),
        x: ChartAxis::new("neighbors K", AxisScale::Log),
        panels: vec![
            panel("ROC-AUC (%)", sets.iter().enumerate().map(line).collect()),
            panel("accuracy (%)", vec![accuracy]),
        ],
    };
    chart.draw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::numbers;

    #[test]
    fn the_claim_can_fail() {
        let holds = |hundred: f64| {
            let rows =
                [("1", [0.5, 0.5]), ("20", [0.98, 0.99]), ("100", [hundred, 0.99]), ("200", [0.985, 0.99])];
            flatness_claim(&numbers(["SVHN", ACCURACY], &rows)).holds
        };
        // Values of K below 20 are ignored.
        assert!(holds(0.983) && !holds(0.96));
    }
}
