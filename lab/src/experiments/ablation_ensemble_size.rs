//! How many networks an ensemble needs: the paper's tables on ensemble size.

use nuq_eval::baselines::Reduction;
use nuq_report::{Chart, ChartAxis, ChartLine, ChartPanel, Figure, Emphasis, AxisScale};

use super::Lab;
use super::detection::{beside_svhn, of_cifar, row, table};
use super::digits::{View, note};
use super::methods::ensemble;
use super::networks::MEMBERS;
use crate::LabError;
use crate::results::{Claim, Findings, Table, Unit};

const SIZES: [usize; 4] = [1, 2, 3, MEMBERS];
/// The paper's numbers on CIFAR-100 against SVHN.
const PAPER: [Option<&str>; 4] = [None, Some("82.3 ± 1.3"), Some("82.4 ± 0.7"), Some("82.9 ± 0.9")];

pub(super) fn run(lab: &Lab) -> Result<Findings, LabError> {
    let mut rows = Vec::new();
    for (size, paper) in SIZES.into_iter().zip(PAPER) {
        lab.say(&format!("ablation-ensemble-size: {size}"));
        let scores = groups(size).into_iter().map(|seeds| ensemble(lab, &seeds, Reduction::Entropy));
        rows.push(beside_svhn(lab, row(&size.to_string(), View::Test, scores)?, paper)?);
    }
    let table = of_cifar(table(
        lab,
        "ROC-AUC of the entropy of the mean prediction, MNIST against outliers (%)",
        "networks",
        rows,
    )?);
    let claims = vec![grows(&table)];
    Ok(Findings {
        claims,
        notes: vec![
            note(lab)?,
            format!(
                "Mean and deviation over all ensembles of a size that {MEMBERS} networks allow. The paper's numbers are of CIFAR-100 by \
                 ResNet-50 against SVHN, of the same entropy, and go on to 10 networks without a gain beyond 5."
            ),
        ],
        figures: vec![("ablation-ensemble-size".to_owned(), figure(&table))],
        tables: vec![table],
    })
}

/// All groups of a size among the networks.
fn groups(size: usize) -> Vec<Vec<u64>> {
    let all = 0u32..1 << MEMBERS;
    let of = |set: u32| (0..MEMBERS as u64).filter(|i| set >> i & 1 == 1).collect::<Vec<u64>>();
    all.filter(|set| set.count_ones() as usize == size).map(of).collect()
}

fn grows(table: &Table) -> Claim {
    let mean = |size: usize| table.row_mean(&size.to_string()).unwrap_or(f64::NAN);
    let text = |value: f64| Unit::Percent.text(value, None);
    let (one, two, five) = (mean(1), mean(2), mean(MEMBERS));
    Claim::new(
        "few-networks-do",
        "An ensemble of five is better than one network, and at least half of what it gains is there with two (mean over sets).",
        five > one && two - one >= 0.5 * (five - one),
        format!("1: {}, 2: {}, 5: {}", text(one), text(two), text(five)),
    )
}

fn figure(table: &Table) -> Figure {
    let line = |(i, name): (usize, &String)| ChartLine {
        name: name.clone(),
        emphasis: if i == 0 { Emphasis::Strong } else { Emphasis::Normal },
        points: SIZES
            .iter()
            .filter_map(|size| Some((*size as f64, table.cell(&size.to_string(), name)?.mean()?)))
            .collect(),
    };
    let chart = Chart {
        title: "How many networks".to_owned(),
        caption: "Detection of outliers by the entropy of an ensemble's mean prediction.".to_owned(),
        x: ChartAxis::between("networks", AxisScale::Count, 1.0, MEMBERS as f64),
        panels: vec![ChartPanel {
            y: ChartAxis::new("ROC-AUC (%)", AxisScale::Percent),
            height: 220.0,
            lines: table.columns.iter().enumerate().map(line).collect(),
        }],
    };
    chart.draw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::numbers;

    #[test]
    fn the_claim_can_fail() {
        let holds = |[one, two, five]: [f64; 3]| {
            grows(&numbers(["a", "b"], &[("1", [one; 2]), ("2", [two; 2]), ("5", [five; 2])])).holds
        };
        assert!(holds([0.8, 0.86, 0.9]));
        // All of the gain comes after two; and an ensemble that loses has gained nothing.
        assert!(!holds([0.8, 0.82, 0.9]) && !holds([0.9, 0.9, 0.8]));
    }

    #[test]
    fn groups_are_all_there_are() {
        assert_eq!(SIZES.map(|size| groups(size).len()), [5, 10, 10, 1]);
        assert_eq!(groups(5), [[0, 1, 2, 3, 4]]);
    }
}
