//! A mixture whose truth is known: the toy of the paper's appendix on actual uncertainties.

use nuq::{Density, DensityBandwidth, Embeddings, NuqClassifier};
use nuq_report::{Chart, ChartAxis, ChartLine, ChartPanel, Figure, Emphasis, AxisScale};

use super::Lab;
use super::ranks::ranks;
use crate::LabError;
use crate::data::mixture;
use crate::results::{Better, Cell, Claim, Findings, Table, TableRow, Unit};

/// Where the estimate is looked at.
const GRID: (f64, f64, usize) = (-4.0, 10.0, 281);
/// All that the kernel reaches where points are densest.
const NEIGHBORS: usize = 1000;
/// The gap between the bumps.
const GAP: (f64, f64) = (3.0, 5.0);

/// A point of the grid.
struct Point {
    x: f64,
    eta: f64,
    estimate: f64,
    aleatoric: f64,
    epistemic: f64,
}

impl Point {
    /// $\min(\eta, 1 - \eta)$: how often who knows the truth is wrong.
    fn least_risk(&self) -> f64 {
        self.eta.min(1.0 - self.eta)
    }

    fn error(&self) -> f64 {
        (self.estimate - self.eta).abs()
    }
}

pub(super) fn run(lab: &Lab) -> Result<Findings, LabError> {
    // A second even for tests; a tenth of the points estimates the chance too coarsely to be judged.
    let n = 5000;
    let of_seeds: Vec<Vec<Point>> =
        (0..lab.seeds as u64).map(|seed| look(n, seed)).collect::<Result<_, _>>()?;
    let table = table(&of_seeds);
    let claims = claims(&table);
    Ok(Findings {
        claims,
        notes: vec![format!(
            "{n} points of three Gaussians of deviation 1 at −1, 1 and 7, the middle one of class 1; the paper prints no numbers for its own. \
             NUQ sums over {NEIGHBORS} neighbors, with one bandwidth for posterior and density."
        )],
        figures: vec![("toy-uncertainty".to_owned(), figure(&of_seeds[0]))],
        tables: vec![table],
    })
}

fn look(n: usize, seed: u64) -> Result<Vec<Point>, LabError> {
    let (points, classes) = mixture::sample(n, seed);
    let train = Embeddings::new(points, 1)?;
    // The distance to the farthest of so many neighbors is no bandwidth; the posterior's serves, as in the paper.
    let density = Density::Kde { bandwidth: DensityBandwidth::Same };
    let params = NuqClassifier::params().neighbors(NEIGHBORS).density(density).selection_rows(1000);
    let model = params.fit(&train, &classes)?;
    let (low, high, count) = GRID;
    let grid: Vec<f64> = (0..count).map(|i| low + (high - low) * i as f64 / (count - 1) as f64).collect();
    let queries = Embeddings::new(grid.iter().map(|&x| x as f32).collect(), 1)?;
    let (found, probabilities) = (model.predict(&queries)?, model.predict_proba(&queries)?);
    let point = |(i, &x): (usize, &f64)| Point {
        x,
        eta: mixture::eta(x),
        estimate: probabilities.row(i)[1],
        aleatoric: found[i].aleatoric,
        epistemic: found[i].epistemic(),
    };
    Ok(grid.iter().enumerate().map(point).collect())
}

const COVERED: &str = "share of the line where epistemic uncertainty covers the error";
const RANKED: &str = "rank correlation of epistemic uncertainty and error";
const IN_GAP: &str = "epistemic uncertainty in the gap, times that of the bumps";
const ALEATORIC: &str = "mean distance of aleatoric uncertainty from min(η, 1 − η), where there are data";
const TRIVIAL: &str = "the same of an uncertainty that is nought everywhere";

fn table(of_seeds: &[Vec<Point>]) -> Table {
    let row = |name: &str, read: &dyn Fn(&[Point]) -> f64| TableRow {
        name: name.to_owned(),
        cells: vec![Cell::new(of_seeds.iter().map(|points| read(points)).collect())],
    };
    let trivial = Cell::new(of_seeds.iter().take(1).map(|points| distance(points, |_| 0.0)).collect());
    Table {
        title: "How near uncertainties are to what they stand for".to_owned(),
        corner: "".to_owned(),
        columns: vec!["value".to_owned()],
        rows: vec![
            row(COVERED, &covered),
            row(RANKED, &ranked),
            row(IN_GAP, &in_gap),
            row(ALEATORIC, &|points| distance(points, |point| point.aleatoric)),
            // Without data in it, the same for every seed.
            TableRow { name: TRIVIAL.to_owned(), cells: vec![trivial] },
        ],
        unit: Unit::Plain,
        better: Better::Neither,
        paper_of: None,
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / f64::max(count, 1.0)
}

fn covered(points: &[Point]) -> f64 {
    mean(points.iter().map(|point| f64::from(u8::from(point.epistemic >= point.error()))))
}

/// Spearman's coefficient.
fn ranked(points: &[Point]) -> f64 {
    let of = |read: fn(&Point) -> f64| ranks(&points.iter().map(read).collect::<Vec<_>>());
    let (a, b) = (of(|point| point.epistemic), of(Point::error));
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - 0.5) * (b - 0.5)).sum::<f64>();
    product(&a, &b) / (product(&a, &a) * product(&b, &b)).sqrt()
}

