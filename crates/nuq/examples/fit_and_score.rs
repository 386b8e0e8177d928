//! Fits a classifier to two half circles and scores three queries.
//!
//! `cargo run --release -p nuq --example fit_and_score`

use nuq::{Embeddings, FittedModel, NuqClassifier};

fn main() -> Result<(), nuq::Error> {
    let (x, labels) = two_moons(400)?;

    // The bandwidth is selected by leave-one-out; every parameter has a default.
    let model = NuqClassifier::params().fit(&x, &labels)?;
    println!(
        "{} rows, bandwidth {:?}, dimension {:.2}",
        model.index().len(),
        model.bandwidth(),
        model.dimension()
    );

    // One query inside the upper moon, one between the moons, and one far from both.
    let names = ["inside", "between", "far"];
    let queries = Embeddings::from_rows(&[[0.0, 1.0], [0.5, 0.25], [8.0, 8.0]])?;
    let predictions = model.predict(&queries)?;

    println!("query    label  probability  aleatoric  ln epistemic  nearest training row");
    for (i, name) in names.iter().enumerate() {
        let prediction = &predictions[i];
        println!(
            "{name:<8} {:<6} {:<12.3} {:<10.3} {:<13.2} {}",
            predictions.label(i).to_string(),
            prediction.probability,
            prediction.aleatoric,
            prediction.log_epistemic,
            predictions.neighbors().ids(i)[0],
        );
    }
    Ok(())
}

/// Two interleaving half circles with a regular jitter, labeled "upper" and "lower".
fn two_moons(rows: usize) -> Result<(Embeddings<'static>, Vec<&'static str>), nuq::Error> {
    let mut points = Vec::new();
    let mut labels = Vec::new();
    for i in 0..rows {
        let angle = std::f32::consts::PI * i as f32 / rows as f32;
        let jitter = 0.15 * ((i * 37 % 101) as f32 / 100.0 - 0.5);
        let (x, y) = ((1.0 + jitter) * angle.cos(), (1.0 + jitter) * angle.sin());
        if i % 2 == 0 {
            points.push([x, y]);
            labels.push("upper");
        } else {
            points.push([1.0 - x, 0.5 - y]);
            labels.push("lower");
        }
    }
    Ok((Embeddings::from_rows(&points)?, labels))
}
