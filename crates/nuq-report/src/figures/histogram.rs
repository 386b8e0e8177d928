//! How scores of several sets lie on one axis: stepped outlines, and a mark at the threshold.

use serde_json::{Value, json};

use crate::axis::{Axis, Unit};
use crate::canvas::{Canvas, Pen};
use crate::figures::legend::{Entry, Sign};
use crate::figures::line_chart::draw_mark;
use crate::figures::plot::{Plot, WIDTH};
use crate::numbers;
use crate::report::{Histogram, Mark};

/// A set's line.
pub(crate) type Pens<'a> = &'a dyn Fn(usize) -> Pen;

/// The drawing, and what a script needs to tell its values.
pub(crate) fn draw(histogram: &Histogram, pens: Pens<'_>) -> (Canvas, Value) {
    let edges = finite_edges(&histogram.edges);
    let plot = ground(histogram, &edges);
    let mut canvas = Canvas::clear(WIDTH, plot.end());
    plot.draw(&mut canvas);
    canvas.clipped(plot.inside(), |canvas| {
        for (i, set) in histogram.sets.iter().enumerate() {
            let outline = steps(&edges, &set.shares, &plot);
            canvas.series(i, |canvas| {
                canvas.fill(&outline, pens(i).color, if i == 0 { 0.22 } else { 0.1 });
                canvas.stroke(&outline, pens(i));
            });
        }
    });
    if let Some(mark) = &histogram.threshold {
        draw_mark(&mut canvas, &plot, mark, true);
    }
    (canvas, hover(histogram, &edges, &plot, pens))
}

/// What its outlines are.
pub(crate) fn legend(histogram: &Histogram, pens: Pens<'_>) -> Vec<Entry> {
    let entry = |(i, name): (usize, &String)| Entry { name: name.clone(), sign: Sign::Bars(pens(i)) };
    histogram.sets.iter().map(|set| &set.name).enumerate().map(entry).collect()
}

/// Where the threshold lies, in words.
pub(crate) fn threshold(histogram: &Histogram) -> String {
    let Some(Mark { name, value }) = &histogram.threshold else {
        return String::new();
    };
    let edges = finite_edges(&histogram.edges);
    let is_seen = (0.0..=1.0).contains(&ground(histogram, &edges).x.place(*value));
    let place = if is_seen { "Dashed" } else { "Outside the picture" };
    format!(" {place}: {name} at {}.", numbers::significant(*value, 3))
}

/// The axes. The threshold is on them unless that would squeeze the bars.
fn ground(histogram: &Histogram, edges: &[f64]) -> Plot {
    let (low, high) = (edges[0], edges[edges.len() - 1]);
    let room = 0.3 * (high - low);
    let mark = histogram.threshold.as_ref().map(|mark| mark.value);
    let near = mark.filter(|value| (low - room..=high + room).contains(value));
    let ends = near.into_iter().fold((low, high), |(low, high), mark| (low.min(mark), high.max(mark)));
    let shares = histogram.sets.iter().flat_map(|set| &set.shares).copied();
    let x = Axis::new(&histogram.score, Unit::Number, ends.0, ends.1);
    Plot::new(0.0, 230.0, x, Axis::holding("rows of the set (%)", Unit::Share, shares.chain([0.0, 0.01])))
}

/// The edges, an infinite one replaced by a bin as wide as the one beside it.
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

fn steps(edges: &[f64], shares: &[f64], plot: &Plot) -> Vec<(f64, f64)> {
    let bins = edges.windows(2).zip(shares);
    let tops = bins.flat_map(|(ends, &share)| [(ends[0], share), (ends[1], share)]);
    let start = std::iter::once((edges[0], 0.0));
    let end = std::iter::once((edges[edges.len() - 1], 0.0));
    start.chain(tops).chain(end).map(|point| plot.at(point)).collect()
}

fn hover(histogram: &Histogram, edges: &[f64], plot: &Plot, pens: Pens<'_>) -> Value {
    let set = |(i, set): (usize, &crate::report::Bars)| {
        let shares: Vec<Value> = set.shares.iter().map(|&share| numbers::json(share, 5)).collect();
        json!({"name": set.name, "part": pens(i).color.part(), "shares": shares})
    };
    let mut value = plot.json();
    value["kind"] = "bars".into();
    value["edges"] = edges.iter().map(|&edge| numbers::json(edge, 4)).collect();
    value["sets"] = histogram.sets.iter().enumerate().map(set).collect();
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_finite_and_span_something() {
        let infinite = [f64::NEG_INFINITY, 1.0, 2.0, 4.0, f64::INFINITY];
        assert_eq!(finite_edges(&infinite), [0.0, 1.0, 2.0, 4.0, 6.0]);
        assert_eq!(finite_edges(&[]), [0.0, 1.0]);
        assert_eq!(finite_edges(&[3.0, 3.0]), [2.5, 3.5]);
    }

    #[test]
    fn a_far_threshold_is_told_and_not_drawn() {
        let threshold = |value| Some(Mark { name: "threshold".to_owned(), value });
        let sets = vec![crate::report::Bars { name: "test".to_owned(), shares: vec![0.5, 0.5] }];
        let histogram =
            Histogram { score: "s".to_owned(), edges: vec![0.0, 1.0, 2.0], sets, threshold: threshold(2.2) };
        assert_eq!(super::threshold(&histogram), " Dashed: threshold at 2.20.");
        let far = Histogram { threshold: threshold(f64::INFINITY), ..histogram };
        assert_eq!(super::threshold(&far), " Outside the picture: threshold at ∞.");
        assert!((ground(&far, &far.edges).x.high - 2.0).abs() < 1e-12);
    }
}
