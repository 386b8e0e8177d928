//! How several predictions become one number: the paper's table on reductions.

use nuq_eval::baselines::{Members, Reduction};

use super::Lab;
use super::detection::{dots, row, table};
use super::digits::{View, note};
use super::methods::{Scores, ensemble, members, of_members};
use super::networks::{Base, MEMBERS};
use crate::results::{Claim, Findings, Table, Unit};
use crate::training::{Augment, Outputs};
use crate::{Images, LabError};

const REDUCTIONS: [(&str, Reduction); 4] = [
    ("MaxProb", Reduction::MaxProb),
    ("Entropy", Reduction::Entropy),
    ("Std", Reduction::Std),
    ("MI", Reduction::MutualInformation),
];

pub(super) fn run(lab: &Lab) -> Result<Findings, LabError> {
    let mut rows = Vec::new();
    let augmented: Vec<Vec<Members>> =
        (0..lab.seeds as u64).map(|seed| augmented(lab, seed)).collect::<Result<_, _>>()?;
    for (name, reduction) in REDUCTIONS {
        let scores = augmented.iter().map(|views| -> Result<Scores, LabError> {
            views.iter().map(|view| of_members(view, reduction)).collect()
        });
        rows.push(row(&format!("TTA, {name}"), View::Test, scores)?);
    }
    let seeds: Vec<u64> = (0..MEMBERS as u64).collect();
    for (name, reduction) in REDUCTIONS {
        let scores = std::iter::once(ensemble(lab, &seeds, reduction));
        rows.push(row(&format!("Ensemble, {name}"), View::Test, scores)?);
    }
    let table = table(lab, "ROC-AUC, MNIST against outliers (%)", "members and reduction", rows)?;
    let claims = vec![entropy_is_best(&table)];
    let figure = dots(
        "One number of several predictions",
        "How well each tells outliers from MNIST's test digits: test-time augmentation of one network, and an ensemble of five.",
        "ROC-AUC (%)",
        &table,
        table.columns.len(),
    );
    Ok(Findings {
        claims,
        notes: vec![
            note(lab)?,
            "Test-time augmentation: five random rotations to 15° and shifts to 2 pixels. MaxProb here is of the mean prediction, the \
             paper's the mean of the members' maxima. The paper's table is of ImageNet, in the order MaxProb, entropy, Std, MI: ImageNet-R \
             82.8, 85.8, 74.1, 84.7 (TTA) and 81.0, 84.4, 70.2, 76.1 (ensemble), where entropy is best; ImageNet-O 29.2, 30.5, 32.3, 34.8 \
             (TTA) and 48.3, 51.9, 58.5, 59.1 (ensemble), where MI is."
                .to_owned(),
        ],
        figures: vec![("ablation-reduction".to_owned(), figure)],
        tables: vec![table],
    })
}

/// Predictions of changed pictures of every view.
fn augmented(lab: &Lab, seed: u64) -> Result<Vec<Members>, LabError> {
    lab.say(&format!("ablation-reduction: changed pictures, network {seed}"));
    let (base, digits) = (lab.seen(Base::plain(seed))?, lab.digits()?);
    let of_view = |(images, outputs): (&Images, &Outputs)| {
        let logits = base.network.augmented_logits(images, MEMBERS, Augment::DIGITS_TTA, seed)?;
        members(&logits, outputs.n_classes)
    };
    digits.views().zip(base.views()).map(of_view).collect()
}

fn entropy_is_best(table: &Table) -> Claim {
    let mean = |row: String| table.row_mean(&row).unwrap_or(f64::NAN);
    let of = |kind: &str| REDUCTIONS.map(|(name, _)| mean(format!("{kind}, {name}")));
    let average: Vec<f64> = of("TTA").iter().zip(of("Ensemble")).map(|(a, b)| 0.5 * (a + b)).collect();
    let evidence: Vec<String> = REDUCTIONS
        .iter()
        .zip(&average)
        .map(|((name, _), value)| format!("{name} {}", Unit::Percent.text(*value, None)))
        .collect();
    Claim::new(
        "entropy-reduces-best",
        "Entropy is the best of the four on average over sets, TTA and ensemble.",
        average.iter().all(|value| *value <= average[1]),
        evidence.join(", "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::numbers;

    #[test]
    fn the_claim_can_fail() {
        let holds = |entropy: f64| {
            let areas = [("MaxProb", 0.8), ("Entropy", entropy), ("Std", 0.7), ("MI", 0.75)];
            let names =
                areas.map(|(name, area)| (["TTA", "Ensemble"].map(|kind| format!("{kind}, {name}")), area));
            let rows: Vec<(&str, [f64; 1])> = names
                .iter()
                .flat_map(|(names, area)| names.iter().map(|name| (name.as_str(), [*area])))
                .collect();
            entropy_is_best(&numbers(["SVHN"], &rows)).holds
        };
        assert!(holds(0.85) && !holds(0.78));
    }
}
