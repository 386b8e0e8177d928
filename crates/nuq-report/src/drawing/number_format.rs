//! Number formatting: limited digits, a typographic minus sign, and `∞` for infinity.

/// Fixed number of decimals.
pub(crate) fn fixed(value: f64, decimals: usize) -> String {
    infinite(value).unwrap_or_else(|| minus(format!("{value:.decimals$}")))
}

/// Fixed number of significant digits, but all digits before the decimal point are kept; scientific notation for very small and very
/// large values.
pub(crate) fn significant(value: f64, digits: i32) -> String {
    if let Some(sign) = infinite(value) {
        return sign;
    }
    let magnitude = if value == 0.0 { 0.0 } else { value.abs().log10().floor() };
    if !(-4.0..6.0).contains(&magnitude) {
        return minus(format!("{value:.*e}", (digits - 1).max(0) as usize));
    }
    fixed(value, (digits - 1 - magnitude as i32).max(0) as usize)
}

/// A number of milliseconds: one decimal if it is at least 10, otherwise two significant digits.
pub(crate) fn milliseconds(value: f64) -> String {
    if value >= 10.0 { fixed(value, 1) } else { significant(value, 2) }
}

/// A fraction in [0, 1] as a percentage, with a no-break space before the percent sign.
pub(crate) fn percent(share: f64) -> String {
    format!("{}\u{a0}%", fixed(100.0 * share, 1))
}

/// A count with thousands separators.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// An amount of memory; `none` for 0.
pub(crate) fn bytes(bytes: u64) -> String {
    if bytes == 0 {
        return "none".to_owned();
    }
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = usize::from(unit > 0 && value < 9.95);
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// A rounded number for the page's script. JSON cannot represent infinity: −∞ is written as `null`, ∞ as `"∞"`.
pub(crate) fn json(value: f64, decimals: i32) -> serde_json::Value {
    if value == f64::INFINITY {
        return "∞".into();
    }
    let unit = 10f64.powi(decimals);
    json_number((value * unit).round() / unit)
}

/// The same as [`json`], but rounded to significant digits, for values of any magnitude. All digits before the decimal point are kept.
pub(crate) fn json_significant(value: f64, digits: usize) -> serde_json::Value {
    let last = digits.saturating_sub(1);
    if !value.is_finite() || value.abs() >= 10f64.powi(last as i32) {
        return json(value, 0);
    }
    json_number(format!("{value:.last$e}").parse().expect("a formatted number is a number"))
}

/// A whole number is written without a decimal point.
fn json_number(value: f64) -> serde_json::Value {
    if value.fract() == 0.0 && value.abs() < 1e15 { (value as i64).into() } else { value.into() }
}

fn infinite(value: f64) -> Option<String> {
    value.is_infinite().then(|| if value > 0.0 { "∞" } else { "−∞" }.to_owned())
}

/// Replaces the hyphen by a minus sign, and removes it before zero.
fn minus(text: String) -> String {
    let is_zero = !text.contains(|c: char| ('1'..='9').contains(&c));
    match text.strip_prefix('-') {
        Some(rest) if is_zero => rest.to_owned(),
        Some(rest) => format!("−{rest}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_documented_format() {
        assert_eq!([fixed(0.95349, 3), fixed(-0.0001, 2), fixed(-1.5, 1)], ["0.953", "0.00", "−1.5"]);
        assert_eq!([fixed(f64::NEG_INFINITY, 3), significant(f64::INFINITY, 3)], ["−∞", "∞"]);
        assert_eq!(
            [12.345, 1234.5, 0.001234, 0.0].map(|v| significant(v, 3)),
            ["12.3", "1234", "0.00123", "0.00"]
        );
        assert_eq!([1.5e-9, -3e46].map(|v| significant(v, 2)), ["1.5e-9", "−3.0e46"]);
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0, 900, 1536, 1_048_575, 52_428_800].map(bytes),
            ["none", "900 B", "1.5 KiB", "1.0 MiB", "50 MiB"]
        );
        assert_eq!(percent(0.9421), "94.2\u{a0}%");
    }

    #[test]
    fn infinite_values_are_valid_json() {
        let values = [f64::NEG_INFINITY, f64::INFINITY, 2.0, 0.12345].map(|v| json(v, 3).to_string());
        assert_eq!(values, ["null", "\"∞\"", "2", "0.123"]);
        let values = [f64::NEG_INFINITY, f64::INFINITY].map(|v| json_significant(v, 3).to_string());
        assert_eq!(values, ["null", "\"∞\""]);
    }

    #[test]
    fn significant_digits_in_json_do_not_depend_on_the_magnitude() {
        let values = [1.234_567e-9, -0.012_345_6, 2.0, 12.3456, 123_456.7, 0.0];
        let rounded = serde_json::json!([1.235e-9, -0.01235, 2, 12.35, 123_457, 0]);
        assert_eq!(serde_json::Value::from_iter(values.map(|v| json_significant(v, 4))), rounded);
    }
}
