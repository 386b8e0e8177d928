//! Every rival against its paper's equation (`nuq_testkit::rivals`), and what each of them does with input that is not as it
//! should be.

#![allow(clippy::unwrap_used)]

use nuq::baselines::{
    Batch, Ddu, Duq, DuqParams, Energy, Ensemble, Entropy, Fdbd, Gen, Head, Huq, KnnDistance,
    LocalOutlierFactor, Mahalanobis, Margin, MaxLogit, MaxProb, Members, NnGuide, Normalized, React,
    Reduction, RelativeMahalanobis, Scorer, Sngp, SngpParams, SngpScore, Vim, temperature,
};
use nuq::nuq_neighbors::{self, SeededRng};
use nuq::{Embeddings, Error, Neighbors, Shrinkage};
use nuq_testkit::data::{self, to_rows};
use nuq_testkit::gaussians::{Shape, log_density};
use nuq_testkit::rivals;

/// What `f64` arithmetic leaves, relative.
const EXACT: f64 = 1e-10;
/// What products of `f32` rows leave, relative: NNGuide multiplies them as they are.
const SINGLE: f64 = 1e-5;

/// Compares scores with the oracle's, relative to the larger of the oracle's and `floor`.
fn agree(what: &str, ours: &[f64], theirs: &[f64], tolerance: f64, floor: f64) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (row, (a, b)) in ours.iter().zip(theirs).enumerate() {
        let close = (a - b).abs() <= tolerance * b.abs().max(floor);
        assert!(a == b || close, "{what}, row {row}: {a:e} instead of {b:e}");
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

/// Training rows with classes, queries, and a head.
struct Case {
    name: &'static str,
    x: Embeddings<'static>,
    y: Vec<i64>,
    queries: Embeddings<'static>,
    weights: Embeddings<'static>,
    bias: Vec<f64>,
}

impl Case {
    /// Queries are new rows, training rows, and one far away; the head is random.
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

    /// What the oracle says of each query, which it is given with its place.
    fn oracle(&self, score: impl Fn(usize, &[f64]) -> f64) -> Vec<f64> {
        to_rows(&self.queries).iter().enumerate().map(|(i, q)| score(i, q)).collect()
    }
}

/// Clusters; one class; a point a class; constant columns; ties and copies; more columns than rows.
fn cases() -> Vec<Case> {
    let (x, y) = data::clusters(120, 6, 4, 2.0, 1);
    let (one, _) = data::clusters(40, 5, 1, 1.0, 2);
    let (few, each) = data::clusters(6, 4, 6, 3.0, 3);
    let (varied, two) = data::clusters(60, 5, 2, 2.0, 4);
    let constant = varied.as_slice().iter().enumerate().map(|(at, v)| match at % 5 {
        1 => 0.0,
        3 => 7.25,
        _ => *v,
    });
    let (grid, three) = data::clusters(90, 3, 3, 1.5, 5);
    let grid = Embeddings::new(grid.as_slice().iter().map(|v| v.round()).collect(), 3).unwrap();
    let (wide, of_wide) = data::clusters(20, 64, 3, 1.0, 6);
    vec![
        Case::new("clusters", x, y, 10),
        Case::new("one class", one, vec![0; 40], 20),
        Case::new("a point a class", few, each, 30),
        Case::new("constant columns", Embeddings::new(constant.collect(), 5).unwrap(), two, 40),
        Case::new("ties", grid, three, 50),
        Case::new("more columns than rows", wide, of_wide, 60),
    ]
}

/// 300 rows of 2048 columns.
fn many_columns() -> Case {
    let (x, y) = data::clusters(300, 2048, 3, 0.3, 7);
    Case::new("2048 columns", x, y, 70)
}

/// Rows of logits: random of all sizes, tied, flat, and very sure.
fn logits() -> Vec<Embeddings<'static>> {
    let random = data::normal(40, 7, 1);
    let rounded = random.as_slice().iter().map(|v| v.round()).collect();
    let extreme = random.as_slice().iter().map(|v| 1e4 * v.signum()).collect();
    let sure = data::normal(40, 2, 2).as_slice().iter().map(|v| 15.0 * v).collect();
    vec![
        scaled(&random, 10.0),
        scaled(&random, 1e4),
        scaled(&random, 1e-4),
        Embeddings::new(rounded, 7).unwrap(),
        Embeddings::new(extreme, 7).unwrap(),
        Embeddings::new(sure, 2).unwrap(),
        data::normal(10, 300, 3),
        rows(&[&[3.0], &[-1e4]]),
        rows(&[&[1e20, 1e20, 1e20], &[-1e30, -1e30, -1e30], &[1e4, 1e4, -1e4], &[0.0, 0.0, 0.0]]),
        rows(&[&[20.0, 0.0, 0.0], &[40.0, 0.0, -5.0], &[1e4, 9.96e3, 9.95e3], &[600.0, 0.0, 0.0]]),
    ]
}

#[test]
fn scores_of_logits_are_their_equations() {
    for logits in logits() {
        let compare = |scorer: &dyn Scorer, floor: f64, oracle: &dyn Fn(&[f64]) -> f64| {
            let theirs: Vec<f64> = to_rows(&logits).iter().map(|z| oracle(z)).collect();
            let ours = scorer.score(&of_logits(&logits)).unwrap();
            agree(&format!("{} of {logits:?}", scorer.name()), &ours, &theirs, EXACT, floor);
        };
        // Chances below the smallest normal f64 have no digits.
        let least = f64::MIN_POSITIVE / EXACT;
        compare(&MaxProb, least, &rivals::max_prob);
        compare(&Entropy, least, &rivals::entropy);
        compare(&Margin, least, &rivals::margin);
        compare(&MaxLogit, 0.0, &rivals::max_logit);
        for t in [1.0, 0.5, 20.0, 1e-300] {
            compare(&Energy::new(t).unwrap(), 1.0, &|z| rivals::energy(z, t));
        }
        for (gamma, top) in [(0.1, 100), (0.5, 3), (0.01, 1)] {
            compare(&Gen::new(gamma, top).unwrap(), 0.0, &|z| rivals::generalized_entropy(z, gamma, top));
        }
    }
}

