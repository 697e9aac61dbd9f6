//! The blanks between two tokens of one line.

use super::lexeme::{Kind, Lexeme, lex};

/// The role of a lexeme in its context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// A keyword; a bracket after it is not a call.
    Keyword,
    /// A prefix operator.
    Unary,
    /// The first or last `|` of a closure's parameters, or `||`.
    OpenBar,
    CloseBar,
    /// `!` of `call!(…)`.
    CallBang,
    /// The `:` of `list[1:3]`.
    PartColon,
    /// A sign where an operand is expected.
    Start,
    Other,
}

const KEYWORDS: [&str; 25] = [
    "let", "const", "if", "else", "for", "while", "loop", "do", "until", "in", "switch", "return", "throw",
    "try", "catch", "fn", "private", "import", "export", "as", "break", "continue", "and", "or", "not",
];
const ACCESS: [&str; 3] = [".", "?.", "::"];
const RANGES: [&str; 2] = ["..", "..="];
/// Signs of unknown meaning, whose blanks are preserved.
const UNKNOWN: [&str; 6] = ["#", "@", "$", "\\", "?", "~"];

/// Returns the roles of all lexemes.
pub(super) fn roles(lexemes: &[Lexeme<'_>]) -> Vec<Role> {
    let mut roles = Vec::with_capacity(lexemes.len());
    let (mut expects, mut follows_access, mut is_in_bars) = (true, false, false);
    let mut open = Vec::new();
    for (index, lexeme) in lexemes.iter().enumerate() {
        let next = lexemes[index + 1..].iter().find(|next| next.kind != Kind::Comment);
        let role = match (lexeme.kind, lexeme.text) {
            (Kind::Comment, _) => {
                roles.push(Role::Other);
                continue;
            }
            (Kind::Word, word) => {
                let is_key = next.is_some_and(|next| next.is_sign(&[":"]));
                match KEYWORDS.contains(&word) && !follows_access && !is_key {
                    true => Role::Keyword,
                    false => Role::Other,
                }
            }
            (Kind::Sign, ":") if open.last().is_some_and(|sign| ["[", "?["].contains(sign)) => {
                Role::PartColon
            }
            (Kind::Sign, "|") if is_in_bars => Role::CloseBar,
            (Kind::Sign, "|") if expects => Role::OpenBar,
            (Kind::Sign, "||") if expects => Role::CloseBar,
            (Kind::Sign, "!") => {
                let is_call = !expects && next.is_some_and(|next| next.is_sign(&["("]));
                if is_call { Role::CallBang } else { Role::Unary }
            }
            (Kind::Sign, "-" | "+" | "*" | "&") if expects => Role::Unary,
            (Kind::Sign, "++" | "--") => Role::Other,
            (Kind::Sign, _) if expects => Role::Start,
            _ => Role::Other,
        };
        is_in_bars = role == Role::OpenBar || is_in_bars && role != Role::CloseBar;
        follows_access = lexeme.is_sign(&ACCESS);
        if lexeme.is_sign(&["(", "[", "?[", "{", "#{"]) {
            open.push(lexeme.text);
        } else if lexeme.is_sign(&[")", "]", "}"]) {
            open.pop();
        }
        expects = match lexeme.kind {
            Kind::Sign => !lexeme.is_sign(&[")", "]", "}"]),
            _ => role == Role::Keyword,
        };
        roles.push(role);
    }
    roles
}

/// Returns the number of blanks between a lexeme and the previous one on the same line.
pub(super) fn gap(before: (&Lexeme<'_>, Role), lexeme: (&Lexeme<'_>, Role)) -> usize {
    let preferred = preferred_space(before, lexeme);
    let (a, b) = (before.0, lexeme.0);
    usize::max(preferred, usize::from(preferred == 0 && !stays_apart(a, b)))
}

fn preferred_space((a, role_of_a): (&Lexeme<'_>, Role), (b, role_of_b): (&Lexeme<'_>, Role)) -> usize {
    let kept = usize::from(b.blanks > 0);
    if b.is_line_comment() {
        return b.blanks.max(1);
    }
    if a.kind == Kind::Comment || b.kind == Kind::Comment {
        let is_close = a.is_sign(&["(", "[", "?["]) || b.is_sign(&[")", "]", ",", ";"]);
        return if is_close { kept } else { 1 };
    }
    if b.is_sign(&[",", ";"]) || a.is_sign(&["(", "[", "?["]) || b.is_sign(&[")", "]"]) {
        return 0;
    }
    if a.is_sign(&["{", "#{"]) {
        return usize::from(!b.is_sign(&["}"]));
    }
    if b.is_sign(&["}"]) {
        return 1;
    }
    if a.is_sign(&UNKNOWN) || b.is_sign(&UNKNOWN) || a.kind == Kind::Text && b.kind == Kind::Text {
        return kept;
    }
    if a.is_sign(&ACCESS) || b.is_sign(&ACCESS) {
        return 0;
    }
    if b.is_sign(&RANGES) {
        return usize::from(role_of_b == Role::Start);
    }
    if a.is_sign(&RANGES) {
        return usize::from(b.is_sign(&["{"]));
    }
    let holds_on = matches!(role_of_a, Role::Unary | Role::OpenBar | Role::CallBang | Role::PartColon);
    if b.is_sign(&[":"]) || holds_on {
        return 0;
    }
    match role_of_b {
        Role::CallBang => return 0,
        Role::CloseBar if b.text == "|" => return 0,
        _ => {}
    }
    if b.is_sign(&["(", "[", "?["]) {
        return match a.kind {
            Kind::Word | Kind::Number => usize::from(role_of_a == Role::Keyword),
            Kind::Sign if a.is_sign(&[")", "]"]) => 0,
            Kind::Sign if a.is_sign(&["}"]) => kept,
            Kind::Text => kept,
            _ => 1,
        };
    }
    1
}

/// Returns `true` if two tokens without a blank between them remain two tokens.
fn stays_apart(a: &Lexeme<'_>, b: &Lexeme<'_>) -> bool {
    let is_bracket = |lexeme: &Lexeme<'_>| lexeme.is_sign(&["(", ")", "[", "]", "{", "}", ",", ";"]);
    if is_bracket(a) || is_bracket(b) {
        return true;
    }
    let joined = format!("{}{}", a.text, b.text);
    let read = lex(&joined);
    read.is_ok_and(
        |read| matches!(&read[..], [first, second] if first.text == a.text && second.text == b.text),
    )
}
