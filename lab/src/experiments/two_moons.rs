//! Two Moons: the paper's Figure 1.
//!
//! With few points, the class Gaussians of DDU do not fit the embeddings, and DDU assigns a high density to the gap between the moons. The
//! total uncertainty of NUQ is high in the gap because the labels are mixed there.

use nuq::{NuqClassifier, Shrinkage};
use nuq_eval::baselines::{Ddu, MaxProb};
use nuq_eval::metrics::roc_auc;
use nuq_report::{ColorScale, Extent, Field, MapRow, UncertaintyMaps};

use super::methods::{score_embeddings, score_logits};
use super::ranks::ranks;
use super::{Context, Size};
use crate::data::moons;
use crate::results::{Better, Cell, Claim, Findings, Table, TableRow, Unit};
use crate::training::{Network, Recipe, Silent};
use crate::{Images, LabError};

const EXTENT: Extent = Extent { x: (-2.0, 3.0), y: (-1.75, 2.25) };
const METHODS: [&str; 3] = ["MaxProb", "DDU", "NUQ total"];

const RANKS: &str = "Mean rank of the uncertainty in the gap between the moons (0: most certain cell of the map, 1: least certain)";
const AREAS: &str = "ROC-AUC of cells in the gap between the moons against cells on the moons";

fn table(title: &str, sizes: &[usize]) -> Table {
    let row = |name: &str| TableRow { name: name.to_owned(), cells: vec![Cell::default(); sizes.len()] };
    Table {
        title: title.to_owned(),
        corner: "method".to_owned(),
        columns: sizes.iter().map(|n| format!("{n} points")).collect(),
        rows: METHODS.map(row).to_vec(),
        unit: Unit::Fine,
        better: Better::Higher,
        paper_data_set: None,
    }
}

/// Cell centers of the map, row by row from the top left.
struct Grid {
    columns: usize,
    points: Vec<(f64, f64)>,
}

impl Grid {
    fn new(size: Size) -> Self {
        let (columns, rows) = size.pick((150, 120), (100, 80), (50, 40));
        let at = |i: usize, count: usize, (low, high): (f64, f64)| {
            low + (i as f64 + 0.5) / count as f64 * (high - low)
        };
        let row = |j: usize| {
            (0..columns).map(move |i| (at(i, columns, EXTENT.x), at(rows - 1 - j, rows, EXTENT.y)))
        };
        Self { columns, points: (0..rows).flat_map(row).collect() }
    }

    /// The cell centers as inputs of the network: images of two pixels, x and y.
    fn images(&self) -> Result<Images, LabError> {
        Images::new(1, 1, 2, self.points.iter().flat_map(|&(x, y)| [x as f32, y as f32]).collect())
    }
}

pub(super) fn run(context: &Context) -> Result<Findings, LabError> {
    let grid = Grid::new(context.size);
    let sizes = context.size.pick([200, 2000], [200, 2000], [200, 400]);
    let (mut ranked, mut areas) = (table(RANKS, &sizes), table(AREAS, &sizes));
    let mut map_rows = Vec::new();
    for (column, &n) in sizes.iter().enumerate() {
        for seed in 0..context.seeds as u64 {
            context.log(&format!("two-moons: {n} points, seed {seed}"));
            let data = moons::sample(n, seed)?;
            let maps = uncertainty_maps(context, &data, &grid, seed)?;
            for (i, scores) in maps.iter().enumerate() {
                ranked.rows[i].cells[column].values.push(gap_rank(&grid, scores));
                areas.rows[i].cells[column].values.push(gap_auc(&grid, scores)?);
            }
            if seed == 0 {
                map_rows.push(map_row(&format!("{n} points"), &data, &maps));
            }
        }
    }
    let claims = claims(&areas);
    let figure = figure(&grid, map_rows).draw();
    Ok(Findings {
        claims,
        notes: vec![
            "The network is a multilayer perceptron with two hidden layers of width 64, without spectral normalization. DDU and NUQ use the \
             last hidden layer."
                .to_owned(),
        ],
        tables: vec![areas, ranked],
        figures: vec![("two-moons".to_owned(), figure)],
    })
}

/// The uncertainty of every cell by each method.
fn uncertainty_maps(
    context: &Context,
    data: &crate::Labeled,
    grid: &Grid,
    seed: u64,
) -> Result<[Vec<f64>; METHODS.len()], LabError> {
    let recipe = Recipe { epochs: context.size.pick(60, 60, 20), ..Recipe::moons(seed) };
    let network = Network::train(&recipe, data, &context.networks(), &Silent)?;
    let (train, cells) = (network.outputs(&data.images)?, network.outputs(&grid.images()?)?);
    let ddu = Ddu::fit(&train.embeddings, &data.labels, Shrinkage::LedoitWolf)?;
    let nuq = NuqClassifier::params().fit(&train.embeddings, &data.labels)?;
    Ok([
        score_logits(&MaxProb, &cells.logit_rows()?)?,
        score_embeddings(&ddu, &cells.embeddings)?,
        nuq.predict(&cells.embeddings)?.iter().map(|prediction| prediction.log_total).collect(),
    ])
}

