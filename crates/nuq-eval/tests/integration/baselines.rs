//! Compares the baselines with an oracle, which computes the equation of the paper directly (`nuq_testkit::baselines`). The trained
//! layers SNGP and DUQ are compared in their own source files.

use nuq::nuq_neighbors::SeededRng;
use nuq::{Embeddings, Shrinkage};
use nuq_eval::Error;
use nuq_eval::baselines::{
    Batch, Ddu, Energy, Ensemble, Entropy, Fdbd, Gen, Head, Huq, KnnDistance, LocalOutlierFactor,
    Mahalanobis, Margin, MaxLogit, MaxProb, Members, NnGuide, React, Reduction, RelativeMahalanobis, Scorer,
    Vim, temperature,
};
use nuq_testkit::baselines;
use nuq_testkit::data::{self, to_rows};
use nuq_testkit::gaussians::{Shape, log_density};

/// Relative tolerance of `f64` arithmetic.
const EXACT: f64 = 1e-10;
/// Relative tolerance of products of `f32` rows.
const SINGLE: f64 = 1e-5;

/// Compares scores with those of the oracle, relative to the larger one of the oracle's value and `floor`.
fn assert_close(what: &str, ours: &[f64], expected: &[f64], tolerance: f64, floor: f64) {
    assert_eq!(ours.len(), expected.len(), "{what}");
    for (row, (a, b)) in ours.iter().zip(expected).enumerate() {
        let close = (a - b).abs() <= tolerance * b.abs().max(floor);
        assert!(a == b || close, "{what}, row {row}: {a:e}, expected {b:e}");
    }
}

fn rows(rows: &[&[f32]]) -> Embeddings<'static> {
    Embeddings::from_rows(rows).unwrap()
}

fn of_embeddings<'b>(rows: &'b Embeddings<'b>) -> Batch<'b> {
    Batch { embeddings: Some(rows), ..Batch::default() }
}

fn of_logits<'b>(logits: &'b Embeddings<'b>) -> Batch<'b> {
    Batch { logits: Some(logits), ..Batch::default() }
}

