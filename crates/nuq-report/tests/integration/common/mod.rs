//! A synthetic report. Scores are drawn from normal distributions. Risk-coverage curves, ROC curves, the areas under them, count curves,
//! FPR95 and the histograms are computed from these scores. All other values, such as AUPR and the intervals, are invented.

use nuq_report::{
    BandwidthCurve, Cell, Curve, CurveKind, Fact, Family, Histogram, HistogramSet, Interval, Map, MapPoint,
    Mark, Method, Neighbor, OodCells, OodSet, Provenance, Report, TestSet, UncertainRow,
};

const ROWS: usize = 1000;
const CLASSES: [&str; 10] =
    ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];

/// Seeded random numbers (SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A uniform number in [0, 1).
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A standard normal number.
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// Name, family, shift of the scores of errors, shift of the scores of OOD rows, milliseconds and bytes of a method.
type MethodSpec = (&'static str, Family, f64, f64, f64, u64);

const METHODS: [MethodSpec; 14] = [
    ("nuq total", Family::Nuq, 2.0, 2.6, 24.1, 8_400_000),
    ("nuq epistemic", Family::Nuq, 1.6, 2.7, 24.1, 8_400_000),
    ("nuq aleatoric", Family::Nuq, 1.9, 1.4, 24.1, 8_400_000),
    ("nuq log density", Family::Nuq, 1.3, 2.6, 23.8, 8_400_000),
    ("max probability", Family::Logits, 1.9, 1.6, 0.021, 0),
    ("entropy", Family::Logits, 1.8, 1.65, 0.034, 0),
    ("energy", Family::Logits, 1.4, 1.75, 0.03, 0),
    ("max logit", Family::Logits, 1.45, 1.7, 0.02, 0),
    ("k-th neighbor", Family::Embeddings, 1.35, 2.4, 22.6, 0),
    ("mahalanobis", Family::Embeddings, 1.1, 1.9, 11.7, 2_097_152),
    ("relative mahalanobis", Family::Embeddings, 1.2, 2.1, 23.0, 4_194_304),
    ("ddu", Family::Embeddings, 1.15, 2.0, 98.3, 10_485_760),
    ("vim", Family::Both, 1.25, 2.3, 14.2, 1_048_576),
    ("react energy", Family::Both, 1.3, 1.6, 0.8, 2_048),
];

/// Scores of one method.
struct Scores {
    test: Vec<f64>,
    ood: Vec<Vec<f64>>,
}

/// A report on a test set of 1000 rows and OOD sets of 500 rows each.
pub(crate) fn sample(ood: &[&str]) -> Report {
    let mut random = Random(7);
    let is_wrong: Vec<bool> = (0..ROWS).map(|_| random.uniform() < 0.062).collect();
    let scores: Vec<Scores> =
        METHODS.iter().map(|spec| draw(&mut random, spec, &is_wrong, ood.len())).collect();
    let methods: Vec<Method> =
        METHODS.iter().zip(&scores).map(|(spec, s)| method(spec, s, &is_wrong)).collect();
    let shown = [0, 1, 4, 8, 9];
    Report {
        summary: "The network has an accuracy of 93.8 % on 1000 test rows, and 98.1 % on the 90 % with the lowest total \
                  uncertainty.\nEpistemic uncertainty separates svhn (ROC-AUC 0.968 ± 0.011) from the test rows."
            .to_owned(),
        model: facts(),
        test: TestSet {
            name: "cifar10-test".to_owned(),
            rows: ROWS,
            training_rows: 0,
            accuracy: interval(1.0 - share(&is_wrong), 0.015),
            rejected: Some(0.048),
        },
        ood: ood.iter().map(|name| OodSet { name: (*name).to_owned(), rows: 500, rejected: Some(0.83) }).collect(),
        risk_coverage: shown.iter().map(|&i| risk_coverage(METHODS[i].0, &scores[i].test, &is_wrong)).chain([best_risk(&is_wrong)]).collect(),
        roc: (0..ood.len()).map(|set| shown.iter().map(|&i| roc(METHODS[i].0, &scores[i], set)).collect()).collect(),
        counts: (0..ood.len())
            .map(|set| shown.iter().map(|&i| counts(METHODS[i].0, &scores[i], set)).chain([best_count()]).collect())
            .collect(),
        histograms: [(1, "log epistemic"), (2, "aleatoric")].map(|(i, score)| histogram(score, &scores[i], ood)).to_vec(),
        bandwidth: Some(bandwidth()),
        map: Some(map(&mut random, ood)),
        most_uncertain: (0..12).map(|i| uncertain_row(&mut random, i, ood)).collect(),
        methods,
        skipped: vec![Fact {
            name: "fDBD".to_owned(),
            value: "500 rows do not determine the last layer of the network: at least 513 are needed".to_owned(),
        }],
        provenance: Provenance {
            command: "nuq evaluate --model cifar10.nuq --embeddings examples/cifar10/test.npz:embeddings --labels \
                      examples/cifar10/test.npz:labels --ood svhn=examples/cifar10/svhn.npz:embeddings --report report.html"
                .to_owned(),
            version: "nuq 0.1.0".to_owned(),
            model_written_by: "nuq 0.1.0".to_owned(),
            seed: 0,
            resamples: 1000,
        },
    }
}

fn facts() -> Vec<Fact> {
    [
        ("task", "classification"),
        ("rows", "2000 × 512, 10 classes"),
        ("index", "exact search\nas requested"),
        ("n_neighbors", "20"),
        ("kernel", "gaussian"),
        ("bandwidth", "1.2985, by leave-one-out on 2000 rows (accuracy 0.9965)"),
        ("density", "kde, bandwidth 1.0742"),
        ("dimension", "6.60"),
        ("prior_weight", "0.001"),
    ]
    .map(|(name, value)| Fact { name: name.to_owned(), value: value.to_owned() })
    .to_vec()
}

fn interval(value: f64, half: f64) -> Interval {
    Interval { value, low: (value - half).max(0.0), high: (value + half).min(1.0) }
}

fn share(flags: &[bool]) -> f64 {
    flags.iter().filter(|&&flag| flag).count() as f64 / flags.len() as f64
}

fn draw(random: &mut Random, spec: &MethodSpec, is_wrong: &[bool], sets: usize) -> Scores {
    let test = is_wrong.iter().map(|&wrong| random.normal() + if wrong { spec.2 } else { 0.0 }).collect();
    let ood = (0..sets)
        .map(|set| (0..500).map(|_| random.normal() + spec.3 - 0.45 * set as f64).collect())
        .collect();
    Scores { test, ood }
}

fn method(spec: &MethodSpec, scores: &Scores, is_wrong: &[bool]) -> Method {
    let cell = |value: f64, half: f64, is_best: bool| Cell { interval: interval(value, half), is_best };
    let is_best = spec.3 > 2.55;
    let ood: Vec<OodCells> = (0..scores.ood.len())
        .map(|set| {
            let curve = roc("", scores, set).points;
            let area = area(&curve);
            let fpr95 = curve.iter().find(|point| point.1 >= 0.95).map_or(1.0, |point| point.0);
            OodCells {
                roc_auc: cell(area, 0.011, is_best),
                aupr: cell(area - 0.02, 0.014, is_best),
                fpr95: cell(fpr95, 0.034, is_best),
            }
        })
        .collect();
    let risk = area(&risk_coverage("", &scores.test, is_wrong).points);
    let mean = ood.iter().map(|cells| cells.roc_auc.interval.value).sum::<f64>() / ood.len() as f64;
    Method {
        name: spec.0.to_owned(),
        family: spec.1,
        rcc_auc: cell(risk, 0.0021, spec.2 > 1.85),
        mean_roc_auc: (!ood.is_empty()).then_some(mean),
        ood,
        milliseconds: Some(spec.4),
        bytes: spec.5,
    }
}

fn area(points: &[(f64, f64)]) -> f64 {
    points.windows(2).map(|pair| 0.5 * (pair[0].1 + pair[1].1) * (pair[1].0 - pair[0].0)).sum()
}

/// Indices of the scores in ascending order.
fn order(scores: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[a].total_cmp(&scores[b]));
    order
}

