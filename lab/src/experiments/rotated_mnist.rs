//! Rotated MNIST: Figure "MNIST", part (a), of the paper's appendix.

use nuq_report::{AxisScale, Chart, ChartAxis, ChartLine, ChartPanel, Emphasis};

use super::Context;
use super::detection::mean_curve;
use super::digits::note;
use super::methods::{MAIN_METHODS, NUQ, OTHER_METHODS};
use super::networks::NetworkId;
use crate::LabError;
use crate::results::{Better, Cell, Claim, Findings, Table, TableRow, Unit};

/// Coverages in the columns of the table: each column has the accuracy among this share of the digits, the most certain ones.
const SHARES: [f64; 4] = [0.25, 0.5, 0.75, 1.0];

pub(super) fn run(context: &Context) -> Result<Findings, LabError> {
    let mut rows = Vec::new();
    let mut lines = Vec::new();
    for method in MAIN_METHODS.into_iter().chain(OTHER_METHODS) {
        context.log(&format!("rotated-mnist: {}", method.name()));
        let mut cells = vec![Cell::default(); 1 + SHARES.len()];
        let mut curves = Vec::new();
        for seed in method.seeds(context) {
            let curve = method.accuracy_curve(context, NetworkId::plain(seed))?;
            let at = |share: f64| curve[((share * curve.len() as f64) as usize).max(1) - 1];
            cells[0].values.push(curve.iter().sum::<f64>() / curve.len() as f64);
            SHARES.iter().zip(&mut cells[1..]).for_each(|(&share, cell)| cell.values.push(at(share)));
            curves.push(curve);
        }
        if MAIN_METHODS.contains(&method) {
            let curve = mean_curve(&curves);
            let points = curve.iter().enumerate().map(|(i, &accuracy)| ((i + 1) as f64, accuracy)).collect();
            let emphasis = if method == NUQ { Emphasis::Strong } else { Emphasis::Normal };
            lines.push(ChartLine { name: method.name().to_owned(), emphasis, points });
        }
        rows.push(TableRow { name: method.name().to_owned(), cells });
    }
    let shares = SHARES.iter().map(|share| format!("{:.0} % most certain", 100.0 * share));
    let table = Table {
        title: "Accuracy on rotated digits (%): mean of the selective accuracy curve, and accuracy among the most certain digits".to_owned(),
        corner: "method".to_owned(),
        columns: std::iter::once("mean".to_owned()).chain(shares).collect(),
        rows,
        unit: Unit::Percent,
        better: Better::Higher,
        paper_data_set: None,
    };
    let claims = claims(&table);
    Ok(Findings {
        tables: vec![table],
        claims,
        notes: vec![
            note(context)?,
            "For the ensemble, the accuracy is that of its mean prediction. For DUQ and SNGP, it is that of their own networks. All other methods \
             use the predictions of the same network, so their curves differ only in the order of the digits."
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
            "On rotated MNIST, the mean selective accuracy of NUQ is at least that of DDU.",
            nuq >= ddu,
            format!("NUQ {}, DDU {}", text(nuq), text(ddu)),
        ),
        Claim::new(
            "nuq-above-maxprob",
            "On rotated MNIST, the mean selective accuracy of NUQ is above that of MaxProb.",
            nuq > max_prob,
            format!("NUQ {}, MaxProb {}", text(nuq), text(max_prob)),
        ),
    ]
}

fn chart(lines: Vec<ChartLine>) -> nuq_report::Figure {
    // With few digits a single error dominates, so the first 1 % of the digits does not determine the y axis.
    let rows = lines.first().map_or(0, |line| line.points.len());
    let lowest_after_start =
        |line: &ChartLine| line.points.iter().skip(rows / 100).map(|p| p.1).fold(1.0, f64::min);
    let lowest = lines.iter().map(lowest_after_start).fold(1.0, f64::min);
    let chart = Chart {
        title: "Rotated MNIST".to_owned(),
        caption: "Accuracy among the most certain digits of each method, mean over seeds. The ensemble uses its own predictions, the other \
                  methods use those of one network. Higher is better."
            .to_owned(),
        x: ChartAxis::between("most certain digits", AxisScale::Count, 0.0, rows as f64),
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