fn scaled(rows: &Embeddings<'_>, factor: f32) -> Embeddings<'static> {
    Embeddings::new(rows.as_slice().iter().map(|v| v * factor).collect(), rows.dim()).unwrap()
}

/// Training rows with classes, queries, and the last layer of a network (its head).
struct Case {
    name: &'static str,
    x: Embeddings<'static>,
    y: Vec<i64>,
    queries: Embeddings<'static>,
    weights: Embeddings<'static>,
    bias: Vec<f64>,
}

impl Case {
    /// Queries are new rows, training rows, and one distant row. The last layer is random.
    fn new(name: &'static str, x: Embeddings<'static>, y: Vec<i64>, seed: u64) -> Self {
        let (n, d) = (x.len(), x.dim());
        let mut values = data::normal(12, d, seed).as_slice().to_vec();
        (0..5).for_each(|i| values.extend_from_slice(x.row(i * 7 % n)));
        values.extend((0..d).map(|j| 1e3 + j as f32));
        let mut rng = SeededRng::new(seed + 1);
        Self {
            name,
            x,
            y,
            queries: Embeddings::new(values, d).unwrap(),
            weights: data::normal(5, d, seed + 2),
            bias: (0..5).map(|_| rng.normal()).collect(),
        }
    }

    fn head(&self) -> Head {
        Head::new(&self.weights, &self.bias).unwrap()
    }

    fn classes(&self) -> usize {
        self.y.iter().max().map_or(0, |top| *top as usize + 1)
    }

    fn labels(&self) -> Vec<usize> {
        self.y.iter().map(|class| *class as usize).collect()
    }

    /// The score of each query by the oracle, a function of row number and query.
    fn oracle(&self, score: impl Fn(usize, &[f64]) -> f64) -> Vec<f64> {
        to_rows(&self.queries).iter().enumerate().map(|(i, q)| score(i, q)).collect()
    }
}

/// The cases: clusters, one class, one row per class, constant columns, ties and duplicates, more columns than rows.
fn cases() -> Vec<Case> {
    let (x, y) = data::clusters(120, 6, 4, 2.0, 1);
    let (one, _) = data::clusters(40, 5, 1, 1.0, 2);
    let (few, few_labels) = data::clusters(6, 4, 6, 3.0, 3);
    let (varied, two) = data::clusters(60, 5, 2, 2.0, 4);
    let constant = varied.as_slice().iter().enumerate().map(|(at, v)| match at % 5 {
        1 => 0.0,
        3 => 7.25,
        _ => *v,
    });
    let (grid, three) = data::clusters(90, 3, 3, 1.5, 5);
    let grid = Embeddings::new(grid.as_slice().iter().map(|v| v.round()).collect(), 3).unwrap();
    let (wide, wide_labels) = data::clusters(20, 64, 3, 1.0, 6);
    vec![
        Case::new("clusters", x, y, 10),
        Case::new("one class", one, vec![0; 40], 20),
        Case::new("one row per class", few, few_labels, 30),
        Case::new("constant columns", Embeddings::new(constant.collect(), 5).unwrap(), two, 40),
        Case::new("ties", grid, three, 50),
        Case::new("more columns than rows", wide, wide_labels, 60),
    ]
}

/// 300 rows of 2048 columns.
fn many_columns() -> Case {
    let (x, y) = data::clusters(300, 2048, 3, 0.3, 7);
    Case::new("2048 columns", x, y, 70)
}

/// Rows of logits: random of several magnitudes, tied, constant, and with a dominant class.
fn logits() -> Vec<Embeddings<'static>> {
    let random = data::normal(40, 7, 1);
    let rounded = random.as_slice().iter().map(|v| v.round()).collect();
    let extreme = random.as_slice().iter().map(|v| 1e4 * v.signum()).collect();
    let dominant = data::normal(40, 2, 2).as_slice().iter().map(|v| 15.0 * v).collect();
    vec![
        scaled(&random, 10.0),
        scaled(&random, 1e4),
        scaled(&random, 1e-4),
        Embeddings::new(rounded, 7).unwrap(),
        Embeddings::new(extreme, 7).unwrap(),
        Embeddings::new(dominant, 2).unwrap(),
        data::normal(10, 300, 3),
        rows(&[&[3.0], &[-1e4]]),
        rows(&[&[1e20, 1e20, 1e20], &[-1e30, -1e30, -1e30], &[1e4, 1e4, -1e4], &[0.0, 0.0, 0.0]]),
        rows(&[&[20.0, 0.0, 0.0], &[40.0, 0.0, -5.0], &[1e4, 9.96e3, 9.95e3], &[600.0, 0.0, 0.0]]),
    ]
}

#[test]
fn logit_scores_equal_their_equations() {
    for logits in logits() {
        let compare = |scorer: &dyn Scorer, floor: f64, oracle: &dyn Fn(&[f64]) -> f64| {
            let expected: Vec<f64> = to_rows(&logits).iter().map(|z| oracle(z)).collect();
            let ours = scorer.score(&of_logits(&logits)).unwrap();
            assert_close(&format!("{} of {logits:?}", scorer.name()), &ours, &expected, EXACT, floor);
        };
        // Subnormal probabilities have no relative precision.
        let floor = f64::MIN_POSITIVE / EXACT;
        compare(&MaxProb, floor, &baselines::max_prob);
        compare(&Entropy, floor, &baselines::entropy);
        compare(&Margin, floor, &baselines::margin);
        compare(&MaxLogit, 0.0, &baselines::max_logit);
        for t in [1.0, 0.5, 20.0, 1e-300] {
            compare(&Energy::new(t).unwrap(), 1.0, &|z| baselines::energy(z, t));
        }
        for (gamma, top) in [(0.1, 100), (0.5, 3), (0.01, 1)] {
            compare(&Gen::new(gamma, top).unwrap(), 0.0, &|z| baselines::generalized_entropy(z, gamma, top));
        }
    }
}

#[test]
fn scores_of_class_gaussians_equal_their_equations() {
    for case in cases() {
        for shrinkage in [None, Some(0.1), Some(1.0)] {
            compare_gaussians(&case, shrinkage);
        }
    }
}

