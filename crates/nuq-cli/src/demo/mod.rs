//! `nuq demo`: Two Moons at two sizes, a table and a figure.

mod moons;

use std::fmt::Write;

use nuq::{Bandwidth, Embeddings, FittedModel, NuqClassifier, Prediction};
use nuq_report::{ColorScale, Field, MapRow, UncertaintyMaps};
use serde::Serialize;
use serde_json::json;

use crate::args::{Common, DemoArgs};
use crate::error::Error;
use crate::output;
use crate::progress::Progress;
use moons::{EXTENT, Region};

const SIZES: [usize; 2] = [200, 2000];
const SEED: u64 = 7;
const TEST_POINTS: usize = 4000;
/// Columns and rows of each map.
const GRID: (usize, usize) = (180, 150);
/// Pixels of the PNG per unit of the SVG.
const PNG_SCALE: f32 = 2.0;

/// The column of the table for one data set.
#[derive(Debug, Serialize)]
struct Results {
    #[serde(rename = "points")]
    size: usize,
    accuracy: f64,
    bandwidth: f64,
    density_bandwidth: f64,
    dimension: f64,
    /// Mean aleatoric uncertainty in each region of `REGIONS`.
    aleatoric: [f64; 3],
    /// Mean decimal logarithm of the epistemic uncertainty in each region of `REGIONS`.
    log10_epistemic: [f64; 3],
}

const REGIONS: [Region; 3] = [Region::Inside, Region::Between, Region::Far];

/// Fits both data sets, prints the table and draws the figure.
pub(crate) fn run(args: &DemoArgs, common: &Common) -> Result<(), Error> {
    output::make_folder(&args.out)?;
    let (svg, png) = (args.out.join("two-moons.svg"), args.out.join("two-moons.png"));
    nuq_io::check_writable(&svg)?;
    nuq_io::check_writable(&png)?;
    let steps = Progress::steps("demo", common);
    let grid = grid();
    let regions: Vec<Option<Region>> =
        grid.rows().map(|cell| moons::region(f64::from(cell[0]), f64::from(cell[1]))).collect();
    let mut rows = Vec::new();
    let mut results = Vec::new();
    for size in SIZES {
        steps.step(&format!("fitting {size} points"));
        let (result, row) = study(size, &grid, &regions)?;
        results.push(result);
        rows.push(row);
    }
    steps.step("drawing");
    let figure = UncertaintyMaps {
        title: "Uncertainty of NUQ on Two Moons".to_owned(),
        note: "Far from the data the class probabilities approach the prior (error probability 1/2), and the epistemic \
               uncertainty grows without bound."
            .to_owned(),
        extent: EXTENT,
        columns: GRID.0,
        fields: fields(),
        rows,
    }
    .draw();
    let pixels = figure.png(PNG_SCALE)?;
    drop(steps);
    output::write_file(&svg, figure.svg().as_bytes())?;
    output::write_file(&png, &pixels)?;
    let files = [png, svg].map(|path| path.display().to_string());
    let text = format!("{}\nFigure: {} and {}\n", table(&results), files[0], files[1]);
    let json = json!({ "results": results, "regions": ["inside", "between", "far"], "figures": files });
    output::print_summary(common, &json, &text)
}

/// The cell centers of the maps, row by row from the top left.
fn grid() -> Embeddings<'static> {
    let (columns, rows) = GRID;
    let center = |i: usize, count: usize, (low, high): (f64, f64)| {
        low + (high - low) * (i as f64 + 0.5) / count as f64
    };
    let mut values = Vec::with_capacity(2 * columns * rows);
    for row in (0..rows).rev() {
        for column in 0..columns {
            values.push(center(column, columns, EXTENT.x) as f32);
            values.push(center(row, rows, EXTENT.y) as f32);
        }
    }
    Embeddings::new(values, 2).expect("cell centers are finite")
}

