//! What calibrated decisions promise, over two thousand simulated held-out sets. Margins are three standard errors of the
//! simulation.

use nuq::calibrate::{Measure, Target, benjamini_hochberg, calibrate, conformal_p_values, selective_risk};
use nuq::nuq_neighbors::SeededRng;
use nuq_eval::metrics::{Detection, Selective, average_precision, fpr_at_tpr, rcc_auc, roc_auc, scod_risk};

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
        let nuq::calibrate::Guarantee::Coverage { low, high, .. } = threshold.guarantee else {
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

/// Everything that is read off an order, for scores of 60 rows, those of 45 outliers, and whether the 60 are wrong.
fn read_off_the_order(inliers: &[f64], outliers: &[f64], wrong: &[bool]) -> Vec<f64> {
    let found = Detection::new(inliers, outliers).unwrap();
    let own = Selective::new(inliers, wrong).unwrap();
    let mut all = vec![
        found.roc_auc(),
        found.average_precision(),
        found.average_precision_of_inliers(),
        found.detection_error(),
        own.rcc_auc(),
        own.prediction_rejection_ratio().unwrap(),
    ];
    for share in [0.01, 0.2, 0.5, 0.95, 1.0] {
        all.extend([found.fpr_at_tpr(share), own.risk_at(share)]);
        all.push(scod_risk(inliers, wrong, outliers, share).unwrap());
    }
    all.extend(found.curve().into_iter().flat_map(|(fpr, tpr)| [fpr, tpr]));
    all.extend(found.count_curve().into_iter().chain(own.curve()));
    all
}

#[test]
fn order_alone_decides() {
    let mut rng = SeededRng::new(10);
    for round in 0..40 {
        let mut score = |shift: f64| {
            let z = rng.normal() + shift;
            if round % 2 == 0 { (2.0 * z).round() } else { z }
        };
        let inliers: Vec<f64> = (0..60).map(|_| score(0.0)).collect();
        let outliers: Vec<f64> = (0..45).map(|_| score(1.0)).collect();
        let wrong: Vec<bool> = (0..60).map(|i| (i * 7 + round) % 5 == 0).collect();
        let all = read_off_the_order(&inliers, &outliers, &wrong);
        // A map that rises changes nothing, not even one that takes the highest to infinity.
        let highest = inliers.iter().chain(&outliers).copied().fold(f64::NEG_INFINITY, f64::max);
        let maps: [&dyn Fn(f64) -> f64; 3] = [&|s| (3.0 * s).exp(), &|s| s / (1.0 + s.abs()), &|s| {
            if s == highest { f64::INFINITY } else { s }
        }];
        for map in maps {
            let warp = |scores: &[f64]| -> Vec<f64> { scores.iter().map(|s| map(*s)).collect() };
            assert_eq!(read_off_the_order(&warp(&inliers), &warp(&outliers), &wrong), all);
        }
        // Neither does the order of rows.
        let turned = |scores: &[f64]| -> Vec<f64> { scores.iter().rev().copied().collect() };
        let wrong_turned: Vec<bool> = wrong.iter().rev().copied().collect();
        assert_eq!(read_off_the_order(&turned(&inliers), &turned(&outliers), &wrong_turned), all);
    }
}

#[test]
fn bounds_of_what_is_withheld() {
    let mut rng = SeededRng::new(11);
    for round in 0..40 {
        let uncertainty: Vec<f64> = (0..50).map(|_| (rng.normal() * f64::from(1 + round)).round()).collect();
        let wrong: Vec<bool> = (0..50).map(|_| rng.uniform() < 0.3).collect();
        let own = Selective::new(&uncertainty, &wrong).unwrap();
        assert_eq!(own.risk_at(1.0), own.error_rate());
        // The order that knows the errors is best, and the one that is wrong about all of them worst.
        let knowing: Vec<f64> = wrong.iter().map(|wrong| f64::from(u8::from(*wrong))).collect();
        let mistaken: Vec<f64> = knowing.iter().map(|known| -known).collect();
        let (best, worst) = (rcc_auc(&knowing, &wrong).unwrap(), rcc_auc(&mistaken, &wrong).unwrap());
        assert!(best <= own.rcc_auc() + 1e-12 && own.rcc_auc() <= worst + 1e-12);
        let own_best: f64 = own.best_curve().iter().sum::<f64>() / 50.0;
        assert!((own_best - best).abs() < 1e-12);
        let ratio = own.prediction_rejection_ratio().unwrap();
        assert!((-1.0 - 1e-12..=1.0 + 1e-12).contains(&ratio), "{ratio}");
        let share = |flags: &[bool]| flags.iter().filter(|wrong| **wrong).count() as f64;
        // Everything accepted: all errors and all outliers.
        let everything = scod_risk(&uncertainty, &wrong, &[0.0; 25], 1.0).unwrap();
        assert!((everything - (share(&wrong) + 25.0) / 75.0).abs() < 1e-12);
    }
}

#[test]
fn a_coverage_that_is_no_number_keeps_one_row() {
    let own = Selective::new(&[0.1, 0.2], &[false, true]).unwrap();
    for coverage in [f64::NAN, -1.0, 0.0] {
        assert_eq!(own.risk_at(coverage), 0.0);
    }
}
