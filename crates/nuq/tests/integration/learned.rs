//! Learned values against direct computations: bandwidths, density bandwidth, dimension, selection curves.

use nuq::bandwidth::BandwidthRule;
use nuq::{
    Bandwidth, Criterion, Density, DensityBandwidth, Embeddings, FittedModel, Kernel, NuqClassifier,
    NuqRegressor, Scale, SquaredError, Variance,
};
use nuq_testkit::{data, oracle};

const K: usize = 7;

/// The squared distances and ids of the K nearest neighbors of each row, without the row itself.
fn leave_one_out(x: &Embeddings<'_>) -> Vec<(Vec<f64>, Vec<usize>)> {
    let rows = data::to_rows(x);
    let others = |i: usize| {
        let all = oracle::by_distance(&rows, &rows[i], &vec![1.0; x.dim()]);
        all.into_iter().filter(|&(_, id)| id != i).take(K).unzip()
    };
    (0..rows.len()).map(others).collect()
}

#[test]
fn density_bandwidth_and_dimension_match_direct_computations() {
    let (x, y) = data::clusters(61, 5, 3, 1.0, 4);
    let model = NuqClassifier::params().n_neighbors(K).fit(&x, &y).unwrap();
    let neighbors = leave_one_out(&x);
    let mut last: Vec<f64> = neighbors.iter().map(|(sq, _)| sq[K - 1].sqrt()).collect();
    last.sort_by(f64::total_cmp);
    assert!((model.density_bandwidth().unwrap() / (0.5 * last[30]) - 1.0).abs() < 1e-14);
    let mut sum = 0.0;
    for (sq, _) in &neighbors {
        for j in 0..K - 1 {
            sum += (sq[K - 1].sqrt() / sq[j].sqrt()).ln();
        }
    }
    let levina_bickel = (61 * (K - 1)) as f64 / sum;
    assert!((model.dimension() / levina_bickel - 1.0).abs() < 1e-12);
}

#[test]
fn kth_neighbor_bandwidths_are_distances_to_the_kth_neighbor() {
    let (x, y) = data::clusters(50, 3, 2, 1.0, 4);
    let model =
        NuqClassifier::params().bandwidth(BandwidthRule::Adaptive { k: Some(4) }).fit(&x, &y).unwrap();
    let Bandwidth::PerPoint(h) = model.bandwidth() else { panic!("not one bandwidth per point") };
    for (h, (sq, _)) in h.iter().zip(leave_one_out(&x)) {
        assert!((h / sq[3].sqrt() - 1.0).abs() < 1e-14);
    }
}

#[test]
fn rules_per_dimension_are_applied_to_each_column() {
    let (x, y) = data::clusters(80, 3, 2, 1.0, 4);
    type OnColumn = fn(&[f64]) -> Option<f64>;
    let rules: [(BandwidthRule<Criterion>, OnColumn); 3] = [
        (BandwidthRule::Silverman, nuq::bandwidth::silverman),
        (BandwidthRule::Scott, nuq::bandwidth::scott),
        (BandwidthRule::ImprovedSheatherJones, nuq::bandwidth::improved_sheather_jones),
    ];
    for (rule, on_column) in rules {
        let model = NuqClassifier::params().bandwidth(rule).fit(&x, &y).unwrap();
        let columns: Vec<f64> = (0..3).map(|j| on_column(&x.column(j)).unwrap()).collect();
        assert_eq!(model.bandwidth(), &Bandwidth::PerDimension(columns));
    }
}