fn in_gap(points: &[Point]) -> f64 {
    let is_in_gap = |point: &&Point| (GAP.0..=GAP.1).contains(&point.x);
    let is_on_bump = |point: &&Point| mixture::COMPONENTS.iter().any(|(at, _)| (point.x - at).abs() < 1.0);
    let clipped = |point: &Point| point.epistemic.min(1.0);
    mean(points.iter().filter(is_in_gap).map(clipped)) / mean(points.iter().filter(is_on_bump).map(clipped))
}

/// How far an uncertainty is from the truth where there are data.
fn distance(points: &[Point], said: fn(&Point) -> f64) -> f64 {
    let seen = |point: &&Point| mixture::density(point.x, 0) + mixture::density(point.x, 1) > 0.005;
    mean(points.iter().filter(seen).map(|point| (said(point) - point.least_risk()).abs()))
}

fn claims(table: &Table) -> Vec<Claim> {
    let value = |row: &str| table.cell(row, "value").and_then(Cell::mean).unwrap_or(f64::NAN);
    let (gap, covered) = (value(IN_GAP), value(COVERED));
    let (aleatoric, trivial) = (value(ALEATORIC), value(TRIVIAL));
    vec![
        Claim::new(
            "epistemic-follows-error",
            "Epistemic uncertainty is large where the estimate is off: in the gap several times what it is on the bumps, and at least \
             the error nearly everywhere.",
            gap > 3.0 && covered > 0.85,
            format!("{gap:.1} times; covers {:.0} % of the line", 100.0 * covered),
        ),
        Claim::new(
            "aleatoric-follows-truth",
            "Aleatoric uncertainty is high exactly where the true chance is near one half: its mean distance from the truth is below a \
             fifth of what it would be if it were nought everywhere.",
            aleatoric < 0.2 * trivial,
            format!("{aleatoric:.4} against {trivial:.4}"),
        ),
    ]
}

fn figure(points: &[Point]) -> Figure {
    let line = |name: &str, emphasis, read: &dyn Fn(&Point) -> f64| ChartLine {
        name: name.to_owned(),
        emphasis,
        points: points.iter().map(|point| (point.x, read(point))).collect(),
    };
    let panel = |title: &str, ends: (f64, f64), lines| ChartPanel {
        y: ChartAxis::between(title, AxisScale::Linear, ends.0, ends.1),
        height: 150.0,
        lines,
    };
    let highest = points.iter().map(|point| point.epistemic.min(1.0).max(point.error())).fold(0.1, f64::max);
    let chart = Chart {
        title: "Uncertainties beside the truth".to_owned(),
        caption: "Three Gaussians on a line, two classes. Top: the data. Middle: epistemic uncertainty, cut at one, and the actual error \
                  of the estimate. Bottom: aleatoric uncertainty and the chance of error of who knows the truth."
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
                    line("truth", Emphasis::Reference, &Point::error),
                ],
            ),
            panel(
                "aleatoric",
                (0.0, 0.5),
                vec![
                    line("NUQ", Emphasis::Strong, &|point| point.aleatoric),
                    line("truth", Emphasis::Reference, &Point::least_risk),
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
            let rows = [(COVERED, [0.9]), (IN_GAP, [gap]), (ALEATORIC, [aleatoric]), (TRIVIAL, [0.05])];
            claims(&numbers(["value"], &rows)).iter().map(|claim| claim.holds).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(5.0, 0.009), [true, true]);
        // What is nought everywhere is as far off as the trivial answer.
        assert_eq!(verdicts(2.0, 0.05), [false, false]);
    }

    #[test]
    fn distances_and_ranks_by_hand() {
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
        assert!((ranked(&points) - 1.0).abs() < 1e-12);
    }
}
