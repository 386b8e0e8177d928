//! An axis: what it measures, from where to where, and the round numbers along it.

use serde_json::{Value, json};

use crate::numbers;

/// How values on an axis are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Shares of one, written in percent.
    Share,
    /// Whole numbers.
    Count,
    /// Anything else.
    Number,
}

/// An axis.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    pub(crate) title: String,
    pub(crate) unit: Unit,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) is_log: bool,
}

impl Axis {
    /// An axis with given ends.
    pub(crate) fn new(title: &str, unit: Unit, low: f64, high: f64) -> Self {
        Self { title: title.to_owned(), unit, low, high, is_log: false }
    }

    /// An axis from one round number to another that holds all finite values.
    pub(crate) fn holding(title: &str, unit: Unit, values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = ends(values).unwrap_or((0.0, 1.0));
        let (low, high) = if high > low { (low, high) } else { (low - margin(low), high + margin(high)) };
        let step = step(high - low, 5.0);
        // A value that is a round number up to rounding errors is an end itself.
        let (low, high) = ((low / step + 1e-9).floor() * step, (high / step - 1e-9).ceil() * step);
        match unit {
            Unit::Share => Self::new(title, unit, low.clamp(0.0, 1.0), high.clamp(0.0, 1.0)),
            _ => Self::new(title, unit, low, high),
        }
    }

    /// An axis of decades that holds all positive values.
    pub(crate) fn decades(title: &str, values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = ends(values.filter(|&v| v > 0.0)).unwrap_or((1.0, 10.0));
        let room = (high / low).powf(0.04).max(1.02);
        Self { is_log: true, ..Self::new(title, Unit::Number, low / room, high * room) }
    }

    /// The place of a value, 0 at the low end and 1 at the high one.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let form = |v: f64| if self.is_log { v.ln() } else { v };
        (form(value) - form(self.low)) / (form(self.high) - form(self.low))
    }

    /// Round values along the axis, about `most` of them, and how they are written.
    pub(crate) fn ticks(&self, most: f64) -> Vec<(f64, String)> {
        if self.is_log && self.high / self.low > 4.0 {
            return self.decade_ticks();
        }
        let least = if self.unit == Unit::Count { 1.0 } else { 0.0 };
        let step = step(self.high - self.low, most).max(least);
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(|i| i as f64 * step).map(|v| (v, self.tick(v, step))).collect()
    }

    fn decade_ticks(&self) -> Vec<(f64, String)> {
        let factors: &[f64] = if self.high / self.low < 300.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let powers = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let values = powers.flat_map(|power| factors.iter().map(move |f| f * 10f64.powi(power)));
        values.filter(|v| (self.low..=self.high).contains(v)).map(|v| (v, self.tick(v, v))).collect()
    }

    fn tick(&self, value: f64, step: f64) -> String {
        let (value, step) =
            if self.unit == Unit::Share { (100.0 * value, 100.0 * step) } else { (value, step) };
        let decimals = (-(step * 1.000_001).log10().floor()).max(0.0) as usize;
        match self.unit {
            Unit::Count if value >= 0.0 && decimals == 0 => numbers::count(value.round() as u64),
            _ if decimals > 5 || value.abs() >= 1e6 => numbers::significant(value, 2),
            _ => numbers::fixed(value, decimals),
        }
    }

    /// What a script needs to know of it.
    pub(crate) fn json(&self) -> Value {
        let unit = match self.unit {
            Unit::Share => "share",
            Unit::Count => "count",
            Unit::Number => "number",
        };
        json!({"title": self.title, "unit": unit, "low": self.low, "high": self.high, "log": self.is_log})
    }
}

/// The least and the greatest finite value.
fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|v| v.is_finite()).fold(None, |ends, v| match ends {
        None => Some((v, v)),
        Some((low, high)) => Some((f64::min(low, v), f64::max(high, v))),
    })
}

/// Room around an only value.
fn margin(value: f64) -> f64 {
    if value == 0.0 { 0.5 } else { 0.1 * value.abs() }
}

/// The step of 1, 2 or 5 times a power of ten that makes about `most` parts of a range.
fn step(range: f64, most: f64) -> f64 {
    let raw = range / most;
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
    fn ticks_are_round_and_ends_hold_the_values() {
        let axis = Axis::holding("risk", Unit::Share, [0.0, 0.0731, f64::INFINITY].into_iter());
        assert_eq!(labels(&axis), ["0", "2", "4", "6", "8"]);
        assert_eq!(labels(&Axis::new("x", Unit::Share, 0.0, 1.0)), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(&Axis::new("x", Unit::Count, 0.0, 1500.0)), ["0", "500", "1,000", "1,500"]);
        assert_eq!(labels(&Axis::new("x", Unit::Number, -1.0, 0.5)), ["−1.0", "−0.5", "0.0", "0.5"]);
    }

    #[test]
    fn one_value_and_none_still_make_an_axis() {
        let one = Axis::holding("x", Unit::Number, [3.0].into_iter());
        assert!(one.low < 3.0 && one.high > 3.0 && one.ticks(5.0).len() > 1);
        assert!(Axis::holding("x", Unit::Number, std::iter::empty()).ticks(5.0).len() > 1);
        let sure = Axis::holding("accuracy", Unit::Share, [1.0].into_iter());
        assert!(sure.low < 1.0 && sure.high == 1.0, "no more than all");
        assert_eq!(labels(&Axis::new("rows", Unit::Count, 0.0, 2.0)), ["0", "1", "2"]);
        assert!(Axis::decades("x", [2.0].into_iter()).ticks(5.0).len() > 1);
    }

    #[test]
    fn decades_are_even_in_powers() {
        let axis = Axis::decades("h", [0.1, 10.0].into_iter());
        assert!((axis.place(1.0) - 0.5).abs() < 1e-12);
        assert_eq!(labels(&axis), ["0.1", "0.2", "0.5", "1", "2", "5", "10"]);
    }
}
