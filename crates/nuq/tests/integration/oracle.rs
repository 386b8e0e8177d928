//! Predictions against the slow reference formulas: every kernel × bandwidth kind × density × prior weight on the same
//! neighbors, for d = 1 to 2048, near the data and a million bandwidths away.

use nuq::bandwidth::BandwidthRule;
use nuq::{
    Bandwidth, Covariance, Density, DensityBandwidth, Embeddings, FittedModel, FittedScale, Kernel,
    NuqClassifier, NuqRegressor, Scale, Shrinkage, Variance,
};
use nuq_neighbors::SeededRng;
use nuq_testkit::{data, gaussians, oracle};

const KERNELS: [(Kernel, oracle::Kernel); 4] = [
    (Kernel::Gaussian, oracle::Kernel::Gaussian),
    (Kernel::Sigmoid, oracle::Kernel::Sigmoid),
    (Kernel::Logistic, oracle::Kernel::Logistic),
    (Kernel::Student, oracle::Kernel::Student),
];
const ROWS: usize = 60;
const CLASSES: usize = 4;
const K: usize = 12;

fn bandwidths(dim: usize) -> Vec<(Bandwidth, oracle::Bandwidth)> {
    let mut rng = SeededRng::new(5);
    // About the distance between neighbors, so that weights differ and do not underflow.
    let unit = 0.5 * (dim as f64).sqrt();
    let mut around = |n: usize| (0..n).map(|_| unit * (0.5 + rng.uniform())).collect::<Vec<f64>>();
    let (per_dimension, per_point) = (around(dim), around(ROWS));
    vec![
        (Bandwidth::Scalar(unit), oracle::Bandwidth::Scalar(unit)),
        (Bandwidth::PerDimension(per_dimension.clone()), oracle::Bandwidth::PerDimension(per_dimension)),
        (Bandwidth::PerPoint(per_point.clone()), oracle::Bandwidth::PerPoint(per_point)),
    ]
}

fn gaussian_density(shape: gaussians::Shape, shrinkage: Option<f64>) -> Density {
    Density::Gmm {
        covariance: match shape {
            gaussians::Shape::Full => Covariance::Full,
            gaussians::Shape::Tied => Covariance::Tied,
            gaussians::Shape::Diagonal => Covariance::Diagonal,
        },
        shrinkage: shrinkage.map_or(Shrinkage::LedoitWolf, Shrinkage::Fixed),
        scale_free: false,
    }
}

/// Queries among the data, at a training row, and far away.
fn queries(x: &Embeddings<'_>, dim: usize) -> Embeddings<'static> {
    let (near, _) = data::clusters(6, dim, CLASSES, 1.0, 21);
    let on_a_point = x.row(3);
    let far: Vec<f32> = data::normal(2, dim, 22).as_slice().iter().map(|v| v * 1e6).collect();
    Embeddings::new([near.as_slice(), on_a_point, &far].concat(), dim).unwrap()
}

/// Compares two numbers that are given by their logarithms. `exponent` is the magnitude of terms that were subtracted
/// in the exponent: sums over up to 2048 coordinates (product kernels), ratios to different bandwidths (one per row), or
/// the logarithms of the Student kernel. The rounding error of these terms remains if they cancel. `exponent` is zero for
/// the Gaussian kernel if all rows have the same bandwidth. The logarithms are up to 1e14 in magnitude and accurate except
/// for their last two or three digits.
fn assert_close(got: f64, want: f64, exponent: f64, what: &str) {
    if got == want {
        return;
    }
    let tolerance = 1e-10 + 5e-14 * want.abs() + 1e-14 * exponent;
    assert!((got - want).abs() <= tolerance, "{what}: got {got}, want {want}");
}

/// `n̄` and `ln p̄` of a model.
fn effective(scale: FittedScale) -> Option<(f64, f64)> {
    match scale {
        FittedScale::Effective { sample_size, log_density } => Some((sample_size, log_density)),
        FittedScale::Intrinsic | FittedScale::Ambient => None,
    }
}

struct Case<'c> {
    params: nuq::Params<nuq::Classification>,
    x: &'c Embeddings<'c>,
    labels: &'c [i64],
    queries: &'c Embeddings<'c>,
    kernel: oracle::Kernel,
    bandwidth: &'c oracle::Bandwidth,
    prior_weight: f64,
    /// The expected density of a query, given the number of the query and the fitted bandwidth of the density.
    density: &'c dyn Fn(usize, Option<f64>) -> oracle::Density,
    name: String,
}

