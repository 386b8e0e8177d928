//! Abstains from uncertain predictions: by the paper's reject rule, and by a threshold with a guarantee.
//!
//! `cargo run --release -p nuq --example abstain`

use nuq::calibrate::{Measure, Target, calibrate};
use nuq::nuq_neighbors::SeededRng;
use nuq::{Decision, Embeddings, FittedModel, NuqClassifier, RejectRule};

fn main() -> Result<(), nuq::Error> {
    let (x, labels) = blobs(2000, 1)?;
    let (held_out, held_out_labels) = blobs(1000, 2)?;
    let (test, test_labels) = blobs(1000, 3)?;
    let mut model = NuqClassifier::params().fit(&x, &labels)?;

    // Algorithm 2 of the paper: an abstention costs 0.1, and a wrong answer costs 1. A margin for estimation errors, at the level 5 %, is
    // added to the estimated probability of an error.
    let predictions = model.predict(&test)?;
    let decisions = predictions.decide(&RejectRule::confident(0.1, 0.05)?);
    let wrong = |i: usize| predictions.label(i) != &test_labels[i];
    report("reject rule", &decisions, wrong);

    // A threshold chosen on held-out rows: with 95 % confidence, at most 5 % of the accepted predictions are wrong.
    let scored = model.predict(&held_out)?;
    let scores: Vec<f64> = scored.iter().map(|prediction| Measure::Total.of(prediction)).collect();
    let is_error: Vec<bool> = (0..scored.len()).map(|i| scored.label(i) != &held_out_labels[i]).collect();
    let target = Target::Risk { risk: 0.05, delta: 0.05 };
    let threshold = calibrate(Measure::Total, &scores, Some(&is_error), target)?;
    let decisions: Vec<Decision> =
        predictions.iter().map(|prediction| threshold.decide(prediction)).collect();
    report("threshold", &decisions, wrong);
    println!("guarantee: {threshold}");

    // Thresholds are stored with the model and in its file.
    model.set_threshold("risk 5 %", threshold);
    println!("stored thresholds: {:?}", model.thresholds().keys().collect::<Vec<_>>());
    Ok(())
}

fn report(name: &str, decisions: &[Decision], wrong: impl Fn(usize) -> bool) {
    let accepted: Vec<usize> = (0..decisions.len()).filter(|&i| decisions[i] == Decision::Accept).collect();
    let errors = accepted.iter().filter(|&&i| wrong(i)).count();
    println!("{name}: accepts {} of {} rows, {errors} of them wrong", accepted.len(), decisions.len());
}

/// Rows of three overlapping Gaussian classes in the plane.
fn blobs(rows: usize, seed: u64) -> Result<(Embeddings<'static>, Vec<i64>), nuq::Error> {
    const CENTERS: [[f64; 2]; 3] = [[0.0, 0.0], [3.0, 0.0], [1.5, 2.6]];
    let mut rng = SeededRng::new(seed);
    let labels: Vec<i64> = (0..rows).map(|i| (i % 3) as i64).collect();
    let row = |&label: &i64| CENTERS[label as usize].map(|center| (center + rng.normal()) as f32);
    let points: Vec<[f32; 2]> = labels.iter().map(row).collect();
    Ok((Embeddings::from_rows(&points)?, labels))
}
