//! Agreement of the predictions of NUQ and of the network: the paper's section on how NUQ affects predictions.

use nuq::{NuqClassifier, Predictions};
use nuq_eval::metrics::{Agreement, agreement};
use nuq_report::{AxisScale, Chart, ChartAxis, ChartLine, ChartPanel, Emphasis};

use super::Context;
use super::digits::{View, note};
use super::network_outputs::Layer;
use super::networks::NetworkId;
use crate::LabError;
use crate::data::embeddings::{self, EmbeddingSets};
use crate::results::{Better, Cell, Claim, Findings, Table, TableRow, Unit};

/// Number of groups into which the test rows are divided, in order of their aleatoric uncertainty.
const GROUPS: usize = 20;

/// For each row, whether NUQ and the network agree, and the aleatoric uncertainty of NUQ.
struct Comparison {
    agrees: Vec<bool>,
    aleatoric: Vec<f64>,
}

pub(super) fn run(context: &Context) -> Result<Findings, LabError> {
    let (mut rows, mut lines, mut notes) = (Vec::new(), Vec::new(), vec![note(context)?]);
    let mut comparisons: Vec<(&str, Vec<Comparison>)> = Vec::new();
    for (name, view) in [("MNIST", View::Test), ("rotated MNIST", View::Rotated)] {
        context.log(&format!("agreement: {name}"));
        let seeds = 0..context.seeds as u64;
        comparisons
            .push((name, seeds.map(|seed| compare_digits(context, view, seed)).collect::<Result<_, _>>()?));
    }
    if let Some(sets) = cifar(context)? {
        context.log("agreement: CIFAR-10");
        comparisons.push(("CIFAR-10", vec![compare_sets(&sets)?]));
        notes.push("CIFAR-10 with a ResNet-18 replaces the paper's CIFAR-100 with a ResNet-50.".to_owned());
    }
    for (name, per_seed) in &comparisons {
        let paper = if *name == "CIFAR-10" { [Some("97.5"), Some("94.94 ± 4.75")] } else { [None, None] };
        let agreements: Vec<Agreement> =
            per_seed.iter().map(Comparison::agreement).collect::<Result<_, _>>()?;
        let shares = Cell::new(agreements.iter().map(|agreement| agreement.share).collect());
        let percentiles = Cell::new(
            agreements.iter().filter_map(|agreement| agreement.percentile_of_disagreements).collect(),
        );
        let cells = vec![shares.with_paper(paper[0]), percentiles.with_paper(paper[1])];
        rows.push(TableRow { name: (*name).to_owned(), cells });
        let emphasis = if lines.is_empty() { Emphasis::Strong } else { Emphasis::Normal };
        lines.push(ChartLine { name: (*name).to_owned(), emphasis, points: per_seed[0].curve() });
    }
    let table = Table {
        title: "Rows on which NUQ and the network agree (%), and mean percentile of the aleatoric uncertainty of the other rows".to_owned(),
        corner: "test set".to_owned(),
        columns: vec!["agreement".to_owned(), "percentile of disagreements".to_owned()],
        rows,
        unit: Unit::Percent,
        better: Better::Neither,
        paper_data_set: Some("CIFAR-100".to_owned()),
    };
    let claims = claims(&table);
    Ok(Findings {
        claims,
        notes,
        figures: vec![("agreement".to_owned(), figure(lines))],
        tables: vec![table],
    })
}

fn compare_digits(context: &Context, view: View, seed: u64) -> Result<Comparison, LabError> {
    let network = context.network_outputs(NetworkId::plain(seed))?;
    let model = network.fit(context, Layer::Features, &NuqClassifier::params())?;
    let classes = network.view(view).predictions();
    let predictions = network.predict(context, Layer::Features, &model, view.index())?;
    Ok(Comparison::new(&predictions, |i, label| *label == classes[i] as i64))
}

fn compare_sets(sets: &EmbeddingSets) -> Result<Comparison, LabError> {
    let model = NuqClassifier::params().fit(&sets.train, &sets.train_labels)?;
    let network = sets.predictions();
    Ok(Comparison::new(&model.predict(&sets.test.embeddings)?, |i, label| *label == network[i]))
}

/// Embeddings of CIFAR-10 from the user's data folder, if present.
fn cifar(context: &Context) -> Result<Option<EmbeddingSets>, LabError> {
    let folder = context.user_data().map(|user| user.join("data/cifar10-resnet18"));
    folder
        .filter(|folder| folder.join("train.npz").is_file())
        .map(|f| embeddings::read_folder(&f))
        .transpose()
}

impl Comparison {
    fn new(predictions: &Predictions<'_>, is_same: impl Fn(usize, &nuq::Label) -> bool) -> Self {
        Self {
            agrees: (0..predictions.len()).map(|i| is_same(i, predictions.label(i))).collect(),
            aleatoric: predictions.iter().map(|prediction| prediction.aleatoric).collect(),
        }
    }