/// Kind of the curve of a method; a reference if no method has this name.
fn kind(name: &str) -> CurveKind {
    match METHODS.iter().find(|spec| spec.0 == name) {
        Some(spec) if spec.1 == Family::Nuq => CurveKind::Nuq,
        Some(_) => CurveKind::Baseline,
        None => CurveKind::Reference,
    }
}

fn risk_coverage(name: &str, scores: &[f64], is_wrong: &[bool]) -> Curve {
    let mut wrong = 0.0;
    let point = |(i, row): (usize, usize)| {
        wrong += f64::from(u8::from(is_wrong[row]));
        ((i + 1) as f64 / ROWS as f64, wrong / (i + 1) as f64)
    };
    Curve {
        name: name.to_owned(),
        kind: kind(name),
        points: order(scores).into_iter().enumerate().map(point).collect(),
    }
}

fn best_risk(is_wrong: &[bool]) -> Curve {
    let scores: Vec<f64> = is_wrong.iter().map(|&wrong| f64::from(u8::from(wrong))).collect();
    risk_coverage("best possible", &scores, is_wrong)
}

/// Scores of the test set followed by the scores of an OOD set, and the number of test rows.
fn mixed(scores: &Scores, set: usize) -> (Vec<f64>, usize) {
    (scores.test.iter().chain(&scores.ood[set]).copied().collect(), scores.test.len())
}

fn roc(name: &str, scores: &Scores, set: usize) -> Curve {
    let (all, test_rows) = mixed(scores, set);
    let (mut false_positives, mut true_positives) = (0.0, 0.0);
    let mut points = vec![(0.0, 0.0)];
    for row in order(&all).into_iter().rev() {
        if row < test_rows {
            false_positives += 1.0 / test_rows as f64
        } else {
            true_positives += 1.0 / (all.len() - test_rows) as f64
        }
        points.push((false_positives, true_positives));
    }
    Curve { name: name.to_owned(), kind: kind(name), points }
}

