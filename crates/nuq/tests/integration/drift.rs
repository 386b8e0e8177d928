//! The drift monitor bets that p-values are not uniform, and raises an alarm if the wealth from these bets, which starts at 1, reaches
//! 1/α. Tests of its guarantee (without drift, the probability of an alarm is at most α), and comparison of the wealth with its definition.

use nuq::DriftMonitor;
use nuq::nuq_neighbors::SeededRng;

/// The wealth by its definition. A simple jumper divides its capital into three parts, which bet on small p-values, on large
/// p-values and on nothing. Before each row, 1 % of the capital is divided equally among the parts. For each `i`, a simple jumper
/// starts to bet at row `i` with the share `1/(i (i+1))` of the initial capital. The rest of the initial capital is in reserve.
fn wealth(p_values: &[f64]) -> f64 {
    let n = p_values.len();
    let jumper = |p_values: &[f64]| {
        let mut capital = [1.0 / 3.0; 3];
        for p in p_values {
            let total: f64 = capital.iter().sum();
            for (i, c) in capital.iter_mut().enumerate() {
                *c = (0.99 * *c + 0.01 * total / 3.0) * (1.0 + (i as f64 - 1.0) * (p - 0.5));
            }
        }
        capital.iter().sum::<f64>()
    };
    let started = (1..=n).map(|i| jumper(&p_values[i - 1..]) / (i * (i + 1)) as f64);
    started.sum::<f64>() + 1.0 / (n + 1) as f64
}

#[test]
fn the_wealth_equals_its_definition() {
    let mut rng = SeededRng::new(1);
    for seed in 0..5 {
        let held_out: Vec<f64> = (0..100).map(|_| rng.normal()).collect();
        let mut monitor = DriftMonitor::new(&held_out, 0.01, seed).unwrap();
        let mut p_values = vec![];
        for row in 0..300 {
            let shift = if row < 200 { 0.0 } else { 1.0 };
            p_values.push(monitor.update(shift + rng.normal()).unwrap());
            let expected = wealth(&p_values).ln();
            assert!((monitor.log_wealth() - expected).abs() < 1e-9, "row {row}: {}", monitor.log_wealth());
        }
    }
}

/// Exchangeable scores of several kinds: continuous, with many ties, and dependent through a common shift.
fn exchangeable(rng: &mut SeededRng, kind: usize) -> impl FnMut() -> f64 + '_ {
    let common = 10.0 * rng.normal();
    move || match kind {
        0 => rng.normal(),
        1 => rng.below(4) as f64,
        _ => common + rng.normal(),
    }
}

#[test]
fn the_share_of_false_alarms_is_at_most_alpha() {
    const ALPHA: f64 = 0.05;
    const RUNS: usize = 1500;
    let mut rng = SeededRng::new(2);
    for (kind, held_out, capacity) in [(0, 20, 20), (0, 100, 10_000), (1, 30, 60), (2, 50, 50)] {
        let mut alarms = 0;
        for seed in 0..RUNS {
            let mut score = exchangeable(&mut rng, kind);
            let scores: Vec<f64> = (0..held_out).map(|_| score()).collect();
            let mut monitor = DriftMonitor::with_capacity(&scores, ALPHA, seed as u64, capacity).unwrap();
            for _ in 0..600 {
                monitor.update(score()).unwrap();
            }
            alarms += usize::from(monitor.alarm().is_some());
        }
        // Four standard errors above the bound.
        let limit = ALPHA * RUNS as f64 + 4.0 * (ALPHA * (1.0 - ALPHA) * RUNS as f64).sqrt();
        assert!((alarms as f64) < limit, "kind {kind}: {alarms} of {RUNS}");
    }
}

#[test]
fn p_values_are_uniform_and_independent() {
    let mut rng = SeededRng::new(3);
    for (kind, capacity) in [(0, 8), (1, 8), (2, 40)] {
        let (mut bins, mut products, mut total) = ([0f64; 10], 0.0, 0.0);
        for seed in 0..3000u64 {
            let mut score = exchangeable(&mut rng, kind);
            let held_out: Vec<f64> = (0..8).map(|_| score()).collect();
            let mut monitor = DriftMonitor::with_capacity(&held_out, 0.01, seed, capacity).unwrap();
            let p_values: Vec<f64> = (0..20).map(|_| monitor.update(score()).unwrap()).collect();
            p_values.iter().for_each(|p| bins[(p * 10.0) as usize] += 1.0);
            // The square of the sum contains the products of all pairs. Its mean is n/12 for independent uniform numbers.
            products += p_values.iter().map(|p| p - 0.5).sum::<f64>().powi(2);
            total += 20.0;
        }
        let expected = total / 10.0;
        let chi_squared: f64 = bins.iter().map(|count| (count - expected).powi(2) / expected).sum();
        // The quantile of χ² with 9 degrees of freedom at 1 − 1e-5.
        assert!(chi_squared < 39.3, "kind {kind}: {bins:?}");
        // If X is nearly normal with mean 0, the variance of X² is twice the square of the mean of X².
        let (mean, error) = (products / 3000.0, 20.0 / 12.0 * (2.0f64 / 3000.0).sqrt());
        assert!((mean - 20.0 / 12.0).abs() < 5.0 * error, "kind {kind}: {mean}");
    }
}

/// With a fixed pool of held-out scores the guarantee would not hold. Therefore new scores are added to the pool.
#[test]
fn p_values_among_fixed_held_out_scores_raise_false_alarms() {
    let mut rng = SeededRng::new(4);
    let alarms = (0..100)
        .filter(|_| {
            let held_out: Vec<f64> = (0..20).map(|_| rng.uniform()).collect();
            let p_value = |rng: &mut SeededRng| {
                let score = rng.uniform();
                let above = held_out.iter().filter(|other| **other > score).count();
                (above as f64 + rng.uniform()) / 21.0
            };
            let p_values: Vec<f64> = (0..1000).map(|_| p_value(&mut rng)).collect();
            (100..=1000).step_by(300).any(|rows| wealth(&p_values[..rows]) > 100.0)
        })
        .count();
    assert!(alarms > 10, "{alarms}");
}

#[test]
fn a_change_after_many_rows_is_found_soon() {
    let mut rng = SeededRng::new(5);
    for seed in 0..10 {
        let held_out: Vec<f64> = (0..1000).map(|_| rng.normal()).collect();
        let mut monitor = DriftMonitor::new(&held_out, 0.01, seed).unwrap();
        for _ in 0..50_000 {
            monitor.update(rng.normal()).unwrap();
        }
        assert_eq!(monitor.alarm(), None);
        let direction = if seed % 2 == 0 { 1.5 } else { -1.5 };
        for _ in 0..300 {
            monitor.update(direction + rng.normal()).unwrap();
        }
        assert!(monitor.alarm().is_some(), "seed {seed}: {}", monitor.log_wealth());
    }
}
