//! One-dimensional mixture with known class probabilities: the paper's appendix on actual uncertainties.

use nuq::{Density, DensityBandwidth, Embeddings, NuqClassifier};
use nuq_report::{AxisScale, Chart, ChartAxis, ChartLine, ChartPanel, Emphasis, Figure};

use super::Context;
use super::ranks::ranks;
use crate::LabError;
use crate::data::mixture;
use crate::results::{Better, Cell, Claim, Findings, Table, TableRow, Unit};

/// Query grid: first point, last point, number of points.
const GRID: (f64, f64, usize) = (-4.0, 10.0, 281);
/// Number of neighbors. It is so large that the kernel weights of all farther points are negligible, even where points are densest.
const NEIGHBORS: usize = 1000;
/// The gap between the second and the third component of the mixture.
const GAP: (f64, f64) = (3.0, 5.0);

/// True and estimated values at a point of the grid.
struct Point {
    x: f64,
    /// η, the true probability of class 1.
    eta: f64,
    /// Probability of class 1 estimated by NUQ.
    estimate: f64,
    aleatoric: f64,
    epistemic: f64,
}

impl Point {
    /// The Bayes risk min(η, 1 − η).
    fn bayes_risk(&self) -> f64 {
        self.eta.min(1.0 - self.eta)
    }

    fn error(&self) -> f64 {
        (self.estimate - self.eta).abs()
    }
}

pub(super) fn run(context: &Context) -> Result<Findings, LabError> {
    // The number of points is the same for all sizes of a run: with fewer points, the estimate of η would be too coarse for the claims, and
    // the run takes only one second.
    let n = 5000;
    let per_seed: Vec<Vec<Point>> =
        (0..context.seeds as u64).map(|seed| evaluate_grid(n, seed)).collect::<Result<_, _>>()?;
    let table = table(&per_seed);
    let claims = claims(&table);
    Ok(Findings {
        claims,
        notes: vec![format!(
            "{n} points of three Gaussians with standard deviation 1 at −1, 1 and 7; the middle one is class 1. The paper does not give the \
             parameters of its mixture. NUQ uses {NEIGHBORS} neighbors and one bandwidth for posterior and density."
        )],
        figures: vec![("toy-uncertainty".to_owned(), figure(&per_seed[0]))],
        tables: vec![table],
    })
}

fn evaluate_grid(n: usize, seed: u64) -> Result<Vec<Point>, LabError> {
    let (points, classes) = mixture::sample(n, seed);
    let train = Embeddings::new(points, 1)?;
    // The default density bandwidth is computed from the distance to the last neighbor, which is too large with so many neighbors. As in
    // the paper, the posterior bandwidth is used.
    let density = Density::Kde { bandwidth: DensityBandwidth::Same };
    let params = NuqClassifier::params().n_neighbors(NEIGHBORS).density(density).selection_rows(1000);
    let model = params.fit(&train, &classes)?;
    let (low, high, count) = GRID;
    let grid: Vec<f64> = (0..count).map(|i| low + (high - low) * i as f64 / (count - 1) as f64).collect();
    let queries = Embeddings::new(grid.iter().map(|&x| x as f32).collect(), 1)?;
    let (predictions, probabilities) = (model.predict(&queries)?, model.predict_proba(&queries)?);
    let point = |(i, &x): (usize, &f64)| Point {
        x,
        eta: mixture::eta(x),
        estimate: probabilities.row(i)[1],
        aleatoric: predictions[i].aleatoric,
        epistemic: predictions[i].epistemic(),
    };
    Ok(grid.iter().enumerate().map(point).collect())
}

const COVERED: &str = "share of the grid where epistemic uncertainty ≥ error";
const RANK_CORRELATION: &str = "rank correlation of epistemic uncertainty and error";
const GAP_RATIO: &str = "mean epistemic uncertainty (clipped at 1) in the gap / at the components";
const ALEATORIC: &str =
    "mean absolute difference of aleatoric uncertainty and Bayes risk min(η, 1 − η), where there are data";
const TRIVIAL: &str = "mean absolute difference of zero and Bayes risk, where there are data";

fn table(per_seed: &[Vec<Point>]) -> Table {
    let row = |name: &str, statistic: &dyn Fn(&[Point]) -> f64| TableRow {
        name: name.to_owned(),
        cells: vec![Cell::new(per_seed.iter().map(|points| statistic(points)).collect())],
    };
    let trivial = Cell::new(per_seed.iter().take(1).map(|points| distance(points, |_| 0.0)).collect());
    Table {
        title: "Estimated uncertainties and true values".to_owned(),
        corner: "".to_owned(),
        columns: vec!["value".to_owned()],
        rows: vec![
            row(COVERED, &covered),
            row(RANK_CORRELATION, &rank_correlation),
            row(GAP_RATIO, &gap_ratio),
            row(ALEATORIC, &|points| distance(points, |point| point.aleatoric)),
            // This value does not depend on the seed, so the cell has a single value.
            TableRow { name: TRIVIAL.to_owned(), cells: vec![trivial] },
        ],
        unit: Unit::Plain,
        better: Better::Neither,
        paper_data_set: None,
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / f64::max(count, 1.0)
}

fn covered(points: &[Point]) -> f64 {
    mean(points.iter().map(|point| f64::from(u8::from(point.epistemic >= point.error()))))
}

/// Spearman's rank correlation of epistemic uncertainty and error.
fn rank_correlation(points: &[Point]) -> f64 {
    let ranks_of = |value: fn(&Point) -> f64| ranks(&points.iter().map(value).collect::<Vec<_>>());
    let (a, b) = (ranks_of(|point| point.epistemic), ranks_of(Point::error));
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - 0.5) * (b - 0.5)).sum::<f64>();
    product(&a, &b) / (product(&a, &a) * product(&b, &b)).sqrt()
}