#[test]
fn normalize_divides_rows_and_queries_by_their_norm() {
    let (x, y) = data::clusters(90, 4, 3, 2.0, 1);
    let (q, _) = data::clusters(15, 4, 3, 2.0, 2);
    let unit = |e: &Embeddings<'_>| {
        let rows = data::to_rows(e);
        let values = rows.iter().flat_map(|row| {
            let length = row.iter().map(|v| v * v).sum::<f64>().sqrt();
            row.iter().map(move |v| (v / length) as f32)
        });
        Embeddings::new(values.collect(), e.dim()).unwrap()
    };
    for kernel in [Kernel::Gaussian, Kernel::Logistic] {
        let params = NuqClassifier::params().kernel(kernel);
        let inside = params.clone().normalize(true).fit(&x, &y).unwrap();
        let outside = params.fit(&unit(&x), &y).unwrap();
        assert_eq!(inside.predict(&q).unwrap().to_vec(), outside.predict(&unit(&q)).unwrap().to_vec());
    }
}

#[test]
fn accuracy_selects_the_best_likelihood_within_one_standard_error_of_the_best_accuracy() {
    // Classes alternate every five rows. Because of wrong labels, small bandwidths have a low likelihood. Large
    // bandwidths average over both classes.
    let x = Embeddings::new((0..300).map(|i| i as f32).collect(), 1).unwrap();
    let y: Vec<i64> = (0..300).map(|i| (i / 5 % 2) ^ i64::from(i % 15 == 7)).collect();
    let model = NuqClassifier::params().bandwidth(Criterion::Accuracy).fit(&x, &y).unwrap();
    let curve = model.bandwidth_curve().unwrap();
    let best = curve.points.iter().map(|p| p.score.accuracy).fold(0.0, f64::max);
    let standard_error = (best * (1.0 - best) / 300.0).sqrt();
    let chosen = &curve.points[curve.chosen].score;
    assert!(chosen.accuracy >= best - standard_error);
    for point in curve.points.iter().filter(|p| p.score.accuracy >= best - standard_error) {
        assert!(point.score.log_likelihood <= chosen.log_likelihood);
    }
    // The bandwidth with the highest likelihood is excluded by its accuracy. Otherwise both criteria would select the
    // same bandwidth.
    let best = curve.points.iter().map(|p| p.score.log_likelihood).fold(f64::NEG_INFINITY, f64::max);
    assert!(chosen.log_likelihood < best, "{} and {best}", chosen.log_likelihood);
}

#[test]
fn without_a_prior_the_likelihood_excludes_rows_without_a_neighbor_of_their_class() {
    let (x, mut y) = data::clusters(60, 2, 2, 8.0, 3);
    y[10] = 7; // the only row of class 7
    let model = NuqClassifier::params().n_neighbors(K).prior_weight(0.0).fit(&x, &y).unwrap();
    let neighbors = leave_one_out(&x);
    for point in &model.bandwidth_curve().unwrap().points {
        let (mut sum, mut counted) = (0.0, 0.0);
        for (i, (sq, ids)) in neighbors.iter().enumerate() {
            let log = |sq: f64| -0.5 * sq / point.bandwidth.powi(2);
            let own: Vec<f64> =
                sq.iter().zip(ids).filter(|(_, id)| y[**id] == y[i]).map(|(&sq, _)| log(sq)).collect();
            let all: Vec<f64> = sq.iter().map(|&sq| log(sq)).collect();
            if !own.is_empty() {
                sum += oracle::log_sum_exp(&own) - oracle::log_sum_exp(&all);
                counted += 1.0;
            }
        }
        assert!(counted < 60.0);
        let want: f64 = sum / counted;
        assert!((point.score.log_likelihood - want).abs() < 1e-10 * want.abs().max(1.0));
    }
}

