//! Text from data, made safe to stand in a page.

use serde_json::Value;

/// Text as it stands between HTML or SVG tags and in quoted attributes.
pub(crate) fn html(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // SVG is XML, which has no place for control characters, escaped or not.
            c if c.is_control() && !c.is_whitespace() => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// JSON as it stands in a `<script>`: nothing in it ends the script, opens a comment or breaks a line of old JavaScript.
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
    fn text_cannot_leave_its_place() {
        assert_eq!(html(r#"<b a="1">&'"#), "&lt;b a=&quot;1&quot;&gt;&amp;&#39;");
        assert_eq!(html("a\u{0}b\n"), "a\u{fffd}b\n");
    }

    #[test]
    fn json_cannot_end_its_script_and_reads_back() {
        let value = Value::from("</script><!-- & \u{2028}\u{2029} é");
        let text = script(&value);
        assert!(!text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']));
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
