//! MNIST against SVHN and other sets: Figure "MNIST", parts (b) and (c), of the paper's appendix.

use std::rc::Rc;

use super::detection::{outlier_count_chart, row, table};
use super::digits::{View, note};
use super::methods::{MAIN_METHODS, Method, OTHER_METHODS, Scores};
use super::networks::NetworkId;
use super::{Context, Size};
use crate::LabError;
use crate::results::{Cell, Claim, Findings, Table, Unit};

pub(super) fn run(context: &Context) -> Result<Findings, LabError> {
    let mut findings = detect(context, View::Test, "mnist-vs-svhn", "MNIST against")?;
    findings.claims = claims(&findings.tables[0], context.size);
    if context.size == Size::Full {
        findings.claims.push(accuracy_claim(context)?);
    }
    Ok(findings)
}

pub(super) fn run_rotated(context: &Context) -> Result<Findings, LabError> {
    let mut findings = detect(context, View::Rotated, "rotated-mnist-vs-svhn", "Rotated MNIST against")?;
    findings.claims = claims_of_rotated(&findings.tables[0]);
    Ok(findings)
}

fn detect(context: &Context, digits: View, figure: &str, title: &str) -> Result<Findings, LabError> {
    let mut rows = Vec::new();
    let mut scored = Vec::new();
    for method in MAIN_METHODS.into_iter().chain(OTHER_METHODS) {
        context.log(&format!("{figure}: {}", method.name()));
        let per_seed = method.seeds(context).map(|seed| context.scores(method, NetworkId::plain(seed)));
        let per_seed: Vec<Rc<Scores>> = per_seed.collect::<Result<_, _>>()?;
        rows.push(row(method.name(), digits, per_seed.iter().cloned().map(Ok))?);
        if MAIN_METHODS.contains(&method) {
            scored.push((method, per_seed));
        }
    }
    let table = table(context, "ROC-AUC (%) of outliers against digits", "method", rows)?;
    let outliers = context.digits()?.outliers[0].name;
    let chart = outlier_count_chart(&format!("{title} {outliers}"), outliers, &scored, digits)?;
    Ok(Findings {
        tables: vec![table],
        notes: vec![note(context)?],
        figures: vec![(figure.to_owned(), chart)],
        ..Findings::default()
    })
}

/// Claim on the accuracy of the networks.
fn accuracy_claim(context: &Context) -> Result<Claim, LabError> {
    let truth = &context.digits()?.test.labels;
    let accuracy =
        |seed| Ok(context.network_outputs(NetworkId::plain(seed))?.view(View::Test).accuracy(truth));
    let all: Vec<f64> = (0..context.seeds as u64).map(accuracy).collect::<Result<_, LabError>>()?;
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let statement = "The accuracy of the networks on test digits is at least 99 %.";
    Ok(Claim::new("accurate", statement, mean >= 0.99, format!("{:.2} %", 100.0 * mean)))
}

/// ROC-AUC of a method on the first outlier set, as number and as text.
fn area(table: &Table, method: Method) -> (f64, String) {
    let value = table.cell(method.name(), &table.columns[0]).and_then(Cell::mean).unwrap_or(f64::NAN);
    (value, format!("{} {}", method.name(), Unit::Percent.text(value, None)))
}

/// Claims from the paper's curves: NUQ, DDU and ensembles are nearly perfect, MaxProb and entropy are worse.
fn claims(table: &Table, size: Size) -> Vec<Claim> {
    let set = &table.columns[0];
    let [nuq, ddu, ensemble, entropy, max_prob] = MAIN_METHODS.map(|method| area(table, method));
    let evidence = format!("{}, {}, {}", nuq.1, ddu.1, max_prob.1);
    let mut claims = vec![
        nuq_near_ddu("MNIST", set, &nuq, &ddu),
        Claim::new(
            "above-maxprob",
            &format!("On MNIST against {set}, the ROC-AUC of NUQ and of DDU is above that of MaxProb."),
            nuq.0 > max_prob.0 && ddu.0 > max_prob.0,
            evidence.clone(),
        ),
        Claim::new(
            "ensemble-above-maxprob",
            &format!(
                "On MNIST against {set}, the ROC-AUC of the ensemble is above those of MaxProb and entropy."
            ),
            ensemble.0 > max_prob.0 && ensemble.0 > entropy.0,
            format!("{}, {}, {}", ensemble.1, max_prob.1, entropy.1),
        ),
    ];
    if size == Size::Full {
        let statement = format!("On MNIST against {set}, the ROC-AUC of NUQ is at least 97 %.");
        claims.push(Claim::new("nuq-detects", &statement, nuq.0 >= 0.97, evidence));
    }
    claims
}

/// Claims of the paper on rotated digits: NUQ and DDU are almost identical, ensembles are worse.
fn claims_of_rotated(table: &Table) -> Vec<Claim> {
    let set = &table.columns[0];
    let [nuq, ddu, ensemble, ..] = MAIN_METHODS.map(|method| area(table, method));
    vec![
        nuq_near_ddu("rotated MNIST", set, &nuq, &ddu),
        Claim::new(
            "ensemble-below-nuq",
            &format!("On rotated MNIST against {set}, the ROC-AUC of the ensemble is below that of NUQ."),
            ensemble.0 < nuq.0,
            format!("{}, {}", ensemble.1, nuq.1),
        ),
    ]
}

fn nuq_near_ddu(digits: &str, set: &str, nuq: &(f64, String), ddu: &(f64, String)) -> Claim {
    Claim::new(
        "nuq-near-ddu",
        &format!("On {digits} against {set}, the ROC-AUC of NUQ and of DDU differ by at most one point."),
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
            MAIN_METHODS.iter().zip(areas).map(|(m, area)| (m.name(), [area])).collect();
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