#[test]
fn distances_to_classes_are_their_equations() {
    for case in cases() {
        for shrinkage in [None, Some(0.1), Some(1.0)] {
            compare_gaussians(&case, shrinkage);
        }
    }
}

fn compare_gaussians(case: &Case, shrinkage: Option<f64>) {
    let (x, y, classes) = (to_rows(&case.x), case.labels(), case.classes());
    let ours = shrinkage.map_or(Shrinkage::LedoitWolf, Shrinkage::Fixed);
    let what = |scorer: &dyn Scorer| format!("{} of {}, {ours:?}", scorer.name(), case.name);
    let batch = of_embeddings(&case.queries);

    let ddu = Ddu::fit(&case.x, &case.y, ours).unwrap();
    let theirs = log_density(&x, &y, classes, Shape::Full, shrinkage, &to_rows(&case.queries));
    let theirs: Vec<f64> = theirs.iter().map(|log| -log).collect();
    agree(&what(&ddu), &ddu.score(&batch).unwrap(), &theirs, EXACT, 1.0);
    compare_mahalanobis(case, shrinkage);
}

fn compare_mahalanobis(case: &Case, shrinkage: Option<f64>) {
    let ours = shrinkage.map_or(Shrinkage::LedoitWolf, Shrinkage::Fixed);
    let oracle = rivals::Mahalanobis::fit(&to_rows(&case.x), &case.labels(), case.classes(), shrinkage);
    let batch = of_embeddings(&case.queries);
    let nearest = case.oracle(|_, q| oracle.nearest(q));
    let plain = Mahalanobis::fit(&case.x, &case.y, ours).unwrap();
    agree(case.name, &plain.score(&batch).unwrap(), &nearest, EXACT, 1.0);
    let relative = RelativeMahalanobis::fit(&case.x, &case.y, ours).unwrap().score(&batch).unwrap();
    let from_all = case.oracle(|_, q| oracle.from_all(q));
    for (i, found) in relative.iter().enumerate() {
        // A difference of two distances is as exact as they are.
        let size = nearest[i].max(from_all[i]).max(1.0);
        agree(case.name, &[*found], &[nearest[i] - from_all[i]], EXACT, size);
    }
}

#[test]
fn distances_to_neighbors_are_their_equations() {
    for case in cases() {
        compare_neighbors(&case, &[1, 3, 20, 1000]);
    }
}

fn compare_neighbors(case: &Case, ks: &[usize]) {
    let x = to_rows(&case.x);
    let batch = of_embeddings(&case.queries);
    for &k in ks {
        let kth = case.oracle(|_, q| *rivals::knn_distances(&x, q, k).last().unwrap());
        let mean = case.oracle(|_, q| {
            let distances = rivals::knn_distances(&x, q, k);
            distances.iter().sum::<f64>() / distances.len() as f64
        });
        let lof = rivals::LocalOutlierFactor::fit(&x, k);
        let lof = case.oracle(|_, q| lof.score(q));
        let name = format!("{}, k = {k}", case.name);
        agree(&name, &KnnDistance::kth(&case.x, k).unwrap().score(&batch).unwrap(), &kth, EXACT, 0.0);
        agree(&name, &KnnDistance::mean(&case.x, k).unwrap().score(&batch).unwrap(), &mean, EXACT, 0.0);
        let ours = LocalOutlierFactor::fit(&case.x, k).unwrap();
        agree(&name, &ours.score(&batch).unwrap(), &lof, EXACT, 0.0);

        // A table that was found before gives the same.
        let table = nuq::ExactIndex::new(&case.x).unwrap();
        let table = nuq::NeighborIndex::search(&table, &case.queries, 1000).unwrap();
        let batch = Batch { neighbors: Some(&table), ..batch };
        agree(&name, &ours.score(&batch).unwrap(), &lof, EXACT, 0.0);
        agree(&name, &KnnDistance::kth(&case.x, k).unwrap().score(&batch).unwrap(), &kth, EXACT, 0.0);
    }
}

#[test]
fn scores_with_a_head_are_their_equations() {
    for case in cases() {
        // Fewer principal directions than the rows vary in.
        compare_heads(&case, if case.name == "a point a class" { 1 } else { 2 });
    }
}

fn compare_heads(case: &Case, principal: usize) {
    let (x, w, b) = (to_rows(&case.x), to_rows(&case.weights), &case.bias);
    let head = case.head();
    let (logits, train) = (head.logits(&case.queries).unwrap(), head.logits(&case.x).unwrap());
    let (z, train_z) = (to_rows(&logits), to_rows(&train));
    let batch = Batch { logits: Some(&logits), ..of_embeddings(&case.queries) };
    let theirs = case.oracle(|i, q| rivals::linear(&w, b, q)[i % 5]);
    let ours: Vec<f64> = z.iter().enumerate().map(|(i, row)| row[i % 5]).collect();
    // Logits are stored in f32.
    agree(case.name, &ours, &theirs, 1e-6, 1.0);

    let compare = |scorer: &dyn Scorer, tolerance: f64, theirs: Vec<f64>| {
        let ours = scorer.score(&batch).unwrap();
        agree(&format!("{} of {}", scorer.name(), case.name), &ours, &theirs, tolerance, 1.0);
    };
    let vim = rivals::Vim::fit(&x, &w, b, principal);
    let vim = case.oracle(|i, q| vim.score(q, &z[i]));
    compare(&Vim::fit(&case.x, &head, Some(principal)).unwrap(), EXACT, vim);
    let fdbd = case.oracle(|i, q| rivals::fdbd(&x, &w, q, &z[i]));
    compare(&Fdbd::fit(&case.x, &head).unwrap(), EXACT, fdbd);
    for quantile in [0.9, 0.333, 1.0] {
        let react = case.oracle(|_, q| rivals::react(&x, quantile, &w, b, q));
        compare(&React::fit(&case.x, &head, quantile).unwrap(), EXACT, react);
    }
    for k in [1, 10, 1000] {
        let ours = NnGuide::fit(&case.x, &train, k).unwrap().score(&batch).unwrap();
        for (i, q) in to_rows(&case.queries).iter().enumerate() {
            let theirs = rivals::nnguide(&x, &train_z, k, q, &z[i]);
            // The guides may cancel, and are as exact as the energies they are made of.
            let most = train_z.iter().map(|z| rivals::energy(z, 1.0).abs()).fold(0.0, f64::max);
            let size = most * rivals::energy(&z[i], 1.0).abs();
            agree(case.name, &ours[i..=i], &[theirs], SINGLE, size);
        }
    }
}