fn compare_gaussians(case: &Case, shrinkage: Option<f64>) {
    let (x, y, classes) = (to_rows(&case.x), case.labels(), case.classes());
    let setting = shrinkage.map_or(Shrinkage::LedoitWolf, Shrinkage::Fixed);
    let what = |scorer: &dyn Scorer| format!("{} of {}, {setting:?}", scorer.name(), case.name);
    let batch = of_embeddings(&case.queries);

    let ddu = Ddu::fit(&case.x, &case.y, setting).unwrap();
    let expected = log_density(&x, &y, classes, Shape::Full, shrinkage, &to_rows(&case.queries));
    let expected: Vec<f64> = expected.iter().map(|log| -log).collect();
    assert_close(&what(&ddu), &ddu.score(&batch).unwrap(), &expected, EXACT, 1.0);
    compare_mahalanobis(case, shrinkage);
}

fn compare_mahalanobis(case: &Case, shrinkage: Option<f64>) {
    let setting = shrinkage.map_or(Shrinkage::LedoitWolf, Shrinkage::Fixed);
    let oracle = baselines::Mahalanobis::fit(&to_rows(&case.x), &case.labels(), case.classes(), shrinkage);
    let batch = of_embeddings(&case.queries);
    let nearest = case.oracle(|_, q| oracle.nearest(q));
    let plain = Mahalanobis::fit(&case.x, &case.y, setting).unwrap();
    assert_close(case.name, &plain.score(&batch).unwrap(), &nearest, EXACT, 1.0);
    let relative = RelativeMahalanobis::fit(&case.x, &case.y, setting).unwrap().score(&batch).unwrap();
    let from_all = case.oracle(|_, q| oracle.from_all(q));
    for (i, score) in relative.iter().enumerate() {
        // The rounding error of a difference is relative to its terms.
        let size = nearest[i].max(from_all[i]).max(1.0);
        assert_close(case.name, &[*score], &[nearest[i] - from_all[i]], EXACT, size);
    }
}

#[test]
fn neighbor_distances_equal_their_equations() {
    for case in cases() {
        compare_neighbors(&case, &[1, 3, 20, 1000]);
    }
}

fn compare_neighbors(case: &Case, ks: &[usize]) {
    let x = to_rows(&case.x);
    let batch = of_embeddings(&case.queries);
    for &k in ks {
        let kth = case.oracle(|_, q| *baselines::knn_distances(&x, q, k).last().unwrap());
        let mean = case.oracle(|_, q| {
            let distances = baselines::knn_distances(&x, q, k);
            distances.iter().sum::<f64>() / distances.len() as f64
        });
        let lof = baselines::LocalOutlierFactor::fit(&x, k);
        let lof = case.oracle(|_, q| lof.score(q));
        let name = format!("{}, k = {k}", case.name);
        assert_close(&name, &KnnDistance::kth(&case.x, k).unwrap().score(&batch).unwrap(), &kth, EXACT, 0.0);
        assert_close(
            &name,
            &KnnDistance::mean(&case.x, k).unwrap().score(&batch).unwrap(),
            &mean,
            EXACT,
            0.0,
        );
        let ours = LocalOutlierFactor::fit(&case.x, k).unwrap();
        assert_close(&name, &ours.score(&batch).unwrap(), &lof, EXACT, 0.0);

        // If the batch contains the neighbors, the scores are the same.
        let index = nuq::ExactIndex::new(&case.x).unwrap();
        let neighbors = nuq::NeighborIndex::search(&index, &case.queries, 1000).unwrap();
        let batch = Batch { neighbors: Some(&neighbors), ..batch };
        assert_close(&name, &ours.score(&batch).unwrap(), &lof, EXACT, 0.0);
        assert_close(&name, &KnnDistance::kth(&case.x, k).unwrap().score(&batch).unwrap(), &kth, EXACT, 0.0);
    }
}

#[test]
fn head_scores_equal_their_equations() {
    for case in cases() {
        // The number of principal directions is below the rank of the rows.
        compare_heads(&case, if case.name == "one row per class" { 1 } else { 2 });
    }
}

