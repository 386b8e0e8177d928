//! Histogram of the scores of several data sets: one outline per set, and a vertical line at the threshold.

use serde_json::{Value, json};

use crate::charts::legend::{LegendEntry, Symbol};
use crate::charts::line_chart::draw_mark;
use crate::charts::plot_area::{PlotArea, WIDTH};
use crate::drawing::axis::{Axis, Unit};
use crate::drawing::canvas::{Canvas, LineStyle};
use crate::drawing::number_format;
use crate::report::{Histogram, HistogramSet, Mark};

/// Line style by index of the set.
pub(crate) type Styles<'a> = &'a dyn Fn(usize) -> LineStyle;

/// Gap between an outer bin, which has an infinite edge, and the other bins. It is relative to the range of the other bins.
const OUTER_GAP: f64 = 0.025;
/// Drawn width of an outer bin, relative to the range of the other bins.
const OUTER_WIDTH: f64 = 0.035;

/// Draws the histogram. Returns the drawing and the data for the page's script.
pub(crate) fn draw(histogram: &Histogram, styles: Styles<'_>) -> (Canvas, Value) {
    let layout = Layout::new(histogram);
    let plot = layout.plot_area(histogram);
    let mut canvas = Canvas::transparent(WIDTH, plot.bottom_with_labels());
    plot.draw(&mut canvas);
    canvas.clipped(plot.clip_area(), |canvas| {
        for (i, set) in histogram.sets.iter().enumerate() {
            let outlines = layout.outlines(&set.shares);
            canvas.series(i, |canvas| {
                for outline in outlines {
                    let outline: Vec<(f64, f64)> =
                        outline.into_iter().map(|point| plot.position(point)).collect();
                    canvas.fill(&outline, styles(i).color, if i == 0 { 0.22 } else { 0.1 });
                    canvas.stroke(&outline, styles(i));
                }
            });
        }
    });
    if let Some(mark) = &histogram.threshold {
        draw_mark(&mut canvas, &plot, mark, true);
    }
    (canvas, hover(histogram, &layout, &plot, styles))
}

/// Legend of the sets.
pub(crate) fn legend(histogram: &Histogram, styles: Styles<'_>) -> Vec<LegendEntry> {
    let entry =
        |(i, name): (usize, &String)| LegendEntry { name: name.clone(), symbol: Symbol::Outline(styles(i)) };
    histogram.sets.iter().map(|set| &set.name).enumerate().map(entry).collect()
}

/// Sentence for the caption with the position of the threshold; empty without a threshold.
pub(crate) fn threshold_note(histogram: &Histogram) -> String {
    let Some(Mark { name, value }) = &histogram.threshold else {
        return String::new();
    };
    let (low, high) = Layout::new(histogram).range;
    let is_visible = (low..=high).contains(value);
    let value = number_format::significant(*value, 3);
    if is_visible {
        format!(" Dashed line: threshold “{name}” at {value}.")
    } else {
        format!(" The threshold “{name}” at {value} is outside the plotted range.")
    }
}

/// Sentence for the caption with the number of rows in the outer bins; empty without outer bins or if no edge is finite.
pub(crate) fn outer_bins_note(histogram: &Histogram) -> String {
    let Histogram { edges, sets, .. } = histogram;
    if !edges.iter().any(|edge| edge.is_finite()) {
        return String::new();
    }
    let last = edges.len().saturating_sub(1);
    let rows = |bin: usize| {
        let of_set =
            |set: &HistogramSet| set.shares.get(bin).map_or(0.0, |share| (share * set.rows as f64).round());
        let count = sets.iter().map(of_set).sum::<f64>() as u64;
        format!("{} row{}", number_format::count(count), if count == 1 { "" } else { "s" })
    };
    let edge = |i: usize| number_format::significant(edges[i], 3);
    let has_below = last > 0 && edges[0] == f64::NEG_INFINITY;
    let has_above = last > 0 && edges[last] == f64::INFINITY;
    match (has_below, has_above) {
        (false, false) => String::new(),
        (true, false) => format!(" The separate bin at the left contains the {} below {}.", rows(0), edge(1)),
        (false, true) => {
            format!(
                " The separate bin at the right contains the {} above {}.",
                rows(last - 1),
                edge(last - 1)
            )
        }
        (true, true) => format!(
            " The separate bins at the ends contain the {} below {} and the {} above {}.",
            rows(0),
            edge(1),
            rows(last - 1),
            edge(last - 1)
        ),
    }
}

