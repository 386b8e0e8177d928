//! Classification with a reject option: the toy of the paper's appendix on Algorithm 2.

use nuq::{BandwidthRule, Decision, Embeddings, NuqClassifier, RejectRule};
use nuq_neighbors::SeededRng;
use nuq_report::{Chart, ChartAxis, ChartLine, ChartPanel, Figure, Look, Spread};

use super::Lab;
use crate::LabError;
use crate::data::steps;
use crate::results::{Better, Cell, Claim, Findings, Table, TableRow, Unit};

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
        claims: claims(&curves),
        notes: vec![format!(
            "Mean over {repetitions} draws of the data. A rejection costs {COST}; β = {LEVEL}; Gaussian kernel, Silverman's bandwidth, \
             Algorithm 2 as printed. The paper prints no numbers for its step function; ours is 0, 0.3, 0.9 and 0.6 with steps \
             at 0.2, 0.5 and 0.85."
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
    let mut rng = SeededRng::new(n as u64);
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
        name: format!("x = {}, {}", POINTS[point], RULES[rule]),
        cells: curves.iter().map(|(_, excess)| Cell::one(excess[rule][point])).collect(),
    };
    Table {
        title: "Excess risk".to_owned(),
        corner: "point and rule".to_owned(),
        columns: curves.iter().map(|(n, _)| format!("N = {n}")).collect(),
        rows: (0..POINTS.len())
            .flat_map(|point| (0..RULES.len()).map(move |rule| row(point, rule)))
            .collect(),
        unit: Unit::Fine,
        better: Better::Neither,
    }
}

fn claims(curves: &[(usize, Excess)]) -> Vec<Claim> {
    let mean = |rule: usize, point: usize| {
        curves.iter().map(|(_, excess)| excess[rule][point]).sum::<f64>() / curves.len() as f64
    };
    let last = curves.last().map_or(f64::NAN, |(_, excess)| excess[0].iter().copied().fold(0.0, f64::max));
    vec![
        Claim::new(
            "nuq-where-few-points-are",
            "At x = 0.95, where points are few and labels noisy, NUQ's rule has less excess risk than the plug-in rule on average over N.",
            mean(0, 3) < mean(1, 3),
            format!("{:.3} against {:.3}", mean(0, 3), mean(1, 3)),
        ),
        Claim::new(
            "plug-in-without-noise",
            "At x = 0.1, where there is no noise, the plug-in rule is at least as good: NUQ is more conservative.",
            mean(1, 0) <= mean(0, 0),
            format!("plug-in {:.3}, NUQ {:.3}", mean(1, 0), mean(0, 0)),
        ),
        Claim::new(
            "excess-vanishes",
            "NUQ's excess risk vanishes as N grows (at the largest N it is below 0.03 at every point).",
            last < 0.03,
            format!("at most {last:.3}"),
        ),
    ]
}

fn figure(curves: &[(usize, Excess)]) -> Figure {
    let line = |rule: usize, point: usize| ChartLine {
        name: RULES[rule].to_owned(),
        look: if rule == 0 { Look::Strong } else { Look::Plain },
        points: curves.iter().map(|(n, excess)| (*n as f64, excess[rule][point])).collect(),
    };
    let panel = |point: usize| ChartPanel {
        y: ChartAxis::new(&format!("excess risk at x = {}", POINTS[point]), Spread::Number),
        height: 110.0,
        lines: (0..RULES.len()).map(|rule| line(rule, point)).collect(),
    };
    let chart = Chart {
        title: "Rejecting by NUQ and by the plug-in rule".to_owned(),
        caption: "What each rule pays beyond who knows the truth, as training data grow. There is no noise at 0.1, much mass around 0.3 \
                  and 0.5, and little mass at 0.95."
            .to_owned(),
        x: ChartAxis::new("training points", Spread::Decades),
        panels: (0..POINTS.len()).map(panel).collect(),
    };
    chart.draw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn risks_by_hand() {
        assert!((risk(0.3, Decision::Accept, false) - 0.3).abs() < 2e-3);
        assert!((risk(0.3, Decision::Accept, true) - 0.7).abs() < 2e-3);
        assert_eq!(risk(0.3, Decision::Reject, true), COST);
        assert_eq!(best_risk(0.3), COST);
        assert!(best_risk(0.1) < 2e-3);
    }
}