fn compare_heads(case: &Case, principal: usize) {
    let (x, w, b) = (to_rows(&case.x), to_rows(&case.weights), &case.bias);
    let head = case.head();
    let (logits, train) = (head.logits(&case.queries).unwrap(), head.logits(&case.x).unwrap());
    let (z, train_z) = (to_rows(&logits), to_rows(&train));
    let batch = Batch { logits: Some(&logits), ..of_embeddings(&case.queries) };
    let expected = case.oracle(|i, q| baselines::linear(&w, b, q)[i % 5]);
    let ours: Vec<f64> = z.iter().enumerate().map(|(i, row)| row[i % 5]).collect();
    // Logits are stored in f32.
    assert_close(case.name, &ours, &expected, 1e-6, 1.0);

    let compare = |scorer: &dyn Scorer, tolerance: f64, expected: Vec<f64>| {
        let ours = scorer.score(&batch).unwrap();
        assert_close(&format!("{} of {}", scorer.name(), case.name), &ours, &expected, tolerance, 1.0);
    };
    let vim = baselines::Vim::fit(&x, &w, b, principal);
    let vim = case.oracle(|i, q| vim.score(q, &z[i]));
    compare(&Vim::fit(&case.x, &head, Some(principal)).unwrap(), EXACT, vim);
    let fdbd = case.oracle(|i, q| baselines::fdbd(&x, &w, q, &z[i]));
    compare(&Fdbd::fit(&case.x, &head).unwrap(), EXACT, fdbd);
    for quantile in [0.9, 0.333, 1.0] {
        let react = case.oracle(|_, q| baselines::react(&x, quantile, &w, b, q));
        compare(&React::fit(&case.x, &head, quantile).unwrap(), EXACT, react);
    }
    for k in [1, 10, 1000] {
        let ours = NnGuide::fit(&case.x, &train, k).unwrap().score(&batch).unwrap();
        for (i, q) in to_rows(&case.queries).iter().enumerate() {
            let expected = baselines::nnguide(&x, &train_z, k, q, &z[i]);
            // The products may cancel, so the error is relative to the energies.
            let largest = train_z.iter().map(|z| baselines::energy(z, 1.0).abs()).fold(0.0, f64::max);
            let size = largest * baselines::energy(&z[i], 1.0).abs();
            assert_close(case.name, &ours[i..=i], &[expected], SINGLE, size);
        }
    }
}

#[test]
fn scores_of_2048_columns_equal_their_equations() {
    let case = many_columns();
    compare_mahalanobis(&case, None);
    compare_neighbors(&case, &[10]);
    compare_heads(&case, 100);
}

#[test]
fn rank_deficient_heads_equal_their_equations() {
    // Classes 0 and 1 have equal weights and different biases: there is no point at which both logits are zero.
    let mut case = cases().remove(0);
    let mut weights = case.weights.as_slice().to_vec();
    weights.copy_within(0..6, 6);
    case.weights = Embeddings::new(weights, 6).unwrap();
    compare_heads(&case, 2);
    // More classes than columns.
    let (x, y) = data::clusters(50, 3, 2, 1.0, 8);
    compare_heads(&Case::new("more classes than columns", x, y, 80), 1);
}

#[test]
fn the_origin_of_vim_ignores_singular_values_that_are_rounding_errors() {
    // The weights of all classes sum to zero, as after weight decay, and are estimated from f32 logits.
    let case = cases().remove(0);
    let mut weights = to_rows(&case.weights);
    for j in 0..6 {
        let mean = weights.iter().map(|row| row[j]).sum::<f64>() / 5.0;
        weights.iter_mut().for_each(|row| row[j] -= mean);
    }
    let flat: Vec<f64> = weights.concat();
    let head = Head::new(&Embeddings::from_f64(&flat, 6).unwrap(), &case.bias).unwrap();
    let logits = head.logits(&case.queries).unwrap();
    let batch = Batch { logits: Some(&logits), ..of_embeddings(&case.queries) };
    let estimated = Head::fit(&case.x, &head.logits(&case.x).unwrap()).unwrap();
    let score = |head: &Head| Vim::fit(&case.x, head, Some(2)).unwrap().score(&batch).unwrap();
    assert_close("estimated head", &score(&estimated), &score(&head), 1e-4, 1.0);
}

