//! Classification with a reject option in one dimension: the paper's appendix on Algorithm 2.

use nuq::{BandwidthRule, Decision, Embeddings, NuqClassifier, RejectRule};
use nuq_report::{AxisScale, Chart, ChartAxis, ChartLine, ChartPanel, Emphasis, Figure};

use super::Context;
use crate::LabError;
use crate::data::steps;
use crate::random::random_stream;
use crate::results::{Better, Cell, Claim, Findings, Table, TableRow, Unit};

/// Query points.
const POINTS: [f64; 4] = [0.1, 0.3, 0.5, 0.95];
/// Cost of a rejection.
const COST: f64 = 0.2;
/// Level β of NUQ's rule. The paper uses the quantile 1 − β = 0.95.
const LEVEL: f64 = 0.05;
const RULES: [&str; 2] = ["NUQ", "plug-in"];

/// Mean excess risk (risk minus the risk of the optimal rule) of each rule at each query point.
type Excess = [[f64; POINTS.len()]; RULES.len()];

pub(super) fn run(context: &Context) -> Result<Findings, LabError> {
    let (sizes, repetitions) = context.size.pick(
        (vec![10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000], 300),
        (vec![10, 30, 100, 300, 1000, 3000], 100),
        (vec![10, 100, 1000], 20),
    );
    let mut curves: Vec<(usize, Excess)> = Vec::new();
    for &n in &sizes {
        context.log(&format!("toy-reject: {n} points, {repetitions} repetitions"));
        curves.push((n, mean_excess(n, repetitions)?));
    }
    let table = table(&curves);
    Ok(Findings {
        claims: claims(&table),
        notes: vec![format!(
            "Mean over {repetitions} draws of the data. Cost of a rejection: {COST}; β = {LEVEL}; Gaussian kernel, Silverman's bandwidth, \
             Algorithm 2 as printed. The paper gives neither the parameters of its step function nor the cost of a rejection. Here the \
             function has the values 0, 0.3, 0.9 and 0.6 with steps at 0.2, 0.5 and 0.85. The rule that is better at a point is partly \
             determined by construction: NUQ accepts a subset of the queries that the plug-in rule accepts. Where rejection is optimal (0.3, \
             0.5, 0.95), the risk of NUQ is never higher. Where acceptance is optimal (0.1), the risk of NUQ is never lower, unless the \
             plug-in rule accepts the wrong class. The claims test the size of these differences."
        )],
        figures: vec![("toy-reject".to_owned(), figure(&curves))],
        tables: vec![table],
    })
}

fn mean_excess(n: usize, repetitions: usize) -> Result<Excess, LabError> {
    let rules = [RejectRule::confident(COST, LEVEL)?, RejectRule::plug_in(COST)?];
    let queries = Embeddings::new(POINTS.map(|x| x as f32).to_vec(), 1)?;
    let params = NuqClassifier::paper().n_neighbors(n).bandwidth(BandwidthRule::Silverman);
    let mut sums = Excess::default();
    let mut rng = random_stream("steps", 0, n);
    for _ in 0..repetitions {
        let (points, classes) = steps::sample(n, &mut rng);
        let train = Embeddings::new(points, 1)?;
        let model = params.fit(&train, &classes)?;
        let predictions = model.predict(&queries)?;
        for (rule, sums) in rules.iter().zip(&mut sums) {
            for ((i, decision), sum) in predictions.decide(rule).into_iter().enumerate().zip(sums) {
                // Compare labels, not class indices: a draw may contain one class only.
                let is_one = *predictions.label(i) == 1;
                *sum += risk(POINTS[i], decision, is_one) - optimal_risk(POINTS[i]);
            }
        }
    }
    Ok(sums.map(|points| points.map(|sum| sum / repetitions as f64)))
}

/// Risk of a decision at `x`. `is_one`: the predicted class is 1.
fn risk(x: f64, decision: Decision, is_one: bool) -> f64 {
    match decision {
        Decision::Reject => COST,
        Decision::Accept if is_one => 1.0 - steps::eta(x),
        Decision::Accept => steps::eta(x),
    }
}

/// Risk of the optimal decision at `x`.
fn optimal_risk(x: f64) -> f64 {
    let eta = steps::eta(x);
    eta.min(1.0 - eta).min(COST)
}

fn table(curves: &[(usize, Excess)]) -> Table {
    let row = |point: usize, rule: usize| TableRow {
        name: row_name(point, rule),
        cells: curves.iter().map(|(_, excess)| Cell::single(excess[rule][point])).collect(),
    };
    Table {
        title: "Excess risk".to_owned(),
        corner: "point and rule".to_owned(),
        columns: curves.iter().map(|(n, _)| column_name(*n)).collect(),
        rows: (0..POINTS.len())
            .flat_map(|point| (0..RULES.len()).map(move |rule| row(point, rule)))
            .collect(),
        unit: Unit::Fine,
        better: Better::Neither,
        paper_data_set: None,
    }
}

fn row_name(point: usize, rule: usize) -> String {
    format!("x = {}, {}", POINTS[point], RULES[rule])
}

fn column_name(n: usize) -> String {
    format!("N = {n}")
}

/// The mean excess risk of a rule at a point over all N ≥ `min_n` in the table.
fn mean_from(table: &Table, point: usize, rule: usize, min_n: usize) -> f64 {
    let values = values_from(table, point, rule, min_n);
    values.iter().sum::<f64>() / values.len() as f64
}

fn values_from(table: &Table, point: usize, rule: usize, min_n: usize) -> Vec<f64> {
    let number = |column: &str| column.strip_prefix("N = ")?.parse::<usize>().ok();
    let columns = table.columns.iter().filter(|column| number(column).is_some_and(|n| n >= min_n));
    columns.filter_map(|column| table.cell(&row_name(point, rule), column)?.mean()).collect()
}