/// Fits a sample of `size` points. Returns its column of the table and its row of maps.
fn study(size: usize, grid: &Embeddings<'_>, regions: &[Option<Region>]) -> Result<(Results, MapRow), Error> {
    let (x, labels) = moons::sample(size, SEED);
    let model = NuqClassifier::params().fit(&x, &labels)?;
    let (test, truth) = moons::sample(TEST_POINTS, SEED + 1);
    let on_test = model.predict(&test)?;
    let correct = on_test.iter().zip(&truth).filter(|(p, truth)| p.class as i64 == **truth).count();
    let on_grid = model.predict(grid)?;
    let mean = |region: Region, value: fn(&Prediction) -> f64| {
        let cells = regions.iter().zip(&on_grid).filter(|(cell, _)| **cell == Some(region));
        let values: Vec<f64> = cells.map(|(_, prediction)| value(prediction)).collect();
        values.iter().sum::<f64>() / values.len() as f64
    };
    let Bandwidth::Scalar(bandwidth) = *model.bandwidth() else {
        unreachable!("leave-one-out selects a scalar bandwidth")
    };
    let results = Results {
        size,
        accuracy: correct as f64 / TEST_POINTS as f64,
        bandwidth,
        density_bandwidth: model.density_bandwidth().unwrap_or(bandwidth),
        dimension: model.dimension(),
        aleatoric: REGIONS.map(|region| mean(region, |p| p.aleatoric)),
        log10_epistemic: REGIONS.map(|region| mean(region, |p| p.log_epistemic / std::f64::consts::LN_10)),
    };
    let logs = |value: fn(&Prediction) -> f64| on_grid.iter().map(value).collect();
    let row = MapRow {
        title: format!("{size} points"),
        points: x
            .rows()
            .zip(&labels)
            .map(|(row, &label)| (f64::from(row[0]), f64::from(row[1]), label as usize))
            .collect(),
        log_values: vec![logs(|p| p.aleatoric.ln()), logs(|p| p.log_epistemic), logs(|p| p.log_total)],
    };
    Ok((results, row))
}

fn fields() -> Vec<Field> {
    let field = |title: &str, caption: &str, scale| Field {
        title: title.to_owned(),
        caption: caption.to_owned(),
        scale,
    };
    vec![
        field("Aleatoric", "estimated error probability", ColorScale::Linear { low: 0.0, high: 0.5 }),
        field("Epistemic", "error of that estimate, from lack of data", ColorScale::Log { low: -3, high: 1 }),
        field("Total", "their sum, a bound on the risk", ColorScale::Linear { low: 0.0, high: 1.0 }),
    ]
}

/// The results as a table, one column per data set.
fn table(results: &[Results]) -> String {
    let mut text = String::new();
    let mut line = |name: &str, cell: &dyn Fn(&Results) -> String| {
        let cells: String = results.iter().map(|result| format!("{:>13}", cell(result))).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", format!("{name:<39}{cells}").trim_end());
    };
    line("Two Moons", &|result| format!("{} points", result.size));
    line("accuracy on 4000 new points", &|result| format!("{:.3}", result.accuracy));
    line("bandwidth, by leave-one-out", &|result| format!("{:.3}", result.bandwidth));
    line("bandwidth of the density", &|result| format!("{:.3}", result.density_bandwidth));
    line("intrinsic dimension", &|result| format!("{:.2}", result.dimension));
    let regions = ["  inside the moons", "  between them", "  far away"];
    line("mean aleatoric uncertainty", &|_| String::new());
    for (i, region) in regions.iter().enumerate() {
        line(region, &|result| format!("{:.3}", result.aleatoric[i]));
    }
    line("geometric mean epistemic uncertainty", &|_| String::new());
    for (i, region) in regions.iter().enumerate() {
        line(region, &|result| format!("{:.0e}", 10f64.powf(result.log10_epistemic[i])));
    }
    text
}
