//! Text classification with few training data: the paper's figures on rejection and on outliers.

use std::path::Path;

use nuq::{NuqClassifier, Shrinkage};
use nuq_eval::baselines::{Ddu, MaxProb, Reduction, Sngp, SngpParams};
use nuq_eval::metrics::{rcc_auc, roc_auc};

use super::Context;
use super::detection::dots;
use super::methods::{score_embeddings, score_logits, score_members};
use crate::LabError;
use crate::data::DataError;
use crate::data::embeddings::{EmbeddingSets, Rows, npz_files, read_file};
use crate::results::{Better, Cell, Claim, Findings, Table, TableRow, Unit};

const METHODS: [&str; 5] = ["NUQ", "SNGP head", "DDU", "MC dropout", "MaxProb"];

/// A data set with a fraction of its training data.
struct Set {
    name: String,
    embeddings: EmbeddingSets,
}

/// Scores for the detection of outliers and of errors. NUQ uses the epistemic uncertainty for outliers and the total uncertainty
/// for errors; other methods have one score for both.
struct Scores {
    epistemic: Vec<f64>,
    total: Vec<f64>,
}

pub(super) fn run(context: &Context) -> Result<Findings, LabError> {
    let folder = context.embeddings("text")?;
    let sets = sets(&folder)?;
    let (mut detection, mut errors) = (Vec::new(), Vec::new());
    for set in &sets {
        context.log(&format!("text: {}", set.name));
        let (areas, risks) = evaluate(&set.embeddings)?;
        if !set.embeddings.ood.is_empty() {
            detection.push(TableRow { name: set.name.clone(), cells: areas });
        }
        errors.push(TableRow { name: set.name.clone(), cells: risks });
    }
    let table = |title: &str, rows: Vec<TableRow>, unit| Table {
        title: title.to_owned(),
        corner: "set and fraction".to_owned(),
        columns: METHODS.map(str::to_owned).to_vec(),
        rows,
        unit,
        better: Better::Neither,
        paper_data_set: None,
    };
    let detection =
        table("ROC-AUC (%) of outliers against test rows, mean over outlier sets", detection, Unit::Percent);
    let errors = table("RCC-AUC of the errors of the network (lower is better)", errors, Unit::Fine);
    let figures = vec![
        (
            "outliers".to_owned(),
            dots(
                "Detection of outliers in text",
                "ROC-AUC of outliers against test rows, mean over outlier sets. Higher is better.",
                "ROC-AUC (%)",
                &detection,
                detection.columns.len(),
            ),
        ),
        (
            "errors".to_owned(),
            dots(
                "Detection of errors in text classification",
                "Area under the risk-coverage curve: error rate among the most certain rows, mean over all coverages. Lower is better.",
                "RCC-AUC (%)",
                &errors,
                errors.columns.len(),
            ),
        ),
    ];
    Ok(Findings {
        claims: claims(&detection),
        notes: notes(context),
        tables: vec![detection, errors],
        figures,
    })
}

fn notes(context: &Context) -> Vec<String> {
    let methods = "MC dropout is the entropy of the mean prediction over passes with dropout, where these are available. NUQ uses the epistemic \
                   uncertainty for outliers and the total uncertainty for errors.";
    let networks = "MiniLM replaces the paper's ELECTRA. The paper shows curves over many fractions of the training data; here there are one or two fractions.";
    let networks = context.uses_default_embeddings().then_some(networks);
    networks.into_iter().chain([methods]).map(str::to_owned).collect()
}

/// Reads all files NAME_FRACTION.npz of a folder.
fn sets(folder: &Path) -> Result<Vec<Set>, LabError> {
    let mut sets = Vec::new();
    for path in npz_files(folder)? {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        sets.push(Set { name: title(&stem), embeddings: read_file(&path)? });
    }
    if sets.is_empty() {
        let expected =
            "files NAME_FRACTION.npz with train_feat, train_labels, test_feat, test_logits and test_labels";
        return Err(DataError::MissingFiles { folder: folder.to_owned(), expected }.into());
    }
    Ok(sets)
}

/// Title of a file stem: `rostd_0.01` becomes `ROSTD 1 %`.
fn title(stem: &str) -> String {
    let known =
        [("rostd", "ROSTD"), ("clinc", "CLINC"), ("sst2", "SST-2"), ("cola", "CoLA"), ("mrpc", "MRPC")];
    let (name, fraction) = stem.rsplit_once('_').unwrap_or((stem, ""));
    let name = known.iter().find(|(file, _)| *file == name).map_or(name, |(_, title)| title);
    match fraction.parse::<f64>() {
        // Percentages have at most one decimal.
        Ok(fraction) => format!("{name} {} %", (1000.0 * fraction).round() / 10.0),
        Err(_) => stem.to_owned(),
    }
}

