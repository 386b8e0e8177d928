//! Verifies the guarantees of calibrated decisions on 2000 simulated held-out sets, and compares metrics with their
//! definitions. Margins are three standard errors of the simulation.

use nuq::calibrate::{Measure, Target, benjamini_hochberg, calibrate, conformal_p_values, selective_risk};
use nuq::nuq_neighbors::SeededRng;
use nuq_eval::metrics::{Detection, Selective, average_precision, fpr_at_tpr, rcc_auc, roc_auc, scod_risk};

const SETS: usize = 2000;

fn margin(share: f64) -> f64 {
    3.0 * (share * (1.0 - share) / SETS as f64).sqrt()
}

/// Uncertainties u that are uniform in [0, 1], and errors with probability 0.3 u. The predictions with u ≤ t then have
/// the risk 0.15 t.
fn predictions(rng: &mut SeededRng, n: usize) -> (Vec<f64>, Vec<bool>) {
    (0..n)
        .map(|_| {
            let u = rng.uniform();
            (u, rng.uniform() < 0.3 * u)
        })
        .unzip()
}

#[test]
fn the_risk_bound_holds_with_its_confidence() {
    let (risk, delta) = (0.1, 0.1);
    let mut rng = SeededRng::new(5);
    let (mut violations, mut accepted) = (0, 0.0);
    for _ in 0..SETS {
        let (uncertainty, is_error) = predictions(&mut rng, 1000);
        let threshold =
            selective_risk(&uncertainty, &is_error, risk, delta).unwrap().map_or(0.0, |r| r.value.min(1.0));
        violations += usize::from(0.15 * threshold > risk);
        accepted += threshold / SETS as f64;
    }
    let violations = violations as f64 / SETS as f64;
    assert!(violations <= delta + margin(delta), "{violations}");
    // The optimal threshold accepts 2/3 of the predictions.
    assert!(accepted > 0.4, "{accepted}");
}

#[test]
fn coverage_holds_on_average_and_its_interval_has_nominal_coverage() {
    let mut rng = SeededRng::new(6);
    let (mut mean, mut within) = (0.0, 0);
    for _ in 0..SETS {
        let scores: Vec<f64> = (0..199).map(|_| rng.uniform()).collect();
        let threshold = calibrate(Measure::Total, &scores, None, Target::FalseAlarm(0.05)).unwrap();
        let nuq::calibrate::Guarantee::Coverage { low, high, .. } = threshold.score.guarantee else {
            panic!("a target of false alarms has a guarantee of coverage")
        };
        // The distribution function of uniform scores is the identity, so the coverage of a threshold equals its value.
        mean += threshold.score.value / SETS as f64;
        within += usize::from((low..=high).contains(&threshold.score.value));
    }
    let deviation = (0.05f64 * 0.95 / 200.0 / SETS as f64).sqrt();
    assert!((mean - 0.95).abs() < 3.0 * deviation, "{mean}");
    let within = within as f64 / SETS as f64;
    assert!((within - 0.95).abs() < margin(0.95), "{within}");
}

#[test]
fn the_false_discovery_rate_is_bounded() {
    let (level, mut rng, mut false_share, mut power) = (0.2, SeededRng::new(7), 0.0, 0.0);
    for _ in 0..SETS {
        let calibration: Vec<f64> = (0..200).map(|_| rng.normal()).collect();
        let scores: Vec<f64> = (0..50).map(|i| rng.normal() + if i < 10 { 4.0 } else { 0.0 }).collect();
        let alarms = benjamini_hochberg(&conformal_p_values(&calibration, &scores).unwrap(), level).unwrap();
        let (all, wrong) =
            (alarms.iter().filter(|a| **a).count(), alarms[10..].iter().filter(|a| **a).count());
        false_share += wrong as f64 / all.max(1) as f64 / SETS as f64;
        power += (all - wrong) as f64 / 10.0 / SETS as f64;
    }
    // The procedure bounds the rate by the level times the share of inliers, which is 40 / 50.
    assert!(false_share <= level * 0.8 + margin(level), "{false_share}");
    assert!(power > 0.8, "{power}");
}

