//! Text with few training data: the paper's figures on rejection and on outliers.

use std::path::Path;

use nuq_eval::baselines::{Ddu, MaxProb, Reduction, Sngp, SngpParams};
use nuq_eval::metrics::{rcc_auc, roc_auc};
use nuq::{NuqClassifier, Shrinkage};

use super::Lab;
use super::detection::dots;
use super::methods::{from_logits, of_embeddings, of_members};
use crate::LabError;
use crate::data::DataError;
use crate::data::embeddings::{Rows, Views, npz_files, read_file};
use crate::results::{Better, Cell, Claim, Findings, Table, TableRow, Unit};

const METHODS: [&str; 5] = ["NUQ", "SNGP head", "DDU", "MC dropout", "MaxProb"];

/// A set with the fraction of its training data that was used.
struct Set {
    name: String,
    views: Views,
}

/// Scores for finding outliers and for knowing errors: NUQ's are the epistemic and the total uncertainty, others have one.
struct Scores {
    epistemic: Vec<f64>,
    total: Vec<f64>,
}

pub(super) fn run(lab: &Lab) -> Result<Findings, LabError> {
    let folder = lab.embeddings("text")?;
    let sets = sets(&folder)?;
    let (mut detection, mut errors) = (Vec::new(), Vec::new());
    for set in &sets {
        lab.say(&format!("text: {}", set.name));
        let (areas, risks) = of_set(&set.views)?;
        if !set.views.ood.is_empty() {
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
        paper_of: None,
    };
    let detection = table(
        "ROC-AUC of outliers against test rows, mean over sets of outliers (%)",
        detection,
        Unit::Percent,
    );
    let errors = table("RCC-AUC of the network's errors, lower is better", errors, Unit::Fine);
    let figures = vec![
        (
            "outliers".to_owned(),
            dots(
                "Finding outliers in text",
                "Mean area under the ROC curve. Further right is better.",
                "ROC-AUC (%)",
                &detection,
                detection.columns.len(),
            ),
        ),
        (
            "errors".to_owned(),
            dots(
                "Knowing one's own errors in text",
                "Mean error rate among the most certain: area under the risk-coverage curve. Further left is better.",
                "RCC-AUC (%)",
                &errors,
                errors.columns.len(),
            ),
        ),
    ];
    Ok(Findings { claims: claims(&detection), notes: notes(lab), tables: vec![detection, errors], figures })
}

fn notes(lab: &Lab) -> Vec<String> {
    let methods = "MC dropout is the entropy of the mean of passes with dropout where they were stored; NUQ is the epistemic uncertainty for \
                   outliers and the total one for errors.";
    let networks = "MiniLM stands for the paper's ELECTRA, and where the paper draws curves over many fractions there are one or two.";
    let networks = lab.has_known_embeddings().then_some(networks);
    networks.into_iter().chain([methods]).map(str::to_owned).collect()
}

/// All sets of a folder: files NAME_FRACTION.npz.
fn sets(folder: &Path) -> Result<Vec<Set>, LabError> {
    let mut sets = Vec::new();
    for path in npz_files(folder)? {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        sets.push(Set { name: title(&stem), views: read_file(&path)? });
    }
    if sets.is_empty() {
        let expected =
            "files NAME_FRACTION.npz with train_feat, train_labels, test_feat, test_logits and test_labels";
        return Err(DataError::NothingIn { folder: folder.to_owned(), expected }.into());
    }
    Ok(sets)
}

/// `rostd_0.01` as people write it.
fn title(stem: &str) -> String {
    let known =
        [("rostd", "ROSTD"), ("clinc", "CLINC"), ("sst2", "SST-2"), ("cola", "CoLA"), ("mrpc", "MRPC")];
    let (name, fraction) = stem.rsplit_once('_').unwrap_or((stem, ""));
    let name = known.iter().find(|(file, _)| *file == name).map_or(name, |(_, title)| title);
    match fraction.parse::<f64>() {
        // One decimal is all that fractions have.
        Ok(fraction) => format!("{name} {} %", (1000.0 * fraction).round() / 10.0),
        Err(_) => stem.to_owned(),
    }
}

/// Mean area of the sets of outliers, and RCC-AUC, for each method.
fn of_set(views: &Views) -> Result<(Vec<Cell>, Vec<Cell>), LabError> {
    let (mut areas, mut risks) = (Vec::new(), Vec::new());
    let is_error = views.errors();
    let scorers = Scorers::fit(views)?;
    for method in METHODS {
        let Some(test) = scorers.score(method, &views.test)? else {
            areas.push(Cell::default());
            risks.push(Cell::default());
            continue;
        };
        let mut of_sets = Vec::new();
        for (_, outliers) in &views.ood {
            let outliers = scorers.score(method, outliers)?;
            of_sets
                .extend(outliers.map(|outliers| roc_auc(&test.epistemic, &outliers.epistemic)).transpose()?);
        }
        let mean = of_sets.iter().sum::<f64>() / of_sets.len().max(1) as f64;
        areas.push(if of_sets.is_empty() { Cell::default() } else { Cell::one(mean) });
        risks.push(Cell::one(rcc_auc(&test.total, &is_error)?));
    }
    Ok((areas, risks))
}

struct Scorers<'v> {
    nuq: NuqClassifier<'v>,
    ddu: Ddu<'v>,
    sngp: Sngp,
}

