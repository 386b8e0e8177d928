//! Data with a known probability η of class 1: a 1-D mixture, as in the paper's appendix, and two Gaussians in up to 128 dimensions.
//! η̂ is the estimate of η. The tests measure how often the epistemic uncertainty `U_e` covers the error (`|η̂ − η| ≤ U_e`), and the
//! excess risk.

use nuq::{
    Classification, Decision, Density, DensityBandwidth, Embeddings, NuqClassifier, Params, RejectRule,
    Scale, Variance,
};
use nuq_testkit::data::{Mixture, TwoGaussians};

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
            // Narrower than the bandwidth of the largest likelihood, so that the bias is small relative to the standard error.
            .bandwidth(0.1)
            .density(Density::Kde { bandwidth: DensityBandwidth::Same })
            .scale(Scale::Ambient)
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
        .scale(Scale::Ambient)
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

/// The share of queries with `|η̂ − η| ≤ U_e`, and whether the bandwidth is the smallest of its grid.
fn coverage(params: &Params<Classification>, n: usize, data: TwoGaussians) -> (f64, bool) {
    let (x, labels, _) = data.sample(n, 1);
    let (queries, _, eta) = data.sample(1000, 2);
    let model = params.fit(&x, &labels).unwrap();
    let (predictions, estimates) = (model.predict(&queries).unwrap(), model.predict_proba(&queries).unwrap());
    let covered = (0..eta.len())
        .filter(|&i| (estimates.row(i)[1] - eta[i]).abs() <= predictions[i].epistemic())
        .count();
    (covered as f64 / eta.len() as f64, model.bandwidth_curve().unwrap().is_at_lower_edge())
}

/// With `scale = effective` the epistemic uncertainty is about as large as the error in any dimension.
#[test]
fn the_effective_scale_covers_the_error_in_low_and_high_dimension() {
    // The bandwidth is selected on a sample. This hardly changes its value and saves most of the time.
    let params = NuqClassifier::params().selection_rows(2000);
    for params in [params.clone(), params.density(Density::kde())] {
        for (latent, dim, floor) in
            [(1, 1, 0.7), (2, 2, 0.7), (5, 5, 0.7), (10, 64, 0.7), (20, 64, 0.7), (50, 128, 0.5)]
        {
            for n in [500, 20_000] {
                let (share, at_lower_edge) = coverage(&params, n, TwoGaussians { latent, dim });
                assert!(share >= floor, "{latent} dimensions, {n} rows: {share}");
                assert!(!at_lower_edge, "{latent} dimensions, {n} rows");
            }
        }
    }
}

/// The values of `ln U_e` with the three scales differ by one constant, so rankings do not change.
#[test]
fn scales_differ_by_a_constant_per_model() {
    let data = TwoGaussians { latent: 3, dim: 5 };
    let (x, labels, _) = data.sample(400, 3);
    let (queries, _, _) = data.sample(50, 4);
    for density in [Density::kde(), Density::Auto] {
        let log_epistemic = |scale: Scale| -> Vec<f64> {
            let params = NuqClassifier::params().density(density.clone()).scale(scale);
            params
                .fit(&x, &labels)
                .unwrap()
                .predict(&queries)
                .unwrap()
                .iter()
                .map(|p| p.log_epistemic)
                .collect()
        };
        let effective = log_epistemic(Scale::Effective);
        for other in [Scale::Intrinsic, Scale::Ambient] {
            let other = log_epistemic(other);
            let difference = other[0] - effective[0];
            for (a, b) in effective.iter().zip(other) {
                assert!((b - a - difference).abs() < 1e-9, "{density:?}");
            }
        }
    }
}