#[test]
fn two_thousand_columns_of_three_hundred_rows() {
    let case = many_columns();
    compare_mahalanobis(&case, None);
    compare_neighbors(&case, &[10]);
    compare_heads(&case, 100);
}

#[test]
fn heads_of_fewer_directions_than_classes_have_an_origin() {
    // Classes 0 and 1 have the same weights and different biases: no origin makes both logits vanish.
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
fn a_head_that_is_singular_up_to_rounding_has_the_origin_of_the_singular_one() {
    // Weights of all classes sum to zero, as weight decay leaves them, and are found from f32 logits.
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
    let found = Head::fit(&case.x, &head.logits(&case.x).unwrap()).unwrap();
    let score = |head: &Head| Vim::fit(&case.x, head, Some(2)).unwrap().score(&batch).unwrap();
    agree("a head found again", &score(&found), &score(&head), 1e-4, 1.0);
}

#[test]
fn a_head_is_found_by_least_squares() {
    let (x, new) = (data::normal(200, 6, 1), data::normal(20, 6, 2));
    let case = Case::new("a head", x, vec![0; 200], 3);
    let exact = case.head().logits(&case.x).unwrap();
    // With noise of a hundredth, no head explains all of the logits.
    let noise = data::normal(200, 5, 4);
    let noisy = exact.as_slice().iter().zip(noise.as_slice()).map(|(z, e)| z + 0.01 * e).collect();
    let noisy = Embeddings::new(noisy, 5).unwrap();
    for logits in [exact, noisy] {
        let (w, b) = rivals::least_squares_head(&to_rows(&case.x), &to_rows(&logits));
        let found = Head::fit(&case.x, &logits).unwrap().logits(&new).unwrap();
        for (q, found) in to_rows(&new).iter().zip(to_rows(&found)) {
            agree("logits", &found, &rivals::linear(&w, &b, q), 1e-6, 1.0);
        }
    }
}

#[test]
fn a_head_is_found_beside_dead_units_and_from_constant_logits() {
    let case = cases().remove(3);
    let found = Head::fit(&case.x, &case.head().logits(&case.x).unwrap()).unwrap();
    for (found, given) in
        to_rows(&found.logits(&case.x).unwrap()).iter().zip(to_rows(&case.head().logits(&case.x).unwrap()))
    {
        agree("dead units", found, &given, SINGLE, 1.0);
    }
    // What never varied says nothing: the columns 1 and 3 are constant.
    let moved = rows(&[&[0.5, 0.0, 0.5, 7.25, 0.5], &[0.5, 9.0, 0.5, -50.0, 0.5]]);
    let moved = to_rows(&found.logits(&moved).unwrap());
    agree("moved", &moved[1], &moved[0], SINGLE, 1.0);
    let constant = Embeddings::new([1e4, -0.1, 3.7].repeat(60), 3).unwrap();
    let found = Head::fit(&case.x, &constant).unwrap().logits(&case.x).unwrap();
    agree("constant", &to_rows(&found)[7], &to_rows(&constant)[7], SINGLE, 1.0);
}

#[test]
fn a_head_is_found_of_columns_in_different_units() {
    // Every second column a tenth of the one before, and read ten times as much.
    let unit = |at: usize| 10f32.powi(-(at as i32 % 12) / 2);
    let in_units = |rows: &Embeddings<'_>, power: i32| {
        let values = rows.as_slice().iter().enumerate().map(|(at, v)| (v + 0.5) * unit(at).powi(power));
        Embeddings::new(values.collect(), 12).unwrap()
    };
    let (x, new) = (in_units(&data::normal(400, 12, 1), 1), in_units(&data::normal(20, 12, 2), 1));
    let head = Head::new(&in_units(&data::normal(5, 12, 3), -1), &[0.5; 5]).unwrap();
    let found = Head::fit(&x, &head.logits(&x).unwrap()).unwrap().logits(&new).unwrap();
    for (found, given) in to_rows(&found).iter().zip(to_rows(&head.logits(&new).unwrap())) {
        agree("units", found, &given, SINGLE, 1.0);
    }
}

