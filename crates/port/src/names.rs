//! Identifiers and texts as Rhai writes them.

/// The words that cannot be names of variables or functions.
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

/// The functions of the host that a draft calls or that the host calls; functions of the plugin get another name.
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

/// Returns the name of a variable.
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

/// Returns the name of a function of the plugin.
pub(crate) fn function(name: &str) -> String {
    let name = variable(name);
    if HOST_FUNCTIONS.contains(&name.as_str()) { format!("{name}_") } else { name }
}

/// Returns `true` for a text that can stand behind a point or as a key without quotes.
pub(crate) fn is_key(text: &str) -> bool {
    let begins = text.trim_start_matches('_').starts_with(|first: char| first.is_ascii_alphabetic());
    begins && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// Returns `true` for words that need quotes as keys of a map.
pub(crate) fn is_reserved(text: &str) -> bool {
    RESERVED.contains(&text) || text == YIELD
}

/// Returns a key of a map literal.
pub(crate) fn key(text: &str) -> String {
    if is_key(text) && !is_reserved(text) { text.to_owned() } else { quoted(text) }
}

/// Returns a text in double quotes.
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

/// Returns a text in backticks if it has escapes that these spare, or else in double quotes.
pub(crate) fn pattern(text: &str) -> String {
    let is_plain = !text.contains(['`', '\n', '\r', '\t']) && !text.contains("${");
    if text.contains('\\') && is_plain && !text.chars().any(char::is_control) {
        format!("`{text}`")
    } else {
        quoted(text)
    }
}

/// Returns a name in words with underscores: `EventEmitter` is `event_emitter`.
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

/// Returns the id of a plugin: at most 64 of `a`-`z`, `0`-`9`, `_` and `-`.
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