/// Positions of the bins along the horizontal axis.
struct Layout {
    /// Range of the finite bins, extended to the threshold unless the threshold is far from them.
    range: (f64, f64),
    /// Ends of each bin as drawn: a bin with an infinite edge is placed beyond the range, after a gap.
    bins: Vec<(f64, f64)>,
}

impl Layout {
    fn new(histogram: &Histogram) -> Self {
        let edges = &histogram.edges;
        let finite: Vec<f64> = edges.iter().copied().filter(|edge| edge.is_finite()).collect();
        let (low, high) = match (finite.first(), finite.last()) {
            (Some(&low), Some(&high)) if high > low => (low, high),
            (Some(&only), _) => (only - 0.5, only + 0.5),
            _ => (0.0, 1.0),
        };
        let margin = 0.3 * (high - low);
        let mark = histogram.threshold.as_ref().map(|mark| mark.value);
        let near = mark.filter(|value| (low - margin..=high + margin).contains(value));
        let range = near.into_iter().fold((low, high), |(low, high), mark| (low.min(mark), high.max(mark)));
        let (gap, width) = (OUTER_GAP * (range.1 - range.0), OUTER_WIDTH * (range.1 - range.0));
        let bin = |ends: &[f64]| match (ends[0], ends[1]) {
            (f64::NEG_INFINITY, f64::INFINITY) => (low, high),
            (f64::NEG_INFINITY, _) => (range.0 - gap - width, range.0 - gap),
            (_, f64::INFINITY) => (range.1 + gap, range.1 + gap + width),
            (first, last) if last > first => (first, last),
            _ => (low, high),
        };
        Self { range, bins: edges.windows(2).map(bin).collect() }
    }

    /// Plot area whose horizontal axis covers all bins. Only the range of the finite bins has ticks.
    fn plot_area(&self, histogram: &Histogram) -> PlotArea {
        let (low, high) = self
            .bins
            .iter()
            .fold(self.range, |(low, high), &(first, last)| (f64::min(low, first), f64::max(high, last)));
        let shares = histogram.sets.iter().flat_map(|set| &set.shares).copied();
        let x = Axis { tick_range: self.range, ..Axis::new(&histogram.score, Unit::Number, low, high) };
        let y = Axis::covering("rows of the set (%)", Unit::Share, shares.chain([0.0, 0.01]));
        PlotArea::new(0.0, 230.0, x, y)
    }

    /// Outlines of the bins of one set: one for each group of adjacent bins.
    fn outlines(&self, shares: &[f64]) -> Vec<Vec<(f64, f64)>> {
        let bins: Vec<((f64, f64), f64)> = self.bins.iter().copied().zip(shares.iter().copied()).collect();
        let groups = bins.chunk_by(|(left, _), (right, _)| left.1 == right.0);
        let outline = |group: &[((f64, f64), f64)]| {
            let tops = group.iter().flat_map(|&((first, last), share)| [(first, share), (last, share)]);
            let (start, end) = (group[0].0.0, group[group.len() - 1].0.1);
            std::iter::once((start, 0.0)).chain(tops).chain([(end, 0.0)]).collect()
        };
        groups.map(outline).collect()
    }
}