#[test]
fn reductions_of_several_predictions_are_their_equations() {
    // Far apart, nearly alike, alike, very sure, tied.
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
        let of_row = |row: usize| {
            let of: Vec<Vec<f64>> = logits.iter().map(|member| to_rows(member)[row].clone()).collect();
            rivals::Members::new(&of)
        };
        let oracle: Vec<rivals::Members> = (0..logits[0].len()).map(of_row).collect();
        let members = Members::new(logits).unwrap();
        let compare = |reduction, floor: f64, theirs: &dyn Fn(&rivals::Members) -> f64| {
            let batch = Batch { members: Some(&members), ..Batch::default() };
            let ours = Ensemble(reduction).score(&batch).unwrap();
            let theirs: Vec<f64> = oracle.iter().map(theirs).collect();
            agree(&Ensemble(reduction).name(), &ours, &theirs, EXACT, floor);
            assert!(ours.iter().all(|score| *score >= 0.0), "{reduction:?}: {ours:?}");
        };
        let least = f64::MIN_POSITIVE / EXACT;
        compare(Reduction::Entropy, least, &rivals::Members::entropy);
        compare(Reduction::MeanEntropy, least, &rivals::Members::mean_entropy);
        // A difference of entropies, which are of the order of one.
        compare(Reduction::MutualInformation, 1e-3, &rivals::Members::mutual_information);
        compare(Reduction::Std, 1e-5, &rivals::Members::deviation);
        compare(Reduction::MaxProb, least, &rivals::Members::max_prob);
    }
}

#[test]
fn of_several_likeliest_classes_the_first_is_predicted() {
    let case = cases().remove(0);
    let tied = Embeddings::new([1.0, 3.0, 0.0, 3.0, 3.0].repeat(18), 5).unwrap();
    let (x, w, z) = (to_rows(&case.x), to_rows(&case.weights), to_rows(&tied));
    let theirs = case.oracle(|i, q| rivals::fdbd(&x, &w, q, &z[i]));
    let batch = Batch { logits: Some(&tied), ..of_embeddings(&case.queries) };
    let ours = Fdbd::fit(&case.x, &case.head()).unwrap().score(&batch).unwrap();
    agree("fDBD of ties", &ours, &theirs, EXACT, 0.0);
    // Means of a third for both classes 0 and 1, from chances of 1/2, 0, 1/2 and of 0, 1, 0.
    let member = |z: [f32; 4]| Embeddings::from_rows(&[z]).unwrap();
    let never = -1e4;
    let half = |other: usize| {
        let mut z = [never; 4];
        (z[0], z[other]) = (0.0, 0.0);
        member(z)
    };
    let members = Members::new(vec![half(2), member([never, 0.0, never, never]), half(3)]).unwrap();
    let batch = Batch { members: Some(&members), ..Batch::default() };
    let deviation = Ensemble(Reduction::Std).score(&batch).unwrap();
    agree("deviation", &deviation, &[(1.0f64 / 18.0).sqrt()], EXACT, 0.0);
}

#[test]
fn hybrid_scores_are_their_equation() {
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
            // Of 101 values, the quantile q is the one with 100 q below it.
            let known = order(&e, (100.0 * q_e) as usize);
            let ambiguous = order(&a, (100.0 * q_a) as usize);
            let oracle = rivals::Huq { aleatoric: &a, epistemic: &e, alpha, known, ambiguous };
            let theirs: Vec<f64> = new_a.iter().zip(&new_e).map(|(a, e)| oracle.score(*a, *e)).collect();
            let ours = Huq::fit(&a, &e, alpha, q_e, q_a).unwrap().score(&new_a, &new_e).unwrap();
            agree("HUQ", &ours, &theirs, EXACT, 1.0);
        }
    }
}

#[test]
fn known_rows_are_below_unknown_ones_in_a_hybrid() {
    // Half of the rows are known. The most ambiguous of them ranks 50th among the known, not 100th of all.
    let aleatoric: Vec<f64> = (0..100).map(|i| f64::from(i % 50)).collect();
    let epistemic: Vec<f64> = (0..100).map(f64::from).collect();
    let huq = Huq::fit(&aleatoric, &epistemic, 0.1, 0.5, 1.0).unwrap();
    let scores = huq.score(&[49.0, 10.0], &[3.0, 99.0]).unwrap();
    assert!(scores[0] < 0.51 && scores[1] > 0.85, "{scores:?}");
}

#[test]
fn the_slope_of_the_loss_vanishes_at_the_temperature() {
    for (factor, seed) in [(1.0, 1), (30.0, 2), (0.05, 3)] {
        let logits = scaled(&data::normal(200, 5, seed), factor);
        let mut rng = SeededRng::new(seed);
        let classes: Vec<u32> = logits
            .rows()
            .map(|row| {
                // Right half of the time.
                let best = (0..5u32).max_by(|&a, &b| row[a as usize].total_cmp(&row[b as usize])).unwrap();
                if rng.uniform() < 0.5 { best } else { rng.below(5) as u32 }
            })
            .collect();
        let t = temperature(&logits, &classes).unwrap();
        let truth: Vec<usize> = classes.iter().map(|class| *class as usize).collect();
        let slope = |t: f64| {
            let (slope, size) = rivals::temperature_slope(&to_rows(&logits), &truth, t);
            slope / size
        };
        assert!((0.011..99.0).contains(&t), "{t}");
        assert!(slope(t).abs() < 1e-12, "{t}: {}", slope(t));
        // The slope rises with 1/T, through zero.
        assert!(slope(t * (1.0 + EXACT)) < 0.0 && slope(t * (1.0 - EXACT)) > 0.0, "{t}");
    }
}

#[test]
fn a_temperature_at_an_end_or_that_says_nothing() {
    // All right, by any margin: the sharper the better.
    for margin in [0.5, 40.0, 1e4] {
        let t = temperature(&rows(&[&[margin, 0.0], &[0.0, margin]]), &[0, 1]).unwrap();
        assert!((t - 0.01).abs() < 1e-10, "{margin}: {t}");
    }
    // All wrong: the flatter the better.
    let t = temperature(&rows(&[&[40.0, 0.0], &[0.0, 1e4]]), &[1, 0]).unwrap();
    assert!((t - 100.0).abs() < 1e-6, "{t}");
    // Flat logits stay flat at any temperature.
    assert_eq!(temperature(&rows(&[&[3.0, 3.0], &[-1.0, -1.0]]), &[1, 0]).unwrap(), 1.0);
}

