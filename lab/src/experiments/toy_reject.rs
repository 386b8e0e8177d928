//! Classification with a reject option: the toy of the paper's appendix on Algorithm 2.

use nuq::{BandwidthRule, Decision, Embeddings, NuqClassifier, RejectRule};
use nuq_report::{Chart, ChartAxis, ChartLine, ChartPanel, Figure, Emphasis, AxisScale};

use super::Lab;
use crate::LabError;
use crate::data::steps;
use crate::results::{Better, Cell, Claim, Findings, Table, TableRow, Unit};
use crate::stream::stream;

/// Where risk is looked at.
const POINTS: [f64; 4] = [0.1, 0.3, 0.5, 0.95];
/// The cost of a rejection.
const COST: f64 = 0.2;
/// The level of NUQ's rule: the paper's quantile is 0.95.
const LEVEL: f64 = 0.05;
const RULES: [&str; 2] = ["NUQ", "plug-in"];

/// The mean excess risk of both rules at each point.
type Excess = [[f64; POINTS.len()]; RULES.len()];

pub(super) fn run(lab: &Lab) -> Result<Findings, LabError> {
    let (sizes, repetitions) = lab.size.pick(
        (vec![10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000], 300),
        (vec![10, 30, 100, 300, 1000, 3000], 100),
        (vec![10, 100, 1000], 20),
    );
    let mut curves: Vec<(usize, Excess)> = Vec::new();
    for &n in &sizes {
        lab.say(&format!("toy-reject: {n} points, {repetitions} times"));
        curves.push((n, excess(n, repetitions)?));
    }
    let table = table(&curves);
    Ok(Findings {
        claims: claims(&table),
        notes: vec![format!(
            "Mean over {repetitions} draws of the data. A rejection costs {COST}; β = {LEVEL}; Gaussian kernel, Silverman's bandwidth, \
             Algorithm 2 as printed. The paper prints no numbers for its step function, nor the cost of a rejection: both are ours, the \
             steps 0, 0.3, 0.9 and 0.6 at 0.2, 0.5 and 0.85. Part of the order is by construction: NUQ accepts only what the plug-in \
             rule accepts, so where rejecting is right (0.3, 0.5, 0.95) it never pays more, and where accepting is right (0.1) it pays \
             more unless the plug-in rule accepts the wrong class. What can fail is by how much."
        )],
        figures: vec![("toy-reject".to_owned(), figure(&curves))],
        tables: vec![table],
    })
}

fn excess(n: usize, repetitions: usize) -> Result<Excess, LabError> {
    let rules = [RejectRule::confident(COST, LEVEL)?, RejectRule::plug_in(COST)?];
    let queries = Embeddings::new(POINTS.map(|x| x as f32).to_vec(), 1)?;
    let params = NuqClassifier::paper().neighbors(n).bandwidth(BandwidthRule::Silverman);
    let mut sums = Excess::default();
    let mut rng = stream("steps", 0, n);
    for _ in 0..repetitions {
        let (points, classes) = steps::sample(n, &mut rng);
        let train = Embeddings::new(points, 1)?;
        let model = params.fit(&train, &classes)?;
        let found = model.predict(&queries)?;
        for (rule, sums) in rules.iter().zip(&mut sums) {
            for ((i, decision), sum) in found.decide(rule).into_iter().enumerate().zip(sums) {
                // Labels are 0 and 1; a draw may lack one of them.
                let is_one = *found.label(i) == 1;
                *sum += risk(POINTS[i], decision, is_one) - best_risk(POINTS[i]);
            }
        }
    }
    Ok(sums.map(|points| points.map(|sum| sum / repetitions as f64)))
}

/// What a decision costs at `x`.
fn risk(x: f64, decision: Decision, is_one: bool) -> f64 {
    match decision {
        Decision::Reject => COST,
        Decision::Accept if is_one => 1.0 - steps::eta(x),
        Decision::Accept => steps::eta(x),
    }
}

/// What who knows the truth pays.
fn best_risk(x: f64) -> f64 {
    let eta = steps::eta(x);
    eta.min(1.0 - eta).min(COST)
}

fn table(curves: &[(usize, Excess)]) -> Table {
    let row = |point: usize, rule: usize| TableRow {
        name: row_name(point, rule),
        cells: curves.iter().map(|(_, excess)| Cell::one(excess[rule][point])).collect(),
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
        paper_of: None,
    }
}

fn row_name(point: usize, rule: usize) -> String {
    format!("x = {}, {}", POINTS[point], RULES[rule])
}

fn column_name(n: usize) -> String {
    format!("N = {n}")
}

/// The mean excess of a rule at a point over all N of a table from `least` on.
fn mean_from(table: &Table, point: usize, rule: usize, least: usize) -> f64 {
    let values = from(table, point, rule, least);
    values.iter().sum::<f64>() / values.len() as f64
}

