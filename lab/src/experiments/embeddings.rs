//! Finding outliers by embeddings and logits: the paper's Table 1 on any folder of npz files.

use nuq::baselines::{Ddu, Duq, DuqParams, Energy, Entropy, MaxProb, Reduction, Sngp, SngpParams};
use nuq::metrics::roc_auc;
use nuq::{Covariance, Density, NuqClassifier, Shrinkage};
use nuq_report::{ChartAxis, DotPlot, DotRow, Spread};

use super::Lab;
use super::methods::{epistemic, from_logits, of_embeddings, of_members};
use crate::LabError;
use crate::data::DataError;
use crate::data::embeddings::{Rows, Views, read_folder};
use crate::results::{Better, Cell, Claim, Findings, Table, TableRow, Unit};

/// What a method is asked: scores of rows, or nothing where they lack what it looks at.
type Scorer<'s> = Box<dyn Fn(&Rows) -> Result<Option<Vec<f64>>, LabError> + 's>;

/// The paper's Table 1: method, then CIFAR-100 by ResNet-50 against SVHN, LSUN and Smooth.
const PAPER: [(&str, [&str; 3]); 8] = [
    ("MaxProb", ["79.7 ± 1.3", "81.5 ± 2.0", "76.6 ± 3.5"]),
    ("Entropy", ["81.1 ± 1.6", "83.0 ± 2.1", "77.8 ± 5.2"]),
    ("Ensemble", ["82.9 ± 0.9", "86.5 ± 0.8", "83.7 ± 1.2"]),
    ("Energy", ["62.0 ± 1.7", "82.7 ± 0.1", "71.5 ± 4.6"]),
    ("DUQ head", ["83.6 ± 4.0", "87.2 ± 2.1", "83.8 ± 11.4"]),
    ("SNGP head", ["86.2 ± 7.4", "83.7 ± 8.6", "60.9 ± 12.5"]),
    ("DDU", ["89.6 ± 1.6", "92.1 ± 0.6", "97.1 ± 3.1"]),
    ("NUQ, GMM", ["89.7 ± 1.6", "92.3 ± 0.6", "96.8 ± 3.8"]),
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
    let mut rows = Vec::new();
    for (name, scorer) in scorers(lab, &views)? {
        lab.say(&format!("embeddings: {name}"));
        if let Some(inliers) = scorer(&views.test)? {
            let mut cells = Vec::new();
            for (set, outliers) in &views.ood {
                let area = scorer(outliers)?.map(|outliers| roc_auc(&inliers, &outliers)).transpose()?;
                cells.push(Cell::new(area.into_iter().collect()).beside(paper(name, set)));
            }
            let mean = cells.iter().filter_map(Cell::mean).sum::<f64>() / cells.len() as f64;
            cells.push(Cell::one(mean));
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
    };
    Ok(Findings {
        claims: claims(&table),
        notes: vec![format!(
            "{} training and {} test rows of {} dimensions. The paper's numbers are of CIFAR-100 by a ResNet-50; its DUQ and SNGP are \
             trained end to end but for the DUQ head, of which the appendix tells. Heads here are fitted to frozen features.",
            views.train.len(),
            views.test.embeddings.len(),
            views.train.dim()
        )],
        figures: vec![("embeddings".to_owned(), figure(&table))],
        tables: vec![table],
    })
}

/// At most so many rows of each set.
fn thinned(views: Views, most: usize) -> Views {
    let count = views.train.len().min(most);
    // Evenly from the whole set, which may be sorted by class.
    let ids: Vec<u32> = (0..count).map(|i| (i * views.train.len() / count) as u32).collect();
    let labels = ids.iter().map(|&id| views.labels[id as usize].clone()).collect();
    Views { train: views.train.gather(&ids), labels, ..views }
}

fn scorers<'v>(lab: &Lab, views: &'v Views) -> Result<Vec<(&'static str, Scorer<'v>)>, LabError> {
    let (x, y) = (&views.train, &views.labels);
    let logits = |scorer: &'static (dyn nuq::baselines::Scorer + 'static)| -> Scorer<'v> {
        Box::new(move |rows| from_logits(scorer, &rows.logits).map(Some))
    };
    lab.say("embeddings: fitting");
    let ddu = Ddu::fit(x, y, Shrinkage::LedoitWolf)?;
    let duq = Duq::fit(x, y, DuqParams::default())?;
    let sngp = Sngp::fit(x, y, SngpParams::default())?;
    let gaussians = Density::Gaussians { covariance: Covariance::Full, shrinkage: Shrinkage::LedoitWolf };
    let gmm = NuqClassifier::params().density(gaussians).fit(x, y)?;
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
        ("NUQ, GMM", Box::new(move |rows| epistemic(&gmm, &rows.embeddings).map(Some))),
        ("NUQ", Box::new(move |rows| epistemic(&nuq, &rows.embeddings).map(Some))),
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

fn figure(table: &Table) -> nuq_report::Figure {
    let sets = table.columns.len() - 1;
    let row = |row: &TableRow| DotRow {
        name: row.name.clone(),
        values: row.cells[..sets].iter().map(Cell::dot).collect(),
    };
    let plot = DotPlot {
        title: "Finding outliers by embeddings".to_owned(),
        caption: "How well each method tells outliers from test rows.".to_owned(),
        x: ChartAxis::new("ROC-AUC (%)", Spread::Share),
        series: table.columns[..sets].to_vec(),
        rows: table.rows.iter().map(row).collect(),
    };
    plot.draw()
}
