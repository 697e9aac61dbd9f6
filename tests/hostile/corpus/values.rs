//! Hostile arguments by parameter type, and the statements that create them.

/// Variables: the name, the variable that it depends on, and the statement that creates it.
const VARIABLES: &[(&str, &str, &str)] = &[
    ("large", "", "let large = \"\"; large.pad(4_000_000, \"a\");"),
    ("medium", "", "let medium = \"\"; medium.pad(65_536, \"ab \");"),
    ("letters", "", "let letters = \"\"; letters.pad(4_000_000, \"abbabaabab\");"),
    // Texts that grow when they are escaped, encoded or converted to upper case.
    ("quotes", "", "let quotes = \"\"; quotes.pad(4_000_000, \"\\\"\\u0001\");"),
    ("umlauts", "", "let umlauts = \"\"; umlauts.pad(2_000_000, \"ΐ\");"),
    (
        "references",
        "large",
        "let references = []; references.pad(90_000, 0); for i in 0..90_000 { references[i] = large; }",
    ),
    ("keys", "large", "let keys = #{}; for i in 0..9_000 { keys[`k${i}`] = large; }"),
    ("deep", "large", "let deep = [large]; for i in 0..64 { deep = [deep, deep]; }"),
    ("cycle", "medium", "let cycle = #{ s: medium }; cycle.f = || cycle;"),
    ("bytes", "", "let bytes = blob(4_000_000, 97);"),
    ("octets", "letters", "let octets = base64::decode_bytes(letters.sub_string(0, 3_999_996));"),
    ("ones", "", "let ones = []; ones.pad(90_000, 1);"),
    (
        "live_list",
        "large",
        "body.l = []; for i in 0..5_000 { body.l.push(0); } for i in 0..5_000 { body.l[i] = large; } let live_list = body.l;",
    ),
    (
        "live_map",
        "large",
        "body.o = #{}; for i in 0..5_000 { body.o[`k${i}`] = large; } let live_map = body.o;",
    ),
    ("live_text", "large", "body.t = large; let live_text = body.t;"),
    ("thrown", "large", "let thrown = (); try { throw large; } catch (e) { thrown = e; }"),
];

const TEXTS: &[&str] = &[
    "\"\"",
    "\"a\"",
    "medium",
    "large",
    "letters",
    "quotes",
    "umlauts",
    "\"(a{1,300}){1,30}b|c\"",
    "\"[ab]*a[ab]{900}c\"",
    "\"((((((((a?)*)?)*)?)*)?)*)\"",
];
const ANYTHING: &[&str] = &[
    "()",
    "1",
    "\"a\"",
    "large",
    "medium",
    "references",
    "deep",
    "keys",
    "cycle",
    "[cycle]",
    "cycle.f",
    "ones",
    "live_list",
    "live_map",
    "live_text",
    "bytes",
    "body",
    "thrown",
];
const INTEGERS: &[&str] =
    &["0", "1", "-1", "90_000", "100_000_000", "9223372036854775807", "-9223372036854775808"];
const MAPS: &[&str] = &["#{}", "#{ a: 1 }", "keys", "cycle", "live_map", "body"];

