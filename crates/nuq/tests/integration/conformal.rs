//! Coverage of prediction sets and intervals in simulations, and comparison of sets with a direct formula.

use nuq::calibrate::{IntervalRule, SetLimits, SetRule, SetScore, SetTarget};
use nuq::{Classes, Embeddings, Error, Estimate, NetworkProbabilities, Probabilities};
use nuq_neighbors::SeededRng;

const CLASSES: usize = 4;
const REPETITIONS: usize = 2000;

/// Rows with class probabilities and labels. The labels are not drawn from these probabilities, because the coverage must be right even if
/// the probabilities are wrong.
struct Rows {
    embeddings: Embeddings<'static>,
    probabilities: Probabilities,
    labels: Vec<i64>,
}

fn rows(rng: &mut SeededRng, count: usize, class_of: impl Fn(usize, &mut SeededRng) -> usize) -> Rows {
    let labels: Vec<usize> = (0..count).map(|i| class_of(i, rng)).collect();
    let mut logits = vec![];
    for &label in &labels {
        // Class 3 is harder than the others.
        let strength = if label == 3 { 0.5 } else { 2.0 };
        logits.extend((0..CLASSES).map(|c| (rng.normal() + if c == label { strength } else { 0.0 }) as f32));
    }
    let network = NetworkProbabilities::from_logits(&logits, CLASSES, 1.0).unwrap();
    Rows {
        embeddings: Embeddings::new(logits, CLASSES).unwrap(),
        probabilities: network.probabilities(),
        labels: labels.into_iter().map(|label| label as i64).collect(),
    }
}

fn any_class(_: usize, rng: &mut SeededRng) -> usize {
    rng.below(CLASSES)
}

fn classes() -> Classes {
    Classes::encode(&(0..CLASSES as i64).collect::<Vec<i64>>()).0
}

fn target(coverage: f64, score: SetScore, by_class: bool) -> SetTarget {
    SetTarget { coverage, score, by_class }
}

fn calibrate(target: SetTarget, rows: &Rows) -> Result<SetRule, Error> {
    SetRule::calibrate(target, &rows.embeddings, &rows.probabilities, &classes(), &rows.labels)
}

/// Checks that the numbers of covered rows among `new` new rows, after calibration on `n` held-out rows, have the mean and
/// variance of the distribution `BetaBinomial(new, k, n + 1 − k)` with `k = ⌈(n + 1) coverage⌉`.
fn check_distribution(covered: &[usize], new: usize, n: usize, coverage: f64) {
    let k = ((n + 1) as f64 * coverage - 1e-9).ceil();
    let (a, b, m) = (k, n as f64 + 1.0 - k, new as f64);
    let (mean, variance) = (m * a / (a + b), m * a * b * (a + b + m) / ((a + b).powi(2) * (a + b + 1.0)));
    let count = covered.len() as f64;
    let got = covered.iter().sum::<usize>() as f64 / count;
    assert!((got - mean).abs() < 4.0 * (variance / count).sqrt(), "mean {got} instead of {mean}");
    let spread = covered.iter().map(|&c| (c as f64 - mean).powi(2)).sum::<f64>() / count;
    // The fourth moment is near that of a normal variable, so the relative standard error of the variance is
    // √(2/count).
    assert!(
        (spread / variance - 1.0).abs() < 6.0 * (2.0 / count).sqrt(),
        "variance {spread} instead of {variance}"
    );
}

#[test]
fn numbers_of_covered_rows_are_beta_binomial() {
    for score in [SetScore::Lac, SetScore::Aps] {
        let mut rng = SeededRng::new(3);
        let covered: Vec<usize> = (0..REPETITIONS)
            .map(|_| {
                let rule = calibrate(target(0.9, score, false), &rows(&mut rng, 49, any_class)).unwrap();
                let new = rows(&mut rng, 20, any_class);
                let sets = rule.sets(&new.embeddings, &new.probabilities).unwrap();
                (0..20).filter(|&i| sets.row(i)[new.labels[i] as usize]).count()
            })
            .collect();
        check_distribution(&covered, 20, 49, 0.9);
    }
}

#[test]
fn sets_by_class_cover_each_class() {
    let mut rng = SeededRng::new(5);
    let mut covered = vec![vec![]; CLASSES];
    let mut marginal_of_hard_class = 0;
    for _ in 0..REPETITIONS {
        // 19 held-out and 10 new rows of each class.
        let held_out = rows(&mut rng, 19 * CLASSES, |i, _| i % CLASSES);
        let new = rows(&mut rng, 10 * CLASSES, |i, _| i % CLASSES);
        let n_covered = |rule: &SetRule, class: usize| {
            let sets = rule.sets(&new.embeddings, &new.probabilities).unwrap();
            (class..10 * CLASSES).step_by(CLASSES).filter(|&i| sets.row(i)[class]).count()
        };
        let by_class = calibrate(target(0.8, SetScore::Lac, true), &held_out).unwrap();
        (0..CLASSES).for_each(|class| covered[class].push(n_covered(&by_class, class)));
        marginal_of_hard_class +=
            n_covered(&calibrate(target(0.8, SetScore::Lac, false), &held_out).unwrap(), 3);
    }
    covered.iter().for_each(|counts| check_distribution(counts, 10, 19, 0.8));
    // Without limits by class the hard class is covered less often.
    assert!((marginal_of_hard_class as f64) < 0.7 * 10.0 * REPETITIONS as f64);
}

