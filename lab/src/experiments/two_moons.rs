//! Two Moons: the paper's first figure.
//!
//! With few points DDU's Gaussians do not fit what the network makes of the moons, and the gap between them looks familiar; NUQ's
//! total uncertainty sees the gap by its labels.

use nuq_eval::baselines::{Ddu, MaxProb};
use nuq_eval::metrics::roc_auc;
use nuq::{NuqClassifier, Shrinkage};
use nuq_report::{Extent, Field, MapRow, ColorScale, UncertaintyMaps};

use super::methods::{from_logits, of_embeddings};
use super::ranks::ranks;
use super::{Lab, Size};
use crate::data::moons;
use crate::results::{Better, Cell, Claim, Findings, Table, TableRow, Unit};
use crate::training::{Network, Recipe, Silent};
use crate::{Images, LabError};

const EXTENT: Extent = Extent { x: (-2.0, 3.0), y: (-1.75, 2.25) };
const METHODS: [&str; 3] = ["MaxProb", "DDU", "NUQ total"];

const RANKS: &str = "Where each method puts the gap between the moons, of 0 for the most certain cell of the map to 1 for the least";
const AREAS: &str = "How often a cell of the gap is less certain than a cell on a moon (ROC-AUC)";

fn table(title: &str, sizes: &[usize]) -> Table {
    let row = |name: &str| TableRow { name: name.to_owned(), cells: vec![Cell::default(); sizes.len()] };
    Table {
        title: title.to_owned(),
        corner: "method".to_owned(),
        columns: sizes.iter().map(|n| format!("{n} points")).collect(),
        rows: METHODS.map(row).to_vec(),
        unit: Unit::Fine,
        better: Better::Higher,
        paper_of: None,
    }
}

/// The plane, cell by cell from the top left.
struct Plane {
    columns: usize,
    points: Vec<(f64, f64)>,
}

impl Plane {
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

    fn images(&self) -> Result<Images, LabError> {
        Images::new(1, 1, 2, self.points.iter().flat_map(|&(x, y)| [x as f32, y as f32]).collect())
    }
}

pub(super) fn run(lab: &Lab) -> Result<Findings, LabError> {
    let plane = Plane::new(lab.size);
    let sizes = lab.size.pick([200, 2000], [200, 2000], [200, 400]);
    let (mut ranked, mut areas) = (table(RANKS, &sizes), table(AREAS, &sizes));
    let mut map_rows = Vec::new();
    for (column, &n) in sizes.iter().enumerate() {
        for seed in 0..lab.seeds as u64 {
            lab.say(&format!("two-moons: {n} points, seed {seed}"));
            let data = moons::sample(n, seed)?;
            let maps = maps(lab, &data, &plane, seed)?;
            for (i, scores) in maps.iter().enumerate() {
                ranked.rows[i].cells[column].values.push(rank_between(&plane, scores));
                areas.rows[i].cells[column].values.push(area_between(&plane, scores)?);
            }
            if seed == 0 {
                map_rows.push(map_row(&format!("{n} points"), &data, &maps));
            }
        }
    }
    let claims = claims(&areas);
    let figure = figure(&plane, map_rows).draw();
    Ok(Findings {
        claims,
        notes: vec![
            "The network is a perceptron with two hidden layers of 64 and without spectral normalization; DDU and NUQ look at the last of \
             them."
                .to_owned(),
        ],
        tables: vec![areas, ranked],
        figures: vec![("two-moons".to_owned(), figure)],
    })
}

/// What each method says of every cell.
fn maps(
    lab: &Lab,
    data: &crate::Labeled,
    plane: &Plane,
    seed: u64,
) -> Result<[Vec<f64>; METHODS.len()], LabError> {
    let recipe = Recipe { epochs: lab.size.pick(60, 60, 20), ..Recipe::moons(seed) };
    let network = Network::train(&recipe, data, &lab.networks(), &Silent)?;
    let (train, cells) = (network.outputs(&data.images)?, network.outputs(&plane.images()?)?);
    let ddu = Ddu::fit(&train.embeddings, &data.labels, Shrinkage::LedoitWolf)?;
    let nuq = NuqClassifier::params().fit(&train.embeddings, &data.labels)?;
    Ok([
        from_logits(&MaxProb, &cells.logit_rows()?)?,
        of_embeddings(&ddu, &cells.embeddings)?,
        nuq.predict(&cells.embeddings)?.iter().map(|prediction| prediction.log_total).collect(),
    ])
}

fn rank_between(plane: &Plane, scores: &[f64]) -> f64 {
    let ranks = ranks(scores);
    let between: Vec<f64> = (0..ranks.len())
        .filter(|&i| moons::is_between(plane.points[i].0, plane.points[i].1))
        .map(|i| ranks[i])
        .collect();
    between.iter().sum::<f64>() / between.len().max(1) as f64
}

fn area_between(plane: &Plane, scores: &[f64]) -> Result<f64, LabError> {
    let of = |is_in: fn(f64, f64) -> bool| -> Vec<f64> {
        let cells = plane.points.iter().zip(scores).filter(|((x, y), _)| is_in(*x, *y));
        cells.map(|(_, &score)| score).collect()
    };
    Ok(roc_auc(&of(moons::is_inside), &of(moons::is_between))?)
}

fn claims(areas: &Table) -> Vec<Claim> {
    let [few, many] = [0, 1].map(|column| {
        let area = |method: &str| areas.rows.iter().find(|row| row.name == method)?.cells.get(column)?.mean();
        ["NUQ total", "DDU"].map(|method| area(method).unwrap_or(f64::NAN))
    });
    let difference = |[nuq, ddu]: [f64; 2]| (nuq - ddu).abs();
    vec![
        Claim::new(
            "nuq-sees-the-gap",
            &format!(
                "On Two Moons with {} NUQ's total uncertainty tells the gap between the moons from the moons better than DDU does.",
                areas.columns[0]
            ),
            few[0] > few[1],
            format!("ROC-AUC {:.3} against {:.3}", few[0], few[1]),
        ),
        Claim::new(
            "more-points-bring-them-together",
            &format!(
                "On Two Moons NUQ and DDU differ less with {} than with {}.",
                areas.columns[1], areas.columns[0]
            ),
            difference(many) < difference(few),
            format!("by {:.3} against {:.3}", difference(many), difference(few)),
        ),
    ]
}

fn map_row(title: &str, data: &crate::Labeled, maps: &[Vec<f64>; METHODS.len()]) -> MapRow {
    let [max_prob, ddu, nuq] = maps;
    let point = |i: usize| {
        let at = data.images.picture(i);
        (f64::from(at[0]), f64::from(at[1]), data.labels[i])
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

fn figure(plane: &Plane, rows: Vec<MapRow>) -> UncertaintyMaps {
    let field = |title: &str, caption: &str, scale| Field {
        title: title.to_owned(),
        caption: caption.to_owned(),
        scale,
    };
    UncertaintyMaps {
        title: "Two Moons".to_owned(),
        note: "The same networks, looked at by three methods; lighter is less certain.".to_owned(),
        extent: EXTENT,
        columns: plane.columns,
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
    fn the_plane_starts_at_the_top_left() {
        let plane = Plane::new(Size::Tiny);
        let (first, last) = (plane.points[0], plane.points[plane.points.len() - 1]);
        assert!(first.0 < -1.9 && first.1 > 2.1 && last.0 > 2.9 && last.1 < -1.6);
        let between = plane.points.iter().filter(|(x, y)| moons::is_between(*x, *y)).count();
        assert!(between > 5, "{between}");
    }
}
