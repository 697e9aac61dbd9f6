//! Arguments for a tool, made from its schema and the user's message.

use valvehouse_json::{Json, Object};

/// Words that lead to a value and are none.
const LEADING: &[&str] = &[
    "a", "about", "add", "an", "and", "at", "call", "can", "check", "could", "do", "does", "for", "from",
    "get", "give", "how", "how's", "i", "in", "is", "it", "like", "look", "me", "my", "need", "now", "of",
    "on", "please", "show", "tell", "that", "the", "this", "to", "tool", "up", "use", "want", "what",
    "what's", "with", "you",
];

/// Makes arguments that fit a schema: quoted texts, capitalised words and numbers in the order in
/// which they are said, otherwise defaults. Optional ones only where the text has something that
/// fits without guessing.
pub(super) fn arguments(parameters: &Json, words: &str) -> Json {
    object(parameters, &mut Material::of(words))
}

fn object(schema: &Json, material: &mut Material) -> Json {
    let required = schema.list("required");
    let mut values = Vec::new();
    let properties = schema.field("properties");
    let properties = properties.entries();
    for (name, schema) in properties {
        let needed = required.iter().any(|key| key.as_str() == Some(&*name));
        let value = choice(&schema, material).or_else(|| number(&schema, material));
        let value = value.or_else(|| needed.then(|| must(&schema, material)));
        values.extend(value.map(|value| (name, value)));
    }
    values.into_iter().collect::<Object>().into()
}

/// One of the values the schema lists, when the text names it.
fn choice(schema: &Json, material: &Material) -> Option<Json> {
    let choices = schema.get("enum")?.items();
    choices.into_iter().find(|choice| choice.as_str().is_some_and(|word| material.says(word)))
}

/// The next number of the text, when the schema wants one.
fn number(schema: &Json, material: &mut Material) -> Option<Json> {
    if schema.get("enum").is_some() {
        return None;
    }
    let kind = schema.text("type")?;
    material.take_number(match &*kind {
        "integer" => |text: &str| text.parse::<i64>().ok().map(Json::from),
        "number" | "float" => {
            |text: &str| Json::parse(text.as_bytes()).ok().filter(|json| json.as_f64().is_some())
        }
        _ => return None,
    })
}

/// A value for what has to be given.
fn must(schema: &Json, material: &mut Material) -> Json {
    if let Some(default) = schema.get("default") {
        return default.copy();
    }
    if let Some(first) = schema.get("enum").and_then(|choices| choices.at(0)) {
        return first;
    }
    let kind = schema.text("type").unwrap_or_else(|| "string".into());
    match &*kind {
        "integer" | "number" | "float" => schema.get("minimum").unwrap_or_else(|| 1_i64.into()),
        "boolean" => true.into(),
        "object" => object(schema, material),
        "array" => vec![must(&schema.field("items"), material)].into(),
        _ => match material.take_text() {
            text if text.is_empty() => example(schema).into(),
            text => text.into(),
        },
    }
}

/// The values that the user's words offer.
struct Material {
    words: String,
    texts: Vec<String>,
    numbers: Vec<String>,
}

impl Material {
    fn of(words: &str) -> Self {
        let (mut texts, unquoted) = quoted(words);
        texts.extend(capitalised(&unquoted));
        texts.reverse();
        let mut numbers: Vec<String> = unquoted
            .split(|letter: char| letter.is_whitespace() || ",;:()[]\"'".contains(letter))
            .map(|word| word.trim_end_matches(['.', '?', '!']))
            .filter(|word| word.parse::<f64>().is_ok_and(f64::is_finite))
            .map(str::to_owned)
            .collect();
        numbers.reverse();
        Self { words: words.to_owned(), texts, numbers }
    }

    fn says(&self, word: &str) -> bool {
        let (words, word) = (self.words.to_lowercase(), word.to_lowercase());
        words.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(|own| own == word)
    }

    fn take_number(&mut self, read: fn(&str) -> Option<Json>) -> Option<Json> {
        let at = self.numbers.iter().rposition(|number| read(number).is_some())?;
        read(&self.numbers.remove(at))
    }

    /// The next text, or else the rest of the sentence.
    fn take_text(&mut self) -> String {
        self.texts.pop().unwrap_or_else(|| rest(&self.words))
    }
}

/// The example that a parameter's description gives: `City name, e.g. Beijing, Tokyo`.
fn example(schema: &Json) -> String {
    let description = schema.text_or_empty("description");
    let examples = description.split_once("e.g.").map_or("", |(_, examples)| examples);
    examples.split_once([',', ';', '.', ')']).map_or(examples, |(example, _)| example).trim().to_owned()
}

