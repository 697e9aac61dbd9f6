//! Words that Rhai reserves, allowed where only a name can stand.
//!
//! After `.` and `::`, and as the key of a map literal, any word is a name. The words that Rhai
//! reserves without using them (`default`, `match`, `new` …) are names everywhere. On the way names
//! can be written down, or changed.

use super::bounds::Bounds;
use parking_lot::Mutex;
use rhai::{Engine, Position, Token, TokenizeState};
use std::collections::HashMap;
use std::sync::Arc;

/// The words that Rhai reserves without a use: ordinary names here.
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
struct Progress {
    /// The limits on how much there may be of each kind.
    bounds: Bounds,
    /// The token before.
    last: Before,
    /// `true` if that was a name.
    follows_word: bool,
}

/// The kind of token before a word.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) enum Before {
    /// `.`, `?.` or `::`
    Access,
    /// `#{`, or `,` within a map literal.
    Key,
    #[default]
    Other,
}

/// A name in a file.
#[derive(Debug)]
pub(super) struct Word {
    pub(super) name: String,
    pub(super) position: Position,
    pub(super) before: Before,
    /// `::` follows.
    pub(super) before_colons: bool,
    /// `(` follows.
    pub(super) before_bracket: bool,
}

/// The names of a file, in order.
pub(super) type Words = Arc<Mutex<Vec<Word>>>;

/// Lets an engine read reserved words as names.
pub(crate) fn free_reserved_words(engine: &mut Engine) {
    let seen = Mutex::new(Progress::default());
    #[allow(deprecated)] // volatile, not deprecated: the version of Rhai is pinned
    engine.on_parse_token(move |token, position, _: &TokenizeState| read(&mut seen.lock(), token, position));
}

/// The same, and writes down the names of what the engine parses.
pub(super) fn note_words(engine: &mut Engine) -> Words {
    let words = Words::default();
    let (seen, noted) = (Mutex::new(Progress::default()), words.clone());
    #[allow(deprecated)] // volatile, not deprecated: the version of Rhai is pinned
    engine.on_parse_token(move |token, position, _: &TokenizeState| {
        let mut seen = seen.lock();
        let before = seen.last;
        let token = read(&mut seen, token, position);
        let mut words = noted.lock();
        match &token {
            Token::Identifier(name) => words.push(Word {
                name: name.to_string(),
                position,
                before,
                before_colons: false,
                before_bracket: false,
            }),
            Token::DoubleColon | Token::LeftParen => {
                if let Some(word) = words.last_mut().filter(|_| seen.follows_word) {
                    word.before_colons = token == Token::DoubleColon;
                    word.before_bracket = token == Token::LeftParen;
                }
            }
            _ => {}
        }
        seen.follows_word = matches!(token, Token::Identifier(_));
        token
    });
    words
}

/// The same, with other names in some places.
pub(super) fn rename_words(engine: &mut Engine, plan: Plan) {
    let seen = Mutex::new(Progress::default());
    #[allow(deprecated)] // volatile, not deprecated: the version of Rhai is pinned
    engine.on_parse_token(move |token, position, _: &TokenizeState| {
        let token = read(&mut seen.lock(), token, position);
        match (&token, plan.get(&position)) {
            (Token::Identifier(_), Some(name)) => Token::Identifier(Box::new(name.as_str().into())),
            (Token::StringConstant(_), Some(text)) => Token::StringConstant(Box::new(text.as_str().into())),
            _ => token,
        }
    });
}

fn read(seen: &mut Progress, token: Token, position: Position) -> Token {
    let token = match token {
        Token::Reserved(word) if FREED.contains(&word.as_str()) => Token::Identifier(word),
        Token::Reserved(word) | Token::Custom(word) if seen.last != Before::Other && is_word(&word) => {
            Token::Identifier(word)
        }
        token if seen.last != Before::Other && token.is_literal() && is_word(token.literal_syntax()) => {
            Token::Identifier(Box::new(token.literal_syntax().into()))
        }
        token => token,
    };
    let token = seen.bounds.read(token, position);
    seen.last = match token {
        Token::Period | Token::Elvis | Token::DoubleColon => Before::Access,
        Token::MapStart => Before::Key,
        Token::Comma if seen.bounds.in_map() => Before::Key,
        _ => Before::Other,
    };
    token
}

fn is_word(text: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// New names, by their places in a file.
pub(super) type Plan = HashMap<Position, String>;
