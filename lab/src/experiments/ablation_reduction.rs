//! How several predictions become one number: the paper's table on reductions.

use nuq::baselines::{Members, Reduction};
use nuq_neighbors::Embeddings;

use super::Lab;
use super::detection::{dots, row, table};
use super::digits::{Base, MEMBERS, View, note};
use super::methods::{ensemble, of_members};
use crate::results::{Cell, Claim, Findings, Table, Unit};
use crate::training::Augment;
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
        let scores =
            augmented.iter().map(|views| views.iter().map(|view| of_members(view, reduction)).collect());
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
        &table,
    );
    Ok(Findings {
        claims,
        notes: vec![
            note(lab)?,
            "Test-time augmentation: five random rotations to 15° and shifts to 2 pixels. The paper's table is of ImageNet (ImageNet-R, \
             ensemble: MaxProb 81.0, entropy 84.4, Std 70.2, MI 76.1; TTA: 82.8, 85.8, 74.1, 84.7)."
                .to_owned(),
        ],
        figures: vec![("ablation-reduction".to_owned(), figure)],
        tables: vec![table],
    })
}

/// Predictions of changed pictures of every view.
fn augmented(lab: &Lab, seed: u64) -> Result<Vec<Members>, LabError> {
    lab.say(&format!("ablation-reduction: changed pictures, network {seed}"));
    let (base, digits) = (lab.seen(Base::spectral(seed))?, lab.digits()?);
    let outliers = digits.outliers.iter().map(|set| &set.images);
    let views = [&digits.test.images, &digits.rotated].into_iter().chain(outliers);
    let members = |images: &Images| {
        let logits = base.network.augmented_logits(images, MEMBERS, Augment::DIGITS_TTA, seed)?;
        let logits = logits.iter().map(|member| Embeddings::from_f64(member, 10));
        Ok(Members::new(logits.collect::<Result<_, _>>()?)?)
    };
    views.map(members).collect()
}

fn entropy_is_best(table: &Table) -> Claim {
    let mean = |row: &str| {
        let areas = table.columns.iter().filter_map(|set| table.cell(row, set).and_then(Cell::mean));
        areas.sum::<f64>() / table.columns.len() as f64
    };
    let of = |kind: &str| REDUCTIONS.map(|(name, _)| mean(&format!("{kind}, {name}")));
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
