//! Parses the Python dictionary in the header of an npy file.
//!
//! Accepts a subset of what `ast.literal_eval` accepts: a dictionary of strings, integers, booleans, tuples and lists.
//! Strings have no prefix and no escape sequence; integers are decimal.

/// Deepest nesting of tuples and lists; limits the recursion.
const MAX_DEPTH: usize = 32;

/// A value of the dictionary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Literal {
    Text(String),
    /// An integer that is not negative.
    Integer(usize),
    Boolean(bool),
    Tuple(Vec<Literal>),
    List(Vec<Literal>),
}

/// Parses `{'key': value, …}` with nothing but whitespace around it. `None` if the text has another form, or if a key occurs
/// twice. The suffix `L` of Python 2 is accepted after integers if `allow_long`.
pub(super) fn parse_dictionary(text: &str, allow_long: bool) -> Option<Vec<(String, Literal)>> {
    let mut parser = Parser { rest: text, allow_long };
    let mut entries: Vec<(String, Literal)> = Vec::new();
    parser.take('{')?;
    while parser.take('}').is_none() {
        let key = parser.text()?;
        parser.take(':')?;
        let value = parser.value(0)?;
        if entries.iter().any(|(other, _)| *other == key) {
            return None;
        }
        entries.push((key, value));
        if parser.take(',').is_none() {
            parser.take('}')?;
            break;
        }
    }
    parser.skip_whitespace();
    parser.rest.is_empty().then_some(entries)
}

struct Parser<'t> {
    rest: &'t str,
    allow_long: bool,
}

impl Parser<'_> {
    fn skip_whitespace(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r', '\x0c']);
    }

    /// Skips whitespace and consumes `expected`, if it is next.
    fn take(&mut self, expected: char) -> Option<()> {
        self.skip_whitespace();
        self.rest = self.rest.strip_prefix(expected)?;
        Some(())
    }

    fn value(&mut self, depth: usize) -> Option<Literal> {
        self.skip_whitespace();
        match self.rest.chars().next()? {
            '\'' | '"' => self.text().map(Literal::Text),
            '0'..='9' => self.integer().map(Literal::Integer),
            '(' if depth < MAX_DEPTH => self.sequence('(', ')', depth),
            '[' if depth < MAX_DEPTH => self.sequence('[', ']', depth),
            _ => self.boolean(),
        }
    }

    fn text(&mut self) -> Option<String> {
        self.skip_whitespace();
        let quote = self.rest.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        let (text, rest) = self.rest[1..].split_once(quote)?;
        // Python joins adjacent strings and reads three quotes as one delimiter. Both are rejected here.
        if text.contains(['\\', '\n', '\r', '\0']) || rest.starts_with(['\'', '"']) {
            return None;
        }
        self.rest = rest;
        Some(text.to_owned())
    }

    fn integer(&mut self) -> Option<usize> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        self.rest = match rest.strip_prefix('L') {
            Some(rest) if self.allow_long => rest,
            _ => rest,
        };
        let has_leading_zero = digits.len() > 1 && digits.starts_with('0');
        if has_leading_zero || self.rest.starts_with(is_name_character) {
            return None;
        }
        digits.parse().ok()
    }

    fn boolean(&mut self) -> Option<Literal> {
        let (word, value) =
            [("True", true), ("False", false)].into_iter().find(|(w, _)| self.rest.starts_with(w))?;
        self.rest = &self.rest[word.len()..];
        (!self.rest.starts_with(is_name_character)).then_some(Literal::Boolean(value))
    }

    /// A tuple or a list. One value in parentheses without a comma is the value itself.
    fn sequence(&mut self, open: char, close: char, depth: usize) -> Option<Literal> {
        self.take(open)?;
        let mut items = Vec::new();
        let mut has_comma = false;
        while self.take(close).is_none() {
            items.push(self.value(depth + 1)?);
            if self.take(',').is_none() {
                self.take(close)?;
                break;
            }
            has_comma = true;
        }
        Some(match (open, items.len()) {
            ('[', _) => Literal::List(items),
            (_, 1) if !has_comma => items.remove(0),
            _ => Literal::Tuple(items),
        })
    }
}

/// Whether a character continues the name or number before it: `Falsey` is not `False`, and `1.0` is not `1`.
fn is_name_character(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '.' || !c.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parsed_as_in_python_and_other_forms_are_rejected() {
        let value = |text: &str| {
            let entries = parse_dictionary(&format!("{{'a': {text}}}"), false)?;
            Some(entries[0].1.clone())
        };
        let integers = |values: &[usize]| values.iter().map(|&v| Literal::Integer(v)).collect::<Vec<_>>();
        assert_eq!(value("()"), Some(Literal::Tuple(vec![])));
        assert_eq!(value("(7)"), Some(Literal::Integer(7)));
        assert_eq!(value("( 7 , )"), Some(Literal::Tuple(integers(&[7]))));
        assert_eq!(value("[1, 0]"), Some(Literal::List(integers(&[1, 0]))));
        assert_eq!(value("\"it's\""), Some(Literal::Text("it's".to_owned())));
        assert_eq!(value("False"), Some(Literal::Boolean(false)));
        for text in [
            "(,)", "(1,,2)", "(1 2)", "01", "1L", "-1", "1.0", "1_0", "Falsey", "false", "None", "'a' 'b'",
            "'''a'''", "",
        ] {
            assert_eq!(value(text), None, "{text}");
        }
        let nested = "(".repeat(5000);
        assert_eq!(value(&nested), None);
    }

    #[test]
    fn malformed_dictionaries_and_repeated_keys_are_rejected() {
        assert_eq!(parse_dictionary(" {} \n", false), Some(vec![]));
        assert!(parse_dictionary("{'a': (4L,), \"b\": True,}", true).is_some());
        for text in [
            "",
            "{",
            "{'a'}",
            "{'a': 1 'b': 2}",
            "{'a': 1,,}",
            "{,}",
            "{'a': 1} x",
            "{'a': 1, 'a': 1}",
            "{a: 1}",
        ] {
            assert_eq!(parse_dictionary(text, true), None, "{text}");
        }
    }
}
