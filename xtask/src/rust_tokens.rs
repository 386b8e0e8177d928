//! The tokens of Rust source code, as far as the search for a keyword needs them: literals of strings and characters, and comments, are
//! recognized, so that a word inside of them is not taken for code.

/// A word, a literal of a string or character, a comment, or a single other character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'s> {
    pub(crate) text: &'s str,
    /// The number of the line of the first character, from 1.
    pub(crate) line: usize,
    pub(crate) is_comment: bool,
}

/// The tokens of a source. White space is not a token.
pub(crate) fn tokens(source: &str) -> Vec<Token<'_>> {
    let (mut tokens, mut rest, mut line) = (vec![], source, 1);
    while let Some(first) = rest.chars().next() {
        let (length, is_comment) = length(rest, first);
        let text = &rest[..length];
        if !first.is_whitespace() {
            tokens.push(Token { text, line, is_comment });
        }
        line += text.matches('\n').count();
        rest = &rest[length..];
    }
    tokens
}

/// The length of the first token in bytes, and whether it is a comment.
fn length(rest: &str, first: char) -> (usize, bool) {
    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), true);
    }
    if rest.starts_with("/*") {
        return (block_comment(rest), true);
    }
    if let Some(length) = raw_string(rest) {
        return (length, false);
    }
    let length = match first {
        '"' => quoted(rest, 1, '"'),
        'b' | 'c' if rest[1..].starts_with('"') => quoted(rest, 2, '"'),
        'b' if rest[1..].starts_with('\'') => quoted(rest, 2, '\''),
        '\'' => character_or_lifetime(rest),
        first if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
        first => first.len_utf8(),
    };
    (length, false)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of a block comment. Block comments can be nested.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// The length of a raw string such as `r"…"` or `br#"…"#`; `None` for other tokens.
fn raw_string(rest: &str) -> Option<usize> {
    let start = ["r", "br", "cr"].into_iter().find(|start| {
        rest.strip_prefix(start).is_some_and(|rest| rest.trim_start_matches('#').starts_with('"'))
    })?;
    let hashes = rest[start.len()..].bytes().take_while(|byte| *byte == b'#').count();
    let open = start.len() + hashes + 1;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(rest[open..].find(&end).map_or(rest.len(), |at| open + at + end.len()))
}

/// The length of a literal whose content begins at byte `open`, after the first quotation mark.
fn quoted(rest: &str, open: usize, mark: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest[open..].char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == mark => return open + at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

/// The length of a character such as `'x'` or `'\n'`, or of the name of a lifetime such as `'a`.
fn character_or_lifetime(rest: &str) -> usize {
    let mut characters = rest[1..].chars();
    match (characters.next(), characters.next()) {
        (Some('\\'), _) | (Some(_), Some('\'')) => quoted(rest, 1, '\''),
        _ => 1 + rest[1..].find(|c| !is_word(c)).unwrap_or(rest.len() - 1),
    }
}

/// One value per line of the source: the text of the comment if the line contains nothing but a line comment, otherwise `None`.
pub(crate) fn comments_by_line(tokens: &[Token<'_>], source: &str) -> Vec<Option<String>> {
    let lines: Vec<&str> = source.lines().collect();
    let mut comments = vec![None; lines.len()];
    for token in tokens.iter().filter(|token| token.is_comment && token.text.starts_with("//")) {
        if lines[token.line - 1].trim_start().starts_with("//") {
            let text = token.text.trim_start_matches('/').trim_start_matches('!').trim();
            comments[token.line - 1] = Some(text.to_owned());
        }
    }
    comments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_characters_and_strings_are_separated() {
        let source =
            "fn f<'a>(x: &'a u8) { 'ä'; '\\u{7f}'; b'\\''; r#fn; br##\"a\"#\"##; c\"x\"; 'outer: loop {} }";
        let texts: Vec<&str> = tokens(source).into_iter().map(|token| token.text).collect();
        for expected in ["'a", "'ä'", "'\\u{7f}'", "b'\\''", "br##\"a\"#\"##", "c\"x\"", "'outer", "loop"] {
            assert!(texts.contains(&expected), "{expected}: {texts:?}");
        }
        assert_eq!(texts.concat(), source.replace(' ', ""));
    }

    #[test]
    fn unterminated_literals_and_comments_end_with_the_source() {
        for source in ["\"abc", "/* /* */", "r#\"abc\"", "'", "b'", "// end", "\u{fffd}"] {
            let texts: Vec<&str> = tokens(source).into_iter().map(|token| token.text).collect();
            assert_eq!(texts.concat(), source, "{source}");
        }
    }
}