impl<'v> Scorers<'v> {
    fn fit(views: &'v Views) -> Result<Self, LabError> {
        let (x, y) = (&views.train, &views.labels);
        Ok(Self {
            nuq: NuqClassifier::params().fit(x, y)?,
            ddu: Ddu::fit(x, y, Shrinkage::LedoitWolf)?,
            sngp: Sngp::fit(x, y, SngpParams::default())?,
        })
    }

    /// Nothing where rows lack what the method looks at.
    fn score(&self, method: &str, rows: &Rows) -> Result<Option<Scores>, LabError> {
        let one = |scores: Vec<f64>| Scores { total: scores.clone(), epistemic: scores };
        Ok(Some(match method {
            "NUQ" => {
                let found = self.nuq.predict(&rows.embeddings)?;
                Scores {
                    epistemic: found.iter().map(|prediction| prediction.log_epistemic).collect(),
                    total: found.iter().map(|prediction| prediction.log_total).collect(),
                }
            }
            "SNGP head" => one(of_embeddings(&self.sngp, &rows.embeddings)?),
            "DDU" => one(of_embeddings(&self.ddu, &rows.embeddings)?),
            "MC dropout" => match &rows.members {
                Some(members) => one(of_members(members, Reduction::Entropy)?),
                None => return Ok(None),
            },
            _ => one(from_logits(&MaxProb, &rows.logits)?),
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
        "With 1 % of ROSTD's training data NUQ finds outliers better than MaxProb and MC dropout.",
        nuq > max_prob && nuq > dropout,
        format!("NUQ {}, MaxProb {}, MC dropout {}", text(nuq), text(max_prob), text(dropout)),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::numbers;

    #[test]
    fn the_claim_can_fail() {
        let of = |nuq: f64, dropout: f64| {
            let columns = ["NUQ", "MC dropout", "MaxProb"];
            claims(&numbers(columns, &[("ROSTD 1 %", [nuq, dropout, 0.8])]))
        };
        assert!(of(0.96, 0.81)[0].holds && !of(0.79, 0.7)[0].holds && !of(0.96, 0.97)[0].holds);
        assert_eq!(claims(&numbers(["NUQ"], &[("other", [0.9])])), []);
    }

    #[test]
    fn titles_read_well() {
        let stems = ["rostd_0.01", "sst2_0.005", "cola_1", "my_set_0.1", "other"];
        assert_eq!(stems.map(title), ["ROSTD 1 %", "SST-2 0.5 %", "CoLA 100 %", "my_set 10 %", "other"]);
    }
}