#[test]
fn head_fit_equals_least_squares() {
    let (x, new) = (data::normal(200, 6, 1), data::normal(20, 6, 2));
    let case = Case::new("a head", x, vec![0; 200], 3);
    let exact = case.head().logits(&case.x).unwrap();
    // With noise, the logits are not exactly linear.
    let noise = data::normal(200, 5, 4);
    let noisy = exact.as_slice().iter().zip(noise.as_slice()).map(|(z, e)| z + 0.01 * e).collect();
    let noisy = Embeddings::new(noisy, 5).unwrap();
    for logits in [exact, noisy] {
        let (w, b) = baselines::least_squares_head(&to_rows(&case.x), &to_rows(&logits));
        let estimated = Head::fit(&case.x, &logits).unwrap().logits(&new).unwrap();
        for (q, ours) in to_rows(&new).iter().zip(to_rows(&estimated)) {
            assert_close("logits", &ours, &baselines::linear(&w, &b, q), 1e-6, 1.0);
        }
    }
}

#[test]
fn head_fit_accepts_constant_columns_and_constant_logits() {
    let case = cases().remove(3);
    let estimated = Head::fit(&case.x, &case.head().logits(&case.x).unwrap()).unwrap();
    for (ours, given) in to_rows(&estimated.logits(&case.x).unwrap())
        .iter()
        .zip(to_rows(&case.head().logits(&case.x).unwrap()))
    {
        assert_close("constant columns", ours, &given, SINGLE, 1.0);
    }
    // Columns 1 and 3 are constant in the fit and have no weight.
    let moved = rows(&[&[0.5, 0.0, 0.5, 7.25, 0.5], &[0.5, 9.0, 0.5, -50.0, 0.5]]);
    let moved = to_rows(&estimated.logits(&moved).unwrap());
    assert_close("moved", &moved[1], &moved[0], SINGLE, 1.0);
    let constant = Embeddings::new([1e4, -0.1, 3.7].repeat(60), 3).unwrap();
    let estimated = Head::fit(&case.x, &constant).unwrap().logits(&case.x).unwrap();
    assert_close("constant logits", &to_rows(&estimated)[7], &to_rows(&constant)[7], SINGLE, 1.0);
}

#[test]
fn head_fit_accepts_columns_of_different_units() {
    // Units decrease by a factor of ten every two columns; the weights increase by the same factor.
    let unit = |at: usize| 10f32.powi(-(at as i32 % 12) / 2);
    let in_units = |rows: &Embeddings<'_>, power: i32| {
        let values = rows.as_slice().iter().enumerate().map(|(at, v)| (v + 0.5) * unit(at).powi(power));
        Embeddings::new(values.collect(), 12).unwrap()
    };
    let (x, new) = (in_units(&data::normal(400, 12, 1), 1), in_units(&data::normal(20, 12, 2), 1));
    let head = Head::new(&in_units(&data::normal(5, 12, 3), -1), &[0.5; 5]).unwrap();
    let estimated = Head::fit(&x, &head.logits(&x).unwrap()).unwrap().logits(&new).unwrap();
    for (ours, given) in to_rows(&estimated).iter().zip(to_rows(&head.logits(&new).unwrap())) {
        assert_close("units", ours, &given, SINGLE, 1.0);
    }
}

#[test]
fn ensemble_reductions_equal_their_equations() {
    // Members that differ much, little or not at all, with a dominant class, and with ties.
    let member = |seed: u64, factor: f32| scaled(&data::normal(30, 4, seed), factor);
    let near = |seed: u64| {
        let (base, noise) = (data::normal(30, 4, 9), data::normal(30, 4, seed));
        let values = base.as_slice().iter().zip(noise.as_slice()).map(|(a, b)| a + 1e-3 * b);
        Embeddings::new(values.collect(), 4).unwrap()
    };
    let tied = rows(&[&[0.0, 0.0, -3.0], &[1.0, 2.0, 2.0]]);
    let swapped = rows(&[&[-3.0, 0.0, 0.0], &[1.0, 2.0, 2.0]]);
    for logits in [
        vec![member(1, 3.0), member(2, 3.0), member(3, 3.0)],
        vec![near(4), near(5), near(6), near(7)],
        vec![member(1, 1e4), member(2, 1e4)],
        vec![scaled(&member(1, 1.0), 20.0), scaled(&near(1), 20.0)],
        vec![tied.clone(), swapped, tied],
        vec![member(8, 1.0)],
        vec![rows(&[&[1e20, 1e20]]), rows(&[&[0.0, 40.0]])],
    ] {
        let oracle_of_row = |row: usize| {
            let members: Vec<Vec<f64>> = logits.iter().map(|member| to_rows(member)[row].clone()).collect();
            baselines::Members::new(&members)
        };
        let oracle: Vec<baselines::Members> = (0..logits[0].len()).map(oracle_of_row).collect();
        let members = Members::new(logits).unwrap();
        let compare = |reduction, floor: f64, expected: &dyn Fn(&baselines::Members) -> f64| {
            let batch = Batch { members: Some(&members), ..Batch::default() };
            let ours = Ensemble(reduction).score(&batch).unwrap();
            let expected: Vec<f64> = oracle.iter().map(expected).collect();
            assert_close(&Ensemble(reduction).name(), &ours, &expected, EXACT, floor);
            assert!(ours.iter().all(|score| *score >= 0.0), "{reduction:?}: {ours:?}");
        };
        let floor = f64::MIN_POSITIVE / EXACT;
        compare(Reduction::Entropy, floor, &baselines::Members::entropy);
        compare(Reduction::MeanEntropy, floor, &baselines::Members::mean_entropy);
        // The mutual information is a difference of entropies of order one, so small values have a larger relative
        // error.
        compare(Reduction::MutualInformation, 1e-3, &baselines::Members::mutual_information);
        compare(Reduction::Std, 1e-5, &baselines::Members::deviation);
        compare(Reduction::MaxProb, floor, &baselines::Members::max_prob);
    }
}