/// Three classes of 40 rows around 4 times the first three unit vectors, and a head that reads those.
fn easy() -> (Embeddings<'static>, Vec<i64>, Head) {
    let noise = data::normal(120, 4, 1);
    let value = |(at, e): (usize, &f32)| 0.3 * e + if at % 4 == at / 4 % 3 { 4.0 } else { 0.0 };
    let x = noise.as_slice().iter().enumerate().map(value).collect();
    let w = rows(&[&[3.0, 0.0, 0.0, 0.0], &[0.0, 3.0, 0.0, 0.0], &[0.0, 0.0, 3.0, 0.0]]);
    let labels = (0..120).map(|i| i % 3).collect();
    (Embeddings::new(x, 4).unwrap(), labels, Head::new(&w, &[0.0; 3]).unwrap())
}

fn small_sngp(score: SngpScore) -> SngpParams {
    SngpParams { features: 100, score, ..SngpParams::default() }
}

fn small_duq() -> DuqParams {
    DuqParams { projection: 10, steps: 50, ..DuqParams::default() }
}

/// Every scorer, fitted to the easy rows.
fn every_scorer() -> Vec<Box<dyn Scorer>> {
    let (x, y, head) = easy();
    let (logits, l2, auto) = (head.logits(&x).unwrap(), x.l2_normalized(), Shrinkage::LedoitWolf);
    let mut all: Vec<Box<dyn Scorer>> = vec![
        Box::new(MaxProb),
        Box::new(Entropy),
        Box::new(Margin),
        Box::new(Energy::default()),
        Box::new(MaxLogit),
        Box::new(Gen::default()),
        Box::new(Ddu::fit(&x, &y, auto).unwrap()),
        Box::new(Mahalanobis::fit(&x, &y, auto).unwrap()),
        Box::new(RelativeMahalanobis::fit(&x, &y, auto).unwrap()),
        Box::new(KnnDistance::kth(&x, 5).unwrap()),
        Box::new(KnnDistance::mean(&x, 5).unwrap()),
        Box::new(LocalOutlierFactor::fit(&x, 10).unwrap()),
        Box::new(Normalized::new(KnnDistance::kth(&l2, 5).unwrap())),
        Box::new(Normalized::new(Mahalanobis::fit(&l2, &y, auto).unwrap())),
        Box::new(Vim::fit(&x, &head, Some(3)).unwrap()),
        Box::new(Fdbd::fit(&x, &head).unwrap()),
        Box::new(NnGuide::fit(&x, &logits, 10).unwrap()),
        Box::new(React::fit(&x, &head, 0.9).unwrap()),
        Box::new(Sngp::fit(&x, &y, small_sngp(SngpScore::MaxProb)).unwrap()),
        Box::new(Sngp::fit(&x, &y, small_sngp(SngpScore::DempsterShafer)).unwrap()),
        Box::new(Duq::fit(&x, &y, small_duq()).unwrap()),
    ];
    use Reduction::{Entropy as OfMean, MaxProb as Best, MeanEntropy, MutualInformation, Std};
    for reduction in [OfMean, Best, MeanEntropy, MutualInformation, Std] {
        all.push(Box::new(Ensemble(reduction)));
    }
    all
}

/// An inlier, and a far outlier of which the logits say nothing and the members each something else.
fn inlier_and_outlier() -> (Embeddings<'static>, Embeddings<'static>, Members) {
    let queries = rows(&[&[4.0, 0.1, -0.1, 0.05], &[0.0, 0.0, 0.0, 50.0]]);
    let logits = rows(&[&[12.0, 0.3, -0.3], &[0.0, 0.0, 0.0]]);
    let unsure = [[1.0, 0.0, 0.0], [0.0, 1.2, 0.0], [0.0, 0.0, 0.9]];
    let member = |z: &[f32; 3]| Embeddings::from_rows(&[[12.0, 0.0, 0.0], *z]).unwrap();
    (queries, logits, Members::new(unsure.iter().map(member).collect()).unwrap())
}

#[test]
fn higher_is_less_certain_for_every_scorer() {
    let (queries, logits, members) = inlier_and_outlier();
    let batch = Batch {
        embeddings: Some(&queries),
        logits: Some(&logits),
        members: Some(&members),
        ..Batch::default()
    };
    for scorer in every_scorer() {
        let scores = scorer.score(&batch).unwrap();
        assert!(scores[1] > scores[0], "{}: {scores:?}", scorer.name());
    }
}

#[test]
fn scores_are_numbers_however_far_a_row_is() {
    // The largest f32, the smallest, zero, and the training mean.
    let (x, _, _) = easy();
    let mean: Vec<f32> = (0..4).map(|j| (x.column(j).iter().sum::<f64>() / x.len() as f64) as f32).collect();
    let queries =
        rows(&[&[f32::MAX; 4], &[f32::MIN_POSITIVE; 4], &[0.0; 4], &mean, &[-1e30, 0.0, 1e30, 1.0]]);
    let logits =
        rows(&[&[f32::MAX; 3], &[f32::MIN; 3], &[0.0; 3], &[1e4, -1e4, 1e4], &[f32::MAX, 0.0, f32::MIN]]);
    let members = Members::new(vec![logits.clone(), scaled(&logits, 0.5)]).unwrap();
    let batch = Batch {
        embeddings: Some(&queries),
        logits: Some(&logits),
        members: Some(&members),
        ..Batch::default()
    };
    for scorer in every_scorer() {
        let scores = scorer.score(&batch).unwrap();
        assert!(scores.iter().all(|score| !score.is_nan()), "{}: {scores:?}", scorer.name());
    }
}

