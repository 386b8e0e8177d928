//! Ablation of the ensemble size: the paper's tables on ensemble size.

use nuq_eval::baselines::Reduction;
use nuq_report::{AxisScale, Chart, ChartAxis, ChartLine, ChartPanel, Emphasis, Figure};

use super::Context;
use super::detection::{row, table, with_cifar100_header, with_paper_svhn};
use super::digits::{View, note};
use super::methods::ensemble;
use super::networks::MEMBERS;
use crate::LabError;
use crate::results::{Claim, Findings, Table, Unit};

const SIZES: [usize; 4] = [1, 2, 3, MEMBERS];
/// ROC-AUC (%) of the paper on CIFAR-100 against SVHN.
const PAPER: [Option<&str>; 4] = [None, Some("82.3 ± 1.3"), Some("82.4 ± 0.7"), Some("82.9 ± 0.9")];

pub(super) fn run(context: &Context) -> Result<Findings, LabError> {
    let mut rows = Vec::new();
    for (size, paper) in SIZES.into_iter().zip(PAPER) {
        context.log(&format!("ablation-ensemble-size: {size}"));
        let scores =
            ensembles_of(size).into_iter().map(|seeds| ensemble(context, &seeds, Reduction::Entropy));
        rows.push(with_paper_svhn(context, row(&size.to_string(), View::Test, scores)?, paper)?);
    }
    let table = with_cifar100_header(table(
        context,
        "ROC-AUC (%) of outliers against MNIST test digits, by the entropy of the mean prediction",
        "networks",
        rows,
    )?);
    let claims = vec![ensemble_claim(&table)];
    Ok(Findings {
        claims,
        notes: vec![
            note(context)?,
            format!(
                "Each row contains mean and standard deviation over all ensembles of this size that can be chosen from the {MEMBERS} \
                 networks. The paper's numbers are for a ResNet-50 on CIFAR-100 against SVHN with the same entropy. The paper evaluates \
                 up to 10 networks and finds no gain beyond 5."
            ),
        ],
        figures: vec![("ablation-ensemble-size".to_owned(), figure(&table))],
        tables: vec![table],
    })
}

/// All ensembles of `size` networks that can be chosen from the [`MEMBERS`] networks, each as a list of seeds.
fn ensembles_of(size: usize) -> Vec<Vec<u64>> {
    let all = 0u32..1 << MEMBERS;
    let members = |set: u32| (0..MEMBERS as u64).filter(|i| set >> i & 1 == 1).collect::<Vec<u64>>();
    all.filter(|set| set.count_ones() as usize == size).map(members).collect()
}

fn ensemble_claim(table: &Table) -> Claim {
    let mean = |size: usize| table.row_mean(&size.to_string()).unwrap_or(f64::NAN);
    let text = |value: f64| Unit::Percent.text(value, None);
    let (one, two, five) = (mean(1), mean(2), mean(MEMBERS));
    Claim::new(
        "two-networks-give-half-of-the-gain",
        "An ensemble of five networks is better than one network, and two networks reach at least half of its gain (mean over sets).",
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
        title: "Ensemble size".to_owned(),
        caption: "Outlier detection by the entropy of the mean prediction of an ensemble.".to_owned(),
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
            ensemble_claim(&numbers(["a", "b"], &[("1", [one; 2]), ("2", [two; 2]), ("5", [five; 2])])).holds
        };
        assert!(holds([0.8, 0.86, 0.9]));
        // First: two networks reach less than half of the gain. Second: the ensemble is worse than one network.
        assert!(!holds([0.8, 0.82, 0.9]) && !holds([0.9, 0.9, 0.8]));
    }

    #[test]
    fn all_subsets_of_a_size_are_listed() {
        assert_eq!(SIZES.map(|size| ensembles_of(size).len()), [5, 10, 10, 1]);
        assert_eq!(ensembles_of(5), [[0, 1, 2, 3, 4]]);
    }
}
