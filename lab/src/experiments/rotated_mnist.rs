//! Rotated MNIST: Figure "MNIST", part (a), of the paper's appendix.

use nuq_report::{Chart, ChartAxis, ChartLine, ChartPanel, Emphasis, AxisScale};

use super::Lab;
use super::detection::mean_curve;
use super::digits::note;
use super::methods::{FIVE, NUQ, OTHERS};
use super::networks::Base;
use crate::LabError;
use crate::results::{Better, Cell, Claim, Findings, Table, TableRow, Unit};

/// Shares of pictures at which the table reads the curve.
const KEPT: [f64; 4] = [0.25, 0.5, 0.75, 1.0];

pub(super) fn run(lab: &Lab) -> Result<Findings, LabError> {
    let mut rows = Vec::new();
    let mut lines = Vec::new();
    for method in FIVE.into_iter().chain(OTHERS) {
        lab.say(&format!("rotated-mnist: {}", method.name()));
        let mut cells = vec![Cell::default(); 1 + KEPT.len()];
        let mut curves = Vec::new();
        for seed in method.seeds(lab) {
            let curve = method.accuracy_kept(lab, Base::plain(seed))?;
            let at = |share: f64| curve[((share * curve.len() as f64) as usize).max(1) - 1];
            cells[0].values.push(curve.iter().sum::<f64>() / curve.len() as f64);
            KEPT.iter().zip(&mut cells[1..]).for_each(|(&share, cell)| cell.values.push(at(share)));
            curves.push(curve);
        }
        if FIVE.contains(&method) {
            let curve = mean_curve(&curves);
            let points = curve.iter().enumerate().map(|(i, &share)| ((i + 1) as f64, share)).collect();
            let emphasis = if method == NUQ { Emphasis::Strong } else { Emphasis::Normal };
            lines.push(ChartLine { name: method.name().to_owned(), emphasis, points });
        }
        rows.push(TableRow { name: method.name().to_owned(), cells });
    }
    let kept = KEPT.iter().map(|share| format!("best {:.0} %", 100.0 * share));
    let table = Table {
        title: "Accuracy on rotated digits (%): mean of the curve, and among the most certain".to_owned(),
        corner: "method".to_owned(),
        columns: std::iter::once("mean".to_owned()).chain(kept).collect(),
        rows,
        unit: Unit::Percent,
        better: Better::Higher,
        paper_of: None,
    };
    let claims = claims(&table);
    Ok(Findings {
        tables: vec![table],
        claims,
        notes: vec![
            note(lab)?,
            "The ensemble is judged by its members' common answers, DUQ and SNGP by those of their own networks; all others by those of the \
             one network that they look at, so that their curves differ by order alone."
                .to_owned(),
        ],
        figures: vec![("rotated-mnist".to_owned(), chart(lines))],
    })
}

fn claims(table: &Table) -> Vec<Claim> {
    let mean = |method: &str| table.cell(method, "mean").and_then(Cell::mean).unwrap_or(f64::NAN);
    let (nuq, ddu, max_prob) = (mean("NUQ"), mean("DDU"), mean("MaxProb"));
    let text = |value: f64| Unit::Percent.text(value, None);
    vec![
        Claim::new(
            "nuq-above-ddu",
            "On rotated MNIST NUQ's accuracy among the most certain is on average at least DDU's.",
            nuq >= ddu,
            format!("NUQ {}, DDU {}", text(nuq), text(ddu)),
        ),
        Claim::new(
            "nuq-above-maxprob",
            "On rotated MNIST NUQ's curve of accuracy against pictures kept lies above MaxProb's on average.",
            nuq > max_prob,
            format!("NUQ {}, MaxProb {}", text(nuq), text(max_prob)),
        ),
    ]
}

fn chart(lines: Vec<ChartLine>) -> nuq_report::Figure {
    // Of the first few pictures one error is a large share: the curve is shown from a hundredth on.
    let rows = lines.first().map_or(0, |line| line.points.len());
    let settled = |line: &ChartLine| line.points.iter().skip(rows / 100).map(|p| p.1).fold(1.0, f64::min);
    let lowest = lines.iter().map(settled).fold(1.0, f64::min);
    let chart = Chart {
        title: "Rotated MNIST".to_owned(),
        caption: "Accuracy among the digits that each method is most certain about, on average over seeds; the ensemble's is of its own \
                  answers, that of all others of one network's. Higher is better."
            .to_owned(),
        x: ChartAxis::between("digits kept", AxisScale::Count, 0.0, rows as f64),
        panels: vec![ChartPanel {
            y: ChartAxis::between("accuracy (%)", AxisScale::Percent, (20.0 * lowest).floor() / 20.0, 1.0),
            height: 260.0,
            lines,
        }],
    };
    chart.draw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::numbers;

    #[test]
    fn claims_can_fail() {
        let table = |nuq: f64| numbers(["mean"], &[("NUQ", [nuq]), ("DDU", [0.78]), ("MaxProb", [0.76])]);
        let holds = |nuq| claims(&table(nuq)).iter().map(|claim| claim.holds).collect::<Vec<_>>();
        assert_eq!([holds(0.79), holds(0.77), holds(0.5)], [[true, true], [false, true], [false, false]]);
    }
}
