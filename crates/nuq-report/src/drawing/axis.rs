//! Chart axes: title, unit, range and tick positions.

use serde_json::{Value, json};

use crate::drawing::number_format;

/// Number format of the tick labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Fractions in [0, 1], written as percentages.
    Share,
    /// Whole numbers.
    Count,
    /// Real numbers.
    Number,
}

/// A linear or logarithmic axis.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    pub(crate) title: String,
    pub(crate) unit: Unit,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) is_log: bool,
    /// Range of the ticks, within `low..=high`.
    pub(crate) tick_range: (f64, f64),
}

impl Axis {
    /// A linear axis with a given range.
    pub(crate) fn new(title: &str, unit: Unit, low: f64, high: f64) -> Self {
        Self { title: title.to_owned(), unit, low, high, is_log: false, tick_range: (low, high) }
    }

    /// A linear axis that covers all finite values and starts and ends at round numbers.
    pub(crate) fn covering(title: &str, unit: Unit, values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = finite_range(values).unwrap_or((0.0, 1.0));
        let (low, high) = if high > low { (low, high) } else { (low - margin(low), high + margin(high)) };
        let step = round_step(high - low, 5.0);
        // The tolerance prevents an additional step at a value that is round except for rounding errors.
        let (low, high) = ((low / step + 1e-9).floor() * step, (high / step - 1e-9).ceil() * step);
        match unit {
            Unit::Share => Self::new(title, unit, low.clamp(0.0, 1.0), high.clamp(0.0, 1.0)),
            _ => Self::new(title, unit, low, high),
        }
    }

    /// A logarithmic axis that covers all positive values.
    pub(crate) fn log(title: &str, values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = finite_range(values.filter(|&v| v > 0.0)).unwrap_or((1.0, 10.0));
        let margin = (high / low).powf(0.04).max(1.02);
        Self { is_log: true, ..Self::new(title, Unit::Number, low / margin, high * margin) }
    }

    /// Relative position of a value: 0 at the low end, 1 at the high end.
    pub(crate) fn fraction(&self, value: f64) -> f64 {
        let transform = |v: f64| if self.is_log { v.ln() } else { v };
        (transform(value) - transform(self.low)) / (transform(self.high) - transform(self.low))
    }

    /// Round values along the axis with their labels, about `target_count` of them.
    pub(crate) fn ticks(&self, target_count: f64) -> Vec<(f64, String)> {
        if self.is_log && self.high / self.low > 4.0 {
            return self.decade_ticks();
        }
        let min_step = if self.unit == Unit::Count { 1.0 } else { 0.0 };
        let step = round_step(self.high - self.low, target_count).max(min_step);
        let first = (self.tick_range.0 / step - 1e-9).ceil() as i64;
        let last = (self.tick_range.1 / step + 1e-9).floor() as i64;
        (first..=last).map(|i| i as f64 * step).map(|v| (v, self.tick_label(v, step))).collect()
    }

    fn decade_ticks(&self) -> Vec<(f64, String)> {
        let factors: &[f64] = if self.high / self.low < 300.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let powers = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let values = powers.flat_map(|power| factors.iter().map(move |f| f * 10f64.powi(power)));
        values.filter(|v| (self.low..=self.high).contains(v)).map(|v| (v, self.tick_label(v, v))).collect()
    }

    fn tick_label(&self, value: f64, step: f64) -> String {
        let (value, step) =
            if self.unit == Unit::Share { (100.0 * value, 100.0 * step) } else { (value, step) };
        let decimals = (-(step * 1.000_001).log10().floor()).max(0.0) as usize;
        match self.unit {
            Unit::Count if value >= 0.0 && decimals == 0 => number_format::count(value.round() as u64),
            _ if decimals > 5 || value.abs() >= 1e6 => number_format::significant(value, 2),
            _ => number_format::fixed(value, decimals),
        }
    }

    /// Data for the page's script.
    pub(crate) fn json(&self) -> Value {
        let unit = match self.unit {
            Unit::Share => "share",
            Unit::Count => "count",
            Unit::Number => "number",
        };
        json!({"title": self.title, "unit": unit, "low": self.low, "high": self.high, "log": self.is_log})
    }
}

/// The smallest and the largest finite value.
fn finite_range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|v| v.is_finite()).fold(None, |range, v| match range {
        None => Some((v, v)),
        Some((low, high)) => Some((f64::min(low, v), f64::max(high, v))),
    })
}

/// Margin around a single value.
fn margin(value: f64) -> f64 {
    if value == 0.0 { 0.5 } else { 0.1 * value.abs() }
}

/// Step of 1, 2 or 5 times a power of ten that divides a range into about `target_count` parts.
fn round_step(range: f64, target_count: f64) -> f64 {
    let raw = range / target_count;
    let power = 10f64.powf(raw.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|f| f * power >= 0.999 * raw).unwrap_or(10.0);
    factor * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks(5.0).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_and_the_range_covers_the_values() {
        let axis = Axis::covering("risk", Unit::Share, [0.0, 0.0731, f64::INFINITY].into_iter());
        assert_eq!(labels(&axis), ["0", "2", "4", "6", "8"]);
        assert_eq!(labels(&Axis::new("x", Unit::Share, 0.0, 1.0)), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(&Axis::new("x", Unit::Count, 0.0, 1500.0)), ["0", "500", "1,000", "1,500"]);
        assert_eq!(labels(&Axis::new("x", Unit::Number, -1.0, 0.5)), ["−1.0", "−0.5", "0.0", "0.5"]);
    }

    #[test]
    fn an_axis_of_one_value_or_none_has_a_positive_range() {
        let one = Axis::covering("x", Unit::Number, [3.0].into_iter());
        assert!(one.low < 3.0 && one.high > 3.0 && one.ticks(5.0).len() > 1);
        assert!(Axis::covering("x", Unit::Number, std::iter::empty()).ticks(5.0).len() > 1);
        let certain = Axis::covering("accuracy", Unit::Share, [1.0].into_iter());
        assert!(certain.low < 1.0 && certain.high == 1.0, "a share is at most 1");
        assert_eq!(labels(&Axis::new("rows", Unit::Count, 0.0, 2.0)), ["0", "1", "2"]);
        assert!(Axis::log("x", [2.0].into_iter()).ticks(5.0).len() > 1);
    }

    #[test]
    fn a_log_axis_is_uniform_in_powers_of_ten() {
        let axis = Axis::log("h", [0.1, 10.0].into_iter());
        assert!((axis.fraction(1.0) - 0.5).abs() < 1e-12);
        assert_eq!(labels(&axis), ["0.1", "0.2", "0.5", "1", "2", "5", "10"]);
    }
}