fn from(table: &Table, point: usize, rule: usize, least: usize) -> Vec<f64> {
    let number = |column: &str| column.strip_prefix("N = ")?.parse::<usize>().ok();
    let columns = table.columns.iter().filter(|column| number(column).is_some_and(|n| n >= least));
    columns.filter_map(|column| table.cell(&row_name(point, rule), column)?.mean()).collect()
}

/// The least N at which a claim speaks of few points rather than of hardly any.
const FEW: usize = 100;
/// The least N at which NUQ must know what has no noise.
const MANY: usize = 1000;

fn claims(table: &Table) -> Vec<Claim> {
    let mut claims = few_points(table).to_vec();
    claims.extend([comparable(table), without_noise(table), vanishes(table)]);
    claims
}

fn few_points(table: &Table) -> [Claim; 2] {
    let claim = |id: &str, what: &str, least: usize| {
        let (nuq, plug_in) = (mean_from(table, 3, 0, least), mean_from(table, 3, 1, least));
        let statement = format!(
            "At x = 0.95, where points are few and labels noisy, NUQ's excess risk is at most half of the plug-in rule's on average over {what}."
        );
        Claim::new(id, &statement, nuq <= 0.5 * plug_in, format!("{nuq:.4} against {plug_in:.4}"))
    };
    [
        claim("nuq-where-few-points-are", "all N", 0),
        claim("nuq-where-some-points-are", &format!("N from {FEW} on"), FEW),
    ]
}

fn comparable(table: &Table) -> Claim {
    let differences =
        [1, 2].map(|point| (mean_from(table, point, 0, 0) - mean_from(table, point, 1, 0)).abs());
    Claim::new(
        "comparable-where-points-are",
        "At x = 0.3 and 0.5, where points are many, both rules are comparable: they differ by less than 0.02 on average over N.",
        differences.iter().all(|difference| *difference < 0.02),
        format!("{:.3} and {:.3}", differences[0], differences[1]),
    )
}

fn without_noise(table: &Table) -> Claim {
    let worst = from(table, 0, 0, MANY).into_iter().reduce(f64::max).unwrap_or(f64::NAN);
    let means = [0, 1].map(|rule| mean_from(table, 0, rule, 0));
    Claim::new(
        "plug-in-without-noise",
        &format!(
            "At x = 0.1, where there is no noise, the plug-in rule is better on average over N, and NUQ, which is more conservative, catches \
             up: its excess risk is below 0.01 from N = {MANY} on."
        ),
        means[1] < means[0] && worst < 0.01,
        format!("plug-in {:.3}, NUQ {:.3}; NUQ from {MANY} on at most {:.4}", means[1], means[0], worst),
    )
}

fn vanishes(table: &Table) -> Claim {
    let last = |point| from(table, point, 0, 0).last().copied().unwrap_or(f64::NAN);
    let worst = (0..POINTS.len()).map(last).reduce(f64::max).unwrap_or(f64::NAN);
    Claim::new(
        "excess-vanishes",
        "NUQ's excess risk vanishes as N grows (at the largest N it is below 0.03 at every point).",
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
        title: "Rejecting by NUQ and by the plug-in rule".to_owned(),
        caption: "What each rule pays beyond who knows the truth, as training data grow. There is no noise at 0.1, much mass around 0.3 \
                  and 0.5, and little mass at 0.95."
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
        let verdicts = |nuq: Excess| {
            let curves = [(10, nuq), (100, nuq), (1000, nuq)];
            claims(&table(&curves)).iter().map(|claim| claim.holds).collect::<Vec<_>>()
        };
        let plug_in = [0.002, 0.01, 0.01, 0.05];
        assert_eq!(verdicts([[0.005, 0.0, 0.0, 0.02], plug_in]), [true; 5]);
        assert_eq!(verdicts([[0.04, 0.04, 0.04, 0.04], plug_in]), [false; 5]);
    }

    #[test]
    fn few_points_are_not_hardly_any() {
        let excess = |nuq: f64| [[0.0, 0.0, 0.0, nuq], [0.0, 0.0, 0.0, 0.1]];
        let [all, few] = few_points(&table(&[(10, excess(0.1)), (100, excess(0.02))]));
        assert!(few.holds && !all.holds, "{few:?} {all:?}");
    }

    #[test]
    fn risks_by_hand() {
        assert!((risk(0.3, Decision::Accept, false) - 0.3).abs() < 2e-3);
        assert!((risk(0.3, Decision::Accept, true) - 0.7).abs() < 2e-3);
        assert_eq!(risk(0.3, Decision::Reject, true), COST);
        assert_eq!(best_risk(0.3), COST);
        assert!(best_risk(0.1) < 2e-3);
    }
}
