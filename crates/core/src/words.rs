//! Small things about words: the one that was probably meant, and names made fit to read.

/// Names and allowed values are shorter; whole texts are not compared.
const MAX_WORD: usize = 256;

/// The word that was probably meant by a misspelt one; none when nothing is near.
///
/// Case and the choice between `-` and `_` do not count as mistakes. What is longer than a word can be
/// is like none.
///
/// ```
/// use valvehouse_core::words::nearest;
/// assert_eq!(nearest("lisen", ["keys", "listen"]), Some("listen"));
/// assert_eq!(nearest("colour", ["keys", "listen"]), None);
/// ```
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Comparing takes room for the lengths of both, multiplied.
    if word.len() > MAX_WORD {
        return None;
    }
    let word = normal(word);
    let mut best: Option<(usize, f64, &str)> = None;
    for candidate in known {
        let other = normal(candidate);
        let mistakes = strsim::damerau_levenshtein(&word, &other);
        // A third of the letters may be wrong, never all of them; more than that is another word.
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

/// `; did you mean …?` when something is near, for the end of an error message.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    optional(nearest(word, known), |near| format!("; did you mean `{near}`?"))
}

/// Returns the text of a part that may be missing; "" without it.
pub fn optional<T>(part: Option<T>, text: impl FnOnce(T) -> String) -> String {
    part.map_or_else(String::new, text)
}

/// `did you mean …? ` when something is near, for the beginning of a hint.
pub fn suggested(near: Option<&str>) -> String {
    optional(near, |near| format!("did you mean `{near}`? "))
}

/// `1 file`, `2 files`.
pub fn count(number: usize, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

/// Bytes as hexadecimal digits, two each.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of hexadecimal digits, two each; none where there are other letters or one digit is left over.
pub fn unhex(digits: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let (pairs, left) = digits.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(value(*high)? << 4 | value(*low)?));
    bytes.collect::<Option<Vec<u8>>>().filter(|_| left.is_empty())
}

/// A name as a title: `max_turns` becomes `Max Turns`.
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

/// A text as far as anybody would read it: cut after so many bytes, with how many there were.
pub fn shortened(mut text: String, most: usize) -> String {
    if text.len() > most {
        let length = text.len();
        text.truncate(text.floor_char_boundary(most));
        text.push_str(&format!("… ({length} bytes)"));
    }
    text
}

/// Returns `true` if this may be the id of a plugin: 1 to 64 of `a`-`z`, `0`-`9`, `_` and `-`.
pub fn is_id(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-';
    (1..=64).contains(&text.len()) && text.bytes().all(fits)
}

/// Returns `true` if a word of a person means yes and `false` if it means no; `None` if it means neither for sure.
///
/// ```
/// use valvehouse_core::words::yes_or_no;
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
    fn a_slip_of_the_keyboard_is_recognised() {
        let known = ["value", "minimum", "maximum", "description"];
        assert_eq!(nearest("vlaue", known), Some("value"));
        assert_eq!(nearest("minimun", known), Some("minimum"));
        assert_eq!(nearest("MAXIMUM", known), Some("maximum"));
        assert_eq!(nearest("descripton", known), Some("description"));
    }

    #[test]
    fn another_word_is_no_misspelling() {
        assert_eq!(nearest("colour", ["value", "minimum"]), None);
        assert_eq!(nearest("x", ["value", "y"]), None);
        assert_eq!(nearest("value", []), None);
    }

    #[test]
    fn of_two_near_words_the_nearer_wins() {
        assert_eq!(nearest("max_turn", ["max_burns", "max_turns"]), Some("max_turns"));
        assert_eq!(nearest("api-key", ["api_kea", "api_key"]), Some("api_key"));
    }

    #[test]
    fn an_id_is_a_short_plain_name() {
        assert!(is_id("turn_limit-2") && is_id(&"a".repeat(64)));
        assert!(!["", "Turn", "a b", "ü", "a.b"].into_iter().any(is_id) && !is_id(&"a".repeat(65)));
    }

    #[test]
    fn names_become_titles() {
        assert_eq!(title_case("max_turns"), "Max Turns");
        assert_eq!(title_case("api_url"), "Api Url");
        assert_eq!(title_case("_private"), "Private");
    }
}
