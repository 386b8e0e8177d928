//! MNIST against SVHN and other sets: Figure "MNIST", parts (b) and (c), of the paper's appendix.

use std::rc::Rc;

use super::detection::{count_chart, row, table};
use super::digits::{View, note};
use super::methods::{FIVE, Method, OTHERS, Scores};
use super::networks::Base;
use super::{Lab, Size};
use crate::LabError;
use crate::results::{Cell, Claim, Findings, Table, Unit};

pub(super) fn run(lab: &Lab) -> Result<Findings, LabError> {
    let mut findings = detect(lab, View::Test, "mnist-vs-svhn", "MNIST against")?;
    findings.claims = claims(&findings.tables[0], lab.size);
    if lab.size == Size::Full {
        findings.claims.push(accuracy(lab)?);
    }
    Ok(findings)
}

pub(super) fn run_rotated(lab: &Lab) -> Result<Findings, LabError> {
    let mut findings = detect(lab, View::Rotated, "rotated-mnist-vs-svhn", "Rotated MNIST against")?;
    findings.claims = claims_of_rotated(&findings.tables[0]);
    Ok(findings)
}

fn detect(lab: &Lab, digits: View, figure: &str, title: &str) -> Result<Findings, LabError> {
    let mut rows = Vec::new();
    let mut scored = Vec::new();
    for method in FIVE.into_iter().chain(OTHERS) {
        lab.say(&format!("{figure}: {}", method.name()));
        let of_seeds = method.seeds(lab).map(|seed| lab.scores(method, Base::plain(seed)));
        let of_seeds: Vec<Rc<Scores>> = of_seeds.collect::<Result<_, _>>()?;
        rows.push(row(method.name(), digits, of_seeds.iter().cloned().map(Ok))?);
        if FIVE.contains(&method) {
            scored.push((method, of_seeds));
        }
    }
    let table = table(lab, "ROC-AUC of outliers against digits (%)", "method", rows)?;
    let outliers = lab.digits()?.outliers[0].name;
    let chart = count_chart(&format!("{title} {outliers}"), outliers, &scored, digits)?;
    Ok(Findings {
        tables: vec![table],
        notes: vec![note(lab)?],
        figures: vec![(figure.to_owned(), chart)],
        ..Findings::default()
    })
}

/// That the networks are as good as the paper's.
fn accuracy(lab: &Lab) -> Result<Claim, LabError> {
    let truth = &lab.digits()?.test.labels;
    let of = |seed| Ok(lab.seen(Base::plain(seed))?.view(View::Test).accuracy(truth));
    let all: Vec<f64> = (0..lab.seeds as u64).map(of).collect::<Result<_, LabError>>()?;
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let statement = "The networks are right on at least 99 % of the test digits.";
    Ok(Claim::new("accurate", statement, mean >= 0.99, format!("{:.2} %", 100.0 * mean)))
}

/// A method's area of the first set, and as text.
fn area(table: &Table, method: Method) -> (f64, String) {
    let value = table.cell(method.name(), &table.columns[0]).and_then(Cell::mean).unwrap_or(f64::NAN);
    (value, format!("{} {}", method.name(), Unit::Percent.text(value, None)))
}

/// The paper's are read off its curves: NUQ, DDU and ensembles nearly perfect, MaxProb and entropy below.
fn claims(table: &Table, size: Size) -> Vec<Claim> {
    let set = &table.columns[0];
    let [nuq, ddu, ensemble, entropy, max_prob] = FIVE.map(|method| area(table, method));
    let evidence = format!("{}, {}, {}", nuq.1, ddu.1, max_prob.1);
    let mut claims = vec![
        near("MNIST", set, &nuq, &ddu),
        Claim::new(
            "above-maxprob",
            &format!("NUQ and DDU are both above MaxProb on MNIST against {set}."),
            nuq.0 > max_prob.0 && ddu.0 > max_prob.0,
            evidence.clone(),
        ),
        Claim::new(
            "ensemble-above-maxprob",
            &format!("The ensemble is above MaxProb and entropy on MNIST against {set}."),
            ensemble.0 > max_prob.0 && ensemble.0 > entropy.0,
            format!("{}, {}, {}", ensemble.1, max_prob.1, entropy.1),
        ),
    ];
    if size == Size::Full {
        let statement = format!("NUQ's ROC-AUC on MNIST against {set} is at least 97 %.");
        claims.push(Claim::new("nuq-detects", &statement, nuq.0 >= 0.97, evidence));
    }
    claims
}

/// The paper's, of rotated digits: NUQ and DDU almost identical, ensembles worse.
fn claims_of_rotated(table: &Table) -> Vec<Claim> {
    let set = &table.columns[0];
    let [nuq, ddu, ensemble, ..] = FIVE.map(|method| area(table, method));
    vec![
        near("rotated MNIST", set, &nuq, &ddu),
        Claim::new(
            "ensemble-below-nuq",
            &format!("The ensemble is below NUQ on rotated MNIST against {set}."),
            ensemble.0 < nuq.0,
            format!("{}, {}", ensemble.1, nuq.1),
        ),
    ]
}

fn near(digits: &str, set: &str, nuq: &(f64, String), ddu: &(f64, String)) -> Claim {
    Claim::new(
        "nuq-near-ddu",
        &format!("NUQ and DDU are within one point of each other on {digits} against {set}."),
        (nuq.0 - ddu.0).abs() <= 0.01,
        format!("{}, {}", nuq.1, ddu.1),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::numbers;

    fn table(nuq: f64, ensemble: f64) -> Table {
        let areas = [nuq, 0.985, ensemble, 0.91, 0.92];
        let rows: Vec<(&str, [f64; 1])> =
            FIVE.iter().zip(areas).map(|(m, area)| (m.name(), [area])).collect();
        numbers(["SVHN"], &rows)
    }

    fn verdicts(claims: &[Claim]) -> Vec<bool> {
        claims.iter().map(|claim| claim.holds).collect()
    }

    #[test]
    fn claims_can_fail() {
        assert_eq!(verdicts(&claims(&table(0.99, 0.95), Size::Full)), [true; 4]);
        assert_eq!(verdicts(&claims(&table(0.9, 0.85), Size::Full)), [false; 4]);
        assert_eq!(claims(&table(0.99, 0.95), Size::Tiny).len(), 3);
    }

    #[test]
    fn claims_of_rotated_digits_can_fail() {
        assert_eq!(verdicts(&claims_of_rotated(&table(0.99, 0.6))), [true; 2]);
        assert_eq!(verdicts(&claims_of_rotated(&table(0.9, 0.95))), [false; 2]);
    }
}
