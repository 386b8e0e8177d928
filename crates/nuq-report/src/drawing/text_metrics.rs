//! Text width in the embedded font. It is used to truncate and wrap text that would overlap other text.

/// Advance widths of the characters U+0020 to U+007E in Roboto Medium, in thousandths of the font size. Roboto Regular is
/// slightly narrower.
const ADVANCES: [u16; 95] = [
    249, 268, 324, 610, 568, 734, 639, 169, 349, 353, 442, 558, 220, 329, 279, 396, 568, 568, 568, 568, 568,
    568, 568, 568, 568, 568, 265, 238, 508, 560, 521, 487, 895, 666, 631, 653, 653, 565, 550, 681, 711, 282,
    555, 630, 542, 875, 710, 690, 640, 690, 625, 604, 607, 652, 647, 880, 633, 609, 603, 274, 418, 274, 428,
    451, 322, 542, 563, 524, 565, 537, 354, 567, 555, 256, 250, 522, 256, 871, 556, 569, 563, 568, 352, 517,
    333, 556, 495, 743, 503, 487, 503, 335, 251, 335, 665,
];

/// Width of a text at a font size.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(advance).sum::<f64>() * size
}

fn advance(c: char) -> f64 {
    let c = c as u32;
    match c.checked_sub(32).and_then(|i| ADVANCES.get(i as usize)) {
        Some(&advance) => f64::from(advance) / 1000.0,
        // East Asian characters are about as wide as the font size.
        None if c >= 0x1100 => 1.0,
        None if c == 0xa0 => 0.25,
        None => 0.65,
    }
}

/// Truncates text to a width. An ellipsis replaces the removed characters.
pub(crate) fn truncate(text: &str, size: f64, max_width: f64) -> String {
    if width(text, size) <= max_width {
        return text.to_owned();
    }
    let mut remaining = max_width - width("…", size);
    let fits = |c: &char| {
        remaining -= advance(*c) * size;
        remaining >= 0.0
    };
    let start: String = text.chars().take_while(fits).collect();
    format!("{}…", start.trim_end())
}

/// Breaks text into lines that are at most `max_width` wide. A word that is longer than a line is truncated.
pub(crate) fn wrap(text: &str, size: f64, max_width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    // Lines are not broken at no-break spaces.
    for word in text.split([' ', '\n', '\t']).filter(|word| !word.is_empty()) {
        match lines.last_mut() {
            Some(line) if width(line, size) + width(" ", size) + width(word, size) <= max_width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(truncate(word, size, max_width)),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_and_wrapped_text_fits_its_width() {
        assert!((width("00", 10.0) - 11.36).abs() < 1e-9);
        assert_eq!(truncate("svhn", 13.0, 100.0), "svhn");
        let truncated = truncate("a set with a very long name", 13.0, 80.0);
        assert!(truncated.ends_with('…') && width(&truncated, 13.0) <= 80.0);
        let lines = wrap("one two three four five six", 10.0, 60.0);
        assert!(lines.len() > 1 && lines.iter().all(|line| width(line, 10.0) <= 60.0));
        assert_eq!(wrap("of 5\u{a0}%", 10.0, 20.0), ["of", "5\u{a0}%"]);
        assert_eq!(lines.join(" "), "one two three four five six");
    }
}
