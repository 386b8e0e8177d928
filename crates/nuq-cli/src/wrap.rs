//! Long lines on a terminal are broken between words. The continuation is aligned with the text of the line, which begins after the
//! name of the value (`threshold    main: …`), if the line has a name.

use std::io;

use terminal_size::{Width, terminal_size_of};

/// Smallest width of the text after the indentation. On a narrower terminal the lines are not changed; the terminal breaks them.
const MIN_TEXT: usize = 30;

/// The text for standard output. If standard output is a terminal, the text is wrapped to its width; otherwise it is unchanged.
pub(crate) fn for_terminal(text: String) -> String {
    match terminal_size_of(io::stdout()) {
        Some((Width(width), _)) => wrapped(&text, usize::from(width)),
        None => text,
    }
}

fn wrapped(text: &str, width: usize) -> String {
    text.lines().map(|line| wrapped_line(line, width) + "\n").collect()
}

fn wrapped_line(line: &str, width: usize) -> String {
    let (start, text) = line.split_at(text_start(line));
    let indent = start.chars().count();
    if line.chars().count() <= width || width < indent + MIN_TEXT {
        return line.to_owned();
    }
    let (mut result, mut column) = (start.to_owned(), indent);
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > indent && column + 1 + length > width {
            result.push('\n');
            result.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else if column > indent {
            result.push(' ');
            column += 1;
        }
        result += word;
        column += length;
    }
    result
}

/// The position in a line at which its text begins: after a name and at least two spaces, or at its first word.
fn text_start(line: &str) -> usize {
    let spaces = line.find("  ").unwrap_or(0);
    let text = line[spaces..].trim_start_matches(' ');
    line.len() - text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_continued_below_their_text() {
        let text = "threshold    main: accept if log_total ≤ -1.96\n             accepts a new row like the held-out ones\n";
        assert_eq!(wrapped(text, 52), text.replace(" ones", "\n             ones"));
        let broken = text
            .replace(" -1.96", "\n             -1.96")
            .replace(" held-out ones", "\n             held-out ones");
        assert_eq!(wrapped(text, 45), broken);
        assert_eq!(wrapped(text, 20), text, "a narrow terminal breaks lines itself");
    }

    #[test]
    fn lines_without_a_name_are_not_indented() {
        let line = "accepts a new row like the 1000 held-out ones with a probability of at least 90 %";
        assert_eq!(
            wrapped_line(line, 60),
            "accepts a new row like the 1000 held-out ones with a\nprobability of at least 90 %"
        );
    }
}