/// Smallest N of the second claim about the region with few points.
const FEW_POINTS_MIN_N: usize = 100;
/// Smallest N for which the excess risk of NUQ at the query point without label noise must be below 0.01.
const NO_NOISE_MIN_N: usize = 1000;

fn claims(table: &Table) -> Vec<Claim> {
    let mut claims = few_points_claims(table).to_vec();
    claims.extend([comparable_claim(table), no_noise_claim(table), vanishing_claim(table)]);
    claims
}

fn few_points_claims(table: &Table) -> [Claim; 2] {
    let claim = |id: &str, range: &str, min_n: usize| {
        let (nuq, plug_in) = (mean_from(table, 3, 0, min_n), mean_from(table, 3, 1, min_n));
        let statement = format!(
            "At x = 0.95 (few points, label noise), the excess risk of NUQ is at most half of that of the plug-in rule (mean over {range})."
        );
        Claim::new(id, &statement, nuq <= 0.5 * plug_in, format!("{nuq:.4} against {plug_in:.4}"))
    };
    [
        claim("nuq-few-points-all-n", "all N", 0),
        claim("nuq-few-points-n-at-least-100", &format!("N ≥ {FEW_POINTS_MIN_N}"), FEW_POINTS_MIN_N),
    ]
}

fn comparable_claim(table: &Table) -> Claim {
    let differences =
        [1, 2].map(|point| (mean_from(table, point, 0, 0) - mean_from(table, point, 1, 0)).abs());
    Claim::new(
        "comparable-many-points",
        "At x = 0.3 and 0.5 (many points), the excess risks of both rules differ by less than 0.02 (mean over N).",
        differences.iter().all(|difference| *difference < 0.02),
        format!("{:.3} and {:.3}", differences[0], differences[1]),
    )
}

fn no_noise_claim(table: &Table) -> Claim {
    let worst = values_from(table, 0, 0, NO_NOISE_MIN_N).into_iter().reduce(f64::max).unwrap_or(f64::NAN);
    let means = [0, 1].map(|rule| mean_from(table, 0, rule, 0));
    Claim::new(
        "plug-in-without-noise",
        &format!(
            "At x = 0.1 (no label noise), the plug-in rule has a lower excess risk (mean over N), and the excess risk of NUQ, which is more \
             conservative, is below 0.01 for N ≥ {NO_NOISE_MIN_N}."
        ),
        means[1] < means[0] && worst < 0.01,
        format!(
            "plug-in {:.3}, NUQ {:.3}; NUQ for N ≥ {NO_NOISE_MIN_N} at most {:.4}",
            means[1], means[0], worst
        ),
    )
}

fn vanishing_claim(table: &Table) -> Claim {
    let last = |point| values_from(table, point, 0, 0).last().copied().unwrap_or(f64::NAN);
    let worst = (0..POINTS.len()).map(last).reduce(f64::max).unwrap_or(f64::NAN);
    Claim::new(
        "excess-vanishes",
        "The excess risk of NUQ vanishes as N grows: at the largest N it is below 0.03 at every query point.",
        worst < 0.03,
        format!("at most {worst:.3}"),
    )
}

fn figure(curves: &[(usize, Excess)]) -> Figure {
    let line = |rule: usize, point: usize| ChartLine {
        name: RULES[rule].to_owned(),
        emphasis: if rule == 0 { Emphasis::Strong } else { Emphasis::Normal },
        points: curves.iter().map(|(n, excess)| (*n as f64, excess[rule][point])).collect(),
    };
    let panel = |point: usize| ChartPanel {
        y: ChartAxis::new(&format!("excess risk at x = {}", POINTS[point]), AxisScale::Linear),
        height: 110.0,
        lines: (0..RULES.len()).map(|rule| line(rule, point)).collect(),
    };
    let chart = Chart {
        title: "Excess risk of NUQ and of the plug-in rule".to_owned(),
        caption: "Risk minus the risk of the optimal rule, by number of training points. There is no label noise at x = 0.1. There are many \
                  points around x = 0.3 and 0.5, and few points at x = 0.95."
            .to_owned(),
        x: ChartAxis::new("training points", AxisScale::Log),
        panels: (0..POINTS.len()).map(panel).collect(),
    };
    chart.draw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_can_fail() {
        let verdicts = |excess: Excess| {
            let curves = [(10, excess), (100, excess), (1000, excess)];
            claims(&table(&curves)).iter().map(|claim| claim.holds).collect::<Vec<_>>()
        };
        let plug_in = [0.002, 0.01, 0.01, 0.05];
        assert_eq!(verdicts([[0.005, 0.0, 0.0, 0.02], plug_in]), [true; 5]);
        assert_eq!(verdicts([[0.04, 0.04, 0.04, 0.04], plug_in]), [false; 5]);
    }

    #[test]
    fn few_points_claims_use_different_ranges() {
        let excess = |nuq: f64| [[0.0, 0.0, 0.0, nuq], [0.0, 0.0, 0.0, 0.1]];
        let [all_n, large_n] = few_points_claims(&table(&[(10, excess(0.1)), (100, excess(0.02))]));
        assert!(large_n.holds && !all_n.holds, "{large_n:?} {all_n:?}");
    }

    #[test]
    fn risks_have_expected_values() {
        assert!((risk(0.3, Decision::Accept, false) - 0.3).abs() < 2e-3);
        assert!((risk(0.3, Decision::Accept, true) - 0.7).abs() < 2e-3);
        assert_eq!(risk(0.3, Decision::Reject, true), COST);
        assert_eq!(optimal_risk(0.3), COST);
        assert!(optimal_risk(0.1) < 2e-3);
    }
}
