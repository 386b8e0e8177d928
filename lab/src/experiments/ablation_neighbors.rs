//! How many neighbors NUQ needs: the paper's figure on K.

use nuq::{Density, DensityBandwidth, NuqClassifier};
use nuq_report::{Chart, ChartAxis, ChartLine, ChartPanel, Figure, Look, Spread};

use super::Lab;
use super::detection::areas;
use super::digits::{Base, View, note};
use super::methods::epistemic;
use crate::LabError;
use crate::results::{Better, Cell, Claim, Findings, Table, TableRow, Unit};

const NEIGHBORS: [usize; 9] = [1, 2, 3, 5, 10, 20, 50, 100, 200];
const ACCURACY: &str = "leave-one-out accuracy";
/// From here on more neighbors change nothing, says the paper.
const ENOUGH: usize = 20;

pub(super) fn run(lab: &Lab) -> Result<Findings, LabError> {
    let outliers = lab.digits()?.outliers.iter().map(|set| set.name.to_owned());
    let columns: Vec<String> = outliers.chain([ACCURACY.to_owned()]).collect();
    let seeds = 0..lab.seeds as u64;
    let bandwidths: Vec<f64> = seeds.map(|seed| density_bandwidth(lab, seed)).collect::<Result<_, _>>()?;
    let mut rows = Vec::new();
    for k in NEIGHBORS {
        lab.say(&format!("ablation-neighbors: K = {k}"));
        let mut cells = vec![Cell::default(); columns.len()];
        for (seed, &bandwidth) in (0..).zip(&bandwidths) {
            let values = of_seed(lab, k, bandwidth, seed)?;
            cells.iter_mut().zip(values).for_each(|(cell, value)| cell.values.push(value));
        }
        rows.push(TableRow { name: k.to_string(), cells });
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

/// The bandwidth that the density has by default with enough neighbors.
fn density_bandwidth(lab: &Lab, seed: u64) -> Result<f64, LabError> {
    let base = lab.seen(Base::spectral(seed))?;
    let params = NuqClassifier::params().neighbors(ENOUGH);
    let model = params.fit(&base.train.embeddings, &lab.digits()?.train.labels)?;
    let what = "bandwidth of its density";
    model.density_bandwidth().ok_or(LabError::Untold { what, neighbors: ENOUGH })
}

/// The areas of all sets of outliers, then the accuracy.
fn of_seed(lab: &Lab, k: usize, bandwidth: f64, seed: u64) -> Result<Vec<f64>, LabError> {
    let base = lab.seen(Base::spectral(seed))?;
    let density = Density::Kde { bandwidth: DensityBandwidth::Fixed(bandwidth) };
    let params = NuqClassifier::params().neighbors(k).density(density);
    let model = params.fit(&base.train.embeddings, &lab.digits()?.train.labels)?;
    let scores = base.views().iter().map(|outputs| epistemic(&model, &outputs.embeddings));
    let mut values = areas(&scores.collect::<Result<Vec<_>, _>>()?, View::Test)?;
    let accuracy = model.bandwidth_curve().map(|curve| curve.points[curve.chosen].score.accuracy);
    values.push(accuracy.ok_or(LabError::Untold { what: "leave-one-out accuracy", neighbors: k })?);
    Ok(values)
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
        look: if i == 0 { Look::Strong } else { Look::Plain },
        points: NEIGHBORS
            .iter()
            .filter_map(|k| Some((*k as f64, table.cell(&k.to_string(), name)?.mean()?)))
            .collect(),
    };
    let (sets, accuracy) = table.columns.split_at(table.columns.len() - 1);
    let accuracy = ChartLine { look: Look::Strong, ..line((0, &accuracy[0])) };
    let panel =
        |title: &str, lines| ChartPanel { y: ChartAxis::new(title, Spread::Share), height: 150.0, lines };
    let chart = Chart {
        title: "How many neighbors".to_owned(),
        caption: "Detection of outliers by NUQ's epistemic uncertainty, and its accuracy on training digits that were left out.".to_owned(),
        x: ChartAxis::new("neighbors K", Spread::Decades),
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