/// Computes the definitions by loops over pairs and thresholds.
#[test]
fn metrics_equal_their_definitions() {
    let (mut rng, mut shuffle) = (SeededRng::new(8), SeededRng::new(9));
    for round in 0..40 {
        // Even rounds have few distinct values, and therefore many ties.
        let mut score = |shift: f64| {
            let z = rng.normal() + shift;
            if round % 2 == 0 { (2.0 * z).round() } else { z }
        };
        let inliers: Vec<f64> = (0..60).map(|_| score(0.0)).collect();
        let outliers: Vec<f64> = (0..45).map(|_| score(1.0)).collect();
        let mut ordered_pairs = 0.0;
        for a in &inliers {
            for b in &outliers {
                ordered_pairs += if b > a {
                    1.0
                } else if a == b {
                    0.5
                } else {
                    0.0
                };
            }
        }
        let auc = roc_auc(&inliers, &outliers).unwrap();
        assert!((auc - ordered_pairs / (60.0 * 45.0)).abs() < 1e-12);
        let minus = |scores: &[f64]| -> Vec<f64> { scores.iter().map(|s| -s).collect() };
        assert!((roc_auc(&minus(&inliers), &minus(&outliers)).unwrap() - (1.0 - auc)).abs() < 1e-12);
        let warp = |scores: &[f64]| -> Vec<f64> { scores.iter().map(|s| (0.3 * s).exp()).collect() };
        assert_eq!(roc_auc(&warp(&inliers), &warp(&outliers)).unwrap(), auc);

        let above = |scores: &[f64], t: f64| scores.iter().filter(|s| **s >= t).count() as f64;
        let mut thresholds = [&inliers[..], &outliers].concat();
        thresholds.sort_by(|a, b| b.total_cmp(a));
        thresholds.dedup();
        let (mut precision, mut before) = (0.0, 0.0);
        for &t in &thresholds {
            let true_positives = above(&outliers, t);
            precision +=
                (true_positives - before) / 45.0 * true_positives / (true_positives + above(&inliers, t));
            before = true_positives;
        }
        assert!((average_precision(&inliers, &outliers).unwrap() - precision).abs() < 1e-12);
        let reached = thresholds.iter().find(|&&t| above(&outliers, t) / 45.0 >= 0.95).unwrap();
        assert_eq!(fpr_at_tpr(&inliers, &outliers, 0.95).unwrap(), above(&inliers, *reached) / 60.0);

        let wrong: Vec<bool> = (0..60).map(|i| (i * 7 + round) % 5 == 0).collect();
        let area = rcc_auc(&inliers, &wrong).unwrap();
        let optimal_scores: Vec<f64> = wrong.iter().map(|w| f64::from(u8::from(*w))).collect();
        let best = rcc_auc(&optimal_scores, &wrong).unwrap();
        assert!(best <= area + 1e-12);
        // `mean_area` is the mean area over random orders of the rows with equal scores.
        let orders = if round % 2 == 0 { 2000 } else { 1 };
        let mut mean_area = 0.0;
        for _ in 0..orders {
            let mut rows: Vec<usize> = (0..60).collect();
            (1..60).rev().for_each(|i| rows.swap(i, shuffle.below(i + 1)));
            rows.sort_by(|&a, &b| inliers[a].total_cmp(&inliers[b]));
            let mut errors = 0.0;
            for (k, &row) in rows.iter().enumerate() {
                errors += f64::from(u8::from(wrong[row]));
                mean_area += errors / (k + 1) as f64 / 60.0 / f64::from(orders);
            }
        }
        assert!((area - mean_area).abs() < if round % 2 == 0 { 0.01 } else { 1e-12 }, "{area} {mean_area}");
    }
}

/// All metrics that depend on the order of scores only, for inlier scores, outlier scores and errors of the inliers.
fn rank_metrics(inliers: &[f64], outliers: &[f64], wrong: &[bool]) -> Vec<f64> {
    let detection = Detection::new(inliers, outliers).unwrap();
    let selective = Selective::new(inliers, wrong).unwrap();
    let mut all = vec![
        detection.roc_auc(),
        detection.average_precision(),
        detection.average_precision_of_inliers(),
        detection.detection_error(),
        selective.rcc_auc(),
        selective.prediction_rejection_ratio().unwrap(),
    ];
    for share in [0.01, 0.2, 0.5, 0.95, 1.0] {
        all.extend([detection.fpr_at_tpr(share), selective.risk_at(share)]);
        all.push(scod_risk(inliers, wrong, outliers, share).unwrap());
    }
    all.extend(detection.curve().into_iter().flat_map(|(fpr, tpr)| [fpr, tpr]));
    all.extend(detection.count_curve().into_iter().chain(selective.curve()));
    all
}

