//! MNIST against SVHN and other sets: Figure "MNIST", parts (b) and (c), of the paper's appendix.

use super::detection::{count_chart, row, table};
use super::digits::{Base, View, note};
use super::methods::{FIVE, OTHERS};
use super::{Lab, Size};
use crate::LabError;
use crate::results::{Claim, Findings, Table, Unit};

pub(super) fn run(lab: &Lab) -> Result<Findings, LabError> {
    let mut findings = detect(lab, View::Test, "mnist-vs-svhn", "MNIST against")?;
    let claims = claims(lab, &findings.tables[0]);
    findings.claims.extend(claims);
    if lab.size == Size::Full {
        findings.claims.push(accuracy(lab)?);
    }
    Ok(findings)
}

pub(super) fn run_rotated(lab: &Lab) -> Result<Findings, LabError> {
    detect(lab, View::Rotated, "rotated-mnist-vs-svhn", "Rotated MNIST against")
}

fn detect(lab: &Lab, digits: View, figure: &str, title: &str) -> Result<Findings, LabError> {
    let mut rows = Vec::new();
    let mut scored = Vec::new();
    for method in FIVE.into_iter().chain(OTHERS) {
        lab.say(&format!("{figure}: {}", method.name()));
        let of_seeds = method.seeds(lab).map(|seed| method.scores(lab, seed));
        let of_seeds: Vec<Vec<Vec<f64>>> = of_seeds.collect::<Result<_, _>>()?;
        rows.push(row(method.name(), digits, of_seeds.iter().cloned().map(Ok))?);
        if FIVE.contains(&method) {
            scored.extend(of_seeds.into_iter().take(1).map(|scores| (method, scores)));
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
    let of = |seed| Ok(lab.seen(Base::spectral(seed))?.view(View::Test).accuracy(truth));
    let all: Vec<f64> = (0..lab.seeds as u64).map(of).collect::<Result<_, LabError>>()?;
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let statement = "The networks are right on at least 99 % of the test digits.";
    Ok(Claim::new("accurate", statement, mean >= 0.99, Unit::Percent.text(mean, None)))
}

/// The paper's are read off its curves: NUQ, DDU and ensembles nearly perfect, MaxProb and entropy below.
fn claims(lab: &Lab, table: &Table) -> Vec<Claim> {
    let set = &table.columns[0];
    let area =
        |method: &str| table.cell(method, set).and_then(crate::results::Cell::mean).unwrap_or(f64::NAN);
    let (nuq, ddu, max_prob) = (area("NUQ"), area("DDU"), area("MaxProb"));
    let text = |value: f64| Unit::Percent.text(value, None);
    let evidence = format!("NUQ {}, DDU {}, MaxProb {}", text(nuq), text(ddu), text(max_prob));
    let mut claims = vec![
        Claim::new(
            "nuq-near-ddu",
            &format!("NUQ and DDU are within one point of each other on MNIST against {set}."),
            (nuq - ddu).abs() <= 0.01,
            evidence.clone(),
        ),
        Claim::new(
            "above-maxprob",
            &format!("NUQ and DDU are both above MaxProb on MNIST against {set}."),
            nuq > max_prob && ddu > max_prob,
            evidence.clone(),
        ),
    ];
    if lab.size == Size::Full {
        let statement = format!("NUQ's ROC-AUC on MNIST against {set} is at least 97 %.");
        claims.push(Claim::new("nuq-detects", &statement, nuq >= 0.97, evidence));
    }
    claims
}
