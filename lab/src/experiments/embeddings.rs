//! Finding outliers by embeddings and logits: the paper's Table 1 on any folder of npz files.

use nuq_eval::baselines::{Ddu, Duq, DuqParams, Energy, Entropy, MaxProb, Reduction, Sngp, SngpParams};
use nuq_eval::metrics::roc_auc;
use nuq::{NuqClassifier, Shrinkage};

use super::Lab;
use super::detection::dots;
use super::methods::{epistemic, from_logits, gaussians, of_embeddings, of_members};
use crate::LabError;
use crate::data::DataError;
use crate::data::embeddings::{Rows, Views, read_folder};
use crate::results::{Better, Cell, Claim, Findings, Table, TableRow, Unit};

/// What a method is asked: scores of rows, or nothing where they lack what it looks at.
type Scorer<'s> = Box<dyn Fn(&Rows) -> Result<Option<Vec<f64>>, LabError> + 's>;

/// The paper's Table 1, and from its appendix the head of DUQ on frozen features and NUQ with an RBF kernel on features: method, then
/// CIFAR-100 by ResNet-50 against SVHN, LSUN and Smooth. The paper's SNGP is trained end to end, and no head.
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

pub(super) fn run(lab: &Lab) -> Result<Findings, LabError> {
    let folder = lab.embeddings("cifar10-resnet18")?;
    lab.say(&format!("embeddings: {}", folder.display()));
    let views = thinned(read_folder(&folder)?, lab.size.pick(usize::MAX, 5000, 1000));
    if views.ood.is_empty() {
        let expected = "files ood_NAME.npz with embeddings and logits of outliers";
        return Err(DataError::NothingIn { folder, expected }.into());
    }
    // The paper's numbers stand beside those of the data that stand for its own.
    let is_known = lab.has_known_embeddings();
    let mut rows = Vec::new();
    for (name, scorer) in scorers(lab, &views)? {
        if let Some(inliers) = scorer(&views.test)? {
            lab.say(&format!("embeddings: {name}"));
            let mut cells = Vec::new();
            for (set, outliers) in &views.ood {
                let area = scorer(outliers)?.map(|outliers| roc_auc(&inliers, &outliers)).transpose()?;
                cells.push(Cell::new(area.into_iter().collect()).beside(if is_known {
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
        views.ood.iter().map(|(name, _)| name.replace('_', " ")).chain(["mean".to_owned()]).collect();
    let table = Table {
        title: "ROC-AUC of outliers against test rows (%)".to_owned(),
        corner: "method".to_owned(),
        columns,
        rows,
        unit: Unit::Percent,
        better: Better::Higher,
        paper_of: Some("CIFAR-100".to_owned()),
    };
    Ok(Findings {
        claims: claims(&table),
        notes: notes(lab, &views),
        figures: vec![("embeddings".to_owned(), figure(&table))],
        tables: vec![table],
    })
}

/// The mean over sets, where all have a number.
fn mean(cells: &[Cell]) -> Cell {
    let means: Option<Vec<f64>> = cells.iter().map(Cell::mean).collect();
    Cell::new(means.map(|means| means.iter().sum::<f64>() / means.len() as f64).into_iter().collect())
}

fn notes(lab: &Lab, views: &Views) -> Vec<String> {
    let mut notes = vec![format!(
        "{} training and {} test rows of {} dimensions. DUQ and SNGP are heads fitted to these features. Dropout and test-time augmentation \
         are left out: there are no such arrays.",
        views.train.len(),
        views.test.embeddings.len(),
        views.train.dim()
    )];
    if lab.has_known_embeddings() {
        notes.push(
            "The paper's numbers are of CIFAR-100 by a ResNet-50. Its \"DUQ Head\" is fitted to features as ours is; its DUQ of Table 1 and its \
             SNGP are trained end to end, and are not shown. Its NUQ of Table 1 has Gaussians for its density; beside ours with a kernel \
             stands its RBF kernel on features."
                .to_owned(),
        );
    }
    if let (true, Some(members)) = (lab.has_known_embeddings(), &views.test.members) {
        let count = members.count();
        notes.push(format!(
            "The ensemble is {count} further networks without spectral normalization, where the paper has 5 networks."
        ));
    }
    notes
}

/// At most so many training rows.
fn thinned(views: Views, most: usize) -> Views {
    let rows = views.train.len();
    if rows <= most {
        return views;
    }
    // Evenly from the whole set, which may be sorted by class.
    let ids: Vec<u32> = (0..most).map(|i| (i * rows / most) as u32).collect();
    // Where labels lack, fewer are left than rows, which a fit refuses by name.
    let labels = ids.iter().filter_map(|&id| views.labels.get(id as usize).cloned()).collect();
    Views { train: views.train.gather(&ids), labels, ..views }
}

fn scorers<'v>(lab: &Lab, views: &'v Views) -> Result<Vec<(&'static str, Scorer<'v>)>, LabError> {
    let (x, y) = (&views.train, &views.labels);
    let logits = |scorer: &'static (dyn nuq_eval::baselines::Scorer + 'static)| -> Scorer<'v> {
        Box::new(move |rows| from_logits(scorer, &rows.logits).map(Some))
    };
    lab.say("embeddings: fitting");
    let ddu = Ddu::fit(x, y, Shrinkage::LedoitWolf)?;
    let duq = Duq::fit(x, y, DuqParams::default())?;
    let sngp = Sngp::fit(x, y, SngpParams::default())?;
    let gmm = NuqClassifier::params().density(gaussians()).fit(x, y)?;
    let nuq = NuqClassifier::params().fit(x, y)?;
    let ensemble: Scorer<'v> = Box::new(|rows| {
        rows.members.as_ref().map(|members| of_members(members, Reduction::Entropy)).transpose()
    });
    Ok(vec![
        ("MaxProb", logits(&MaxProb)),
        ("Entropy", logits(&Entropy)),
        ("Ensemble", ensemble),
        ("Energy", Box::new(|rows| from_logits(&Energy::default(), &rows.logits).map(Some))),
        ("DUQ head", Box::new(move |rows| of_embeddings(&duq, &rows.embeddings).map(Some))),
        ("SNGP head", Box::new(move |rows| of_embeddings(&sngp, &rows.embeddings).map(Some))),
        ("DDU", Box::new(move |rows| of_embeddings(&ddu, &rows.embeddings).map(Some))),
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
        "With Gaussians for its density NUQ is within one point of DDU, and both are above MaxProb (mean over sets).",
        (nuq - ddu).abs() <= 0.01 && nuq > max_prob && ddu > max_prob,
        format!("NUQ {}, DDU {}, MaxProb {}", text(nuq), text(ddu), text(max_prob)),
    )]
}

/// Without the mean, which stands last.
fn figure(table: &Table) -> nuq_report::Figure {
    dots(
        "Finding outliers by embeddings",
        "How well each method tells outliers from test rows.",
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
    fn a_mean_is_of_all_sets() {
        assert_eq!(mean(&[Cell::one(0.5), Cell::one(1.0)]), Cell::one(0.75));
        assert_eq!(mean(&[Cell::one(0.5), Cell::default()]), Cell::default());
    }

    #[test]
    fn heads_stand_beside_heads() {
        assert_eq!(paper("SNGP head", "svhn"), None);
        assert_eq!(
            (paper("DUQ head", "svhn"), paper("NUQ", "smooth")),
            (Some("83.6 ± 4.0"), Some("85.5 ± 6.8"))
        );
        assert_eq!(paper("NUQ", "textures"), None);
    }

    #[test]
    fn thinning_goes_evenly_and_lacking_labels_do_not_panic() {
        let train = Embeddings::new((0..6).map(|i| i as f32).collect(), 1).unwrap();
        let test = Rows { embeddings: train.clone(), logits: train.clone(), members: None };
        let labels: Vec<Label> = (0..6i64).map(|i| Label::from(&i)).collect();
        let views = |labels: &[Label]| Views {
            train: train.clone(),
            labels: labels.to_vec(),
            test: test.clone(),
            truth: vec![],
            ood: vec![],
        };
        let kept = thinned(views(&labels), 3);
        assert_eq!((kept.train.row(1), kept.labels.len(), &kept.labels[1]), (&[2.0f32][..], 3, &labels[2]));
        assert_eq!(thinned(views(&labels[..3]), 3).labels.len(), 2);
        assert_eq!(thinned(views(&labels), 6).train.len(), 6);
    }
}
