//! Does NUQ say what the network says? The paper's Section on how NUQ affects predictions.

use nuq_eval::metrics::{Agreement, agreement};
use nuq::{NuqClassifier, Predictions};
use nuq_report::{Chart, ChartAxis, ChartLine, ChartPanel, Emphasis, AxisScale};

use super::Lab;
use super::digits::{View, note};
use super::networks::Base;
use super::seen::Layer;
use crate::LabError;
use crate::data::embeddings::{self, Views};
use crate::results::{Better, Cell, Claim, Findings, Table, TableRow, Unit};

/// Test rows in twenty groups, from the most certain to the least.
const GROUPS: usize = 20;

/// What both said of rows: whether the same, and NUQ's aleatoric uncertainty.
struct Compared {
    agrees: Vec<bool>,
    aleatoric: Vec<f64>,
}

pub(super) fn run(lab: &Lab) -> Result<Findings, LabError> {
    let (mut rows, mut lines, mut notes) = (Vec::new(), Vec::new(), vec![note(lab)?]);
    let mut compared: Vec<(&str, Vec<Compared>)> = Vec::new();
    for (name, view) in [("MNIST", View::Test), ("rotated MNIST", View::Rotated)] {
        lab.say(&format!("agreement: {name}"));
        let seeds = 0..lab.seeds as u64;
        compared.push((name, seeds.map(|seed| on_digits(lab, view, seed)).collect::<Result<_, _>>()?));
    }
    if let Some(views) = cifar(lab)? {
        lab.say("agreement: CIFAR-10");
        compared.push(("CIFAR-10", vec![on_views(&views)?]));
        notes.push("CIFAR-10 by a ResNet-18 stands for the paper's CIFAR-100 by a ResNet-50.".to_owned());
    }
    for (name, of_seeds) in &compared {
        let paper = if *name == "CIFAR-10" { [Some("97.5"), Some("94.94 ± 4.75")] } else { [None, None] };
        let found: Vec<Agreement> = of_seeds.iter().map(Compared::agreement).collect::<Result<_, _>>()?;
        let shares = Cell::new(found.iter().map(|found| found.share).collect());
        let percentiles =
            Cell::new(found.iter().filter_map(|found| found.percentile_of_disagreements).collect());
        let cells = vec![shares.beside(paper[0]), percentiles.beside(paper[1])];
        rows.push(TableRow { name: (*name).to_owned(), cells });
        let emphasis = if lines.is_empty() { Emphasis::Strong } else { Emphasis::Normal };
        lines.push(ChartLine { name: (*name).to_owned(), emphasis, points: of_seeds[0].curve() });
    }
    let table = Table {
        title: "Rows where NUQ and the network agree, and the mean percentile of aleatoric uncertainty of those where not (%)".to_owned(),
        corner: "test set".to_owned(),
        columns: vec!["agreement".to_owned(), "percentile of disagreements".to_owned()],
        rows,
        unit: Unit::Percent,
        better: Better::Neither,
        paper_of: Some("CIFAR-100".to_owned()),
    };
    let claims = claims(&table);
    Ok(Findings {
        claims,
        notes,
        figures: vec![("agreement".to_owned(), figure(lines))],
        tables: vec![table],
    })
}

fn on_digits(lab: &Lab, view: View, seed: u64) -> Result<Compared, LabError> {
    let base = lab.seen(Base::plain(seed))?;
    let model = base.fit(lab, Layer::Features, &NuqClassifier::params())?;
    let said = base.view(view).predictions();
    let found = base.ask(lab, Layer::Features, &model, view.place())?;
    Ok(Compared::new(&found, |i, label| *label == said[i] as i64))
}

fn on_views(views: &Views) -> Result<Compared, LabError> {
    let model = NuqClassifier::params().fit(&views.train, &views.labels)?;
    let said = views.predictions();
    Ok(Compared::new(&model.predict(&views.test.embeddings)?, |i, label| *label == said[i]))
}

/// CIFAR-10's embeddings, where the user has them.
fn cifar(lab: &Lab) -> Result<Option<Views>, LabError> {
    let folder = lab.user_data().map(|user| user.join("data/cifar10-resnet18"));
    folder
        .filter(|folder| folder.join("train.npz").is_file())
        .map(|f| embeddings::read_folder(&f))
        .transpose()
}

impl Compared {
    fn new(found: &Predictions<'_>, is_same: impl Fn(usize, &nuq::Label) -> bool) -> Self {
        Self {
            agrees: (0..found.len()).map(|i| is_same(i, found.label(i))).collect(),
            aleatoric: found.iter().map(|prediction| prediction.aleatoric).collect(),
        }
    }

    fn agreement(&self) -> Result<Agreement, LabError> {
        let differs: Vec<u32> = self.agrees.iter().map(|agrees| u32::from(!agrees)).collect();
        Ok(agreement(&vec![0; differs.len()], &differs, &self.aleatoric)?)
    }

    /// Rows from the most certain to the least, each with its place of one.
    fn by_certainty(&self) -> impl Iterator<Item = (f64, bool)> {
        let mut order: Vec<usize> = (0..self.agrees.len()).collect();
        order.sort_by(|&a, &b| self.aleatoric[a].total_cmp(&self.aleatoric[b]));
        let rows = order.len() as f64;
        order.into_iter().enumerate().map(move |(place, i)| ((place as f64 + 0.5) / rows, self.agrees[i]))
    }

    /// The share of agreement in each group of rows.
    fn curve(&self) -> Vec<(f64, f64)> {
        let mut groups = [(0.0, 0.0); GROUPS];
        for (place, agrees) in self.by_certainty() {
            let (rows, same) = &mut groups[((place * GROUPS as f64) as usize).min(GROUPS - 1)];
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
    let told = percentile.map_or("no row differs".to_owned(), |p| format!("percentile {:.1}", 100.0 * p));
    vec![Claim::new(
        "agrees",
        &format!(
            "On {row} NUQ agrees with the network on at least 97 % of rows, and where not it is among the least certain tenth on average."
        ),
        share >= 0.97 && percentile.is_none_or(|percentile| percentile >= 0.9),
        format!("{:.1} %, {told}", 100.0 * share),
    )]
}

fn figure(lines: Vec<ChartLine>) -> nuq_report::Figure {
    let lowest = lines.iter().flat_map(|line| &line.points).map(|point| point.1).fold(1.0, f64::min);
    let chart = Chart {
        title: "NUQ's answer and the network's".to_owned(),
        caption: "How often both agree, for test rows from the most certain twentieth to the least, by NUQ's aleatoric uncertainty.".to_owned(),
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
        // No percentile is told where nothing differs.
        let mut same = table(1.0, 0.0);
        same.rows[0].cells[1] = Cell::default();
        let claim = &claims(&same)[0];
        assert!(claim.holds && claim.evidence == "100.0 %, no row differs", "{claim:?}");
    }

    #[test]
    fn groups_go_from_certain_to_uncertain() {
        let agrees: Vec<bool> = (0..200).map(|i| i < 195).collect();
        let compared = Compared { agrees, aleatoric: (0..200).map(f64::from).collect() };
        let curve = compared.curve();
        assert_eq!((curve.len(), curve[0], curve[19]), (GROUPS, (0.025, 1.0), (0.975, 0.5)));
        assert_eq!(compared.agreement().unwrap().share, 0.975);
    }
}