#[test]
fn intervals_cover_with_wrong_variances() {
    let mut rng = SeededRng::new(7);
    // The standard deviation is 1 + 3 x, the estimated one is about 2.
    let draw = |rng: &mut SeededRng| {
        let x = rng.uniform();
        let log = (4.0f64).ln() + 0.3 * rng.normal();
        let estimate = Estimate {
            mean: 5.0 * x,
            log_aleatoric: log,
            log_epistemic: f64::NEG_INFINITY,
            log_total: log,
            log_density: 0.0,
        };
        (estimate, 5.0 * x + (1.0 + 3.0 * x) * rng.normal())
    };
    let covered: Vec<usize> = (0..REPETITIONS)
        .map(|_| {
            let (estimates, targets): (Vec<Estimate>, Vec<f64>) = (0..39).map(|_| draw(&mut rng)).unzip();
            let rule = IntervalRule::calibrate(0.9, &estimates, &targets).unwrap();
            let is_covered = |(estimate, target): (Estimate, f64)| {
                let (low, high) = rule.interval(&estimate);
                low <= target && target <= high
            };
            (0..20).filter(|_| is_covered(draw(&mut rng))).count()
        })
        .collect();
    check_distribution(&covered, 20, 39, 0.9);
}

/// The score `lac` of a class: one minus its probability.
fn lac(p: &[f64], class: usize) -> f64 {
    p.iter().enumerate().filter(|(c, _)| *c != class).map(|(_, p)| p).sum()
}

#[test]
fn lac_sets_equal_those_of_the_direct_formula_and_aps_sets_contain_the_most_probable_classes() {
    let mut rng = SeededRng::new(11);
    let (held_out, new) = (rows(&mut rng, 60, any_class), rows(&mut rng, 200, any_class));
    let coverage = 0.85;
    let k = (61.0f64 * coverage).ceil() as usize;
    let rule = calibrate(target(coverage, SetScore::Lac, false), &held_out).unwrap();
    let sets = rule.sets(&new.embeddings, &new.probabilities).unwrap();
    for i in 0..200 {
        for class in 0..CLASSES {
            // A class is in the set if fewer than k held-out scores are below its score.
            let score = lac(new.probabilities.row(i), class) - 1e-12;
            let below =
                (0..60).filter(|&j| lac(held_out.probabilities.row(j), held_out.labels[j] as usize) < score);
            assert_eq!(sets.row(i)[class], below.count() < k, "row {i}, class {class}");
        }
    }
    // An `aps` set contains the most probable classes.
    let rule = calibrate(target(coverage, SetScore::Aps, false), &held_out).unwrap();
    let sets = rule.sets(&new.embeddings, &new.probabilities).unwrap();
    for i in 0..200 {
        let p = new.probabilities.row(i);
        let least = (0..CLASSES).filter(|&c| sets.row(i)[c]).map(|c| p[c]).fold(1.0, f64::min);
        assert!((0..CLASSES).filter(|&c| !sets.row(i)[c]).all(|c| p[c] <= least));
    }
}

#[test]
fn sets_do_not_depend_on_the_other_rows_of_a_batch() {
    let mut rng = SeededRng::new(13);
    let rule = calibrate(target(0.7, SetScore::Aps, false), &rows(&mut rng, 60, any_class)).unwrap();
    let new = rows(&mut rng, 50, any_class);
    let sets = rule.sets(&new.embeddings, &new.probabilities).unwrap();
    for i in 0..50 {
        let one = new.embeddings.gather(&[i as u32]);
        let network = NetworkProbabilities::from_logits(one.as_slice(), CLASSES, 1.0).unwrap();
        assert_eq!(rule.sets(&one, &network.probabilities()).unwrap().row(0), sets.row(i));
    }
}

#[test]
fn too_few_held_out_rows_are_errors_with_the_number_needed() {
    let mut rng = SeededRng::new(17);
    for (coverage, needed) in [(0.9, 9), (0.95, 19), (0.99, 99), (0.5, 1)] {
        let few = calibrate(target(coverage, SetScore::Lac, false), &rows(&mut rng, needed - 1, any_class));
        assert_eq!(few, Err(Error::FewHeldOutRows { rows: needed - 1, coverage, needed: Some(needed) }));
        assert!(
            calibrate(target(coverage, SetScore::Lac, false), &rows(&mut rng, needed, any_class)).is_ok()
        );
    }
    // By class: 9 rows of class 0, and 8 of the others.
    let uneven = rows(&mut rng, 33, |i, _| if i == 32 { 0 } else { i % CLASSES });
    let rule = calibrate(target(0.9, SetScore::Lac, true), &uneven).unwrap();
    let SetLimits::ByClass(limits) = &rule.limits else { panic!("limits by class") };
    assert!(limits[0].is_finite() && limits[1..].iter().all(|limit| *limit == f64::INFINITY));
    assert_eq!(rule.unlimited_classes(), 3);
    assert!(rule.to_string().contains("3 of 4 classes are in every set: at least 9 held-out rows"), "{rule}");
    let few = calibrate(target(0.9, SetScore::Lac, true), &rows(&mut rng, 8, any_class));
    assert!(matches!(few, Err(Error::FewHeldOutRowsOfClass { needed: Some(9), .. })));
}

#[test]
fn held_out_rows_of_unknown_labels_have_the_largest_scores() {
    let mut rng = SeededRng::new(19);
    let mut held_out = rows(&mut rng, 19, any_class);
    held_out.labels[0] = 99;
    // The limit is the 18th smallest of 19 scores for a coverage of 0.9, and the 19th for 0.95. The 19th is that of the unknown label.
    let rule = calibrate(target(0.9, SetScore::Lac, false), &held_out).unwrap();
    assert!(matches!(rule.limits, SetLimits::All(limit) if limit.is_finite()));
    let too_many = calibrate(target(0.95, SetScore::Lac, false), &held_out).unwrap_err();
    assert_eq!(too_many, Error::UnknownLabels { unknown: 1, rows: 19, coverage: 0.95 });
}