#[test]
fn what_is_missing_or_does_not_fit_is_said() {
    let (queries, logits, members) = inlier_and_outlier();
    let whole = Batch {
        embeddings: Some(&queries),
        logits: Some(&logits),
        members: Some(&members),
        ..Batch::default()
    };
    let (wide, many) = (data::normal(2, 9, 1), data::normal(2, 8, 2));
    for scorer in every_scorer() {
        let name = scorer.name();
        let error = |batch: &Batch<'_>| scorer.score(batch).err();
        let missing = error(&Batch::default());
        assert!(matches!(missing, Some(Error::MissingInput { .. })), "{name}: {missing:?}");
        let takes = |input| scorer.inputs().contains(&input);
        let (rows, z) = (takes(nuq::baselines::Input::Embeddings), takes(nuq::baselines::Input::Logits));
        if rows {
            let wrong = error(&Batch { embeddings: Some(&wide), ..whole });
            assert!(matches!(wrong, Some(Error::Neighbors(_))), "{name}: {wrong:?}");
        }
        if rows && z {
            let wrong = error(&Batch { logits: Some(&many), ..whole });
            assert!(matches!(wrong, Some(Error::NotPaired { got: 8, .. })), "{name}: {wrong:?}");
            let (one, without) = (queries.gather(&[0]), logits.gather(&[]));
            for batch in
                [Batch { embeddings: Some(&one), ..whole }, Batch { logits: Some(&without), ..whole }]
            {
                let wrong = error(&batch);
                assert!(matches!(wrong, Some(Error::NotPaired { .. })), "{name}: {wrong:?}");
            }
        }
        // No rows have no scores.
        let (no_rows, no_logits) = (queries.gather(&[]), logits.gather(&[]));
        let nobody = Members::new(vec![no_logits.clone()]).unwrap();
        let empty = Batch {
            embeddings: Some(&no_rows),
            logits: Some(&no_logits),
            members: Some(&nobody),
            ..Batch::default()
        };
        assert_eq!(scorer.score(&empty), Ok(vec![]), "{name}");
    }
}

#[test]
fn tables_of_neighbors_are_checked() {
    let (x, _, _) = easy();
    let queries = x.gather(&[0, 1]);
    let (knn, lof) = (KnnDistance::kth(&x, 2).unwrap(), LocalOutlierFactor::fit(&x, 2).unwrap());
    for scorer in [&knn as &dyn Scorer, &lof] {
        let ask = |queries: &Embeddings<'_>, table: &Neighbors| {
            scorer.score(&Batch { neighbors: Some(table), ..of_embeddings(queries) })
        };
        let unknown = Neighbors::new(2, vec![0, 999, 1, 2], vec![0.0; 4]).unwrap();
        let error = ask(&queries, &unknown).unwrap_err();
        assert!(
            matches!(error, Error::Neighbors(nuq_neighbors::Error::UnknownId { id: 999, .. })),
            "{error}"
        );
        let of_others = Neighbors::new(2, vec![0, 1], vec![0.0; 2]).unwrap();
        let error = ask(&queries, &of_others).unwrap_err();
        assert!(matches!(error, Error::NotPaired { got: 1, expected: 2, .. }), "{error}");
        let table = Neighbors::new(2, vec![0, 1, 1, 2], vec![0.0; 4]).unwrap();
        let error = ask(&data::normal(2, 9, 1), &table).unwrap_err();
        assert!(matches!(error, Error::Neighbors(nuq_neighbors::Error::DimensionMismatch { .. })), "{error}");
        // Too few neighbors are searched anew.
        let short = Neighbors::new(1, vec![0, 1], vec![9.0; 2]).unwrap();
        assert_eq!(ask(&queries, &short), scorer.score(&of_embeddings(&queries)));
    }
}

#[test]
fn nothing_and_what_does_not_fit_is_refused_when_fitted() {
    let (x, y, head) = easy();
    let logits = head.logits(&x).unwrap();
    let (none, no_labels) = (x.gather(&[]), [0i64; 0]);
    let auto = Shrinkage::LedoitWolf;
    let empty = Error::Neighbors(nuq_neighbors::Error::Empty);
    assert_eq!(Ddu::fit(&none, &no_labels, auto).err(), Some(empty.clone()));
    assert_eq!(Mahalanobis::fit(&none, &no_labels, auto).err(), Some(empty.clone()));
    assert_eq!(RelativeMahalanobis::fit(&none, &no_labels, auto).err(), Some(empty.clone()));
    assert_eq!(KnnDistance::kth(&none, 1).err(), Some(empty.clone()));
    assert_eq!(LocalOutlierFactor::fit(&none, 1).err(), Some(empty.clone()));
    assert_eq!(Vim::fit(&none, &head, None).err(), Some(empty.clone()));
    assert_eq!(Fdbd::fit(&none, &head).err(), Some(empty.clone()));
    assert_eq!(React::fit(&none, &head, 0.9).err(), Some(empty.clone()));
    assert_eq!(NnGuide::fit(&none, &logits.gather(&[]), 1).err(), Some(empty.clone()));
    assert_eq!(Sngp::fit(&none, &no_labels, SngpParams::default()).err(), Some(empty.clone()));
    assert_eq!(Duq::fit(&none, &no_labels, DuqParams::default()).err(), Some(empty));

    assert!(matches!(Ddu::fit(&x, &y[1..], auto).err(), Some(Error::LengthMismatch { .. })));
    assert!(matches!(Mahalanobis::fit(&x, &y[1..], auto).err(), Some(Error::LengthMismatch { .. })));
    let few = logits.gather(&[0, 1]);
    assert!(matches!(NnGuide::fit(&x, &few, 1).err(), Some(Error::NotPaired { .. })));
    assert!(matches!(Head::fit(&x, &few).err(), Some(Error::NotPaired { .. })));
    let first = |n: u32| (0..n).collect::<Vec<u32>>();
    let four = (x.gather(&first(4)), logits.gather(&first(4)));
    assert_eq!(Head::fit(&four.0, &four.1).err(), Some(Error::FewRows { what: "a head", got: 4, needed: 5 }));
    // A head of other embeddings, wider or narrower.
    for dim in [3, 9] {
        let rows = data::normal(30, dim, 1);
        let wrong = Some(Error::Neighbors(nuq_neighbors::Error::DimensionMismatch { got: dim, expected: 4 }));
        assert_eq!(Vim::fit(&rows, &head, Some(1)).err(), wrong);
        assert_eq!(Fdbd::fit(&rows, &head).err(), wrong);
        assert_eq!(React::fit(&rows, &head, 0.9).err(), wrong);
    }
    let unrelated = data::normal(120, 3, 5);
    assert!(matches!(Head::fit(&x, &unrelated).err(), Some(Error::NotTheHead { .. })));
}

