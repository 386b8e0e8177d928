//! Text from data and file names may contain control characters, which would change the state of a terminal. These characters
//! are escaped before the text is printed.

use std::borrow::Cow;
use std::io::{self, Write};

/// The text with its control characters escaped, for example `\u{1b}`. Line breaks and tabs are not changed.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c.is_control() && c != '\n' && c != '\t')
}

/// A name, label or path within a line, with all its control characters escaped.
pub(crate) fn name(name: &str) -> Cow<'_, str> {
    escaped(name, char::is_control)
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut result = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match is_escaped(c) {
            true => result.extend(c.escape_default()),
            false => result.push(c),
        }
    }
    Cow::Owned(result)
}

/// A writer for a terminal that escapes control characters as [`text`] does. The bytes of each call of `write` must be complete
/// UTF-8 characters.
pub(crate) struct Escaped<W>(pub(crate) W);

impl<W: Write> Write for Escaped<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(text(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(name("a\u{1b}[31m\u{9b}b\u{7f}\n\t"), r"a\u{1b}[31m\u{9b}b\u{7f}\n\t");
        assert_eq!(text("a\u{1b}\r\n\tü"), "a\\u{1b}\\r\n\tü");
        assert!(matches!(text("no control character\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn the_writer_escapes_control_characters() {
        let mut bytes = Vec::new();
        let label = "cat\u{1b}";
        writeln!(Escaped(&mut bytes), "{label},ü").unwrap();
        assert_eq!(bytes, "cat\\u{1b},ü\n".as_bytes());
    }
}
