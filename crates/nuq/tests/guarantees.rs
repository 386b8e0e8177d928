//! What calibrated decisions promise, over two thousand simulated held-out sets. Margins are three standard errors of the
//! simulation.

use nuq::calibrate::{Measure, Target, benjamini_hochberg, calibrate, conformal_p_values, selective_risk};
use nuq::metrics::{average_precision, fpr_at_tpr, rcc_auc, roc_auc};
use nuq::nuq_neighbors::SeededRng;

const SETS: usize = 2000;

fn margin(share: f64) -> f64 {
    3.0 * (share * (1.0 - share) / SETS as f64).sqrt()
}

/// Uncertainty uniform in [0, 1], and an error with probability 0.3 u: accepting u ≤ t has the risk 0.15 t.
fn predictions(rng: &mut SeededRng, n: usize) -> (Vec<f64>, Vec<bool>) {
    (0..n)
        .map(|_| {
            let u = rng.uniform();
            (u, rng.uniform() < 0.3 * u)
        })
        .unzip()
}

#[test]
fn the_risk_is_kept_as_often_as_promised_and_much_is_accepted() {
    let (risk, delta) = (0.1, 0.1);
    let mut rng = SeededRng::new(5);
    let (mut broken, mut accepted) = (0, 0.0);
    for _ in 0..SETS {
        let (uncertainty, is_error) = predictions(&mut rng, 1000);
        let reach =
            selective_risk(&uncertainty, &is_error, risk, delta).unwrap().map_or(0.0, |r| r.value.min(1.0));
        broken += usize::from(0.15 * reach > risk);
        accepted += reach / SETS as f64;
    }
    let broken = broken as f64 / SETS as f64;
    assert!(broken <= delta + margin(delta), "{broken}");
    // The best threshold that knew the truth would accept 2/3.
    assert!(accepted > 0.4, "{accepted}");
}

#[test]
fn coverage_and_false_alarms_are_kept_on_average_and_within_their_interval() {
    let mut rng = SeededRng::new(6);
    let (mut mean, mut within) = (0.0, 0);
    for _ in 0..SETS {
        let scores: Vec<f64> = (0..199).map(|_| rng.uniform()).collect();
        let threshold = calibrate(Measure::Total, &scores, None, Target::FalseAlarm(0.05)).unwrap();
        let nuq::calibrate::Promise::Accepts { low, high, .. } = threshold.promise else {
            panic!("coverage")
        };
        // The score is its own distribution function.
        mean += threshold.value / SETS as f64;
        within += usize::from((low..=high).contains(&threshold.value));
    }
    let deviation = (0.05f64 * 0.95 / 200.0 / SETS as f64).sqrt();
    assert!((mean - 0.95).abs() < 3.0 * deviation, "{mean}");
    let within = within as f64 / SETS as f64;
    assert!((within - 0.95).abs() < margin(0.95), "{within}");
}

#[test]
fn among_the_alarms_of_a_batch_few_are_false() {
    let (level, mut rng, mut false_share, mut found) = (0.2, SeededRng::new(7), 0.0, 0.0);
    for _ in 0..SETS {
        let calibration: Vec<f64> = (0..200).map(|_| rng.normal()).collect();
        let scores: Vec<f64> = (0..50).map(|i| rng.normal() + if i < 10 { 4.0 } else { 0.0 }).collect();
        let alarms = benjamini_hochberg(&conformal_p_values(&calibration, &scores).unwrap(), level).unwrap();
        let (all, wrong) =
            (alarms.iter().filter(|a| **a).count(), alarms[10..].iter().filter(|a| **a).count());
        false_share += wrong as f64 / all.max(1) as f64 / SETS as f64;
        found += (all - wrong) as f64 / 10.0 / SETS as f64;
    }
    assert!(false_share <= level * 0.8 + margin(level), "{false_share}");
    assert!(found > 0.8, "{found}");
}

/// Slow definitions, pair by pair and threshold by threshold.
#[test]
fn metrics_are_their_definitions() {
    let (mut rng, mut shuffle) = (SeededRng::new(8), SeededRng::new(9));
    for round in 0..40 {
        // Few distinct values on even rounds: ties everywhere.
        let mut score = |shift: f64| {
            let z = rng.normal() + shift;
            if round % 2 == 0 { (2.0 * z).round() } else { z }
        };
        let inliers: Vec<f64> = (0..60).map(|_| score(0.0)).collect();
        let outliers: Vec<f64> = (0..45).map(|_| score(1.0)).collect();
        let mut won = 0.0;
        for a in &inliers {
            for b in &outliers {
                won += if b > a {
                    1.0
                } else if a == b {
                    0.5
                } else {
                    0.0
                };
            }
        }
        let auc = roc_auc(&inliers, &outliers).unwrap();
        assert!((auc - won / (60.0 * 45.0)).abs() < 1e-12);
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
            let found = above(&outliers, t);
            precision += (found - before) / 45.0 * found / (found + above(&inliers, t));
            before = found;
        }
        assert!((average_precision(&inliers, &outliers).unwrap() - precision).abs() < 1e-12);
        let reached = thresholds.iter().find(|&&t| above(&outliers, t) / 45.0 >= 0.95).unwrap();
        assert_eq!(fpr_at_tpr(&inliers, &outliers, 0.95).unwrap(), above(&inliers, *reached) / 60.0);

        let wrong: Vec<bool> = (0..60).map(|i| (i * 7 + round) % 5 == 0).collect();
        let area = rcc_auc(&inliers, &wrong).unwrap();
        let oracle: Vec<f64> = wrong.iter().map(|w| f64::from(u8::from(*w))).collect();
        let best = rcc_auc(&oracle, &wrong).unwrap();
        assert!(best <= area + 1e-12);
        // Ties in random order, on average.
        let orders = if round % 2 == 0 { 2000 } else { 1 };
        let mut slow = 0.0;
        for _ in 0..orders {
            let mut rows: Vec<usize> = (0..60).collect();
            (1..60).rev().for_each(|i| rows.swap(i, shuffle.below(i + 1)));
            rows.sort_by(|&a, &b| inliers[a].total_cmp(&inliers[b]));
            let mut errors = 0.0;
            for (k, &row) in rows.iter().enumerate() {
                errors += f64::from(u8::from(wrong[row]));
                slow += errors / (k + 1) as f64 / 60.0 / f64::from(orders);
            }
        }
        assert!((area - slow).abs() < if round % 2 == 0 { 0.01 } else { 1e-12 }, "{area} {slow}");
    }
}