/// The texts in quotation marks, and the text around them. An apostrophe within a word is none.
fn quoted(words: &str) -> (Vec<String>, String) {
    let (mut texts, mut around) = (Vec::new(), String::new());
    let mut rest = words;
    while let Some(start) = rest.find(['"', '\'', '`', '“']) {
        let (before, marked) = rest.split_at(start);
        let mark = marked.chars().next().unwrap_or('"');
        let close = if mark == '“' { '”' } else { mark };
        let inner = &marked[mark.len_utf8()..];
        around.push_str(before);
        match inner.split_once(close).filter(|_| !before.ends_with(char::is_alphanumeric)) {
            Some((text, after)) => {
                texts.push(text.to_owned());
                around.push_str(", ");
                rest = after;
            }
            None => {
                around.push(mark);
                rest = inner;
            }
        }
    }
    around.push_str(rest);
    (texts, around)
}

/// Names: capitalised words, next to each other as one.
fn capitalised(words: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut open = false;
    for word in words.split_whitespace() {
        let bare = word.trim_matches(|letter: char| !letter.is_alphanumeric());
        let leads = LEADING.contains(&bare.to_lowercase().as_str());
        if leads || !bare.starts_with(char::is_uppercase) {
            open = false;
            continue;
        }
        match names.last_mut() {
            Some(name) if open => {
                name.push(' ');
                name.push_str(bare);
            }
            _ => names.push(bare.to_owned()),
        }
        open = word.ends_with(char::is_alphanumeric);
    }
    names
}

/// The first sentence without the words that lead to it.
fn rest(words: &str) -> String {
    let sentence = words.split(['.', '?', '!', '\n']).find(|part| part.contains(char::is_alphanumeric));
    let words: Vec<&str> = sentence
        .into_iter()
        .flat_map(str::split_whitespace)
        .map(|word| word.trim_matches([',', ':', ';', '"']))
        .filter(|word| !word.is_empty())
        .collect();
    let is_filling = |word: &&&str| LEADING.contains(&word.to_lowercase().as_str());
    let start = words.iter().take_while(is_filling).count();
    let end = words.len() - words[start..].iter().rev().take_while(is_filling).count();
    words[start..end].join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(schema: &str, words: &str) -> String {
        arguments(&Json::parse(schema.as_bytes()).unwrap(), words).to_string()
    }

    const WEATHER: &str = r#"{"properties":{"city":{"type":"string"},"unit":{"type":"string","enum":["celsius","fahrenheit"]},"days":{"type":"integer"}},"required":["city"]}"#;

    #[test]
    fn texts_come_from_quotes_names_or_the_rest_of_the_sentence() {
        for (words, expected) in [
            ("in \"Bad Honnef\" please", r#"{"city":"Bad Honnef"}"#),
            ("in New York, please", r#"{"city":"New York"}"#),
            ("for bonn?", r#"{"city":"bonn"}"#),
            ("in Bonn in Fahrenheit for 3 days", r#"{"city":"Bonn","unit":"fahrenheit","days":3}"#),
            ("What's it like in Zürich", r#"{"city":"Zürich"}"#),
            ("Tell me about 'S-Hertogenbosch", r#"{"city":"S-Hertogenbosch"}"#),
            ("", r#"{"city":""}"#),
        ] {
            assert_eq!(made(WEATHER, words), expected, "{words}");
        }
    }

    #[test]
    fn every_kind_of_parameter_gets_something_that_fits() {
        let schema = r#"{"properties":{
            "a":{"type":"number"},"b":{"type":"integer"},"c":{"type":"integer","minimum":5},
            "d":{"type":"boolean"},"e":{"type":"array","items":{"type":"string"}},
            "f":{"type":"object","properties":{"x":{"type":"string"}},"required":["x"]},
            "g":{"type":"string","default":"dd"},"h":{"type":"string","enum":["one","two"]},
            "i":{"type":"string"},"j":{}},
            "required":["a","b","c","d","e","f","g","h","j"]}"#;
        assert_eq!(
            made(schema, "with 2.5 and 7: 'first', \"second\" and `third`."),
            concat!(
                r#"{"a":2.5,"b":7,"c":5,"d":true,"e":["first"],"f":{"x":"second"},"#,
                r#""g":"dd","h":"one","j":"third"}"#
            )
        );
        assert_eq!(made("null", "x"), "{}");
        let city =
            r#"{"properties":{"city":{"description":"City, e.g. New York, Rome"}},"required":["city"]}"#;
        assert_eq!(made(city, "what's the"), r#"{"city":"New York"}"#);
        let two = r#"{"properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a","b"]}"#;
        assert_eq!(made(two, "“Alpha Beta 7” to Gamma"), r#"{"a":"Alpha Beta 7","b":"Gamma"}"#);
    }
}
