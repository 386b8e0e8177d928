//! Properties of the evaluated model.

use nuq::parts::{FittedDensityParts, SmootherParts};
use nuq::{Bandwidth, FittedModel, NuqClassifier};

use crate::drawing::number_format;
use crate::report::Fact;

/// Properties of a model as names and values.
pub(super) fn model_facts(model: &NuqClassifier<'_>) -> Vec<Fact> {
    let index = model.index();
    let smoother = model.smoother_parts();
    let facts = [
        ("task", "classification".to_owned()),
        ("training rows", format!("{} × {}, {} classes", index.len(), index.dim(), model.classes().len())),
        ("index", format!("{}; {}", index.describe(), smoother.choice.reason)),
        ("neighbors", neighbors(&smoother, index.len())),
        ("bandwidth", bandwidth(model, &smoother.bandwidth)),
        ("density", density(&smoother.density)),
        ("intrinsic dimension", number_format::fixed(smoother.dimension, 2)),
        ("prior weight", format!("{} training rows", model.prior_weight())),
    ];
    let normalization = ("normalization", "rows are divided by their Euclidean norm".to_owned());
    let facts = facts.into_iter().chain(smoother.normalize.then_some(normalization));
    facts.map(|(name, value)| Fact { name: name.to_owned(), value }).collect()
}

fn neighbors(smoother: &SmootherParts, rows: usize) -> String {
    let (kernel, n_neighbors) = (smoother.kernel, smoother.n_neighbors);
    if n_neighbors > rows {
        return format!("{rows} (all rows; {n_neighbors} requested), {kernel} kernel");
    }
    format!("{n_neighbors}, {kernel} kernel")
}

fn bandwidth(model: &NuqClassifier<'_>, bandwidth: &Bandwidth) -> String {
    let value = match bandwidth {
        Bandwidth::Scalar(h) => number(*h),
        Bandwidth::PerDimension(values) => format!("per dimension, {}", range(values)),
        Bandwidth::PerPoint(values) => format!("per training row, {}", range(values)),
    };
    let Some(curve) = model.bandwidth_curve() else { return value };
    let accuracy = curve.points[curve.chosen].score.accuracy;
    let edge = if curve.is_at_edge() { "; at the edge of the search grid" } else { "" };
    format!("{value}, by leave-one-out on {} rows (accuracy {accuracy:.4}{edge})", curve.rows)
}

fn density(density: &FittedDensityParts) -> String {
    match density {
        FittedDensityParts::Same => "kernel, with the same bandwidth".to_owned(),
        FittedDensityParts::Kde(h) => format!("kernel, bandwidth {}", number(*h)),
        FittedDensityParts::Auto(auto) => {
            format!("auto: kernel and tied Gaussians, bandwidth {}", number(auto.bandwidth))
        }
        FittedDensityParts::Gmm { covariance, .. } => {
            format!("class Gaussians, {covariance} covariance")
        }
    }
}

/// Smallest and largest value.
fn range(values: &[f64]) -> String {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    format!("{} to {}", number(low), number(high))
}

fn number(value: f64) -> String {
    let has_four_decimals = value == 0.0 || (1e-3..1e6).contains(&value.abs());
    if has_four_decimals { number_format::fixed(value, 4) } else { number_format::significant(value, 4) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_row_bandwidths_are_given_as_a_range() {
        assert_eq!(range(&[0.5, 2.0, 1.0]), "0.5000 to 2.0000");
    }

    #[test]
    fn every_density_has_a_description() {
        assert_eq!(density(&FittedDensityParts::Kde(0.25)), "kernel, bandwidth 0.2500");
        assert_eq!(density(&FittedDensityParts::Same), "kernel, with the same bandwidth");
    }
}