#[test]
fn parameters_out_of_range_are_refused() {
    let (x, y, head) = easy();
    let out = |error: Option<Error>| assert!(matches!(error, Some(Error::OutOfRange { .. })), "{error:?}");
    for t in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        out(Energy::new(t).err());
    }
    out(Gen::new(0.0, 10).err());
    out(Gen::new(1.0, 10).err());
    out(Gen::new(0.1, 0).err());
    for quantile in [0.0, 1.1, f64::NAN] {
        out(React::fit(&x, &head, quantile).err());
        out(Huq::fit(&[1.0], &[1.0], quantile - 0.5, 2.0, 0.5).err());
    }
    for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        out(Sngp::fit(&x, &y, SngpParams { length_scale: Some(wrong), ..SngpParams::default() }).err());
        out(Sngp::fit(&x, &y, SngpParams { ridge: wrong, ..SngpParams::default() }).err());
        out(Duq::fit(&x, &y, DuqParams { length_scale: wrong, ..DuqParams::default() }).err());
        out(Duq::fit(&x, &y, DuqParams { learning_rate: wrong, ..DuqParams::default() }).err());
    }
    out(Sngp::fit(&x, &y, SngpParams { features: 0, ..SngpParams::default() }).err());
    out(Duq::fit(&x, &y, DuqParams { projection: 0, ..DuqParams::default() }).err());
    out(Duq::fit(&x, &y, DuqParams { steps: 0, ..DuqParams::default() }).err());
    out(Duq::fit(&x, &y, DuqParams { batch: 0, ..DuqParams::default() }).err());
    out(Duq::fit(&x, &y, DuqParams { momentum: 1.0, ..DuqParams::default() }).err());
    out(Vim::fit(&x, &head, Some(4)).err());
    out(Ddu::fit(&x, &y, Shrinkage::Fixed(1.5)).err());
    out(Head::new(&data::normal(2, 3, 1), &[0.0, f64::NAN]).err());
    assert!(matches!(Head::new(&data::normal(2, 3, 1), &[0.0]).err(), Some(Error::NotPaired { .. })));
    assert_eq!(KnnDistance::kth(&x, 0).err(), Some(Error::Neighbors(nuq_neighbors::Error::ZeroNeighbors)));
    let logits = head.logits(&x).unwrap();
    assert_eq!(
        NnGuide::fit(&x, &logits, 0).err(),
        Some(Error::Neighbors(nuq_neighbors::Error::ZeroNeighbors))
    );
    assert!(LocalOutlierFactor::fit(&x, 0).is_err() && LocalOutlierFactor::fit(&x.gather(&[0]), 5).is_err());
    assert!(matches!(Members::new(vec![]).err(), Some(Error::NoRows { .. })));
    let unequal = vec![data::normal(2, 3, 1), data::normal(3, 3, 1)];
    assert!(matches!(Members::new(unequal).err(), Some(Error::NotPaired { .. })));
    assert!(matches!(
        Members::new(vec![data::normal(2, 3, 1), data::normal(2, 4, 1)]).err(),
        Some(Error::Neighbors(_))
    ));
    out(temperature(&logits, &[9; 120]).err());
    assert!(matches!(temperature(&logits, &[0]).err(), Some(Error::NotPaired { .. })));
    assert!(matches!(temperature(&logits.gather(&[]), &[]).err(), Some(Error::NoRows { .. })));
}

#[test]
fn hybrids_refuse_what_has_no_rank() {
    let huq = Huq::fit(&[0.1, 0.2], &[0.3, 0.4], 0.5, 0.5, 0.5).unwrap();
    assert_eq!(huq.score(&[], &[]), Ok(vec![]));
    assert!(matches!(huq.score(&[0.1], &[]).err(), Some(Error::NotPaired { .. })));
    assert!(matches!(huq.score(&[0.1, f64::NAN], &[0.1, 0.1]).err(), Some(Error::NanScore { row: 1, .. })));
    assert!(matches!(huq.score(&[0.1], &[f64::NAN]).err(), Some(Error::NanScore { row: 0, .. })));
    assert!(matches!(Huq::fit(&[], &[], 0.5, 0.5, 0.5).err(), Some(Error::NoRows { .. })));
    assert!(matches!(Huq::fit(&[1.0], &[1.0, 2.0], 0.5, 0.5, 0.5).err(), Some(Error::NotPaired { .. })));
}

#[test]
fn a_residual_that_training_rows_do_not_have_cannot_be_weighed() {
    // 20 rows span at most 20 of 64 directions, and the default leaves 32 of them out of the residual.
    let case = cases().remove(5);
    let error = Vim::fit(&case.x, &case.head(), None).err();
    assert!(matches!(error, Some(Error::OutOfRange { value: 32.0, .. })), "{error:?}");
    // Three columns vary, around an origin that may lie outside of them.
    let constant = cases().remove(3);
    let error = Vim::fit(&constant.x, &constant.head(), Some(4)).err();
    assert!(matches!(error, Some(Error::OutOfRange { value: 4.0, .. })), "{error:?}");
    let same = Embeddings::new(vec![0.5; 60], 6).unwrap();
    assert!(Vim::fit(&same, &cases()[0].head(), Some(2)).is_err());
    assert!(Mahalanobis::fit(&same, &[0i64; 10], Shrinkage::LedoitWolf).is_err());
    assert!(LocalOutlierFactor::fit(&same, 3).is_ok());
}

