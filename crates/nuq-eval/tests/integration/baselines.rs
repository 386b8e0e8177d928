//! Every rival against its paper's equation (`nuq_testkit::baselines`).

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
        compare(&MaxProb, least, &baselines::max_prob);
        compare(&Entropy, least, &baselines::entropy);
        compare(&Margin, least, &baselines::margin);
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
    let oracle = baselines::Mahalanobis::fit(&to_rows(&case.x), &case.labels(), case.classes(), shrinkage);
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
        let kth = case.oracle(|_, q| *baselines::knn_distances(&x, q, k).last().unwrap());
        let mean = case.oracle(|_, q| {
            let distances = baselines::knn_distances(&x, q, k);
            distances.iter().sum::<f64>() / distances.len() as f64
        });
        let lof = baselines::LocalOutlierFactor::fit(&x, k);
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
    let theirs = case.oracle(|i, q| baselines::linear(&w, b, q)[i % 5]);
    let ours: Vec<f64> = z.iter().enumerate().map(|(i, row)| row[i % 5]).collect();
    // Logits are stored in f32.
    agree(case.name, &ours, &theirs, 1e-6, 1.0);

    let compare = |scorer: &dyn Scorer, tolerance: f64, theirs: Vec<f64>| {
        let ours = scorer.score(&batch).unwrap();
        agree(&format!("{} of {}", scorer.name(), case.name), &ours, &theirs, tolerance, 1.0);
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
            let theirs = baselines::nnguide(&x, &train_z, k, q, &z[i]);
            // The guides may cancel, and are as exact as the energies they are made of.
            let most = train_z.iter().map(|z| baselines::energy(z, 1.0).abs()).fold(0.0, f64::max);
            let size = most * baselines::energy(&z[i], 1.0).abs();
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
        let (w, b) = baselines::least_squares_head(&to_rows(&case.x), &to_rows(&logits));
        let found = Head::fit(&case.x, &logits).unwrap().logits(&new).unwrap();
        for (q, found) in to_rows(&new).iter().zip(to_rows(&found)) {
            agree("logits", &found, &baselines::linear(&w, &b, q), 1e-6, 1.0);
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
            baselines::Members::new(&of)
        };
        let oracle: Vec<baselines::Members> = (0..logits[0].len()).map(of_row).collect();
        let members = Members::new(logits).unwrap();
        let compare = |reduction, floor: f64, theirs: &dyn Fn(&baselines::Members) -> f64| {
            let batch = Batch { members: Some(&members), ..Batch::default() };
            let ours = Ensemble(reduction).score(&batch).unwrap();
            let theirs: Vec<f64> = oracle.iter().map(theirs).collect();
            agree(&Ensemble(reduction).name(), &ours, &theirs, EXACT, floor);
            assert!(ours.iter().all(|score| *score >= 0.0), "{reduction:?}: {ours:?}");
        };
        let least = f64::MIN_POSITIVE / EXACT;
        compare(Reduction::Entropy, least, &baselines::Members::entropy);
        compare(Reduction::MeanEntropy, least, &baselines::Members::mean_entropy);
        // A difference of entropies, which are of the order of one.
        compare(Reduction::MutualInformation, 1e-3, &baselines::Members::mutual_information);
        compare(Reduction::Std, 1e-5, &baselines::Members::deviation);
        compare(Reduction::MaxProb, least, &baselines::Members::max_prob);
    }
}

#[test]
fn of_several_likeliest_classes_the_first_is_predicted() {
    let case = cases().remove(0);
    let tied = Embeddings::new([1.0, 3.0, 0.0, 3.0, 3.0].repeat(18), 5).unwrap();
    let (x, w, z) = (to_rows(&case.x), to_rows(&case.weights), to_rows(&tied));
    let theirs = case.oracle(|i, q| baselines::fdbd(&x, &w, q, &z[i]));
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
            let oracle = baselines::Huq { aleatoric: &a, epistemic: &e, alpha, known, ambiguous };
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
            let (slope, size) = baselines::temperature_slope(&to_rows(&logits), &truth, t);
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

#[test]
fn a_residual_that_training_rows_do_not_have_cannot_be_weighed() {
    // 20 rows span at most 20 of 64 directions, and the default leaves 32 of them out of the residual.
    let case = cases().remove(5);
    let error = Vim::fit(&case.x, &case.head(), None).err();
    assert!(matches!(error, Some(Error::Model(nuq::Error::OutOfRange { value: 32.0, .. }))), "{error:?}");
    // Three columns vary, around an origin that may lie outside of them.
    let constant = cases().remove(3);
    let error = Vim::fit(&constant.x, &constant.head(), Some(4)).err();
    assert!(matches!(error, Some(Error::Model(nuq::Error::OutOfRange { value: 4.0, .. }))), "{error:?}");
    let same = Embeddings::new(vec![0.5; 60], 6).unwrap();
    assert!(Vim::fit(&same, &cases()[0].head(), Some(2)).is_err());
    assert!(Mahalanobis::fit(&same, &[0i64; 10], Shrinkage::LedoitWolf).is_err());
    assert!(LocalOutlierFactor::fit(&same, 3).is_ok());
}
