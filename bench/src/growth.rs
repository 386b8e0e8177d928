//! Time of fit and predict by number of training rows, with a figure for the documentation.

use std::path::Path;

use nuq_report::{Figure, LogLogChart, LogLogLine};

use crate::fit::measure_in_new_process;

const DIM: usize = 128;
const QUERIES: usize = 1000;
const SIZES: [usize; 7] = [1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000];

pub(crate) fn run() -> Result<(), String> {
    let (mut fit, mut predict) = (Vec::new(), Vec::new());
    println!("{:>9} {:>8} {:>10} {:>12}", "rows", "fit s", "predict s", "peak MiB");
    for rows in SIZES {
        let measured = measure_in_new_process(rows, DIM, 100, QUERIES)?;
        let peak = measured.peak.map_or(f64::NAN, |peak| peak / (1024.0 * 1024.0));
        println!("{rows:>9} {:>8.3} {:>10.3} {peak:>12.0}", measured.fit, measured.predict);
        fit.push((rows as f64, measured.fit));
        predict.push((rows as f64, measured.predict));
    }
    let figure = LogLogChart {
        title: "Time against training rows, exact search".to_owned(),
        caption: format!("d = {DIM}, 100 classes, K = 20, {} threads", rayon::current_num_threads()),
        x_title: "training rows".to_owned(),
        y_title: "seconds".to_owned(),
        lines: vec![
            LogLogLine { name: "fit".to_owned(), points: fit },
            LogLogLine { name: format!("predict {QUERIES} rows"), points: predict },
        ],
    }
    .draw();
    write(&figure, "growth")
}

/// Writes a figure of the documentation, as SVG and PNG.
pub(crate) fn write(figure: &Figure, name: &str) -> Result<(), String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/figures");
    let write = |ending: &str, contents: &[u8]| {
        std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(folder.join(format!("{name}.{ending}")), contents))
            .map_err(|e| format!("cannot write docs/figures/{name}.{ending}: {e}"))
    };
    write("svg", figure.svg().as_bytes())?;
    write("png", &figure.png(2.0).map_err(|e| e.to_string())?)
}
