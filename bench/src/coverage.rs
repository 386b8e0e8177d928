//! Share of queries whose error is below the epistemic uncertainty, by dimension. The output is the page docs/coverage.md.

use nuq::{Classification, Density, NuqClassifier, Params, Scale};
use nuq_report::{AxisScale, Chart, ChartAxis, ChartLine, ChartPanel, Emphasis};
use nuq_testkit::data::TwoGaussians;

use crate::growth::write;

const HEAD: &str = "\
# Does the epistemic uncertainty have the size of the error?

Written by `cargo xtask docs coverage`. Two Gaussian classes, two standard deviations apart in m dimensions, are rotated into d columns.
The probability η(x) of class 1 is known. The tables show the share of 2000 new rows with `|η̂(x) − η(x)| ≤ U_e(x)`, and in parentheses the
median of `U_e` divided by the median of the error. Each line is a model with the named options `scale` and `density`.
An uncertainty of the size of the error has a share well above one half and a ratio between 1 and about 5. With a much larger ratio the
magnitude has no meaning, even if the share is high.

![Share of rows whose error is below the epistemic uncertainty, by dimension](figures/coverage.png)
";

const SIZES: [usize; 2] = [500, 20_000];
const DATA: [TwoGaussians; 6] = [
    TwoGaussians { latent: 1, dim: 1 },
    TwoGaussians { latent: 2, dim: 2 },
    TwoGaussians { latent: 5, dim: 5 },
    TwoGaussians { latent: 10, dim: 64 },
    TwoGaussians { latent: 20, dim: 64 },
    TwoGaussians { latent: 50, dim: 128 },
];
const QUERIES: usize = 2000;

/// The compared models: name, weight of the line in the figure, scale and density.
fn models() -> [(&'static str, Emphasis, Scale, Density); 3] {
    [
        ("effective, auto", Emphasis::Strong, Scale::Effective, Density::Auto),
        ("effective, kde", Emphasis::Normal, Scale::Effective, Density::kde()),
        ("intrinsic, kde", Emphasis::Reference, Scale::Intrinsic, Density::kde()),
    ]
}

/// Prints the tables and draws the figure.
pub(crate) fn run() -> Result<(), String> {
    println!("{HEAD}");
    let mut panels = vec![];
    for rows in SIZES {
        let mut lines = vec![];
        println!("### {rows} training rows\n");
        let columns = DATA.map(|data| format!(" {} ({}) |", data.latent, data.dim));
        println!("| m (d) |{}\n| --- |{}", columns.concat(), " ---: |".repeat(DATA.len()));
        for (name, emphasis, scale, density) in models() {
            let params = NuqClassifier::params().scale(scale).density(density);
            let shares = DATA.map(|data| coverage(&params, rows, data));
            let shares: Vec<Coverage> =
                shares.into_iter().collect::<Result<_, _>>().map_err(|e| e.to_string())?;
            println!("| {name} |{}", shares.iter().map(Coverage::cell).collect::<String>());
            let points = DATA.iter().zip(shares).map(|(data, of)| (data.latent as f64, of.share)).collect();
            lines.push(ChartLine { name: name.to_owned(), emphasis, points });
        }
        println!();
        let y = ChartAxis::between(&format!("{rows} training rows"), AxisScale::Percent, 0.0, 1.0);
        panels.push(ChartPanel { y, height: 150.0, lines });
    }
    let chart = Chart {
        title: "The error is below the epistemic uncertainty".to_owned(),
        caption: format!("Share (%) of {QUERIES} new rows with |η̂ − η| ≤ U_e, by scale and density"),
        x: ChartAxis::new("dimension m of the data", AxisScale::Log),
        panels,
    };
    write(&chart.draw(), "coverage")
}

/// The comparison of uncertainties and errors.
struct Coverage {
    /// The share of rows with `|η̂ − η| ≤ U_e`.
    share: f64,
    /// The median of `U_e` divided by the median of `|η̂ − η|`.
    ratio: f64,
}

impl Coverage {
    /// A cell of the table.
    fn cell(&self) -> String {
        let Self { share, ratio } = self;
        match ratio {
            0.01..1000.0 => format!(" {share:.2} ({ratio:.2}) |"),
            _ => format!(" {share:.2} ({ratio:.0e}) |"),
        }
    }
}

fn coverage(
    params: &Params<Classification>,
    rows: usize,
    data: TwoGaussians,
) -> Result<Coverage, nuq::Error> {
    let (x, labels, _) = data.sample(rows, 1);
    let (queries, _, eta) = data.sample(QUERIES, 2);
    let model = params.fit(&x, &labels)?;
    let (predictions, estimates) = (model.predict(&queries)?, model.predict_proba(&queries)?);
    let errors: Vec<f64> = eta.iter().enumerate().map(|(i, eta)| (estimates.row(i)[1] - eta).abs()).collect();
    let uncertainties: Vec<f64> = predictions.iter().map(nuq::Prediction::epistemic).collect();
    let covered = errors.iter().zip(&uncertainties).filter(|(error, bound)| error <= bound).count();
    Ok(Coverage { share: covered as f64 / QUERIES as f64, ratio: median(uncertainties) / median(errors) })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
