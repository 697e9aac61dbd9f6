//! Identifiers and text literals in Rhai's syntax.

/// The words that cannot name a variable or function.
const RESERVED: [&str; 62] = [
    "as",
    "async",
    "await",
    "break",
    "call",
    "case",
    "catch",
    "const",
    "continue",
    "curry",
    "debug",
    "default",
    "do",
    "else",
    "eval",
    "exit",
    "export",
    "false",
    "fn",
    "Fn",
    "for",
    "global",
    "go",
    "goto",
    "if",
    "import",
    "in",
    "is",
    "is_def_fn",
    "is_def_var",
    "is_shared",
    "let",
    "loop",
    "match",
    "module",
    "new",
    "nil",
    "null",
    "package",
    "print",
    "private",
    "protected",
    "public",
    "return",
    "shared",
    "spawn",
    "static",
    "super",
    "switch",
    "sync",
    "this",
    "thread",
    "throw",
    "true",
    "try",
    "type_of",
    "until",
    "use",
    "var",
    "void",
    "while",
    "with",
];

/// The functions that the host provides or calls; a function of the plugin with such a name is renamed.
const HOST_FUNCTIONS: [&str; 40] = [
    "after",
    "ask",
    "check_status",
    "deny",
    "done",
    "emit",
    "empty",
    "error",
    "handler",
    "inlet",
    "max",
    "min",
    "ok",
    "outlet",
    "parallel",
    "parse_float",
    "parse_int",
    "pipe",
    "pipes",
    "poll",
    "post_chat",
    "post_invocation",
    "pre_chat",
    "pre_invocation",
    "prompts",
    "range",
    "resource",
    "resources",
    "retry",
    "skip",
    "state",
    "stream",
    "stream_end",
    "text",
    "tick",
    "tool_info",
    "tools",
    "uuid",
    "yield_piece",
    "yield_text",
];

/// Returns `true` for the code of a literal text.
pub(crate) fn is_quoted(code: &str) -> bool {
    code.starts_with(['"', '`']) && !code.contains("${")
}

/// Returns a Python name as a variable name of the script.
pub(crate) fn variable(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() || letter == '_' {
                letter.to_string()
            } else {
                format!("u{:x}", letter as u32)
            }
        })
        .collect();
    let begins_with_letter =
        plain.trim_start_matches('_').starts_with(|first: char| first.is_ascii_alphabetic());
    if !begins_with_letter {
        return if plain.chars().all(|letter| letter == '_') {
            "ignored".to_owned()
        } else {
            format!("n{plain}")
        };
    }
    if RESERVED.contains(&plain.as_str()) || YIELD == plain { format!("{plain}_") } else { plain }
}

const YIELD: &str = "yield";

/// Returns a Python name as a function name of the script.
pub(crate) fn function(name: &str) -> String {
    let name = variable(name);
    if HOST_FUNCTIONS.contains(&name.as_str()) { format!("{name}_") } else { name }
}

/// Returns `true` for a text that can follow `.` or be a key without quotes.
pub(crate) fn is_key(text: &str) -> bool {
    let begins = text.trim_start_matches('_').starts_with(|first: char| first.is_ascii_alphabetic());
    begins && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// Returns `true` for a word that needs quotes as a key of a map.
pub(crate) fn is_reserved(text: &str) -> bool {
    RESERVED.contains(&text) || text == YIELD
}

/// Returns a text as a key of a map literal.
pub(crate) fn key(text: &str) -> String {
    if is_key(text) && !is_reserved(text) { text.to_owned() } else { quoted(text) }
}

/// Returns a text literal in double quotes.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control.is_control() => out.push_str(&format!("\\U{:08x}", control as u32)),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// Returns a text literal: in backticks if this avoids escapes, or else in double quotes.
pub(crate) fn pattern(text: &str) -> String {
    let is_plain = !text.contains(['`', '\n', '\r', '\t']) && !text.contains("${");
    if text.contains('\\') && is_plain && !text.chars().any(char::is_control) {
        format!("`{text}`")
    } else {
        quoted(text)
    }
}

/// Returns a name in snake case: `EventEmitter` becomes `event_emitter`.
pub(crate) fn snake_case(name: &str) -> String {
    let mut out = String::new();
    let mut was_lower = false;
    for letter in name.chars() {
        if letter.is_uppercase() && was_lower {
            out.push('_');
        }
        was_lower = letter.is_lowercase() || letter.is_ascii_digit();
        out.extend(letter.to_lowercase());
    }
    out
}

/// Returns a plugin id for a name: at most 64 characters of `a`-`z`, `0`-`9`, `_` and `-`.
pub(crate) fn id(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars().flat_map(char::to_lowercase) {
        match letter {
            'a'..='z' | '0'..='9' | '_' | '-' => out.push(letter),
            _ if out.ends_with('_') => {}
            _ => out.push('_'),
        }
    }
    let out: String = out.trim_matches('_').chars().take(64).collect();
    if out.is_empty() { "ported".to_owned() } else { out }
}
