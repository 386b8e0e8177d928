//! Outlier detection from embeddings and logits: the paper's Table 1 for any folder of npz files.

use nuq::{NuqClassifier, Shrinkage};
use nuq_eval::baselines::{Ddu, Duq, DuqParams, Energy, Entropy, MaxProb, Reduction, Sngp, SngpParams};
use nuq_eval::metrics::roc_auc;

use super::Context;
use super::detection::dots;
use super::methods::{epistemic, gaussians, score_embeddings, score_logits, score_members};
use crate::LabError;
use crate::data::DataError;
use crate::data::embeddings::{EmbeddingSets, Rows, read_folder};
use crate::results::{Better, Cell, Claim, Findings, Table, TableRow, Unit};

/// Computes scores of rows, or `None` if the rows lack the inputs of the method.
type Scorer<'s> = Box<dyn Fn(&Rows) -> Result<Option<Vec<f64>>, LabError> + 's>;

/// ROC-AUC (%) of the paper for a ResNet-50 on CIFAR-100 against SVHN, LSUN and Smooth: Table 1, and from the appendix DUQ on frozen
/// features and NUQ with an RBF kernel on features. SNGP is missing because the paper trains it end to end.
const PAPER: [(&str, [&str; 3]); 8] = [
    ("MaxProb", ["79.7 ± 1.3", "81.5 ± 2.0", "76.6 ± 3.5"]),
    ("Entropy", ["81.1 ± 1.6", "83.0 ± 2.1", "77.8 ± 5.2"]),
    ("Ensemble", ["82.9 ± 0.9", "86.5 ± 0.8", "83.7 ± 1.2"]),
    ("Energy", ["62.0 ± 1.7", "82.7 ± 0.1", "71.5 ± 4.6"]),
    ("DUQ head", ["83.6 ± 4.0", "87.2 ± 2.1", "83.8 ± 11.4"]),
    ("DDU", ["89.6 ± 1.6", "92.1 ± 0.6", "97.1 ± 3.1"]),
    ("NUQ, GMM", ["89.7 ± 1.6", "92.3 ± 0.6", "96.8 ± 3.8"]),
    ("NUQ", ["84.4 ± 3.2", "88.2 ± 1.0", "85.5 ± 6.8"]),
];

fn paper(method: &str, set: &str) -> Option<&'static str> {
    let column = ["svhn", "lsun", "smooth"].iter().position(|name| *name == set)?;
    PAPER.iter().find(|(name, _)| *name == method).map(|(_, numbers)| numbers[column])
}

pub(super) fn run(context: &Context) -> Result<Findings, LabError> {
    let folder = context.embeddings("cifar10-resnet18")?;
    context.log(&format!("embeddings: {}", folder.display()));
    let sets = subsampled(read_folder(&folder)?, context.size.pick(usize::MAX, 5000, 1000));
    if sets.ood.is_empty() {
        let expected = "files ood_NAME.npz with embeddings and logits of outliers";
        return Err(DataError::MissingFiles { folder, expected }.into());
    }
    // The paper's numbers are shown only for the default embeddings, which replace the embeddings of the paper.
    let shows_paper = context.uses_default_embeddings();
    let mut rows = Vec::new();
    for (name, scorer) in scorers(context, &sets)? {
        if let Some(inliers) = scorer(&sets.test)? {
            context.log(&format!("embeddings: {name}"));
            let mut cells = Vec::new();
            for (set, outliers) in &sets.ood {
                let area = scorer(outliers)?.map(|outliers| roc_auc(&inliers, &outliers)).transpose()?;
                cells.push(Cell::new(area.into_iter().collect()).with_paper(if shows_paper {
                    paper(name, set)
                } else {
                    None
                }));
            }
            cells.push(mean(&cells));
            rows.push(TableRow { name: name.to_owned(), cells });
        }
    }
    let columns =
        sets.ood.iter().map(|(name, _)| name.replace('_', " ")).chain(["mean".to_owned()]).collect();
    let table = Table {
        title: "ROC-AUC (%) of outliers against test rows".to_owned(),
        corner: "method".to_owned(),
        columns,
        rows,
        unit: Unit::Percent,
        better: Better::Higher,
        paper_data_set: Some("CIFAR-100".to_owned()),
    };
    Ok(Findings {
        claims: claims(&table),
        notes: notes(context, &sets),
        figures: vec![("embeddings".to_owned(), figure(&table))],
        tables: vec![table],
    })
}