/// Count curve: (number of accepted rows, number of OOD rows among them). The most certain rows are accepted.
fn counts(name: &str, scores: &Scores, set: usize) -> Curve {
    let (all, test_rows) = mixed(scores, set);
    let mut of_set = 0.0;
    let mut points = vec![(0.0, 0.0)];
    for (i, row) in order(&all).into_iter().enumerate() {
        of_set += f64::from(u8::from(row >= test_rows));
        points.push(((i + 1) as f64, of_set));
    }
    Curve { name: name.to_owned(), kind: kind(name), points }
}

fn best_count() -> Curve {
    Curve {
        name: "best possible".to_owned(),
        kind: CurveKind::Reference,
        points: vec![(0.0, 0.0), (1000.0, 0.0), (1500.0, 500.0)],
    }
}

fn histogram(score: &str, scores: &Scores, ood: &[&str]) -> Histogram {
    // The last bin counts all scores above 4.
    let edges: Vec<f64> = (0..=32).map(|i| -4.0 + 0.25 * f64::from(i)).chain([f64::INFINITY]).collect();
    let bars = |name: &str, values: &[f64]| {
        let within = |ends: &[f64]| values.iter().filter(|&&v| v >= ends[0] && v < ends[1]).count();
        let shares = edges.windows(2).map(|ends| within(ends) as f64 / values.len() as f64).collect();
        HistogramSet { name: name.to_owned(), rows: values.len(), shares }
    };
    let mut sets = vec![bars("cifar10-test", &scores.test)];
    sets.extend(ood.iter().zip(&scores.ood).map(|(name, values)| bars(name, values)));
    let threshold = Some(Mark { name: "threshold".to_owned(), value: 1.86 });
    Histogram { score: score.to_owned(), edges, sets, threshold }
}

fn bandwidth() -> BandwidthCurve {
    let point = |i: i32| {
        let h = 0.2 * 1.22f64.powi(i);
        let off = (h / 1.3).ln();
        (h, 0.9965 - 0.006 * off * off, -0.021 - 0.03 * off * off - 0.004 * off.powi(3))
    };
    BandwidthCurve { points: (0..20).map(point).collect(), chosen: 9 }
}

fn map(random: &mut Random, ood: &[&str]) -> Map {
    let names = std::iter::once("cifar10-test").chain(ood.iter().copied());
    let mut points = Vec::new();
    for (set, rows) in std::iter::once(ROWS).chain(ood.iter().map(|_| 500)).enumerate() {
        for row in 0..rows {
            points.push(map_point(random, set, row));
        }
    }
    Map { explained: (0.312, 0.187), sets: names.map(str::to_owned).collect(), points }
}

/// Test rows are drawn around ten centers on an ellipse, OOD rows around ten centers on a smaller ellipse inside it.
fn map_point(random: &mut Random, set: usize, row: usize) -> MapPoint {
    let class = (random.uniform() * 10.0) as usize;
    let angle = class as f64 * std::f64::consts::TAU / 10.0;
    let (ring, spread) = if set == 0 { (6.0, 0.8) } else { (1.6, 1.5) };
    let (dx, dy) = (spread * random.normal(), spread * random.normal());
    let distance = dx.hypot(dy) / spread;
    let rank = (if set == 0 { 0.3 * distance } else { 0.7 + 0.1 * random.normal() }).clamp(0.0, 1.0);
    let truth = (set == 0).then(|| CLASSES[if distance > 2.6 { (class + 1) % 10 } else { class }].to_owned());
    MapPoint {
        x: ring * angle.cos() * 1.4 + dx,
        y: ring * angle.sin() + dy,
        set,
        row,
        label: CLASSES[class].to_owned(),
        truth,
        probability: 1.0 - 0.6 * rank,
        // `checks.js` points at the fourth point of the map and expects that infinity is shown.
        log_epistemic: if row == 3 { f64::NEG_INFINITY } else { -9.0 + 14.0 * rank },
        rank,
    }
}

fn uncertain_row(random: &mut Random, i: usize, ood: &[&str]) -> UncertainRow {
    let set = if ood.is_empty() || i % 3 == 2 { "cifar10-test" } else { ood[i % ood.len()] };
    let near = |k: usize| Neighbor {
        row: (random.uniform() * 2000.0) as u32,
        distance: 11.0 + 0.4 * k as f64 + random.uniform(),
        label: CLASSES[(i + k * k) % 10].to_owned(),
    };
    let neighbors = (0..4).map(near).collect();
    UncertainRow {
        set: set.to_owned(),
        row: 17 + 31 * i,
        label: CLASSES[i % 10].to_owned(),
        truth: (set == "cifar10-test").then(|| CLASSES[(i + i % 2) % 10].to_owned()),
        probability: 0.41 + 0.02 * i as f64,
        aleatoric: 0.59 - 0.02 * i as f64,
        log_epistemic: 41.3 - 2.7 * i as f64,
        neighbors,
    }
}