fn gap_rank(grid: &Grid, scores: &[f64]) -> f64 {
    let ranks = ranks(scores);
    let between: Vec<f64> = (0..ranks.len())
        .filter(|&i| moons::is_between(grid.points[i].0, grid.points[i].1))
        .map(|i| ranks[i])
        .collect();
    between.iter().sum::<f64>() / between.len().max(1) as f64
}

fn gap_auc(grid: &Grid, scores: &[f64]) -> Result<f64, LabError> {
    let scores_in = |is_in: fn(f64, f64) -> bool| -> Vec<f64> {
        let cells = grid.points.iter().zip(scores).filter(|((x, y), _)| is_in(*x, *y));
        cells.map(|(_, &score)| score).collect()
    };
    Ok(roc_auc(&scores_in(moons::is_inside), &scores_in(moons::is_between))?)
}

fn claims(areas: &Table) -> Vec<Claim> {
    let [few, many] = [0, 1].map(|column| {
        let area = |method: &str| areas.rows.iter().find(|row| row.name == method)?.cells.get(column)?.mean();
        ["NUQ total", "DDU"].map(|method| area(method).unwrap_or(f64::NAN))
    });
    let difference = |[nuq, ddu]: [f64; 2]| (nuq - ddu).abs();
    vec![
        Claim::new(
            "nuq-detects-gap",
            &format!(
                "On Two Moons with {}, NUQ's total uncertainty separates the gap from the moons better than DDU.",
                areas.columns[0]
            ),
            few[0] > few[1],
            format!("ROC-AUC {:.3} against {:.3}", few[0], few[1]),
        ),
        Claim::new(
            "difference-decreases-with-points",
            &format!(
                "On Two Moons, the difference between the ROC-AUC of NUQ and of DDU is smaller with {} than with {}.",
                areas.columns[1], areas.columns[0]
            ),
            difference(many) < difference(few),
            format!("{:.3} against {:.3}", difference(many), difference(few)),
        ),
    ]
}

fn map_row(title: &str, data: &crate::Labeled, maps: &[Vec<f64>; METHODS.len()]) -> MapRow {
    let [max_prob, ddu, nuq] = maps;
    let point = |i: usize| {
        let position = data.images.image(i);
        (f64::from(position[0]), f64::from(position[1]), data.labels[i])
    };
    MapRow {
        title: title.to_owned(),
        points: (0..data.len()).map(point).collect(),
        log_values: vec![
            max_prob.iter().map(|value| value.ln()).collect(),
            ranks(ddu).iter().map(|rank| rank.ln()).collect(),
            nuq.clone(),
        ],
    }
}

fn figure(grid: &Grid, rows: Vec<MapRow>) -> UncertaintyMaps {
    let field = |title: &str, caption: &str, scale| Field {
        title: title.to_owned(),
        caption: caption.to_owned(),
        scale,
    };
    UncertaintyMaps {
        title: "Two Moons".to_owned(),
        note: "MaxProb, DDU and NUQ on the same networks. Lighter colors are less certain.".to_owned(),
        extent: EXTENT,
        columns: grid.columns,
        fields: vec![
            field("MaxProb", "one minus the largest probability", ColorScale::Linear { low: 0.0, high: 0.5 }),
            field("DDU", "rank of the negative log density", ColorScale::Linear { low: 0.0, high: 1.0 }),
            field("NUQ", "total uncertainty", ColorScale::Log { low: -3, high: 1 }),
        ],
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::numbers;

    #[test]
    fn claims_can_fail() {
        let verdicts = |nuq: [f64; 2]| {
            let areas = numbers(["200 points", "2000 points"], &[("DDU", [0.8, 0.9]), ("NUQ total", nuq)]);
            claims(&areas).iter().map(|claim| claim.holds).collect::<Vec<_>>()
        };
        assert_eq!(verdicts([0.95, 0.97]), [true, true]);
        assert_eq!(verdicts([0.75, 1.0]), [false, false]);
    }

    #[test]
    fn grid_starts_at_the_top_left_and_has_cells_in_the_gap() {
        let grid = Grid::new(Size::Tiny);
        let (first, last) = (grid.points[0], grid.points[grid.points.len() - 1]);
        assert!(first.0 < -1.9 && first.1 > 2.1 && last.0 > 2.9 && last.1 < -1.6);
        let between = grid.points.iter().filter(|(x, y)| moons::is_between(*x, *y)).count();
        assert!(between > 5, "{between}");
    }
}
