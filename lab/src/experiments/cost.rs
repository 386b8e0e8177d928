//! Computational cost of NUQ relative to the network: the paper's table on computational costs.

use std::time::Instant;

use nuq::NuqClassifier;
use nuq_report::{AxisScale, ChartAxis, DotPlot, DotRow, Figure};

use super::Context;
use super::digits::note;
use super::network_outputs::{Layer, rows};
use super::networks::{NetworkId, Trainer};
use crate::LabError;
use crate::results::{Better, Cell, Claim, Findings, Table, TableRow, Unit};

const NOTE: &str = "The paper's times are for a ResNet-50 on CIFAR-100; on ImageNet the paper reports overheads of 0.96 % (training) and 9.30 % \
    (inference). The training time is one measurement: one epoch of a single network on an otherwise idle machine, multiplied by the number of \
    epochs. The fit includes the selection of the bandwidth. The overhead is relative to the cost of the network. A CNN with three layers on \
    28 × 28 images, trained for a few epochs, needs little time, while the time of NUQ depends only on the numbers of rows and dimensions.";

/// Times of one network and of NUQ on its features, in seconds.
struct Seconds {
    /// Fit of NUQ to all training digits.
    fit: f64,
    /// Outputs of the network for all test digits.
    inference: f64,
    /// Predictions of NUQ for all test digits.
    prediction: f64,
}

pub(super) fn run(context: &Context) -> Result<Findings, LabError> {
    let training = training(context)?;
    let per_seed: Vec<Seconds> =
        (0..context.seeds as u64).map(|seed| measure(context, seed)).collect::<Result<_, _>>()?;
    let cell = |read: &dyn Fn(&Seconds) -> f64| Cell::new(per_seed.iter().map(read).collect());
    let row = |name: &str, cells: [Cell; 3]| TableRow { name: name.to_owned(), cells: cells.to_vec() };
    let table = Table {
        title: "Time in seconds, and overhead of NUQ (%)".to_owned(),
        corner: "".to_owned(),
        columns: ["network", "NUQ", "overhead (%)"].map(str::to_owned).to_vec(),
        rows: vec![
            row(
                "training (all training digits)",
                [
                    Cell::new(vec![training]).with_paper("41,400"),
                    cell(&|s| s.fit).with_paper("42.6"),
                    cell(&|s| 100.0 * s.fit / training).with_paper("0.10"),
                ],
            ),
            row(
                "inference (all test digits)",
                [
                    cell(&|s| s.inference).with_paper("81"),
                    cell(&|s| s.prediction).with_paper("1.8"),
                    cell(&|s| 100.0 * s.prediction / s.inference).with_paper("2.25"),
                ],
            ),
        ],
        unit: Unit::Plain,
        better: Better::Neither,
        paper_data_set: Some("CIFAR-100".to_owned()),
    };
    let claims = claims(&table);
    Ok(Findings {
        claims,
        notes: std::iter::once(note(context)?)
            .chain([NOTE.to_owned()])
            .chain(context.trained_networks().summary())
            .collect(),
        figures: vec![("cost".to_owned(), figure(&table))],
        tables: vec![table],
    })
}

/// Training time of one network on an otherwise idle machine, extrapolated from one epoch. The networks in the cache
/// do not show this time, because several of them are trained in parallel.
fn training(context: &Context) -> Result<f64, LabError> {
    let id = NetworkId::plain(0);
    let seconds = Trainer::new(context).epoch_seconds(id, &context.digits()?.train)?;
    Ok(id.recipe(context.size).epochs as f64 * seconds)
}

fn measure(context: &Context, seed: u64) -> Result<Seconds, LabError> {
    context.log(&format!("cost: network {seed}"));
    let (network, digits) = (context.network_outputs(NetworkId::plain(seed))?, context.digits()?);
    let train = rows(network.train(context)?, Layer::Features)?;
    let start = Instant::now();
    let outputs = network.network.outputs(&digits.test.images)?;
    let inference = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let model = NuqClassifier::params().fit(&train, &digits.train.labels)?;
    let fit = start.elapsed().as_secs_f64();
    let start = Instant::now();
    model.predict(&outputs.embeddings)?;
    let prediction = start.elapsed().as_secs_f64();
    Ok(Seconds { fit, inference, prediction })
}

fn claims(table: &Table) -> Vec<Claim> {
    let [training, inference] = [0, 1].map(|i| table.rows[i].cells[2].mean().unwrap_or(f64::NAN));
    vec![
        Claim::new(
            "training-below-1",
            "NUQ's overhead in training is less than 1 %.",
            training < 1.0,
            format!("{training:.1} %"),
        ),
        Claim::new(
            "inference-below-10",
            "NUQ's overhead in inference is less than 10 %.",
            inference < 10.0,
            format!("{inference:.0} %"),
        ),
        Claim::new(
            "low-overhead",
            "Weaker claim of this project: the overhead of NUQ is less than 5 % in training and less than 100 % (the cost of a second \
             network) in inference.",
            training < 5.0 && inference < 100.0,
            format!("{training:.1} % and {inference:.0} %"),
        ),
    ]
}

fn figure(table: &Table) -> Figure {
    let dot = |row: &TableRow| DotRow {
        name: row.name.clone(),
        values: row.cells[..2].iter().map(|cell| Some((cell.mean()?, 0.0))).collect(),
    };
    let plot = DotPlot {
        title: "Computational cost of NUQ".to_owned(),
        caption: "Time of the network and of NUQ on its features.".to_owned(),
        x: ChartAxis::new("seconds", AxisScale::Log),
        series: table.columns[..2].to_vec(),
        rows: table.rows.iter().map(dot).collect(),
    };
    plot.draw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::numbers;

    #[test]
    fn claims_can_fail() {
        let verdicts = |training: f64, inference: f64| {
            let rows = [
                ("training", [100.0, training, training]),
                ("inference", [1.0, 0.01 * inference, inference]),
            ];
            let table = numbers(["network", "NUQ", "overhead (%)"], &rows);
            claims(&table).iter().map(|claim| claim.holds).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(0.1, 2.25), [true, true, true]);
        assert_eq!(verdicts(2.0, 60.0), [false, false, true]);
        assert_eq!(verdicts(6.0, 160.0), [false, false, false]);
    }
}