#[test]
fn ties_are_resolved_to_the_first_class() {
    let case = cases().remove(0);
    let tied = Embeddings::new([1.0, 3.0, 0.0, 3.0, 3.0].repeat(18), 5).unwrap();
    let (x, w, z) = (to_rows(&case.x), to_rows(&case.weights), to_rows(&tied));
    let expected = case.oracle(|i, q| baselines::fdbd(&x, &w, q, &z[i]));
    let batch = Batch { logits: Some(&tied), ..of_embeddings(&case.queries) };
    let ours = Fdbd::fit(&case.x, &case.head()).unwrap().score(&batch).unwrap();
    assert_close("fDBD of ties", &ours, &expected, EXACT, 0.0);
    // Classes 0 and 1 both have a mean of 1/3, from probabilities 1/2, 0, 1/2 and 0, 1, 0.
    let member = |z: [f32; 4]| Embeddings::from_rows(&[z]).unwrap();
    let zero_probability = -1e4;
    let half = |other: usize| {
        let mut z = [zero_probability; 4];
        (z[0], z[other]) = (0.0, 0.0);
        member(z)
    };
    let members = Members::new(vec![
        half(2),
        member([zero_probability, 0.0, zero_probability, zero_probability]),
        half(3),
    ])
    .unwrap();
    let batch = Batch { members: Some(&members), ..Batch::default() };
    let deviation = Ensemble(Reduction::Std).score(&batch).unwrap();
    assert_close("deviation", &deviation, &[(1.0f64 / 18.0).sqrt()], EXACT, 0.0);
}

#[test]
fn huq_equals_its_equation() {
    let mut rng = SeededRng::new(4);
    for ties in [false, true] {
        let mut draw = |n: usize| -> Vec<f64> {
            let value = |z: f64| if ties { (2.0 * z).round() } else { z };
            (0..n).map(|_| value(rng.normal())).collect()
        };
        let (a, e, new_a, new_e) = (draw(101), draw(101), draw(60), draw(60));
        let order = |values: &[f64], at: usize| {
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            sorted[at]
        };
        for (alpha, q_e, q_a) in [(0.2, 0.8, 0.9), (0.0, 0.0, 1.0), (1.0, 1.0, 0.0), (0.5, 0.3, 0.3)] {
            // The quantile q of 101 values is the order statistic 100 q.
            let epistemic_limit = order(&e, (100.0 * q_e) as usize);
            let aleatoric_limit = order(&a, (100.0 * q_a) as usize);
            let oracle =
                baselines::Huq { aleatoric: &a, epistemic: &e, alpha, epistemic_limit, aleatoric_limit };
            let expected: Vec<f64> = new_a.iter().zip(&new_e).map(|(a, e)| oracle.score(*a, *e)).collect();
            let ours = Huq::fit(&a, &e, alpha, q_e, q_a).unwrap().score(&new_a, &new_e).unwrap();
            assert_close("HUQ", &ours, &expected, EXACT, 1.0);
        }
    }
}

