//! Properties that hold for any data.

use nuq::{
    Bandwidth, Density, DensityBandwidth, Embeddings, Kernel, Neighbors, NuqClassifier, NuqRegressor,
    RejectRule, Scale, Variance,
};
use nuq_testkit::data;
use proptest::prelude::*;

fn kernels() -> impl Strategy<Value = Kernel> {
    prop::sample::select(vec![Kernel::Gaussian, Kernel::Sigmoid, Kernel::Logistic, Kernel::Student])
}

fn same() -> Density {
    Density::Kde { bandwidth: DensityBandwidth::Same }
}

fn scaled(x: &Embeddings<'_>, factor: f32) -> Embeddings<'static> {
    Embeddings::new(x.as_slice().iter().map(|v| v * factor).collect(), x.dim()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn probabilities_sum_to_one_and_the_largest_is_the_prediction(
        rows in 2usize..80, dim in 1usize..12, classes in 1usize..9, k in 1usize..30, seed in 0u64..500,
        kernel in kernels(), weight in prop::sample::select(vec![0.0, 1e-9, 1e-3, 1.0, 100.0]), h in 0.01f64..10.0,
    ) {
        let (x, y) = data::clusters(rows, dim, classes, 1.0, seed);
        let (q, _) = data::clusters(20, dim, classes, 3.0, seed + 1);
        let model =
            NuqClassifier::params().n_neighbors(k).kernel(kernel).prior_weight(weight).bandwidth(h).fit(&x, &y).unwrap();
        let (predictions, eta) = (model.predict(&q).unwrap(), model.predict_proba(&q).unwrap());
        for i in 0..q.len() {
            let row = eta.row(i);
            // If there is a single class, the prior also includes a second class without rows, which has no column in `eta`.
            let unseen = if row.len() == 1 { predictions[i].aleatoric } else { 0.0 };
            prop_assert!((row.iter().sum::<f64>() + unseen - 1.0).abs() < 1e-12);
            prop_assert!(row.iter().all(|p| (0.0..=1.0 + 1e-12).contains(p)));
            let top = row.iter().copied().fold(0.0, f64::max);
            prop_assert!((predictions[i].probability - top).abs() < 1e-12);
            prop_assert!((predictions[i].aleatoric - (1.0 - top)).abs() < 1e-12);
            prop_assert!(predictions[i].log_total >= predictions[i].log_epistemic);
            prop_assert!(!predictions[i].log_epistemic.is_nan() && !predictions[i].log_total.is_nan());
        }
    }

    #[test]
    fn the_order_of_training_rows_does_not_matter(
        rows in 3usize..60, dim in 1usize..8, seed in 0u64..500, shift in 1usize..59, kernel in kernels(),
    ) {
        let (x, y) = data::clusters(rows, dim, 3, 1.0, seed);
        let (q, _) = data::clusters(10, dim, 3, 1.0, seed + 1);
        let order: Vec<u32> = (0..rows).map(|i| ((i + shift) % rows) as u32).collect();
        let permuted: Vec<i64> = order.iter().map(|&i| y[i as usize]).collect();
        let params = NuqClassifier::params().n_neighbors(7).kernel(kernel);
        let a = params.fit(&x, &y).unwrap();
        let b = params.fit(&x.gather(&order), &permuted).unwrap();
        let (a, b) = (a.predict(&q).unwrap(), b.predict(&q).unwrap());
        for i in 0..q.len() {
            prop_assert_eq!(a.label(i), b.label(i));
            prop_assert!((a[i].probability - b[i].probability).abs() < 1e-9);
            prop_assert!((a[i].log_epistemic - b[i].log_epistemic).abs() < 1e-9);
            let back: Vec<u32> = b.neighbors().ids(i).iter().map(|&id| order[id as usize]).collect();
            prop_assert_eq!(a.neighbors().ids(i), &back);
        }
    }

    /// The factors are powers of two, so that scaling is exact.
    #[test]
    fn scaling_rows_and_bandwidth_together_does_not_change_the_posterior(
        dim in 1usize..8, seed in 0u64..500, power in -20i32..20, kernel in kernels(), h in 0.1f64..3.0,
    ) {
        let (x, y) = data::clusters(40, dim, 3, 1.0, seed);
        let (q, _) = data::clusters(10, dim, 3, 1.0, seed + 1);
        let fit = |factor: f64| {
            let x = scaled(&x, factor as f32);
            let model = NuqClassifier::params()
                .kernel(kernel)
                .density(same())
                .scale(Scale::Ambient)
                .bandwidth(h * factor)
                .fit(&x, &y)
                .unwrap();
            model.predict(&scaled(&q, factor as f32)).unwrap().iter().copied().collect::<Vec<_>>()
        };
        for (a, b) in fit(1.0).iter().zip(fit(2f64.powi(power))) {
            prop_assert!((a.probability - b.probability).abs() < 1e-12);
            prop_assert!((a.aleatoric - b.aleatoric).abs() < 1e-12);
            // The epistemic uncertainty depends on N h^d p̂ (number of rows N, bandwidth h, density p̂). This product has no unit, so
            // the epistemic uncertainty does not change either.
            prop_assert!((a.log_epistemic - b.log_epistemic).abs() < 1e-9 * a.log_epistemic.abs().max(1.0));
        }
    }

    #[test]
    fn far_away_the_posterior_is_the_prior_and_the_epistemic_uncertainty_grows(
        dim in 1usize..8, seed in 0u64..500, kernel in kernels(), variance in prop::bool::ANY,
    ) {
        let (x, y) = data::clusters(50, dim, 3, 1.0, seed);
        let labels: Vec<i64> = y.iter().map(|&l| l.min(1)).collect(); // one third class 0, two thirds class 1
        let frequency = labels.iter().filter(|&&l| l == 1).count() as f64 / 50.0;
        let variance = if variance { Variance::Sum } else { Variance::Max };
        let model =
            NuqClassifier::params().kernel(kernel).variance(variance).bandwidth(0.5).fit(&x, &labels).unwrap();
        let mut last = f64::NEG_INFINITY;
        for distance in [1e2f32, 1e4, 1e6, 1e12] {
            let predictions = model.predict(&Embeddings::new(vec![distance; dim], dim).unwrap()).unwrap();
            prop_assert!(predictions[0].log_epistemic > last + 1.0, "{} after {last}", predictions[0].log_epistemic);
            prop_assert!(predictions[0].log_epistemic.is_finite() && predictions[0].log_density.is_finite());
            last = predictions[0].log_epistemic;
            // The probability is checked only at the largest distance, because the heavy-tailed kernel converges
            // slowly.
            if distance > 1e10 {
                prop_assert_eq!(predictions[0].class, 1);
                prop_assert!((predictions[0].probability - frequency).abs() < 1e-9);
            }
        }
        let rule = RejectRule::confident(0.6, 0.05).unwrap();
        prop_assert_eq!(
            model.predict(&Embeddings::new(vec![1e6; dim], dim).unwrap()).unwrap().decide(&rule)[0],
            nuq::Decision::Reject
        );
    }

    #[test]
    fn moving_a_neighbor_closer_does_not_lower_the_probability_of_its_class(
        seed in 0u64..1000, moved in 0usize..8, closer in 0.0f64..1.0, h in 0.05f64..5.0,
        weight in prop::sample::select(vec![0.0, 1e-3, 1.0]), kernel in prop::sample::select(vec![Kernel::Gaussian, Kernel::Student]),
    ) {
        let (x, y) = data::clusters(30, 2, 3, 1.0, seed);
        let q = data::normal(1, 2, seed + 1);
        let model = NuqClassifier::params().n_neighbors(8).kernel(kernel).prior_weight(weight).bandwidth(h).fit(&x, &y).unwrap();
        let before = model.predict(&q).unwrap();
        let ids = before.neighbors().ids(0).to_vec();
        let mut sq = before.neighbors().sq_distances(0).to_vec();
        sq[moved] *= closer;
        let after = Neighbors::new(8, ids.clone(), sq).unwrap();
        let class = y[ids[moved] as usize];
        // The probability of that class against all others.
        let binary: Vec<i64> = y.iter().map(|&l| i64::from(l == class)).collect();
        let one = NuqClassifier::params().n_neighbors(8).kernel(kernel).prior_weight(weight).bandwidth(h).fit(&x, &binary).unwrap();
        let eta = |neighbors: &Neighbors| {
            let p = one.predict_from(&q, neighbors).unwrap();
            if p.label(0) == &1 { p[0].probability } else { p[0].aleatoric }
        };
        prop_assert!(eta(&after) >= eta(before.neighbors()) - 1e-12);
    }

    #[test]
    fn duplicating_all_rows_does_not_change_the_posterior_and_halves_the_variance(
        rows in 2usize..30, dim in 1usize..6, seed in 0u64..500, kernel in kernels(), h in 0.2f64..3.0,
        per_point in prop::bool::ANY,
    ) {
        let (x, y) = data::clusters(rows, dim, 2, 1.0, seed);
        let (q, _) = data::clusters(8, dim, 2, 1.0, seed + 1);
        let twice = Embeddings::new([x.as_slice(), x.as_slice()].concat(), dim).unwrap();
        let bandwidth = |n: usize| {
            if per_point {
                Bandwidth::PerPoint((0..n).map(|i| h * (1.0 + 0.1 * (i % rows) as f64)).collect())
            } else {
                Bandwidth::Scalar(h)
            }
        };
        let fit = |x: &Embeddings<'_>, y: &[i64]| {
            let model = NuqClassifier::params()
                .n_neighbors(usize::MAX)
                .kernel(kernel)
                .prior_weight(0.0)
                .density(same())
                .scale(Scale::Ambient)
                .bandwidth(bandwidth(y.len()))
                .fit(x, y)
                .unwrap();
            model.predict(&q).unwrap().iter().copied().collect::<Vec<_>>()
        };
        for (once, doubled) in fit(&x, &y).iter().zip(fit(&twice, &[y.clone(), y.clone()].concat())) {
            prop_assert!((once.probability - doubled.probability).abs() < 1e-12);
            prop_assert!((once.log_density - doubled.log_density).abs() < 1e-9);
            if once.log_epistemic > f64::NEG_INFINITY {
                let halved = 2.0 * (once.log_epistemic - doubled.log_epistemic);
                prop_assert!((halved - 2f64.ln()).abs() < 1e-9, "{halved}");
            }
        }
    }

    #[test]
    fn a_regressor_shifts_and_scales_with_its_targets(
        seed in 0u64..500, dim in 1usize..6, shift in -1e6f64..1e6, factor in 0.01f64..100.0, kernel in kernels(),
    ) {
        let (x, labels) = data::clusters(40, dim, 3, 1.0, seed);
        let (q, _) = data::clusters(8, dim, 3, 1.0, seed + 1);
        let y: Vec<f64> = labels.iter().map(|&l| l as f64).collect();
        let moved: Vec<f64> = y.iter().map(|y| shift + factor * y).collect();
        let params = NuqRegressor::params().kernel(kernel).bandwidth(1.0);
        let (a, b) = (params.fit(&x, &y).unwrap(), params.fit(&x, &moved).unwrap());
        for (a, b) in a.predict(&q).unwrap().iter().zip(b.predict(&q).unwrap().iter()) {
            prop_assert!((shift + factor * a.mean - b.mean).abs() < 1e-9 * (shift.abs() + factor));
            prop_assert!((a.log_aleatoric + 2.0 * factor.ln() - b.log_aleatoric).abs() < 1e-4);
        }
    }
}