/// Data for the page's script, which shows the values at the mouse pointer.
fn hover(histogram: &Histogram, layout: &Layout, plot: &PlotArea, styles: Styles<'_>) -> Value {
    // Bins can be narrow compared with the values of their edges, such as 5 and 5.00000025; with twelve digits, the edges differ.
    let number = |value: f64| number_format::json_significant(value, 12);
    let set = |(i, set): (usize, &HistogramSet)| {
        let shares: Vec<Value> = set.shares.iter().map(|&share| number_format::json(share, 5)).collect();
        json!({"name": set.name, "role": styles(i).color.role(), "shares": shares})
    };
    let mut value = plot.json();
    value["kind"] = "bars".into();
    value["edges"] = histogram.edges.iter().map(|&edge| number(edge)).collect();
    value["bins"] = layout.bins.iter().map(|&(first, last)| json!([number(first), number(last)])).collect();
    value["sets"] = histogram.sets.iter().enumerate().map(set).collect();
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::color::Color;

    fn histogram(edges: &[f64]) -> Histogram {
        let bins = edges.len().saturating_sub(1);
        let sets = vec![HistogramSet {
            name: "test".to_owned(),
            rows: 1000 * bins,
            shares: vec![1.0 / bins as f64; bins],
        }];
        Histogram { score: "s".to_owned(), edges: edges.to_vec(), sets, threshold: None }
    }

    #[test]
    fn bins_with_an_infinite_edge_are_separate_and_described_in_the_caption() {
        let outer = histogram(&[f64::NEG_INFINITY, 1.0, 2.0, 4.0, f64::INFINITY]);
        let layout = Layout::new(&outer);
        assert_eq!((layout.range, &layout.bins[1..3]), ((1.0, 4.0), &[(1.0, 2.0), (2.0, 4.0)][..]));
        assert!(layout.bins[0].1 < 1.0 && layout.bins[3].0 > 4.0);
        assert_eq!(layout.outlines(&outer.sets[0].shares).len(), 3);
        assert_eq!(
            outer_bins_note(&outer),
            " The separate bins at the ends contain the 1,000 rows below 1.00 and the 1,000 rows above 4.00."
        );
        let right = histogram(&[0.0, 1.0, f64::INFINITY]);
        assert_eq!(
            outer_bins_note(&right),
            " The separate bin at the right contains the 1,000 rows above 1.00."
        );
        assert_eq!(outer_bins_note(&histogram(&[0.0, 1.0])), "");
        assert_eq!(outer_bins_note(&histogram(&[f64::NEG_INFINITY, f64::INFINITY])), "");
    }

    #[test]
    fn narrow_bins_have_different_ends_in_the_tooltip() {
        let style = LineStyle { color: Color::SERIES[0], width: 1.0, dash: "" };
        for (low, width) in [(0.0, 1e-6), (5.0, 2.5e-7), (-3e-9, 1e-11)] {
            let edges: Vec<f64> = (0..=40).map(|i| low + width * f64::from(i)).collect();
            let (_, hover) = draw(&histogram(&edges), &|_| style);
            let list = |key: &str| hover[key].as_array().unwrap();
            assert!(list("edges").windows(2).all(|ends| ends[0] != ends[1]), "{hover}");
            assert!(list("bins").iter().all(|ends| ends[0] != ends[1]), "{hover}");
        }
    }

    #[test]
    fn bins_without_a_width_get_a_range() {
        assert_eq!(Layout::new(&histogram(&[])).range, (0.0, 1.0));
        let equal = Layout::new(&histogram(&[3.0, 3.0]));
        assert_eq!((equal.range, &equal.bins[..]), ((2.5, 3.5), &[(2.5, 3.5)][..]));
    }

    #[test]
    fn a_distant_threshold_is_named_in_the_caption_and_not_drawn() {
        let threshold = |value| Some(Mark { name: "guard".to_owned(), value });
        let near = Histogram { threshold: threshold(2.2), ..histogram(&[0.0, 1.0, 2.0]) };
        assert_eq!(threshold_note(&near), " Dashed line: threshold “guard” at 2.20.");
        let far = Histogram { threshold: threshold(f64::INFINITY), ..near };
        assert_eq!(threshold_note(&far), " The threshold “guard” at ∞ is outside the plotted range.");
        assert!((Layout::new(&far).plot_area(&far).x.high - 2.0).abs() < 1e-12);
    }
}