#[test]
fn metrics_depend_only_on_the_order_of_scores() {
    let mut rng = SeededRng::new(10);
    for round in 0..40 {
        let mut score = |shift: f64| {
            let z = rng.normal() + shift;
            if round % 2 == 0 { (2.0 * z).round() } else { z }
        };
        let inliers: Vec<f64> = (0..60).map(|_| score(0.0)).collect();
        let outliers: Vec<f64> = (0..45).map(|_| score(1.0)).collect();
        let wrong: Vec<bool> = (0..60).map(|i| (i * 7 + round) % 5 == 0).collect();
        let all = rank_metrics(&inliers, &outliers, &wrong);
        // Increasing functions do not change the metrics, even if the highest score becomes infinite.
        let highest = inliers.iter().chain(&outliers).copied().fold(f64::NEG_INFINITY, f64::max);
        let maps: [&dyn Fn(f64) -> f64; 3] = [&|s| (3.0 * s).exp(), &|s| s / (1.0 + s.abs()), &|s| {
            if s == highest { f64::INFINITY } else { s }
        }];
        for map in maps {
            let warp = |scores: &[f64]| -> Vec<f64> { scores.iter().map(|s| map(*s)).collect() };
            assert_eq!(rank_metrics(&warp(&inliers), &warp(&outliers), &wrong), all);
        }
        // The order of rows does not change the metrics.
        let reversed = |scores: &[f64]| -> Vec<f64> { scores.iter().rev().copied().collect() };
        let wrong_reversed: Vec<bool> = wrong.iter().rev().copied().collect();
        assert_eq!(rank_metrics(&reversed(&inliers), &reversed(&outliers), &wrong_reversed), all);
    }
}

#[test]
fn selective_metrics_are_within_their_bounds() {
    let mut rng = SeededRng::new(11);
    for round in 0..40 {
        let uncertainty: Vec<f64> = (0..50).map(|_| (rng.normal() * f64::from(1 + round)).round()).collect();
        let wrong: Vec<bool> = (0..50).map(|_| rng.uniform() < 0.3).collect();
        let selective = Selective::new(&uncertainty, &wrong).unwrap();
        assert_eq!(selective.risk_at(1.0), selective.error_rate());
        // The best order has all errors last, the worst order has all errors first.
        let errors_last: Vec<f64> = wrong.iter().map(|wrong| f64::from(u8::from(*wrong))).collect();
        let errors_first: Vec<f64> = errors_last.iter().map(|score| -score).collect();
        let (best, worst) = (rcc_auc(&errors_last, &wrong).unwrap(), rcc_auc(&errors_first, &wrong).unwrap());
        assert!(best <= selective.rcc_auc() + 1e-12 && selective.rcc_auc() <= worst + 1e-12);
        let curve_mean: f64 = selective.best_curve().iter().sum::<f64>() / 50.0;
        assert!((curve_mean - best).abs() < 1e-12);
        let ratio = selective.prediction_rejection_ratio().unwrap();
        assert!((-1.0 - 1e-12..=1.0 + 1e-12).contains(&ratio), "{ratio}");
        let count = |flags: &[bool]| flags.iter().filter(|wrong| **wrong).count() as f64;
        // At full coverage, all errors and all outliers are accepted.
        let risk = scod_risk(&uncertainty, &wrong, &[0.0; 25], 1.0).unwrap();
        assert!((risk - (count(&wrong) + 25.0) / 75.0).abs() < 1e-12);
    }
}

#[test]
fn invalid_coverages_accept_one_row() {
    let selective = Selective::new(&[0.1, 0.2], &[false, true]).unwrap();
    for coverage in [f64::NAN, -1.0, 0.0] {
        assert_eq!(selective.risk_at(coverage), 0.0);
    }
}
