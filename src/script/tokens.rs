//! Words that Rhai reserves, allowed where only a name can stand.
//!
//! After `.` and `::`, and as the key of a map literal, any word is a name. The words that Rhai
//! reserves without using them (`default`, `match`, `new` …) are names everywhere.

use parking_lot::Mutex;
use rhai::{Engine, Token, TokenizeState};

/// Reserved by Rhai, of no use in it: ordinary names here.
const FREED: &[&str] = &[
    "default",
    "debug",
    "print",
    "match",
    "case",
    "new",
    "use",
    "module",
    "package",
    "static",
    "shared",
    "sync",
    "async",
    "with",
    "null",
    "nil",
    "is",
    "var",
    "go",
    "thread",
    "spawn",
    "yield",
    "await",
    "super",
    "goto",
    "exit",
    "public",
    "protected",
    "begin",
    "end",
    "unless",
    "each",
    "then",
    "void",
    "Func",
    "extend",
];

#[derive(Default)]
struct Seen {
    /// Open brackets; true where it is a map literal.
    brackets: Vec<bool>,
    /// What stood before.
    last: Last,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum Last {
    /// `.`, `?.` or `::`
    Access,
    /// `#{`, or `,` within a map literal.
    Key,
    #[default]
    Other,
}

/// Lets an engine read reserved words as names.
pub(crate) fn free_reserved_words(engine: &mut Engine) {
    let seen = Mutex::new(Seen::default());
    #[allow(deprecated)] // volatile, not deprecated: the version of Rhai is pinned
    engine.on_parse_token(move |token, _, _: &TokenizeState| read(&mut seen.lock(), token));
}

fn read(seen: &mut Seen, token: Token) -> Token {
    let token = match token {
        Token::Reserved(word) if FREED.contains(&word.as_str()) => Token::Identifier(word),
        Token::Reserved(word) | Token::Custom(word) if seen.last != Last::Other && is_word(&word) => {
            Token::Identifier(word)
        }
        token if seen.last != Last::Other && token.is_literal() && is_word(token.literal_syntax()) => {
            Token::Identifier(Box::new(token.literal_syntax().into()))
        }
        token => token,
    };
    match token {
        Token::MapStart => seen.brackets.push(true),
        Token::LeftBrace | Token::LeftBracket | Token::LeftParen | Token::QuestionBracket => {
            seen.brackets.push(false);
        }
        Token::RightBrace | Token::RightBracket | Token::RightParen => {
            seen.brackets.pop();
        }
        _ => {}
    }
    seen.last = match token {
        Token::Period | Token::Elvis | Token::DoubleColon => Last::Access,
        Token::MapStart => Last::Key,
        Token::Comma if seen.brackets.last() == Some(&true) => Last::Key,
        _ => Last::Other,
    };
    token
}

fn is_word(text: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}