fn gap_ratio(points: &[Point]) -> f64 {
    let is_in_gap = |point: &&Point| (GAP.0..=GAP.1).contains(&point.x);
    let is_at_component =
        |point: &&Point| mixture::COMPONENTS.iter().any(|(mean, _)| (point.x - mean).abs() < 1.0);
    let clipped = |point: &Point| point.epistemic.min(1.0);
    mean(points.iter().filter(is_in_gap).map(clipped))
        / mean(points.iter().filter(is_at_component).map(clipped))
}

/// Mean absolute difference of an uncertainty and the Bayes risk, over the points of the grid where there are data.
fn distance(points: &[Point], uncertainty: fn(&Point) -> f64) -> f64 {
    let has_data = |point: &&Point| mixture::density(point.x, 0) + mixture::density(point.x, 1) > 0.005;
    mean(points.iter().filter(has_data).map(|point| (uncertainty(point) - point.bayes_risk()).abs()))
}

fn claims(table: &Table) -> Vec<Claim> {
    let value = |row: &str| table.cell(row, "value").and_then(Cell::mean).unwrap_or(f64::NAN);
    let (gap, covered) = (value(GAP_RATIO), value(COVERED));
    let (aleatoric, trivial) = (value(ALEATORIC), value(TRIVIAL));
    vec![
        Claim::new(
            "epistemic-follows-error",
            "Epistemic uncertainty is large where the estimation error is large: its mean in the gap is more than 3 times that at the \
             components, and it is at least as large as the error on more than 85 % of the grid.",
            gap > 3.0 && covered > 0.85,
            format!("{gap:.1} times; {:.0} % of the grid", 100.0 * covered),
        ),
        Claim::new(
            "aleatoric-follows-truth",
            "Aleatoric uncertainty is close to the Bayes risk: the mean absolute difference is less than a fifth of that of a constant \
             uncertainty of zero.",
            aleatoric < 0.2 * trivial,
            format!("{aleatoric:.4} against {trivial:.4}"),
        ),
    ]
}

fn figure(points: &[Point]) -> Figure {
    let line = |name: &str, emphasis, value: &dyn Fn(&Point) -> f64| ChartLine {
        name: name.to_owned(),
        emphasis,
        points: points.iter().map(|point| (point.x, value(point))).collect(),
    };
    let panel = |title: &str, ends: (f64, f64), lines| ChartPanel {
        y: ChartAxis::between(title, AxisScale::Linear, ends.0, ends.1),
        height: 150.0,
        lines,
    };
    let highest = points.iter().map(|point| point.epistemic.min(1.0).max(point.error())).fold(0.1, f64::max);
    let chart = Chart {
        title: "Estimated uncertainties and true values".to_owned(),
        caption: "Three Gaussians in one dimension, two classes. Top: class densities. Middle: epistemic uncertainty, clipped at 1, and the \
                  error of the estimated class probability. Bottom: aleatoric uncertainty and Bayes risk."
            .to_owned(),
        x: ChartAxis::between("x", AxisScale::Linear, GRID.0, GRID.1),
        panels: vec![
            panel(
                "density",
                (0.0, 0.15),
                vec![
                    line("class 0", Emphasis::Normal, &|point| mixture::density(point.x, 0)),
                    line("class 1", Emphasis::Normal, &|point| mixture::density(point.x, 1)),
                ],
            ),
            panel(
                "epistemic",
                (0.0, 0.1 * (10.0 * highest).ceil()),
                vec![
                    line("NUQ", Emphasis::Strong, &|point| point.epistemic.min(1.0)),
                    line("error", Emphasis::Reference, &Point::error),
                ],
            ),
            panel(
                "aleatoric",
                (0.0, 0.5),
                vec![
                    line("NUQ", Emphasis::Strong, &|point| point.aleatoric),
                    line("Bayes risk", Emphasis::Reference, &Point::bayes_risk),
                ],
            ),
        ],
    };
    chart.draw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::numbers;

    #[test]
    fn claims_can_fail() {
        let verdicts = |gap: f64, aleatoric: f64| {
            let rows = [(COVERED, [0.9]), (GAP_RATIO, [gap]), (ALEATORIC, [aleatoric]), (TRIVIAL, [0.05])];
            claims(&numbers(["value"], &rows)).iter().map(|claim| claim.holds).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(5.0, 0.009), [true, true]);
        // An aleatoric difference as large as the difference of a constant zero must fail.
        assert_eq!(verdicts(2.0, 0.05), [false, false]);
    }

    #[test]
    fn statistics_have_expected_values() {
        let point = |eta: f64, estimate: f64, epistemic: f64| Point {
            x: 0.0,
            eta,
            estimate,
            aleatoric: 0.5,
            epistemic,
        };
        let points = [point(0.5, 0.5, 0.1), point(0.8, 0.6, 0.2), point(0.1, 0.6, 0.3)];
        assert!((distance(&points, |point| point.aleatoric) - (0.0 + 0.3 + 0.4) / 3.0).abs() < 1e-12);
        assert!((distance(&points, |_| 0.0) - (0.5 + 0.2 + 0.1) / 3.0).abs() < 1e-12);
        assert!((rank_correlation(&points) - 1.0).abs() < 1e-12);
    }
}
