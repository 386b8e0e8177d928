//! Regression: a mean with aleatoric and epistemic variance for each query.
//!
//! `cargo run --release -p nuq --example regression`

use nuq::nuq_neighbors::SeededRng;
use nuq::{Embeddings, NuqRegressor};

fn main() -> Result<(), nuq::Error> {
    // y = sin(x) plus noise that grows with x, for x between 0 and 6.
    let mut rng = SeededRng::new(1);
    let x: Vec<f32> = (0..3000).map(|i| 6.0 * i as f32 / 3000.0).collect();
    let noise = |x: f64| 0.05 + 0.05 * x;
    let y: Vec<f64> = x.iter().map(|&x| f64::from(x).sin() + noise(f64::from(x)) * rng.normal()).collect();

    // Each mean is computed from the targets of K neighbors: more neighbors give a smoother mean.
    let model = NuqRegressor::params().n_neighbors(100).fit(&Embeddings::new(x, 1)?, &y)?;

    println!("x      sin(x)  mean    noise  aleatoric sd  epistemic sd");
    for x in [1.0f32, 3.0, 5.0, 7.0] {
        let estimate = model.predict(&Embeddings::from_rows(&[[x]])?)?[0];
        let (truth, sd) = (f64::from(x).sin(), noise(f64::from(x)));
        println!(
            "{x:<6.1} {truth:<7.3} {:<7.3} {sd:<6.3} {:<13.3} {:.3e}",
            estimate.mean,
            estimate.aleatoric().sqrt(),
            (0.5 * estimate.log_epistemic).exp(),
        );
    }
    // At x = 7 there are no training rows: the epistemic variance is large.
    Ok(())
}