/// Returns the hostile arguments for a parameter type; `None` if scripts cannot have such a value or the type
/// is unknown.
pub(in super::super) fn hostile(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind {
        "str" | "String" | "ImmutableString" | "text" => TEXTS,
        "char" => &["'a'", "'ü'"],
        "INT" | "i64" | "integer" | "seconds" => INTEGERS,
        "FLOAT" | "f64" => &["0.0", "1.0e300", "0.0 / 0.0"],
        "number" | "AnyNumber" => &["0", "1.5", "1.0e300", "-9223372036854775808"],
        "bool" => &["true"],
        "()" => &["()"],
        "Array" => &["[]", "[1]", "references", "deep", "[cycle]", "ones"],
        "AnyArray" | "array" => &["[]", "references", "deep", "ones", "live_list", "body.messages"],
        "Map" => &["#{}", "#{ a: 1 }", "keys", "cycle"],
        "AnyMap" | "map" => MAPS,
        "Blob" => &["blob()", "bytes"],
        "Bytes" => &["octets", "base64::decode_bytes(\"AA==\")", "octets + octets"],
        "TextOrBytes" => &["large", "quotes", "octets", "octets + octets", "bytes", "cycle", "()"],
        "options" => &[
            "#{}",
            "#{ times: 100, delay: 0 }",
            "#{ every: 1, timeout: 600_000 }",
            "#{ limit: 64, settle: true }",
            "#{ algorithm: \"HS256\" }",
            "#{ algorithm: \"RS256\" }",
            "#{ header: false }",
            "#{ columns: references }",
            "keys",
            "cycle",
        ],
        "FnPtr" | "closure" => &[
            "|a, b| { loop {} }",
            "|a| { throw \"x\" }",
            "|a| { large + large }",
            "|a, b| large",
            "|a, b| true",
            "|a| [a, a]",
            "|a, b| `${references}`",
            "cycle.f",
        ],
        "ExclusiveRange" => &["0..1", "0..9223372036854775807", "-5..5"],
        "InclusiveRange" => &["0..=1", "0..=9223372036854775807"],
        "Instant" => &["timestamp()"],
        "messages" => &["body.messages"],
        "message" => &["body.messages[0]"],
        "text_place" => &["body.texts[0]"],
        "error" => &["thrown"],
        _ if is_unreachable(kind) => return None,
        // Names of parameters that accept any value: `Dynamic`, `any`, `value`, `fallback`.
        _ if kind == "Dynamic" || kind.starts_with(char::is_lowercase) || kind.is_empty() => ANYTHING,
        _ => return None,
    })
}

/// Returns a harmless argument of a type, to be passed next to a hostile one.
pub(super) fn harmless(kind: &str) -> &'static str {
    match kind {
        "INT" | "i64" | "integer" | "seconds" => "4",
        "str" | "String" | "ImmutableString" | "text" => "\"a\"",
        "Array" | "array" => "[1, 2, 3]",
        "Map" => "#{ a: 1 }",
        "FnPtr" | "closure" => "|a| a",
        "Blob" => "blob(10, 1)",
        "Bytes" => "base64::decode_bytes(\"AA==\")",
        "TextOrBytes" => "\"a\"",
        "Dynamic" => "1",
        _ => hostile(kind).and_then(<[_]>::first).unwrap_or(&"()"),
    }
}

/// Returns the most hostile argument of a type.
pub(super) fn most(kind: &str) -> &'static str {
    match kind {
        "INT" | "i64" | "integer" | "seconds" => "9223372036854775807",
        "str" | "String" | "ImmutableString" | "text" => "large",
        "Array" | "array" | "AnyArray" => "references",
        "Map" | "AnyMap" | "map" => "keys",
        "Blob" => "bytes",
        "Bytes" | "TextOrBytes" => "octets",
        "FnPtr" | "closure" => "|a, b| large",
        _ => hostile(kind).and_then(<[_]>::last).unwrap_or(&"()"),
    }
}

/// Returns `true` for types that scripts cannot have: integers of other sizes and the HTTP response of a
/// server.
pub(in super::super) fn is_unreachable(kind: &str) -> bool {
    let sizes = ["i8", "i16", "i32", "i128", "u8", "u16", "u32", "u64", "u128", "f32"];
    sizes.contains(&kind) || kind.starts_with("std::ops::Range") || kind == "http_answer"
}

/// Returns the statements that create the variables in a piece of code.
pub(super) fn prelude(code: &str) -> String {
    let mut wanted = [false; VARIABLES.len()];
    for (at, (name, ..)) in VARIABLES.iter().enumerate() {
        wanted[at] = names(code, name);
    }
    for (at, (_, needs, _)) in VARIABLES.iter().enumerate() {
        if wanted[at]
            && let Some(needed) = VARIABLES.iter().position(|(name, ..)| name == needs)
        {
            wanted[needed] = true;
        }
    }
    let statements = VARIABLES.iter().zip(wanted).filter(|(_, wanted)| *wanted);
    statements.map(|((_, _, statement), _)| format!("{statement}\n    ")).collect()
}

fn names(code: &str, name: &str) -> bool {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    code.match_indices(name).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + name.len()..].chars().next();
        !before.is_some_and(|letter| is_word(letter) || letter == '"') && !after.is_some_and(is_word)
    })
}
