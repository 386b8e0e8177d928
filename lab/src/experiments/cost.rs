//! What NUQ costs beside the network: the paper's table on computational costs.

use std::time::Instant;

use nuq::NuqClassifier;
use nuq_report::{ChartAxis, DotPlot, DotRow, Figure, AxisScale};

use super::Lab;
use super::digits::note;
use super::networks::{Base, Trainer};
use super::seen::{Layer, rows};
use crate::LabError;
use crate::results::{Better, Cell, Claim, Findings, Table, TableRow, Unit};
use crate::training::Recipe;

const NOTE: &str = "The paper's seconds are of CIFAR-100 by a ResNet-50; on ImageNet its overheads are 0.96 and 9.30 %. Training is one \
    measurement: an epoch of one network that has the machine to itself, times the epochs. A fit includes the choice of the bandwidth. An \
    overhead is a share of the network's cost: a CNN of three layers on pictures of 28 × 28 that learns for a few epochs is cheap to train \
    and to ask, while NUQ's cost depends on rows and dimensions alone.";

/// Seconds of asking one network, and of NUQ on it.
struct Seconds {
    fit: f64,
    inference: f64,
    ask: f64,
}

pub(super) fn run(lab: &Lab) -> Result<Findings, LabError> {
    let training = training(lab)?;
    let of_seeds: Vec<Seconds> =
        (0..lab.seeds as u64).map(|seed| measure(lab, seed)).collect::<Result<_, _>>()?;
    let cell = |read: &dyn Fn(&Seconds) -> f64| Cell::new(of_seeds.iter().map(read).collect());
    let row = |name: &str, cells: [Cell; 3]| TableRow { name: name.to_owned(), cells: cells.to_vec() };
    let table = Table {
        title: "Seconds, and what NUQ adds to them (%)".to_owned(),
        corner: "".to_owned(),
        columns: ["network", "NUQ", "overhead (%)"].map(str::to_owned).to_vec(),
        rows: vec![
            row(
                "training on all training digits",
                [
                    Cell::new(vec![training]).beside("41,400"),
                    cell(&|s| s.fit).beside("42.6"),
                    cell(&|s| 100.0 * s.fit / training).beside("0.10"),
                ],
            ),
            row(
                "asking about all test digits",
                [
                    cell(&|s| s.inference).beside("81"),
                    cell(&|s| s.ask).beside("1.8"),
                    cell(&|s| 100.0 * s.ask / s.inference).beside("2.25"),
                ],
            ),
        ],
        unit: Unit::Plain,
        better: Better::Neither,
        paper_of: Some("CIFAR-100".to_owned()),
    };
    let claims = claims(&table);
    Ok(Findings {
        claims,
        notes: std::iter::once(note(lab)?).chain([NOTE.to_owned()]).chain(lab.ready().told()).collect(),
        figures: vec![("cost".to_owned(), figure(&table))],
        tables: vec![table],
    })
}

/// The seconds of a training that has the machine to itself, from one epoch of it: other experiments train several networks at a time.
fn training(lab: &Lab) -> Result<f64, LabError> {
    let whole = Base::plain(0).recipe(lab.size);
    let epoch = Recipe { epochs: 1, ..whole.clone() };
    let name = "one epoch of network 0, by itself".to_owned();
    let network = Trainer::of(lab).follow(name, &epoch, &lab.digits()?.train)?;
    Ok(whole.epochs as f64 * network.training_seconds())
}

fn measure(lab: &Lab, seed: u64) -> Result<Seconds, LabError> {
    lab.say(&format!("cost: network {seed}"));
    let (base, digits) = (lab.seen(Base::plain(seed))?, lab.digits()?);
    let train = rows(base.train(lab)?, Layer::Features)?;
    let start = Instant::now();
    let outputs = base.network.outputs(&digits.test.images)?;
    let inference = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let model = NuqClassifier::params().fit(&train, &digits.train.labels)?;
    let fit = start.elapsed().as_secs_f64();
    let start = Instant::now();
    model.predict(&outputs.embeddings)?;
    let ask = start.elapsed().as_secs_f64();
    Ok(Seconds { fit, inference, ask })
}

fn claims(table: &Table) -> Vec<Claim> {
    let [training, asking] = [0, 1].map(|i| table.rows[i].cells[2].mean().unwrap_or(f64::NAN));
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
            asking < 10.0,
            format!("{asking:.0} %"),
        ),
        Claim::new(
            "cheap",
            "Ours, looser: NUQ adds less than 5 % to training and less to inference than a second network would (100 %).",
            training < 5.0 && asking < 100.0,
            format!("{training:.1} % and {asking:.0} %"),
        ),
    ]
}

fn figure(table: &Table) -> Figure {
    let dot = |row: &TableRow| DotRow {
        name: row.name.clone(),
        values: row.cells[..2].iter().map(|cell| Some((cell.mean()?, 0.0))).collect(),
    };
    let plot = DotPlot {
        title: "What NUQ costs".to_owned(),
        caption: "Seconds of the network and of NUQ on its features.".to_owned(),
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
        let verdicts = |training: f64, asking: f64| {
            let rows = [("training", [100.0, training, training]), ("asking", [1.0, 0.01 * asking, asking])];
            let table = numbers(["network", "NUQ", "overhead (%)"], &rows);
            claims(&table).iter().map(|claim| claim.holds).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(0.1, 2.25), [true, true, true]);
        assert_eq!(verdicts(2.0, 60.0), [false, false, true]);
        assert_eq!(verdicts(6.0, 160.0), [false, false, false]);
    }
}