#[test]
fn a_regressor_selects_the_bandwidth_with_the_smallest_leave_one_out_error() {
    let (x, labels) = data::clusters(70, 2, 3, 1.0, 5);
    let y: Vec<f64> = labels.iter().map(|&l| (l * l) as f64).collect();
    let rule = BandwidthRule::LeaveOneOut { criterion: SquaredError, points: 12 };
    let model = NuqRegressor::params().n_neighbors(K).prior_weight(0.0).bandwidth(rule).fit(&x, &y).unwrap();
    let curve = model.bandwidth_curve().unwrap();
    let neighbors = leave_one_out(&x);
    for point in &curve.points {
        let mut error = 0.0;
        for (i, (sq, ids)) in neighbors.iter().enumerate() {
            let (mut sum, mut total) = (0.0, 0.0);
            for (s, &id) in sq.iter().zip(ids) {
                let weight = (-0.5 * (s - sq[0]) / point.bandwidth.powi(2)).exp();
                sum += weight * y[id];
                total += weight;
            }
            error += (y[i] - sum / total).powi(2) / 70.0;
        }
        assert!((point.score.squared_error / error - 1.0).abs() < 1e-12);
    }
    let least = curve.points.iter().map(|p| p.score.squared_error).fold(f64::INFINITY, f64::min);
    assert_eq!(curve.points[curve.chosen].score.squared_error, least);
}

#[test]
fn the_sample_has_the_requested_size_and_depends_on_the_seed() {
    let (x, y) = data::clusters(400, 2, 3, 1.0, 5);
    let fit = |rows: usize, seed: u64| {
        let model = NuqClassifier::params().selection_rows(rows).seed(seed).fit(&x, &y).unwrap();
        let curve = model.bandwidth_curve().unwrap().clone();
        (curve.rows, curve.points[5].score, model.density_bandwidth().unwrap())
    };
    assert_eq!(fit(150, 1).0, 150);
    assert_eq!(fit(150, 1), fit(150, 1));
    assert_ne!(fit(150, 1).2, fit(150, 2).2);
    assert_eq!(fit(10_000, 1), fit(10_000, 2), "a sample of all rows depends on the seed");
}

#[test]
fn the_paper_preset_is_algorithm_1() {
    let (x, y) = data::clusters(200, 4, 3, 1.0, 5);
    let (q, _) = data::clusters(40, 4, 3, 1.0, 6);
    let explicit = NuqClassifier::params()
        .prior_weight(0.0)
        .variance(Variance::Max)
        .bandwidth(Criterion::Accuracy)
        .density(Density::Kde { bandwidth: DensityBandwidth::Same })
        .scale(Scale::Ambient)
        .normalize(false);
    assert_eq!(NuqClassifier::paper(), explicit);
    let model = NuqClassifier::paper().fit(&x, &y).unwrap();
    let Bandwidth::Scalar(h) = *model.bandwidth() else { panic!("not a scalar bandwidth") };
    let predictions = model.predict(&q).unwrap();
    for (i, query) in data::to_rows(&q).iter().enumerate() {
        // Algorithm 1 line by line, without log space, because d is small.
        let kernel = |sq: f64| (-0.5 * sq / (h * h)).exp() / (2.0 * std::f64::consts::PI).powi(2);
        let near = oracle::by_distance(&data::to_rows(&x), query, &[1.0; 4]);
        let mut mass = [0.0; 3];
        near.iter().take(20).for_each(|&(sq, id)| mass[y[id] as usize] += kernel(sq));
        let total: f64 = mass.iter().sum();
        let eta = mass.map(|m| m / total);
        let density = total / (200.0 * h.powi(4));
        let roughness = (1.0 / (2.0 * std::f64::consts::PI.sqrt())).powi(4);
        let variance = eta.iter().map(|e| e * (1.0 - e)).fold(0.0, f64::max);
        let tau = (roughness * variance / (200.0 * h.powi(4) * density)).sqrt();
        let top = eta.iter().copied().fold(0.0, f64::max);
        let total = 1.0 - top + 2.0 * (2.0 / std::f64::consts::PI).sqrt() * tau;
        assert!((predictions[i].probability - top).abs() < 1e-12);
        assert!(
            (predictions[i].total() - total).abs() < 1e-7 * total.max(1e-3),
            "{} {total}",
            predictions[i].total()
        );
    }
}
