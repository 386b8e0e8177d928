//! Coverage of the epistemic uncertainty and excess risk on a 1-D mixture with known η, as in the paper's appendix.

use nuq::{
    Criterion, Decision, Density, DensityBandwidth, Dimension, Embeddings, NuqClassifier, RejectRule,
    Variance,
};
use nuq_testkit::data::Mixture;

/// A grid over the central region of the mixture.
fn grid() -> Vec<f32> {
    (0..200).map(|i| -3.5 + 7.0 * i as f32 / 199.0).collect()
}

/// The epistemic uncertainty bounds the error of η̂ for most of the data, with all points as neighbors.
#[test]
fn the_epistemic_uncertainty_covers_the_error_of_the_posterior() {
    let queries = Embeddings::new(grid(), 1).unwrap();
    for (seed, variance) in [(1, Variance::Sum), (2, Variance::Max), (3, Variance::Max)] {
        let (x, y) = Mixture::sample(5000, seed);
        let model = NuqClassifier::params()
            .n_neighbors(usize::MAX)
            .variance(variance)
            .bandwidth(Criterion::LogLikelihood)
            .density(Density::Kde { bandwidth: DensityBandwidth::Same })
            .dimension(Dimension::Ambient)
            .fit(&x, &y)
            .unwrap();
        let (predictions, eta) = (model.predict(&queries).unwrap(), model.predict_proba(&queries).unwrap());
        let covered = (0..queries.len())
            .filter(|&i| {
                let truth = Mixture::eta(f64::from(queries.row(i)[0]));
                (eta.row(i)[1] - truth).abs() <= predictions[i].epistemic()
            })
            .count();
        let share = covered as f64 / queries.len() as f64;
        assert!(share >= 0.75, "seed {seed}: {share}");
    }
}

/// The mean excess risk of a rule over the grid, relative to the optimal rule for the true η.
fn excess_risk(n: usize, rule: &RejectRule, cost: f64, seed: u64) -> f64 {
    let (x, y) = Mixture::sample(n, seed);
    let queries = Embeddings::new(grid(), 1).unwrap();
    let model = NuqClassifier::params()
        .n_neighbors(usize::MAX)
        .bandwidth(1.5 * (n as f64).powf(-0.2))
        .density(Density::Kde { bandwidth: DensityBandwidth::Same })
        .dimension(Dimension::Ambient)
        .fit(&x, &y)
        .unwrap();
    let predictions = model.predict(&queries).unwrap();
    let decisions = predictions.decide(rule);
    let risk = |i: usize| {
        let eta = Mixture::eta(f64::from(queries.row(i)[0]));
        let error = if predictions.label(i) == &1 { 1.0 - eta } else { eta };
        let loss = if decisions[i] == Decision::Accept { error } else { cost };
        loss - eta.min(1.0 - eta).min(cost)
    };
    (0..queries.len()).map(risk).sum::<f64>() / queries.len() as f64
}

#[test]
fn the_excess_risk_of_the_reject_rule_falls_to_zero() {
    let cost = 0.25;
    let rule = RejectRule::confident(cost, 0.05).unwrap();
    let at = |n: usize| (0..3).map(|seed| excess_risk(n, &rule, cost, seed)).sum::<f64>() / 3.0;
    let risks: Vec<f64> = [100, 1000, 10_000, 100_000].into_iter().map(at).collect();
    assert!(risks.windows(2).all(|pair| pair[1] < pair[0]), "{risks:?}");
    assert!(risks[3] < 0.005 && risks[3] < 0.1 * risks[0], "{risks:?}");
}