/// For each method, mean ROC-AUC over the outlier sets, and RCC-AUC.
fn evaluate(embeddings: &EmbeddingSets) -> Result<(Vec<Cell>, Vec<Cell>), LabError> {
    let (mut areas, mut risks) = (Vec::new(), Vec::new());
    let is_error = embeddings.errors();
    let scorers = Scorers::fit(embeddings)?;
    for method in METHODS {
        let Some(test) = scorers.score(method, &embeddings.test)? else {
            areas.push(Cell::default());
            risks.push(Cell::default());
            continue;
        };
        let mut set_areas = Vec::new();
        for (_, outliers) in &embeddings.ood {
            let outliers = scorers.score(method, outliers)?;
            set_areas
                .extend(outliers.map(|outliers| roc_auc(&test.epistemic, &outliers.epistemic)).transpose()?);
        }
        let mean = set_areas.iter().sum::<f64>() / set_areas.len().max(1) as f64;
        areas.push(if set_areas.is_empty() { Cell::default() } else { Cell::single(mean) });
        risks.push(Cell::single(rcc_auc(&test.total, &is_error)?));
    }
    Ok((areas, risks))
}

struct Scorers<'v> {
    nuq: NuqClassifier<'v>,
    ddu: Ddu<'v>,
    sngp: Sngp,
}

impl<'v> Scorers<'v> {
    fn fit(embeddings: &'v EmbeddingSets) -> Result<Self, LabError> {
        let (x, y) = (&embeddings.train, &embeddings.train_labels);
        Ok(Self {
            nuq: NuqClassifier::params().fit(x, y)?,
            ddu: Ddu::fit(x, y, Shrinkage::LedoitWolf)?,
            sngp: Sngp::fit(x, y, SngpParams::default())?,
        })
    }

    /// Scores of rows, or `None` if the rows lack the inputs of the method.
    fn score(&self, method: &str, rows: &Rows) -> Result<Option<Scores>, LabError> {
        let one = |scores: Vec<f64>| Scores { total: scores.clone(), epistemic: scores };
        Ok(Some(match method {
            "NUQ" => {
                let predictions = self.nuq.predict(&rows.embeddings)?;
                Scores {
                    epistemic: predictions.iter().map(|prediction| prediction.log_epistemic).collect(),
                    total: predictions.iter().map(|prediction| prediction.log_total).collect(),
                }
            }
            "SNGP head" => one(score_embeddings(&self.sngp, &rows.embeddings)?),
            "DDU" => one(score_embeddings(&self.ddu, &rows.embeddings)?),
            "MC dropout" => match &rows.members {
                Some(members) => one(score_members(members, Reduction::Entropy)?),
                None => return Ok(None),
            },
            _ => one(score_logits(&MaxProb, &rows.logits)?),
        }))
    }
}

fn claims(detection: &Table) -> Vec<Claim> {
    let row = "ROSTD 1 %";
    let area = |method: &str| detection.cell(row, method).and_then(Cell::mean);
    let (Some(nuq), Some(max_prob), Some(dropout)) = (area("NUQ"), area("MaxProb"), area("MC dropout"))
    else {
        return vec![];
    };
    let text = |value: f64| Unit::Percent.text(value, None);
    vec![Claim::new(
        "nuq-on-rostd",
        "With 1 % of the ROSTD training data, NUQ detects outliers better than MaxProb and MC dropout.",
        nuq > max_prob && nuq > dropout,
        format!("NUQ {}, MaxProb {}, MC dropout {}", text(nuq), text(max_prob), text(dropout)),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::numbers;

    #[test]
    fn the_claim_can_fail_and_is_omitted_without_its_row() {
        let claims_for = |nuq: f64, dropout: f64| {
            let columns = ["NUQ", "MC dropout", "MaxProb"];
            claims(&numbers(columns, &[("ROSTD 1 %", [nuq, dropout, 0.8])]))
        };
        assert!(claims_for(0.96, 0.81)[0].holds);
        assert!(!claims_for(0.79, 0.7)[0].holds && !claims_for(0.96, 0.97)[0].holds);
        assert_eq!(claims(&numbers(["NUQ"], &[("other", [0.9])])), []);
    }

    #[test]
    fn titles_have_names_of_known_sets_and_percentages() {
        let stems = ["rostd_0.01", "sst2_0.005", "cola_1", "my_set_0.1", "other"];
        assert_eq!(stems.map(title), ["ROSTD 1 %", "SST-2 0.5 %", "CoLA 100 %", "my_set 10 %", "other"]);
    }
}