fn check_classifier(case: Case<'_>) {
    let Case { params, x, labels, queries, kernel, bandwidth, prior_weight, density, name } = case;
    let y: Vec<usize> = labels.iter().map(|&l| l as usize).collect();
    let (rows, query_rows) = (data::to_rows(x), data::to_rows(queries));
    let [sum, max] =
        [Variance::Sum, Variance::Max].map(|v| params.clone().variance(v).fit(x, labels).unwrap());
    let predictions = sum.predict(queries).unwrap();
    let largest = max.predict(queries).unwrap();
    let eta = sum.predict_proba(queries).unwrap();
    for (i, q) in query_rows.iter().enumerate() {
        let model = oracle::Model {
            x: &rows,
            kernel,
            bandwidth: bandwidth.clone(),
            density: density(i, sum.density_bandwidth()),
            dimension: sum.dimension(),
            effective: effective(sum.scale()),
            prior_weight,
        };
        let ids: Vec<usize> = predictions.neighbors().ids(i).iter().map(|&id| id as usize).collect();
        let expected = model.classify(&y, CLASSES, q, &ids, predictions.neighbors().sq_distances(i));
        let name = format!("{name}, query {i}");
        let close = |got: f64, want: f64, what: &str| {
            assert_close(got, want, expected.exponent, &format!("{name}: {what}"));
        };
        for (class, &log_eta) in expected.log_eta.iter().enumerate() {
            close(eta.row(i)[class].max(1e-300).ln(), log_eta.max(1e-300f64.ln()), "probability");
        }
        assert_eq!(predictions[i].class, expected.class, "{name}");
        close(
            predictions[i].aleatoric.max(1e-300).ln(),
            expected.log_aleatoric.max(1e-300f64.ln()),
            "aleatoric",
        );
        close(predictions[i].log_density, expected.log_density, "density");
        close(predictions[i].log_epistemic, expected.log_epistemic_sum, "epistemic (sum)");
        close(predictions[i].log_total, expected.log_total_sum, "total");
        close(largest[i].log_epistemic, expected.log_epistemic_max, "epistemic (max)");
        assert!(predictions[i].log_density.is_finite(), "{name}: the log density is not finite");
        if prior_weight > 0.0 {
            assert!(
                predictions[i].log_epistemic.is_finite() && predictions[i].log_total.is_finite(),
                "{name}: a logarithm is not finite"
            );
        }
    }
}