/// The mean over sets, or an empty cell if a set has no value.
fn mean(cells: &[Cell]) -> Cell {
    let means: Option<Vec<f64>> = cells.iter().map(Cell::mean).collect();
    Cell::new(means.map(|means| means.iter().sum::<f64>() / means.len() as f64).into_iter().collect())
}

fn notes(context: &Context, sets: &EmbeddingSets) -> Vec<String> {
    let mut notes = vec![format!(
        "{} training rows and {} test rows of dimension {}. DUQ and SNGP are heads fitted to these features. MC dropout and test-time augmentation \
         are not evaluated, because the files contain no predictions of these methods.",
        sets.train.len(),
        sets.test.embeddings.len(),
        sets.train.dim()
    )];
    if context.uses_default_embeddings() {
        notes.push(
            "The paper's numbers are for a ResNet-50 on CIFAR-100. The paper's \"DUQ Head\" is fitted to features, as here. DUQ of the \
             paper's Table 1 and the paper's SNGP are trained end to end and are not shown. NUQ of the paper's Table 1 uses the GMM density. \
             The row NUQ (density `auto`) is compared with the paper's NUQ with an RBF kernel on features."
                .to_owned(),
        );
    }
    if let (true, Some(members)) = (context.uses_default_embeddings(), &sets.test.members) {
        let count = members.count();
        notes.push(format!(
            "The ensemble consists of {count} additional networks without spectral normalization; the paper uses 5 networks."
        ));
    }
    notes
}

/// Reduces the training set to at most `limit` rows.
fn subsampled(sets: EmbeddingSets, limit: usize) -> EmbeddingSets {
    let rows = sets.train.len();
    if rows <= limit {
        return sets;
    }
    // Evenly spaced rows, because the set may be sorted by class.
    let ids: Vec<u32> = (0..limit).map(|i| (i * rows / limit) as u32).collect();
    let train_labels = ids.iter().map(|&id| sets.train_labels[id as usize].clone()).collect();
    EmbeddingSets { train: sets.train.gather(&ids), train_labels, ..sets }
}

fn scorers<'s>(
    context: &Context,
    sets: &'s EmbeddingSets,
) -> Result<Vec<(&'static str, Scorer<'s>)>, LabError> {
    let (x, y) = (&sets.train, &sets.train_labels);
    let logits = |scorer: &'static (dyn nuq_eval::baselines::Scorer + 'static)| -> Scorer<'s> {
        Box::new(move |rows| score_logits(scorer, &rows.logits).map(Some))
    };
    context.log("embeddings: fitting");
    let ddu = Ddu::fit(x, y, Shrinkage::LedoitWolf)?;
    let duq = Duq::fit(x, y, DuqParams::default())?;
    let sngp = Sngp::fit(x, y, SngpParams::default())?;
    let gmm = NuqClassifier::params().density(gaussians()).fit(x, y)?;
    let nuq = NuqClassifier::params().fit(x, y)?;
    let ensemble: Scorer<'s> = Box::new(|rows| {
        rows.members.as_ref().map(|members| score_members(members, Reduction::Entropy)).transpose()
    });
    Ok(vec![
        ("MaxProb", logits(&MaxProb)),
        ("Entropy", logits(&Entropy)),
        ("Ensemble", ensemble),
        ("Energy", Box::new(|rows| score_logits(&Energy::default(), &rows.logits).map(Some))),
        ("DUQ head", Box::new(move |rows| score_embeddings(&duq, &rows.embeddings).map(Some))),
        ("SNGP head", Box::new(move |rows| score_embeddings(&sngp, &rows.embeddings).map(Some))),
        ("DDU", Box::new(move |rows| score_embeddings(&ddu, &rows.embeddings).map(Some))),
        ("NUQ, GMM", Box::new(move |rows| Ok(Some(epistemic(&gmm.predict(&rows.embeddings)?))))),
        ("NUQ", Box::new(move |rows| Ok(Some(epistemic(&nuq.predict(&rows.embeddings)?))))),
    ])
}

