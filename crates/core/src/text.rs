//! Text utilities: spelling suggestions, titles, hexadecimal digits and truncation.

/// The maximum length in bytes of a compared word; longer texts are not compared.
const MAX_WORD: usize = 256;

/// Returns the known word that a misspelled one probably means; `None` if none is similar.
///
/// Differences in case, and between `-` and `_`, do not count.
///
/// ```
/// use valvehouse_core::text::nearest;
/// assert_eq!(nearest("lisen", ["keys", "listen"]), Some("listen"));
/// assert_eq!(nearest("colour", ["keys", "listen"]), None);
/// ```
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A comparison takes memory proportional to the product of both lengths.
    if word.len() > MAX_WORD {
        return None;
    }
    let word = normal(word);
    let mut best: Option<(usize, f64, &str)> = None;
    for candidate in known {
        let other = normal(candidate);
        let mistakes = strsim::damerau_levenshtein(&word, &other);
        // Up to a third of the letters may differ, but never all of them.
        let letters = other.chars().count();
        if mistakes > (letters / 3).max(1) || (mistakes > 0 && mistakes >= letters) {
            continue;
        }
        let likeness = strsim::jaro_winkler(&word, &other);
        let is_nearer =
            best.is_none_or(|(least, most, _)| mistakes < least || (mistakes == least && likeness > most));
        if is_nearer {
            best = Some((mistakes, likeness, candidate));
        }
    }
    best.map(|(_, _, candidate)| candidate)
}

/// Returns `; did you mean …?` if a known word is similar, otherwise "": the end of an error message.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    optional(nearest(word, known), |near| format!("; did you mean `{near}`?"))
}

/// Returns the text for a value, "" for `None`.
pub fn optional<T>(part: Option<T>, text: impl FnOnce(T) -> String) -> String {
    part.map_or_else(String::new, text)
}

/// Returns `did you mean …? ` for a suggestion, otherwise "": the beginning of a hint.
pub fn suggested(near: Option<&str>) -> String {
    optional(near, |near| format!("did you mean `{near}`? "))
}

/// Returns a number with its noun: `1 file`, `2 files`.
pub fn count(number: usize, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

/// Returns bytes as hexadecimal digits, two for each byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes hexadecimal digits, two for each byte; `None` for other characters or an odd number of digits.
pub fn unhex(digits: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let (pairs, left) = digits.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(value(*high)? << 4 | value(*low)?));
    bytes.collect::<Option<Vec<u8>>>().filter(|_| left.is_empty())
}

/// Converts a name to a title: `max_turns` becomes `Max Turns`.
pub fn title_case(name: &str) -> String {
    let capitalised = name.split(['_', '-', ' ']).filter(|word| !word.is_empty()).map(|word| {
        let mut letters = word.chars();
        letters
            .next()
            .map(|first| first.to_uppercase().chain(letters).collect::<String>())
            .unwrap_or_default()
    });
    capitalised.collect::<Vec<_>>().join(" ")
}

/// Truncates a text after `most` bytes and appends its original length.
pub fn shortened(mut text: String, most: usize) -> String {
    if text.len() > most {
        let length = text.len();
        text.truncate(text.floor_char_boundary(most));
        text.push_str(&format!("… ({length} bytes)"));
    }
    text
}

/// Returns `true` if a text is a valid plugin id: 1 to 64 of `a`-`z`, `0`-`9`, `_` and `-`.
pub fn is_id(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-';
    (1..=64).contains(&text.len()) && text.bytes().all(fits)
}

/// Returns `Some(true)` for a word that means yes, `Some(false)` for one that means no, and `None` for any
/// other text.
///
/// ```
/// use valvehouse_core::text::yes_or_no;
/// assert_eq!((yes_or_no(" Ja! "), yes_or_no("no"), yes_or_no("later")), (Some(true), Some(false), None));
/// ```
pub fn yes_or_no(text: &str) -> Option<bool> {
    let word = text.trim().trim_end_matches(['.', '!']).to_lowercase();
    match word.as_str() {
        "y" | "yes" | "yep" | "ok" | "okay" | "sure" | "true" | "j" | "ja" | "oui" | "si" | "sí" | "是" => {
            Some(true)
        }
        "n" | "no" | "nope" | "false" | "nein" | "non" | "否" => Some(false),
        _ => None,
    }
}

fn normal(word: &str) -> String {
    word.to_lowercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_is_recognized() {
        let known = ["value", "minimum", "maximum", "description"];
        assert_eq!(nearest("vlaue", known), Some("value"));
        assert_eq!(nearest("minimun", known), Some("minimum"));
        assert_eq!(nearest("MAXIMUM", known), Some("maximum"));
        assert_eq!(nearest("descripton", known), Some("description"));
    }

    #[test]
    fn a_different_word_is_not_a_misspelling() {
        assert_eq!(nearest("colour", ["value", "minimum"]), None);
        assert_eq!(nearest("x", ["value", "y"]), None);
        assert_eq!(nearest("value", []), None);
    }

    #[test]
    fn the_nearest_of_two_names_is_suggested() {
        assert_eq!(nearest("max_turn", ["max_burns", "max_turns"]), Some("max_turns"));
        assert_eq!(nearest("api-key", ["api_kea", "api_key"]), Some("api_key"));
    }

    #[test]
    fn an_id_is_short_and_plain() {
        assert!(is_id("turn_limit-2") && is_id(&"a".repeat(64)));
        assert!(!["", "Turn", "a b", "ü", "a.b"].into_iter().any(is_id) && !is_id(&"a".repeat(65)));
    }

    #[test]
    fn a_name_becomes_a_title() {
        assert_eq!(title_case("max_turns"), "Max Turns");
        assert_eq!(title_case("api_url"), "Api Url");
        assert_eq!(title_case("_private"), "Private");
    }
}