#[test]
fn classifiers_with_kernel_densities_match_the_oracle() {
    for dim in [1, 2, 7, 64, 2048] {
        let (x, labels) = data::clusters(ROWS, dim, CLASSES, 1.0, 20);
        let queries = queries(&x, dim);
        for (kernel, oracle_kernel) in KERNELS {
            for (bandwidth, oracle_bandwidth) in &bandwidths(dim) {
                for prior_weight in [0.0, 1e-3, 1.0] {
                    for scale in [Scale::Effective, Scale::Intrinsic, Scale::Ambient] {
                        if scale == Scale::Intrinsic && !kernel.is_radial() {
                            continue;
                        }
                        for density in [
                            DensityBandwidth::Same,
                            DensityBandwidth::HalfMedian,
                            DensityBandwidth::Fixed(0.8),
                        ] {
                            check_classifier(Case {
                                params: NuqClassifier::params()
                                    .n_neighbors(K)
                                    .kernel(kernel)
                                    .bandwidth(bandwidth.clone())
                                    .prior_weight(prior_weight)
                                    .scale(scale)
                                    .density(Density::Kde { bandwidth: density }),
                                x: &x,
                                labels: &labels,
                                queries: &queries,
                                kernel: oracle_kernel,
                                bandwidth: oracle_bandwidth,
                                prior_weight,
                                density: &|_, own| own.map_or(oracle::Density::Same, oracle::Density::Own),
                                name: format!("{kernel:?} {density:?} w={prior_weight} d={dim} {scale}"),
                            });
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn classifiers_with_class_gaussians_match_the_oracle() {
    use gaussians::Shape;
    for dim in [1, 3, 40, 300] {
        let (x, labels) = data::clusters(ROWS, dim, CLASSES, 1.0, 20);
        let y: Vec<usize> = labels.iter().map(|&l| l as usize).collect();
        let queries = queries(&x, dim);
        for shape in [Shape::Full, Shape::Tied, Shape::Diagonal] {
            for shrinkage in [None, Some(0.1), Some(1.0)] {
                let log_densities = gaussians::log_density(
                    &data::to_rows(&x),
                    &y,
                    CLASSES,
                    shape,
                    shrinkage,
                    &data::to_rows(&queries),
                );
                for (kernel, oracle_kernel) in KERNELS {
                    for (bandwidth, oracle_bandwidth) in &bandwidths(dim) {
                        for prior_weight in [0.0, 1e-3] {
                            check_classifier(Case {
                                params: NuqClassifier::params()
                                    .n_neighbors(K)
                                    .kernel(kernel)
                                    .bandwidth(bandwidth.clone())
                                    .prior_weight(prior_weight)
                                    .scale(Scale::Ambient)
                                    .density(gaussian_density(shape, shrinkage)),
                                x: &x,
                                labels: &labels,
                                queries: &queries,
                                kernel: oracle_kernel,
                                bandwidth: oracle_bandwidth,
                                prior_weight,
                                density: &|i, _| oracle::Density::Given(log_densities[i]),
                                name: format!("{kernel:?} {shape:?} {shrinkage:?} w={prior_weight} d={dim}"),
                            });
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn class_gaussians_in_2048_dimensions_match_the_oracle() {
    use gaussians::Shape;
    let (rows, dim) = (12, 2048);
    let (x, labels) = data::clusters(rows, dim, 2, 0.2, 3);
    let y: Vec<usize> = labels.iter().map(|&l| l as usize).collect();
    let queries = data::clusters(3, dim, 2, 0.2, 4).0;
    for (shape, covariance) in [(Shape::Full, Covariance::Full), (Shape::Tied, Covariance::Tied)] {
        let want =
            gaussians::log_density(&data::to_rows(&x), &y, 2, shape, Some(0.05), &data::to_rows(&queries));
        let fitted = nuq::ClassGaussians::fit(&x, &labels, covariance, Shrinkage::Fixed(0.05)).unwrap();
        for (got, want) in fitted.log_density(&queries).unwrap().iter().zip(want) {
            assert!((got / want - 1.0).abs() < 1e-10, "{covariance:?}: {got} {want}");
        }
    }
}

#[test]
fn regressors_with_every_kernel_and_bandwidth_match_the_oracle() {
    for dim in [1, 5, 64, 2048] {
        let (x, labels) = data::clusters(ROWS, dim, CLASSES, 1.0, 20);
        let queries = queries(&x, dim);
        let mut rng = SeededRng::new(8);
        let y: Vec<f64> = labels.iter().map(|&l| l as f64 + rng.normal()).collect();
        let (rows, query_rows) = (data::to_rows(&x), data::to_rows(&queries));
        for (kernel, oracle_kernel) in KERNELS {
            for (bandwidth, oracle_bandwidth) in &bandwidths(dim) {
                for prior_weight in [0.0, 1e-3, 1.0] {
                    let model = NuqRegressor::params()
                        .n_neighbors(K)
                        .kernel(kernel)
                        .bandwidth(bandwidth.clone())
                        .prior_weight(prior_weight)
                        .fit(&x, &y)
                        .unwrap();
                    let estimates = model.predict(&queries).unwrap();
                    for (i, q) in query_rows.iter().enumerate() {
                        let textbook = oracle::Model {
                            x: &rows,
                            kernel: oracle_kernel,
                            bandwidth: oracle_bandwidth.clone(),
                            density: oracle::Density::Own(model.density_bandwidth().unwrap()),
                            dimension: model.dimension(),
                            effective: effective(model.scale()),
                            prior_weight,
                        };
                        let ids: Vec<usize> =
                            estimates.neighbors().ids(i).iter().map(|&id| id as usize).collect();
                        let sq = estimates.neighbors().sq_distances(i);
                        let expected = textbook.regress(&y, q, &ids, sq);
                        let name = format!("{kernel:?} w={prior_weight} d={dim} query {i}");
                        let exponent = expected.exponent;
                        let error = (estimates[i].mean - expected.mean).abs();
                        assert!(error < 1e-10 + 1e-13 * exponent, "{name}: mean off by {error}");
                        assert_close(estimates[i].log_aleatoric, expected.log_aleatoric, exponent, &name);
                        assert_close(estimates[i].log_epistemic, expected.log_epistemic, exponent, &name);
                    }
                }
            }
        }
    }
}

/// The scores of the curve equal scores that are computed from the reference posterior without the left-out row.
#[test]
fn the_selection_curve_matches_leave_one_out_with_the_oracle() {
    let (x, labels) = data::clusters(80, 3, 3, 1.5, 2);
    let y: Vec<usize> = labels.iter().map(|&l| l as usize).collect();
    let rows = data::to_rows(&x);
    for (kernel, oracle_kernel) in KERNELS {
        let rule = BandwidthRule::LeaveOneOut { criterion: nuq::Criterion::LogLikelihood, points: 9 };
        let model =
            NuqClassifier::params().n_neighbors(K).kernel(kernel).bandwidth(rule).fit(&x, &labels).unwrap();
        let curve = model.bandwidth_curve().unwrap();
        for point in &curve.points {
            let (mut right, mut log_likelihood) = (0.0, 0.0);
            for (i, row) in rows.iter().enumerate() {
                let others: Vec<(f64, usize)> = oracle::by_distance(&rows, row, &[1.0; 3])
                    .into_iter()
                    .filter(|&(_, id)| id != i)
                    .take(K)
                    .collect();
                let (sq, ids): (Vec<f64>, Vec<usize>) = others.into_iter().unzip();
                let textbook = oracle::Model {
                    x: &rows,
                    kernel: oracle_kernel,
                    bandwidth: oracle::Bandwidth::Scalar(point.bandwidth),
                    density: oracle::Density::Same,
                    dimension: 3.0,
                    effective: None,
                    prior_weight: 1e-3,
                };
                let expected = textbook.classify(&y, 3, row, &ids, &sq);
                right += f64::from(u8::from(expected.class == y[i]));
                log_likelihood += expected.log_eta[y[i]];
            }
            assert!((point.score.accuracy - right / 80.0).abs() < 1e-12, "{kernel:?}");
            assert!((point.score.log_likelihood / (log_likelihood / 80.0) - 1.0).abs() < 1e-10, "{kernel:?}");
        }
        let best = curve.points.iter().map(|p| p.score.log_likelihood).fold(f64::NEG_INFINITY, f64::max);
        assert_eq!(curve.points[curve.chosen].score.log_likelihood, best);
        // The ends of the grid are computed from the 1 % quantile of the nearest distances and the 99 % quantile of the
        // K-th distances.
        let quantile = |rank: usize, share: f64| {
            let distance = |(i, row): (usize, &Vec<f64>)| {
                let others = oracle::by_distance(&rows, row, &[1.0; 3]);
                others.into_iter().filter(|&(_, id)| id != i).nth(rank).unwrap().0.sqrt()
            };
            let mut distances: Vec<f64> = rows.iter().enumerate().map(distance).collect();
            distances.sort_by(f64::total_cmp);
            distances[(share * 79.0f64).round() as usize]
        };
        let (low, high) = (quantile(0, 0.01) / (2.0 * 1e3f64.ln()).sqrt(), 2.0 * quantile(K - 1, 0.99));
        assert!((curve.points[0].bandwidth / low - 1.0).abs() < 1e-12);
        assert!((curve.points.last().unwrap().bandwidth / high - 1.0).abs() < 1e-12);
        // Nine points of the grid and four finer ones on each side of the best.
        assert_eq!(curve.points.len(), if curve.chosen == 0 || curve.is_at_upper_edge() { 13 } else { 17 });
    }
}

/// `n̄` and `ln p̄` are medians over left-out rows.
#[test]
fn the_effective_scale_matches_leave_one_out_with_the_oracle() {
    let dim = 3;
    let (x, labels) = data::clusters(ROWS, dim, CLASSES, 1.0, 20);
    let rows = data::to_rows(&x);
    for (kernel, oracle_kernel) in KERNELS {
        for (bandwidth, oracle_bandwidth) in &bandwidths(dim) {
            for density in [DensityBandwidth::Same, DensityBandwidth::HalfMedian] {
                let model = NuqClassifier::params()
                    .n_neighbors(K)
                    .kernel(kernel)
                    .bandwidth(bandwidth.clone())
                    .density(Density::Kde { bandwidth: density })
                    .fit(&x, &labels)
                    .unwrap();
                let scale = match oracle_bandwidth {
                    oracle::Bandwidth::PerDimension(scale) => scale.clone(),
                    _ => vec![1.0; dim],
                };
                let definition = oracle::Model {
                    x: &rows,
                    kernel: oracle_kernel,
                    bandwidth: oracle_bandwidth.clone(),
                    density: model.density_bandwidth().map_or(oracle::Density::Same, oracle::Density::Own),
                    dimension: model.dimension(),
                    effective: None,
                    prior_weight: 1e-3,
                };
                let (mut sizes, mut log_densities): (Vec<f64>, Vec<f64>) = (0..ROWS)
                    .map(|i| {
                        let others = oracle::by_distance(&rows, &rows[i], &scale);
                        let others = others.into_iter().filter(|&(_, id)| id != i).take(K);
                        let (sq, ids): (Vec<f64>, Vec<usize>) = others.unzip();
                        definition.effective_sample(&rows[i], &ids, &sq)
                    })
                    .unzip();
                let median = |values: &mut Vec<f64>| {
                    values.sort_by(f64::total_cmp);
                    0.5 * (values[ROWS / 2 - 1] + values[ROWS / 2])
                };
                let (size, log_density) = effective(model.scale()).unwrap();
                let name = format!("{kernel} {} {density}", bandwidth.name());
                assert!((size - median(&mut sizes)).abs() < 1e-9, "{name}: sample size {size}");
                assert!((log_density - median(&mut log_densities)).abs() < 1e-9, "{name}: {log_density}");
            }
        }
    }
}