    fn agreement(&self) -> Result<Agreement, LabError> {
        // The function `agreement` compares two lists of classes: here all zeros, and 1 for each row where the predictions differ.
        let differs: Vec<u32> = self.agrees.iter().map(|agrees| u32::from(!agrees)).collect();
        Ok(agreement(&vec![0; differs.len()], &differs, &self.aleatoric)?)
    }

    /// Rows in order of increasing aleatoric uncertainty, each with its quantile in `[0, 1]` and whether NUQ and the network agree.
    fn by_certainty(&self) -> impl Iterator<Item = (f64, bool)> {
        let mut order: Vec<usize> = (0..self.agrees.len()).collect();
        order.sort_by(|&a, &b| self.aleatoric[a].total_cmp(&self.aleatoric[b]));
        let rows = order.len() as f64;
        order.into_iter().enumerate().map(move |(rank, i)| ((rank as f64 + 0.5) / rows, self.agrees[i]))
    }

    /// For each group with rows: the middle of its quantiles, and the share of rows on which NUQ and the network agree.
    fn curve(&self) -> Vec<(f64, f64)> {
        let mut groups = [(0.0, 0.0); GROUPS];
        for (quantile, agrees) in self.by_certainty() {
            let (rows, same) = &mut groups[((quantile * GROUPS as f64) as usize).min(GROUPS - 1)];
            *rows += 1.0;
            *same += f64::from(u8::from(agrees));
        }
        let middle = |i: usize| (i as f64 + 0.5) / GROUPS as f64;
        let shares = groups.iter().enumerate().filter(|(_, (rows, _))| *rows > 0.0);
        shares.map(|(i, (rows, same))| (middle(i), same / rows)).collect()
    }
}

fn claims(table: &Table) -> Vec<Claim> {
    let row = table.rows.last().map(|row| row.name.clone()).unwrap_or_default();
    let row = if row == "CIFAR-10" { row } else { "MNIST".to_owned() };
    let value = |column: usize| table.cell(&row, &table.columns[column]).and_then(Cell::mean);
    let (share, percentile) = (value(0).unwrap_or(f64::NAN), value(1));
    let percentile_text =
        percentile.map_or("no row differs".to_owned(), |p| format!("percentile {:.1}", 100.0 * p));
    vec![Claim::new(
        "nuq-agrees-with-network",
        &format!(
            "On {row}, NUQ agrees with the network on at least 97 % of the rows, and the mean percentile of aleatoric uncertainty of the other rows is at least 90."
        ),
        share >= 0.97 && percentile.is_none_or(|percentile| percentile >= 0.9),
        format!("{:.1} %, {percentile_text}", 100.0 * share),
    )]
}

fn figure(lines: Vec<ChartLine>) -> nuq_report::Figure {
    let lowest = lines.iter().flat_map(|line| &line.points).map(|point| point.1).fold(1.0, f64::min);
    let chart = Chart {
        title: "Agreement of NUQ and the network".to_owned(),
        caption: "Share of test rows on which both predict the same class, in twenty groups of increasing aleatoric uncertainty of NUQ.".to_owned(),
        x: ChartAxis::between("percentile of aleatoric uncertainty", AxisScale::Percent, 0.0, 1.0),
        panels: vec![ChartPanel {
            y: ChartAxis::between("agreement (%)", AxisScale::Percent, (10.0 * lowest).floor() / 10.0, 1.0),
            height: 220.0,
            lines,
        }],
    };
    chart.draw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::numbers;

    #[test]
    fn the_claim_can_fail() {
        let table = |share: f64, percentile: f64| {
            numbers(["agreement", "percentile of disagreements"], &[("MNIST", [share, percentile])])
        };
        let holds = |share, percentile| claims(&table(share, percentile))[0].holds;
        assert!(holds(0.98, 0.95) && !holds(0.96, 0.95) && !holds(0.98, 0.8));
        // Without disagreements there is no percentile.
        let mut same = table(1.0, 0.0);
        same.rows[0].cells[1] = Cell::default();
        let claim = &claims(&same)[0];
        assert!(claim.holds && claim.evidence == "100.0 %, no row differs", "{claim:?}");
    }

    #[test]
    fn the_curve_has_the_share_of_agreement_in_each_group() {
        // The rows are not in the order of their uncertainty. The five most uncertain rows are those without agreement.
        let ranks: Vec<u32> = (0..200).map(|i| 37 * i % 200).collect();
        let comparison = Comparison {
            agrees: ranks.iter().map(|&rank| rank < 195).collect(),
            aleatoric: ranks.into_iter().map(f64::from).collect(),
        };
        let curve = comparison.curve();
        assert_eq!((curve.len(), curve[0], curve[19]), (GROUPS, (0.025, 1.0), (0.975, 0.5)));
        assert_eq!(comparison.agreement().unwrap().share, 0.975);
    }
}
