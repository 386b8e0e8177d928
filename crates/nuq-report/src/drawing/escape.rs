//! Escaping of text from data for HTML, SVG and scripts.

use serde_json::Value;

/// Escapes text for element content and quoted attributes of HTML and SVG.
pub(crate) fn html(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // XML, and so SVG, does not allow these two code points.
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            // Below U+0020, XML allows only tab, line feed and carriage return. Other control characters are not allowed even if they
            // are escaped. The control characters from U+007F to U+009F are allowed, but are replaced too.
            c if c.is_control() && !matches!(c, '\t' | '\n' | '\r') => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// Escapes JSON for a `<script>` element: the result cannot end the script or open a comment. It contains neither U+2028 nor
/// U+2029, which JavaScript before ES2019 does not allow in strings.
pub(crate) fn script(value: &Value) -> String {
    let escaped = |c: char| match c {
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => format!("\\u{:04x}", c as u32),
        c => c.to_string(),
    };
    value.to_string().chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_escapes_markup_and_control_characters() {
        assert_eq!(html(r#"<b a="1">&'"#), "&lt;b a=&quot;1&quot;&gt;&amp;&#39;");
        assert_eq!(html("a\u{0}b\u{b}c\u{c}\n"), "a\u{fffd}b\u{fffd}c\u{fffd}\n");
    }

    #[test]
    fn script_escapes_markup_and_remains_valid_json() {
        let value = Value::from("</script><!-- & \u{2028}\u{2029} é");
        let text = script(&value);
        assert!(!text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']));
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
