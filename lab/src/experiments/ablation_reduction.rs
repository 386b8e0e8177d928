//! Ablation of the reduction of several predictions to one score: the paper's table on uncertainty measures.

use nuq_eval::baselines::{Members, Reduction};

use super::Context;
use super::detection::{dots, row, table};
use super::digits::{View, note};
use super::methods::{Scores, ensemble, members, score_members};
use super::networks::{MEMBERS, NetworkId};
use crate::results::{Claim, Findings, Table, Unit};
use crate::training::{Augment, Outputs};
use crate::{Images, LabError};

const REDUCTIONS: [(&str, Reduction); 4] = [
    ("MaxProb", Reduction::MaxProb),
    ("Entropy", Reduction::Entropy),
    ("Std", Reduction::Std),
    ("MI", Reduction::MutualInformation),
];

pub(super) fn run(context: &Context) -> Result<Findings, LabError> {
    let mut rows = Vec::new();
    let augmented: Vec<Vec<Members>> = (0..context.seeds as u64)
        .map(|seed| augmented_predictions(context, seed))
        .collect::<Result<_, _>>()?;
    for (name, reduction) in REDUCTIONS {
        let scores = augmented.iter().map(|views| -> Result<Scores, LabError> {
            views.iter().map(|view| score_members(view, reduction)).collect()
        });
        rows.push(row(&format!("TTA, {name}"), View::Test, scores)?);
    }
    let seeds: Vec<u64> = (0..MEMBERS as u64).collect();
    for (name, reduction) in REDUCTIONS {
        let scores = std::iter::once(ensemble(context, &seeds, reduction));
        rows.push(row(&format!("Ensemble, {name}"), View::Test, scores)?);
    }
    let table =
        table(context, "ROC-AUC (%) of outliers against MNIST test digits", "members and reduction", rows)?;
    let claims = vec![entropy_is_best(&table)];
    let figure = dots(
        "Reduction of several predictions to one score",
        "Outlier detection on MNIST with test-time augmentation of one network and with an ensemble of five networks.",
        "ROC-AUC (%)",
        &table,
        table.columns.len(),
    );
    Ok(Findings {
        claims,
        notes: vec![
            note(context)?,
            "Test-time augmentation (TTA) uses five random rotations of up to 15° with shifts of up to 2 pixels. MaxProb is computed from the mean \
             prediction; the paper averages the members' maxima. The paper's table is for ImageNet, in the order MaxProb, entropy, Std, \
             MI. ImageNet-R: 82.8, 85.8, 74.1, 84.7 (TTA) and 81.0, 84.4, 70.2, 76.1 (ensemble); entropy is best. ImageNet-O: 29.2, 30.5, \
             32.3, 34.8 (TTA) and 48.3, 51.9, 58.5, 59.1 (ensemble); MI is best."
                .to_owned(),
        ],
        figures: vec![("ablation-reduction".to_owned(), figure)],
        tables: vec![table],
    })
}

/// Predictions of one network for augmented images of every evaluated image set (view).
fn augmented_predictions(context: &Context, seed: u64) -> Result<Vec<Members>, LabError> {
    context.log(&format!("ablation-reduction: augmented images, network {seed}"));
    let (network, digits) = (context.network_outputs(NetworkId::plain(seed))?, context.digits()?);
    let predict = |(images, outputs): (&Images, &Outputs)| {
        let logits = network.network.augmented_logits(images, MEMBERS, Augment::DIGITS_TTA, seed)?;
        members(&logits, outputs.n_classes)
    };
    digits.views().zip(network.views()).map(predict).collect()
}

fn entropy_is_best(table: &Table) -> Claim {
    let mean = |row: String| table.row_mean(&row).unwrap_or(f64::NAN);
    let means = |members: &str| REDUCTIONS.map(|(name, _)| mean(format!("{members}, {name}")));
    let average: Vec<f64> = means("TTA").iter().zip(means("Ensemble")).map(|(a, b)| 0.5 * (a + b)).collect();
    let evidence: Vec<String> = REDUCTIONS
        .iter()
        .zip(&average)
        .map(|((name, _), value)| format!("{name} {}", Unit::Percent.text(*value, None)))
        .collect();
    Claim::new(
        "entropy-reduces-best",
        "Entropy is the best of the four reductions on average over sets, TTA and ensemble.",
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