#[test]
fn trained_layers_tell_classes_and_strangers_apart() {
    let (all, labels) = data::clusters(1200, 8, 4, 1.2, 21);
    let part = |first: u32, last: u32| all.gather(&(first..last).collect::<Vec<u32>>());
    let (x, test, y, truth) = (part(0, 600), part(600, 1200), &labels[..600], &labels[600..]);
    let strange = scaled(&data::normal(200, 8, 22), 12.0);
    let sngp = Sngp::fit(&x, y, SngpParams::default()).unwrap();
    let duq = Duq::fit(&x, y, DuqParams::default()).unwrap();
    let accuracy = |said: Vec<&nuq::Label>| {
        said.iter().zip(truth).filter(|(said, truth)| **said == *truth).count() as f64 / 600.0
    };
    // Round clusters of one size: nothing tells them apart better than the nearest of their centers.
    let best = nearest_mean_accuracy(&x, y, &test, truth);
    for said in [sngp.predict(&test).unwrap(), duq.predict(&test).unwrap()] {
        assert!(accuracy(said) > best - 0.02, "{best}");
    }
    for scorer in [&sngp as &dyn Scorer, &duq] {
        let score = |rows: &Embeddings<'_>| scorer.score(&of_embeddings(rows)).unwrap();
        let auc = nuq::metrics::roc_auc(&score(&test), &score(&strange)).unwrap();
        assert!(auc > 0.95, "{}: {auc}", scorer.name());
    }
}

/// How often the nearest mean of a class is that of the right one.
fn nearest_mean_accuracy(x: &Embeddings<'_>, y: &[i64], test: &Embeddings<'_>, truth: &[i64]) -> f64 {
    let mean = |class: i64| {
        let members: Vec<u32> = (0u32..).zip(y).filter(|(_, y)| **y == class).map(|(i, _)| i).collect();
        let members = x.gather(&members);
        (0..x.dim()).map(|j| members.column(j).iter().sum::<f64>() / members.len() as f64).collect::<Vec<_>>()
    };
    let means: Vec<Vec<f64>> = (0..4).map(mean).collect();
    let apart = |q: &[f64], m: &[f64]| q.iter().zip(m).map(|(q, m)| (q - m).powi(2)).sum::<f64>();
    let said =
        |q: &Vec<f64>| (0..4).min_by(|&a, &b| apart(q, &means[a]).total_cmp(&apart(q, &means[b]))).unwrap();
    let right = to_rows(test).iter().zip(truth).filter(|(q, truth)| said(q) as i64 == **truth).count();
    right as f64 / truth.len() as f64
}

#[test]
fn trained_layers_are_the_same_for_any_number_of_threads_and_any_unit() {
    let (x, y) = data::clusters(300, 6, 3, 1.5, 31);
    let scores = |x: &Embeddings<'_>| {
        let sngp =
            Sngp::fit(x, &y, small_sngp(SngpScore::MaxProb)).unwrap().score(&of_embeddings(x)).unwrap();
        [sngp, Duq::fit(x, &y, small_duq()).unwrap().score(&of_embeddings(x)).unwrap()].concat()
    };
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let here = scores(&x);
    assert_eq!(here, alone.install(|| scores(&x)));
    agree("units", &scores(&scaled(&x, 1024.0)), &here, 1e-6, 1e-3);
}

#[test]
fn a_row_alone_has_the_score_that_it_has_among_others() {
    let case = cases().remove(0);
    let (head, labels) = (case.head(), &case.y);
    let (logits, train) = (head.logits(&case.queries).unwrap(), head.logits(&case.x).unwrap());
    let scorers: [Box<dyn Scorer>; 3] = [
        Box::new(NnGuide::fit(&case.x, &train, 10).unwrap()),
        Box::new(Sngp::fit(&case.x, labels, small_sngp(SngpScore::MaxProb)).unwrap()),
        Box::new(Duq::fit(&case.x, labels, small_duq()).unwrap()),
    ];
    for scorer in scorers {
        let batch = Batch { logits: Some(&logits), ..of_embeddings(&case.queries) };
        let together = scorer.score(&batch).unwrap();
        for (i, score) in (0u32..).zip(&together) {
            let (row, z) = (case.queries.gather(&[i]), logits.gather(&[i]));
            let batch = Batch { logits: Some(&z), ..of_embeddings(&row) };
            assert_eq!(scorer.score(&batch).unwrap(), [*score], "{}, row {i}", scorer.name());
        }
    }
}

#[test]
fn layers_refuse_what_they_cannot_learn_from() {
    let (x, y, _) = easy();
    let one = vec![7; 120];
    assert_eq!(Sngp::fit(&x, &one, SngpParams::default()).err(), Some(Error::OneClass { what: "SNGP" }));
    assert_eq!(Duq::fit(&x, &one, DuqParams::default()).err(), Some(Error::OneClass { what: "DUQ" }));
    let short = Some(Error::LengthMismatch { what: "labels", got: 119, expected: 120 });
    assert_eq!(Sngp::fit(&x, &y[1..], SngpParams::default()).err(), short);
    assert_eq!(Duq::fit(&x, &y[1..], DuqParams::default()).err(), short);
    let same = Embeddings::new(vec![0.5; 480], 4).unwrap();
    assert_eq!(Sngp::fit(&same, &y, SngpParams::default()).err(), Some(Error::NoSpread { rows: 120 }));
    assert_eq!(Duq::fit(&same, &y, DuqParams::default()).err(), Some(Error::NoSpread { rows: 120 }));
}