fn claims(table: &Table) -> Vec<Claim> {
    let mean = |method: &str| table.cell(method, "mean").and_then(Cell::mean).unwrap_or(f64::NAN);
    let (nuq, ddu, max_prob) = (mean("NUQ, GMM"), mean("DDU"), mean("MaxProb"));
    let text = |value: f64| Unit::Percent.text(value, None);
    vec![Claim::new(
        "table-1",
        "With the GMM density, the ROC-AUC of NUQ differs by at most one point from that of DDU, and both are above MaxProb (mean over sets).",
        (nuq - ddu).abs() <= 0.01 && nuq > max_prob && ddu > max_prob,
        format!("NUQ {}, DDU {}, MaxProb {}", text(nuq), text(ddu), text(max_prob)),
    )]
}

/// Dot plot of all columns except the last one, the mean.
fn figure(table: &Table) -> nuq_report::Figure {
    dots(
        "Outlier detection from embeddings",
        "ROC-AUC of each outlier set against the test rows, by method. Higher is better.",
        "ROC-AUC (%)",
        table,
        table.columns.len() - 1,
    )
}

#[cfg(test)]
mod tests {
    use nuq::{Embeddings, Label};

    use super::*;
    use crate::results::numbers;

    #[test]
    fn the_claim_can_fail() {
        let holds = |nuq: f64, max_prob: f64| {
            let rows = [("NUQ, GMM", [nuq]), ("DDU", [0.937]), ("MaxProb", [max_prob])];
            claims(&numbers(["mean"], &rows))[0].holds
        };
        assert!(holds(0.935, 0.91));
        assert!(!holds(0.925, 0.91) && !holds(0.935, 0.95));
    }

    #[test]
    fn mean_requires_all_sets() {
        assert_eq!(mean(&[Cell::single(0.5), Cell::single(1.0)]), Cell::single(0.75));
        assert_eq!(mean(&[Cell::single(0.5), Cell::default()]), Cell::default());
    }

    #[test]
    fn paper_numbers_are_found_by_method_and_set() {
        assert_eq!(paper("SNGP head", "svhn"), None);
        assert_eq!(
            (paper("DUQ head", "svhn"), paper("NUQ", "smooth")),
            (Some("83.6 ± 4.0"), Some("85.5 ± 6.8"))
        );
        assert_eq!(paper("NUQ", "textures"), None);
    }

    #[test]
    fn subsampling_is_even() {
        let train = Embeddings::new((0..6).map(|i| i as f32).collect(), 1).unwrap();
        let test = Rows { embeddings: train.clone(), logits: train.clone(), members: None };
        let labels: Vec<Label> = (0..6i64).map(|i| Label::from(&i)).collect();
        let sets = || EmbeddingSets {
            train: train.clone(),
            train_labels: labels.clone(),
            test: test.clone(),
            test_labels: vec![],
            ood: vec![],
        };
        let result = subsampled(sets(), 3);
        assert_eq!(
            (result.train.row(1), result.train_labels.len(), &result.train_labels[1]),
            (&[2.0f32][..], 3, &labels[2])
        );
        assert_eq!(subsampled(sets(), 6).train.len(), 6);
    }
}