#[test]
fn huq_ranks_in_distribution_rows_below_others() {
    // About half of the rows are in distribution. The first query is in distribution and has the largest aleatoric uncertainty. Its
    // rank is 50 among the in-distribution rows; among all rows it would be 98.
    let aleatoric: Vec<f64> = (0..100).map(|i| f64::from(i % 50)).collect();
    let epistemic: Vec<f64> = (0..100).map(f64::from).collect();
    let huq = Huq::fit(&aleatoric, &epistemic, 0.1, 0.5, 1.0).unwrap();
    let scores = huq.score(&[49.0, 10.0], &[3.0, 99.0]).unwrap();
    assert!(scores[0] < 0.51 && scores[1] > 0.85, "{scores:?}");
}

#[test]
fn the_derivative_of_the_loss_vanishes_at_the_temperature() {
    for (factor, seed) in [(1.0, 1), (30.0, 2), (0.05, 3)] {
        let logits = scaled(&data::normal(200, 5, seed), factor);
        let mut rng = SeededRng::new(seed);
        let classes: Vec<u32> = logits
            .rows()
            .map(|row| {
                // For at least half of the rows on average, the true class has the largest logit.
                let best = (0..5u32).max_by(|&a, &b| row[a as usize].total_cmp(&row[b as usize])).unwrap();
                if rng.uniform() < 0.5 { best } else { rng.below(5) as u32 }
            })
            .collect();
        let t = temperature(&logits, &classes).unwrap();
        let truth: Vec<usize> = classes.iter().map(|class| *class as usize).collect();
        let derivative = |t: f64| {
            let (derivative, magnitude) = baselines::temperature_derivative(&to_rows(&logits), &truth, t);
            derivative / magnitude
        };
        assert!((0.011..99.0).contains(&t), "{t}");
        assert!(derivative(t).abs() < 1e-12, "{t}: {}", derivative(t));
        // The derivative increases with 1/T and changes its sign.
        assert!(derivative(t * (1.0 + EXACT)) < 0.0 && derivative(t * (1.0 - EXACT)) > 0.0, "{t}");
    }
}

#[test]
fn the_temperature_is_lowest_for_correct_rows_highest_for_wrong_rows_and_one_for_constant_logits() {
    // All predictions are correct: the lowest temperature.
    for margin in [0.5, 40.0, 1e4] {
        let t = temperature(&rows(&[&[margin, 0.0], &[0.0, margin]]), &[0, 1]).unwrap();
        assert!((t - 0.01).abs() < 1e-10, "{margin}: {t}");
    }
    // All predictions are wrong: the highest temperature.
    let t = temperature(&rows(&[&[40.0, 0.0], &[0.0, 1e4]]), &[1, 0]).unwrap();
    assert!((t - 100.0).abs() < 1e-6, "{t}");
    // Constant logits: the temperature has no effect.
    assert_eq!(temperature(&rows(&[&[3.0, 3.0], &[-1.0, -1.0]]), &[1, 0]).unwrap(), 1.0);
}

#[test]
fn vim_rejects_training_rows_without_a_residual_and_lof_accepts_equal_rows() {
    // 20 rows span at most 20 of 64 directions. The default has 32 principal directions, so no residual is left.
    let case = cases().remove(5);
    let error = Vim::fit(&case.x, &case.head(), None).err();
    assert!(matches!(error, Some(Error::Model(nuq::Error::OutOfRange { value: 32.0, .. }))), "{error:?}");
    // Three columns vary, and the difference to the origin adds one direction. With four principal directions no
    // residual is left.
    let constant = cases().remove(3);
    let error = Vim::fit(&constant.x, &constant.head(), Some(4)).err();
    assert!(matches!(error, Some(Error::Model(nuq::Error::OutOfRange { value: 4.0, .. }))), "{error:?}");
    // If all rows are equal, Mahalanobis also returns an error. The local outlier factor is still defined.
    let same = Embeddings::new(vec![0.5; 60], 6).unwrap();
    assert!(Vim::fit(&same, &cases()[0].head(), Some(2)).is_err());
    assert!(Mahalanobis::fit(&same, &[0i64; 10], Shrinkage::LedoitWolf).is_err());
    assert!(LocalOutlierFactor::fit(&same, 3).is_ok());
}
