//! How many neighbors NUQ needs: the paper's figure on K.

use nuq::{Density, DensityBandwidth, ExactIndex, NeighborIndex, Neighbors, NuqClassifier};
use nuq_report::{Chart, ChartAxis, ChartLine, ChartPanel, Figure, Emphasis, AxisScale};

use super::Lab;
use super::detection::areas;
use super::digits::{View, note};
use super::methods::epistemic;
use super::networks::Base;
use super::seen::{Layer, Seen};
use crate::LabError;
use crate::results::{Better, Cell, Claim, Findings, Table, TableRow, Unit};
use crate::training::Outputs;

const NEIGHBORS: [usize; 9] = [1, 2, 3, 5, 10, 20, 50, 100, 200];
const ACCURACY: &str = "leave-one-out accuracy";
/// From here on more neighbors change nothing, says the paper.
const ENOUGH: usize = 20;

pub(super) fn run(lab: &Lab) -> Result<Findings, LabError> {
    let outliers = lab.digits()?.outliers.iter().map(|set| set.name.to_owned());
    let columns: Vec<String> = outliers.chain([ACCURACY.to_owned()]).collect();
    let mut rows: Vec<TableRow> = NEIGHBORS
        .map(|k| TableRow { name: k.to_string(), cells: vec![Cell::default(); columns.len()] })
        .into();
    for seed in 0..lab.seeds as u64 {
        for (row, values) in rows.iter_mut().zip(of_seed(lab, seed)?) {
            row.cells.iter_mut().zip(values).for_each(|(cell, value)| cell.values.push(value));
        }
    }
    let table = Table {
        title: "ROC-AUC of NUQ's epistemic uncertainty, MNIST against outliers, and accuracy of NUQ on training digits left out (%)"
            .to_owned(),
        corner: "K".to_owned(),
        columns,
        rows,
        unit: Unit::Percent,
        better: Better::Neither,
        paper_of: None,
    };
    let claims = vec![flat(&table)];
    Ok(Findings {
        claims,
        notes: vec![
            note(lab)?,
            format!(
                "By default the density's bandwidth follows the distance to the K-th neighbor. Here it is that of K = {ENOUGH} for every K, so \
                 that K alone changes."
            ),
        ],
        figures: vec![("ablation-neighbors".to_owned(), figure(&table))],
        tables: vec![table],
    })
}

/// For each K the areas of all sets of outliers, then the accuracy.
fn of_seed(lab: &Lab, seed: u64) -> Result<Vec<Vec<f64>>, LabError> {
    let base = lab.seen(Base::plain(seed))?;
    let index = ExactIndex::new(&base.train(lab)?.embeddings)?;
    // One search finds the neighbors for every K.
    let most = NEIGHBORS[NEIGHBORS.len() - 1];
    let search = |outputs: &Outputs| index.search(&outputs.embeddings, most);
    let near: Vec<Neighbors> = base.views().iter().map(search).collect::<Result<_, _>>()?;
    let bandwidth = density_bandwidth(lab, &base)?;
    let of_k = |k: usize| {
        lab.say(&format!("ablation-neighbors: network {seed}, K = {k}"));
        let density = Density::Kde { bandwidth: DensityBandwidth::Fixed(bandwidth) };
        let params = NuqClassifier::params().neighbors(k).density(density);
        let model = base.fit(lab, Layer::Features, &params)?;
        let scores = base.views().iter().zip(&near).map(|(outputs, near)| {
            Ok(epistemic(&model.predict_from(&outputs.embeddings, &near.nearest(k)?)?))
        });
        let mut values = areas(&scores.collect::<Result<Vec<_>, LabError>>()?, View::Test)?;
        let accuracy = model.bandwidth_curve().map(|curve| curve.points[curve.chosen].score.accuracy);
        values.push(accuracy.ok_or(LabError::Untold { what: "leave-one-out accuracy", neighbors: k })?);
        Ok(values)
    };
    NEIGHBORS.into_iter().map(of_k).collect()
}

/// The bandwidth that the density has by default with enough neighbors.
fn density_bandwidth(lab: &Lab, base: &Seen) -> Result<f64, LabError> {
    let model = base.fit(lab, Layer::Features, &NuqClassifier::params().neighbors(ENOUGH))?;
    let what = "bandwidth of its density";
    model.density_bandwidth().ok_or(LabError::Untold { what, neighbors: ENOUGH })
}

fn flat(table: &Table) -> Claim {
    let range = |column: &String| {
        let enough = NEIGHBORS.iter().filter(|k| **k >= ENOUGH);
        let means: Vec<f64> =
            enough.filter_map(|k| table.cell(&k.to_string(), column).and_then(Cell::mean)).collect();
        means.iter().copied().fold(f64::NEG_INFINITY, f64::max)
            - means.iter().copied().fold(f64::INFINITY, f64::min)
    };
    let widest = table.columns.iter().map(range).fold(0.0, f64::max);
    Claim::new(
        "flat-from-20",
        "From 20 neighbors on nothing changes: ROC-AUC of every set and accuracy vary by less than one point up to 200.",
        widest < 0.01,
        format!("the widest range is {:.2} points", 100.0 * widest),
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
    let panel =
        |title: &str, lines| ChartPanel { y: ChartAxis::new(title, AxisScale::Percent), height: 150.0, lines };
    let chart = Chart {
        title: "How many neighbors".to_owned(),
        caption: "Detection of outliers by NUQ's epistemic uncertainty, and its accuracy on training digits that were left out.".to_owned(),
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
            flat(&numbers(["SVHN", ACCURACY], &rows)).holds
        };
        // What is below 20 does not count.
        assert!(holds(0.983) && !holds(0.96));
    }
}
