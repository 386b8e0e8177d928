//! Telling outliers from digits: the table and the count curves that several experiments show.

use std::borrow::Borrow;
use std::rc::Rc;

use nuq_eval::metrics::{Detection, roc_auc};
use nuq_report::{Chart, ChartAxis, ChartLine, ChartPanel, DotPlot, DotRow, Figure, Emphasis, AxisScale};

use super::Lab;
use super::digits::View;
use super::methods::{Method, NUQ, Scores};
use crate::LabError;
use crate::results::{Better, Cell, Table, TableRow, Unit};

/// The area under the ROC curve of each set of outliers against digits, by scores of all views.
pub(super) fn areas(scores: &[Vec<f64>], digits: View) -> Result<Vec<f64>, LabError> {
    let inliers = &scores[digits.place()];
    let outliers = &scores[View::Outliers(0).place()..];
    outliers.iter().map(|outliers| Ok(roc_auc(inliers, outliers)?)).collect()
}

/// A row of areas over seeds: one cell for each set of outliers.
pub(super) fn row(
    name: &str,
    digits: View,
    of_seeds: impl Iterator<Item = Result<impl Borrow<Scores>, LabError>>,
) -> Result<TableRow, LabError> {
    let mut cells: Vec<Cell> = Vec::new();
    for scores in of_seeds {
        let areas = areas(scores?.borrow(), digits)?;
        cells.resize(areas.len(), Cell::default());
        cells.iter_mut().zip(areas).for_each(|(cell, area)| cell.values.push(area));
    }
    Ok(TableRow { name: name.to_owned(), cells })
}

/// The same row, with the paper's number on SVHN beside ours where that is the first set.
pub(super) fn beside_svhn(lab: &Lab, mut row: TableRow, paper: Option<&str>) -> Result<TableRow, LabError> {
    if lab.digits()?.outliers[0].name == "SVHN" {
        row.cells[0].paper = paper.map(str::to_owned);
    }
    Ok(row)
}

/// A table of areas.
pub(super) fn table(lab: &Lab, title: &str, corner: &str, rows: Vec<TableRow>) -> Result<Table, LabError> {
    Ok(Table {
        title: title.to_owned(),
        corner: corner.to_owned(),
        columns: lab.digits()?.outliers.iter().map(|set| set.name.to_owned()).collect(),
        rows,
        unit: Unit::Percent,
        better: Better::Higher,
        paper_of: None,
    })
}

/// The same table, beside the paper's numbers on CIFAR-100.
pub(super) fn of_cifar(table: Table) -> Table {
    Table { paper_of: Some("CIFAR-100".to_owned()), ..table }
}

/// The first columns of a table as dots: all of them, or all but what sums them up.
pub(super) fn dots(title: &str, caption: &str, axis: &str, table: &Table, columns: usize) -> Figure {
    let row = |row: &TableRow| DotRow {
        name: row.name.clone(),
        values: row.cells[..columns].iter().map(Cell::dot).collect(),
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

/// The mean of several curves at each of their places.
pub(super) fn mean_curve(curves: &[Vec<f64>]) -> Vec<f64> {
    let places = curves.first().map_or(0, Vec::len);
    (0..places).map(|i| curves.iter().map(|curve| curve[i]).sum::<f64>() / curves.len() as f64).collect()
}

/// Where a chart begins: a step or two before the first line rises above `level`, for up to there all are one.
fn before_the_first(lines: &[ChartLine], level: f64, step: f64) -> f64 {
    let rise = |line: &ChartLine| line.points.iter().find(|point| point.1 > level).map(|point| point.0);
    let first = lines.iter().filter_map(rise).fold(f64::INFINITY, f64::min);
    if first.is_finite() { step * ((first / step).floor() - 1.0).max(0.0) } else { 0.0 }
}

/// How many outliers are among the most certain of digits and outliers together, for each method and on average over seeds.
pub(super) fn count_chart(
    title: &str,
    outliers: &str,
    scored: &[(Method, Vec<Rc<Scores>>)],
    digits: View,
) -> Result<Figure, LabError> {
    let mut lines = Vec::new();
    let mut sizes = (0, 0);
    for (method, of_seeds) in scored {
        let mut curves = Vec::new();
        for scores in of_seeds {
            let (inliers, outliers) = (&scores[digits.place()], &scores[View::Outliers(0).place()]);
            sizes = (inliers.len(), outliers.len());
            curves.push(Detection::new(inliers, outliers)?.count_curve());
        }
        let curve = mean_curve(&curves);
        let points = curve.iter().enumerate().map(|(kept, &count)| (kept as f64, count)).collect();
        let emphasis = if *method == NUQ { Emphasis::Strong } else { Emphasis::Normal };
        lines.push(ChartLine { name: method.name().to_owned(), emphasis, points });
    }
    let (digits, all) = (sizes.0 as f64, (sizes.0 + sizes.1) as f64);
    let start = before_the_first(&lines, 0.01 * sizes.1 as f64, 0.1 * digits);
    lines.iter_mut().for_each(|line| line.points.retain(|point| point.0 >= start));
    let best = vec![(start, 0.0), (digits, 0.0), (all, sizes.1 as f64)];
    lines.push(ChartLine { name: "best possible".to_owned(), emphasis: Emphasis::Reference, points: best });
    let chart = Chart {
        title: title.to_owned(),
        caption: format!(
            "Pictures of both sets from the most certain to the least, and how many of them are {outliers}, on average over seeds. Lower is better."
        ),
        x: ChartAxis::between("pictures taken", AxisScale::Count, start, all),
        panels: vec![ChartPanel {
            y: ChartAxis::new(&format!("of them {outliers}"), AxisScale::Count),
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
    fn curves_are_averaged_and_shown_from_where_they_part() {
        assert_eq!(mean_curve(&[vec![0.0, 1.0], vec![1.0, 4.0]]), [0.5, 2.5]);
        let line = |rise: f64| ChartLine {
            name: String::new(),
            emphasis: Emphasis::Normal,
            points: (0..100).map(|x| (f64::from(x), (f64::from(x) - rise).max(0.0))).collect(),
        };
        assert_eq!(before_the_first(&[line(90.0), line(44.0)], 0.5, 10.0), 30.0);
        assert_eq!(before_the_first(&[line(3.0)], 0.5, 10.0), 0.0);
        assert_eq!(before_the_first(&[line(200.0)], 0.5, 10.0), 0.0);
    }
}
