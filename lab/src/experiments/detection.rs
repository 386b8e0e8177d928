//! Detection of outliers among digits: tables and charts that several experiments share.

use std::borrow::Borrow;
use std::rc::Rc;

use nuq_eval::metrics::{Detection, roc_auc};
use nuq_report::{AxisScale, Chart, ChartAxis, ChartLine, ChartPanel, DotPlot, DotRow, Emphasis, Figure};

use super::Context;
use super::digits::View;
use super::methods::{Method, NUQ, Scores};
use crate::LabError;
use crate::results::{Better, Cell, Table, TableRow, Unit};

/// ROC-AUC of each outlier set against the given digits, from the scores of all evaluated image sets in the order of [`View::index`].
pub(super) fn areas(scores: &[Vec<f64>], digits: View) -> Result<Vec<f64>, LabError> {
    let inliers = &scores[digits.index()];
    let outliers = &scores[View::Outliers(0).index()..];
    outliers.iter().map(|outliers| Ok(roc_auc(inliers, outliers)?)).collect()
}

/// A table row with one cell of ROC-AUC values (one per seed or ensemble) for each outlier set.
pub(super) fn row(
    name: &str,
    digits: View,
    per_seed: impl Iterator<Item = Result<impl Borrow<Scores>, LabError>>,
) -> Result<TableRow, LabError> {
    let mut cells: Vec<Cell> = Vec::new();
    for scores in per_seed {
        let areas = areas(scores?.borrow(), digits)?;
        cells.resize(areas.len(), Cell::default());
        cells.iter_mut().zip(areas).for_each(|(cell, area)| cell.values.push(area));
    }
    Ok(TableRow { name: name.to_owned(), cells })
}

/// Adds the paper's number to the SVHN cell, if SVHN is the first outlier set.
pub(super) fn with_paper_svhn(
    context: &Context,
    mut row: TableRow,
    paper: Option<&str>,
) -> Result<TableRow, LabError> {
    if context.digits()?.outliers[0].name == "SVHN" {
        row.cells[0].paper = paper.map(str::to_owned);
    }
    Ok(row)
}

/// A table of ROC-AUC values with one column per outlier set.
pub(super) fn table(
    context: &Context,
    title: &str,
    corner: &str,
    rows: Vec<TableRow>,
) -> Result<Table, LabError> {
    Ok(Table {
        title: title.to_owned(),
        corner: corner.to_owned(),
        columns: context.digits()?.outliers.iter().map(|set| set.name.to_owned()).collect(),
        rows,
        unit: Unit::Percent,
        better: Better::Higher,
        paper_data_set: None,
    })
}

/// Marks the paper's numbers in a table as those of CIFAR-100.
pub(super) fn with_cifar100_header(table: Table) -> Table {
    Table { paper_data_set: Some("CIFAR-100".to_owned()), ..table }
}

/// Dot plot of the first `columns` columns of a table.
pub(super) fn dots(title: &str, caption: &str, axis: &str, table: &Table, columns: usize) -> Figure {
    let row = |row: &TableRow| DotRow {
        name: row.name.clone(),
        values: row.cells[..columns].iter().map(Cell::mean_and_deviation).collect(),
    };
    let plot = DotPlot {
        title: title.to_owned(),
        caption: caption.to_owned(),
        x: ChartAxis::new(axis, AxisScale::Percent),
        series: table.columns[..columns].to_vec(),
        rows: table.rows.iter().map(row).collect(),
    };
    plot.draw()
}

/// The pointwise mean of several curves.
pub(super) fn mean_curve(curves: &[Vec<f64>]) -> Vec<f64> {
    let length = curves.first().map_or(0, Vec::len);
    (0..length).map(|i| curves.iter().map(|curve| curve[i]).sum::<f64>() / curves.len() as f64).collect()
}

/// Start of the x axis: one to two steps before the smallest x at which any line exceeds `level`. Before this x, all lines nearly
/// coincide. At least 0; 0 if no line exceeds `level`.
fn chart_start(lines: &[ChartLine], level: f64, step: f64) -> f64 {
    let rise = |line: &ChartLine| line.points.iter().find(|point| point.1 > level).map(|point| point.0);
    let first = lines.iter().filter_map(rise).fold(f64::INFINITY, f64::min);
    if first.is_finite() { step * ((first / step).floor() - 1.0).max(0.0) } else { 0.0 }
}

/// Chart of the number of outliers among the n most certain images of digits and outliers, as mean over seeds for each method. Only the
/// first outlier set is used; `outliers` is its name.
pub(super) fn outlier_count_chart(
    title: &str,
    outliers: &str,
    scored: &[(Method, Vec<Rc<Scores>>)],
    digits: View,
) -> Result<Figure, LabError> {
    let mut lines = Vec::new();
    let mut sizes = (0, 0);
    for (method, per_seed) in scored {
        let mut curves = Vec::new();
        for scores in per_seed {
            let (inliers, outliers) = (&scores[digits.index()], &scores[View::Outliers(0).index()]);
            sizes = (inliers.len(), outliers.len());
            curves.push(Detection::new(inliers, outliers)?.count_curve());
        }
        let curve = mean_curve(&curves);
        let points = curve.iter().enumerate().map(|(n, &count)| (n as f64, count)).collect();
        let emphasis = if *method == NUQ { Emphasis::Strong } else { Emphasis::Normal };
        lines.push(ChartLine { name: method.name().to_owned(), emphasis, points });
    }
    let (digits, all) = (sizes.0 as f64, (sizes.0 + sizes.1) as f64);
    let start = chart_start(&lines, 0.01 * sizes.1 as f64, 0.1 * digits);
    lines.iter_mut().for_each(|line| line.points.retain(|point| point.0 >= start));
    let best = vec![(start, 0.0), (digits, 0.0), (all, sizes.1 as f64)];
    lines.push(ChartLine { name: "optimal".to_owned(), emphasis: Emphasis::Reference, points: best });
    let chart = Chart {
        title: title.to_owned(),
        caption: format!(
            "Number of {outliers} images among the most certain images of both sets, mean over seeds. Lower is better."
        ),
        x: ChartAxis::between("most certain images", AxisScale::Count, start, all),
        panels: vec![ChartPanel {
            y: ChartAxis::new(&format!("{outliers} images"), AxisScale::Count),
            height: 260.0,
            lines,
        }],
    };
    Ok(chart.draw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_curve_is_pointwise_and_chart_starts_before_the_first_rise() {
        assert_eq!(mean_curve(&[vec![0.0, 1.0], vec![1.0, 4.0]]), [0.5, 2.5]);
        let line = |rise: f64| ChartLine {
            name: String::new(),
            emphasis: Emphasis::Normal,
            points: (0..100).map(|x| (f64::from(x), (f64::from(x) - rise).max(0.0))).collect(),
        };
        assert_eq!(chart_start(&[line(90.0), line(44.0)], 0.5, 10.0), 30.0);
        assert_eq!(chart_start(&[line(3.0)], 0.5, 10.0), 0.0);
        assert_eq!(chart_start(&[line(200.0)], 0.5, 10.0), 0.0);
    }
}
