//! A check of a text that may go on in the next line.

/// An open construct that waits for its end.
#[derive(Clone, Copy, PartialEq)]
enum Open {
    /// A bracket of any sort.
    Bracket,
    /// A text in backticks.
    Backtick,
    /// The code between `${` and `}` in one.
    Interpolation,
    /// `/* … */`
    Comment,
}

/// Returns `true` if everything that a text opens is closed in it: brackets, texts in backticks, block
/// comments. A text that closes too much is whole, and the parser reports the error.
pub fn is_whole(text: &str) -> bool {
    let mut open: Vec<Open> = Vec::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let within = open.last().copied();
        let mut taken = letter.len_utf8();
        match (within, letter) {
            (Some(Open::Comment), _) => {
                if rest.starts_with("*/") {
                    open.pop();
                    taken = 2;
                } else if rest.starts_with("/*") {
                    open.push(Open::Comment);
                    taken = 2;
                }
            }
            (Some(Open::Backtick), _) => {
                if rest.starts_with("``") {
                    taken = 2;
                } else if letter == '`' {
                    open.pop();
                } else if rest.starts_with("${") {
                    open.push(Open::Interpolation);
                    taken = 2;
                }
            }
            (_, '/') if rest.starts_with("//") => taken = rest.find('\n').unwrap_or(rest.len()),
            (_, '/') if rest.starts_with("/*") => {
                open.push(Open::Comment);
                taken = 2;
            }
            (_, '`') => open.push(Open::Backtick),
            (_, '"') => match quoted(rest) {
                Some(length) => taken = length,
                // One that goes on in the next line ends in a backslash.
                None => return !rest.trim_end_matches(['\n', '\r']).ends_with('\\'),
            },
            (_, '\'') => taken = character(rest),
            (_, '(' | '[' | '{') => open.push(Open::Bracket),
            (None, ')' | ']' | '}') => return true,
            (_, ')' | ']' | '}') => drop(open.pop()),
            _ => {}
        }
        rest = &rest[taken..];
    }
    open.is_empty()
}

/// Returns the length of the text in quotes that begins here.
fn quoted(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            '"' if !escaped => return Some(at + 1),
            '\n' if !escaped => return Some(at),
            _ => escaped = letter == '\\' && !escaped,
        }
    }
    None
}

/// Returns the length of the character in quotes that begins here.
fn character(text: &str) -> usize {
    let mut letters = text.char_indices().skip(1);
    let first = letters.next();
    let ends = match first {
        Some((_, '\\')) => letters.skip(1).find(|(_, letter)| *letter == '\''),
        _ => letters.next().filter(|(_, letter)| *letter == '\''),
    };
    ends.map_or(1, |(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_closed_is_whole() {
        for text in [
            "1 + 1",
            "let a = [1, 2];",
            "fn f(x) {\n  x + 1\n}",
            "\"a { in a text\"",
            "'{'",
            "'\\'' // {",
            "`a ${b[\"}\"]} {`",
            "`two `` backticks {`",
            "/* { /* ( */ */ 1",
            "1 }",
            "\"never ends",
            "",
        ] {
            assert!(is_whole(text), "{text}");
        }
    }

    #[test]
    fn what_is_open_goes_on_in_the_next_line() {
        for text in [
            "fn f(x) {",
            "#{ a: [1,",
            "`over\nlines",
            "`${ f(",
            "`${ \"`\" ",
            "/* a comment",
            "f(\"{\"",
            "\"goes on \\",
        ] {
            assert!(!is_whole(text), "{text}");
        }
    }
}
