//! Histogram of the scores of several data sets: one outline per set, and a vertical line at the threshold.

use serde_json::{Value, json};

use crate::charts::legend::{LegendEntry, Symbol};
use crate::charts::line_chart::draw_mark;
use crate::charts::plot_area::{PlotArea, WIDTH};
use crate::drawing::axis::{Axis, Unit};
use crate::drawing::canvas::{Canvas, LineStyle};
use crate::drawing::number_format;
use crate::report::{Histogram, Mark};

/// Line style by index of the set.
pub(crate) type Styles<'a> = &'a dyn Fn(usize) -> LineStyle;

/// Draws the histogram. Returns the drawing and the data for the page's script.
pub(crate) fn draw(histogram: &Histogram, styles: Styles<'_>) -> (Canvas, Value) {
    let edges = finite_edges(&histogram.edges);
    let plot = plot_area(histogram, &edges);
    let mut canvas = Canvas::transparent(WIDTH, plot.bottom_with_labels());
    plot.draw(&mut canvas);
    canvas.clipped(plot.clip_area(), |canvas| {
        for (i, set) in histogram.sets.iter().enumerate() {
            let outline = outline(&edges, &set.shares, &plot);
            canvas.series(i, |canvas| {
                canvas.fill(&outline, styles(i).color, if i == 0 { 0.22 } else { 0.1 });
                canvas.stroke(&outline, styles(i));
            });
        }
    });
    if let Some(mark) = &histogram.threshold {
        draw_mark(&mut canvas, &plot, mark, true);
    }
    (canvas, hover(histogram, &edges, &plot, styles))
}

/// Legend of the sets.
pub(crate) fn legend(histogram: &Histogram, styles: Styles<'_>) -> Vec<LegendEntry> {
    let entry =
        |(i, name): (usize, &String)| LegendEntry { name: name.clone(), symbol: Symbol::Outline(styles(i)) };
    histogram.sets.iter().map(|set| &set.name).enumerate().map(entry).collect()
}

/// Sentence for the caption that gives the position of the threshold; empty without a threshold.
pub(crate) fn threshold_note(histogram: &Histogram) -> String {
    let Some(Mark { name, value }) = &histogram.threshold else {
        return String::new();
    };
    let edges = finite_edges(&histogram.edges);
    let is_visible = (0.0..=1.0).contains(&plot_area(histogram, &edges).x.fraction(*value));
    let value = number_format::significant(*value, 3);
    if is_visible {
        format!(" Dashed line: threshold “{name}” at {value}.")
    } else {
        format!(" The threshold “{name}” at {value} is outside the plotted range.")
    }
}

/// Plot area whose horizontal axis covers all bins, and the threshold unless it is far from the bins.
fn plot_area(histogram: &Histogram, edges: &[f64]) -> PlotArea {
    let (low, high) = (edges[0], edges[edges.len() - 1]);
    let margin = 0.3 * (high - low);
    let mark = histogram.threshold.as_ref().map(|mark| mark.value);
    let near = mark.filter(|value| (low - margin..=high + margin).contains(value));
    let ends = near.into_iter().fold((low, high), |(low, high), mark| (low.min(mark), high.max(mark)));
    let shares = histogram.sets.iter().flat_map(|set| &set.shares).copied();
    let x = Axis::new(&histogram.score, Unit::Number, ends.0, ends.1);
    PlotArea::new(
        0.0,
        230.0,
        x,
        Axis::covering("rows of the set (%)", Unit::Share, shares.chain([0.0, 0.01])),
    )
}

/// Bin edges; an infinite edge is replaced so that its bin is as wide as the adjacent one.
fn finite_edges(edges: &[f64]) -> Vec<f64> {
    let finite: Vec<f64> = edges.iter().copied().filter(|edge| edge.is_finite()).collect();
    let (Some(&first), Some(&last)) = (finite.first(), finite.last()) else {
        return vec![0.0, 1.0];
    };
    let step = |a: usize, b: usize| if finite.len() > 1 { finite[b] - finite[a] } else { 1.0 };
    let (left, right) = (step(0, 1), step(finite.len().saturating_sub(2), finite.len() - 1));
    let replaced = |&edge: &f64| match edge {
        f64::NEG_INFINITY => first - left,
        f64::INFINITY => last + right,
        edge => edge,
    };
    let edges: Vec<f64> = edges.iter().map(replaced).collect();
    if edges[edges.len() - 1] > edges[0] { edges } else { vec![edges[0] - 0.5, edges[0] + 0.5] }
}

/// Outline of the bins of one set, in drawing coordinates.
fn outline(edges: &[f64], shares: &[f64], plot: &PlotArea) -> Vec<(f64, f64)> {
    let bins = edges.windows(2).zip(shares);
    let tops = bins.flat_map(|(ends, &share)| [(ends[0], share), (ends[1], share)]);
    let start = std::iter::once((edges[0], 0.0));
    let end = std::iter::once((edges[edges.len() - 1], 0.0));
    start.chain(tops).chain(end).map(|point| plot.position(point)).collect()
}

/// Data for the page's script, which shows the values at the mouse pointer.
fn hover(histogram: &Histogram, edges: &[f64], plot: &PlotArea, styles: Styles<'_>) -> Value {
    let set = |(i, set): (usize, &crate::report::HistogramSet)| {
        let shares: Vec<Value> = set.shares.iter().map(|&share| number_format::json(share, 5)).collect();
        json!({"name": set.name, "role": styles(i).color.role(), "shares": shares})
    };
    let mut value = plot.json();
    value["kind"] = "bars".into();
    value["edges"] = edges.iter().map(|&edge| number_format::json(edge, 4)).collect();
    value["sets"] = histogram.sets.iter().enumerate().map(set).collect();
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infinite_and_equal_edges_are_replaced() {
        let infinite = [f64::NEG_INFINITY, 1.0, 2.0, 4.0, f64::INFINITY];
        assert_eq!(finite_edges(&infinite), [0.0, 1.0, 2.0, 4.0, 6.0]);
        assert_eq!(finite_edges(&[]), [0.0, 1.0]);
        assert_eq!(finite_edges(&[3.0, 3.0]), [2.5, 3.5]);
    }

    #[test]
    fn a_distant_threshold_is_named_in_the_caption_and_not_drawn() {
        let threshold = |value| Some(Mark { name: "guard".to_owned(), value });
        let sets = vec![crate::report::HistogramSet { name: "test".to_owned(), shares: vec![0.5, 0.5] }];
        let histogram =
            Histogram { score: "s".to_owned(), edges: vec![0.0, 1.0, 2.0], sets, threshold: threshold(2.2) };
        assert_eq!(threshold_note(&histogram), " Dashed line: threshold “guard” at 2.20.");
        let far = Histogram { threshold: threshold(f64::INFINITY), ..histogram };
        assert_eq!(threshold_note(&far), " The threshold “guard” at ∞ is outside the plotted range.");
        assert!((plot_area(&far, &far.edges).x.high - 2.0).abs() < 1e-12);
    }
}
