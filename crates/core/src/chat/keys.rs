//! Rejects requests that services may read differently than the guards of a host: keys in another spelling, and
//! inputs beside the messages.

use crate::error::Error;
use unicode_normalization::UnicodeNormalization;
use valvehouse_json::{Json, Object};

/// The fields of requests that contain what a model reads or that select it, beside [`INPUTS`].
const FIELDS: [&str; 29] = [
    "model",
    "messages",
    "stream",
    "content",
    "text",
    "documents",
    "suffix",
    "negative_prompt",
    "prediction",
    "tools",
    "functions",
    "tool_choice",
    "function_call",
    "response_format",
    "format",
    "template",
    "chat_template",
    "chat_template_kwargs",
    "extra_body",
    "metadata",
    "user",
    "stop",
    "n",
    "temperature",
    "max_tokens",
    "max_completion_tokens",
    "responses",
    "anthropic",
    "ollama",
];

/// The fields of messages and of the parts of their contents.
const MESSAGE_FIELDS: [&str; 22] = [
    "role",
    "content",
    "text",
    "type",
    "name",
    "parts",
    "tool_calls",
    "tool_call_id",
    "function",
    "function_call",
    "arguments",
    "reasoning_content",
    "reasoning",
    "thinking",
    "refusal",
    "image_url",
    "input_audio",
    "file",
    "source",
    "input",
    "output",
    "content_blocks",
];

/// The fields that some services read as the conversation, in place of `messages` or beside them.
const INPUTS: [&str; 13] = [
    "input",
    "inputs",
    "input_extra",
    "prompt",
    "prompts",
    "contents",
    "texts",
    "query",
    "system",
    "instructions",
    "preamble",
    "message",
    "chat_history",
];

/// The fields whose own fields are sent as those of the request.
const NESTED: [&str; 4] = ["extra_body", "responses", "anthropic", "ollama"];

/// Rejects a chat that a service may read differently than guards: with a key that equals a known one in another
/// case or Unicode form, or with an input beside `messages`.
///
/// # Errors
/// Returns a request error that names the key.
pub fn check_chat(body: &Json) -> Result<(), Error> {
    check_fields(body)?;
    check_inputs(body, &INPUTS)?;
    for nested in NESTED {
        let nested = body.field(nested);
        check_fields(&nested)?;
        check_inputs(&nested, &INPUTS)?;
        check_inputs(&nested, &["messages", "model"])?;
    }
    let Some(messages) = body.get("messages") else { return Ok(()) };
    for message in messages.items() {
        check(&message, &[&MESSAGE_FIELDS])?;
        // A text has no parts. Reading it alone leaves the others in their document.
        let parts = message.as_object().map_or(Json::Null, |message| match message.has_text("content") {
            true => Json::Null,
            false => message.field("content"),
        });
        for part in parts.items() {
            check(&part, &[&MESSAGE_FIELDS])?;
        }
    }
    Ok(())
}

/// Rejects a request with a key that equals a field of requests in another case or Unicode form.
///
/// # Errors
/// Returns a request error that names the key.
pub fn check_fields(body: &Json) -> Result<(), Error> {
    check(body, &[&FIELDS, &INPUTS])
}

fn check_inputs(body: &Json, inputs: &[&'static str]) -> Result<(), Error> {
    let is_set = |key: &&&str| body.get(key).is_some_and(|value| !value.is_empty());
    let Some(key) = inputs.iter().find(is_set) else { return Ok(()) };
    let message = format!(
        "cannot send `{key}` beside `messages`: services may read it as the conversation, and guards of this host check `messages`; send its content there"
    );
    Err(Error::invalid(message, Some(key)))
}

fn check(value: &Json, known: &[&[&'static str]]) -> Result<(), Error> {
    let Some(object) = value.as_object() else { return Ok(()) };
    let mut found = None;
    object.for_each(|key, _| found = found.or_else(|| other_spelling(key, known)));
    let found = found.and_then(|field| Some((field, spelled(object, field)?)));
    let Some((field, key)) = found else { return Ok(()) };
    let message = format!(
        "cannot send the key `{}`: services may read it as `{field}`, which guards of this host check; send `{field}`, or rename the key",
        key.chars().take(100).collect::<String>().escape_debug()
    );
    Err(Error::invalid(message, Some(field)))
}

/// Returns the key of an object that is another spelling of a field.
fn spelled(object: &Object, field: &'static str) -> Option<String> {
    let mut keys = object.keys().into_iter();
    keys.find(|key| other_spelling(key, &[&[field]]).is_some()).map(String::from)
}

/// Returns the field that a key is another spelling of.
fn other_spelling(key: &str, known: &[&[&'static str]]) -> Option<&'static str> {
    // Most keys are written like the known ones.
    if key.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_') {
        return None;
    }
    let folded = folded(key);
    known.iter().copied().flatten().copied().find(|field| *field == folded)
}

/// Returns a name in the one form of all its spellings in other cases and Unicode forms, without characters that are
/// not visible.
///
/// ```
/// use valvehouse_core::chat::keys::folded;
/// assert_eq!(folded("Meſſages"), "messages");
/// assert_eq!(folded("ＴＯＫＥＮ\u{200b}"), "token");
/// ```
pub fn folded(name: &str) -> String {
    let lower = name.nfkc().flat_map(char::to_lowercase).nfkc();
    let letters = lower.filter_map(|letter| match letter {
        // Some languages read these as the letter with the dot.
        'ı' => Some('i'),
        '\u{307}' => None,
        letter if is_invisible(letter) || letter.is_whitespace() => None,
        letter => Some(letter),
    });
    letters.collect()
}

/// Returns `true` for a character that is not visible and not a space: those of the Unicode categories Cc, Cf, Zl and
/// Zp, and those with the property `Default_Ignorable_Code_Point`.
pub fn is_invisible(letter: char) -> bool {
    matches!(letter,
        '\0'..='\x1f'
        | '\x7f'..='\u{9f}'
        | '\u{ad}'
        | '\u{34f}'
        | '\u{600}'..='\u{605}'
        | '\u{61c}'
        | '\u{6dd}'
        | '\u{70f}'
        | '\u{890}'..='\u{891}'
        | '\u{8e2}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{110bd}'
        | '\u{110cd}'
        | '\u{13430}'..='\u{1343f}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(body: &str) -> String {
        match check_chat(&Json::parse(body.as_bytes()).unwrap()) {
            Err(error) => error.to_string(),
            Ok(()) => "fine".to_owned(),
        }
    }

    #[test]
    fn keys_in_other_spellings_are_rejected_where_a_service_may_read_them() {
        for key in [
            "Messages",
            "INPUT",
            "meſſages",
            "ｍessages",
            "toolſ",
            "messages\\u0000",
            "messages ",
            "İnput",
            "promPt",
            "N",
        ] {
            let body = format!(r#"{{"model":"m","messages":[],"{key}":[]}}"#);
            assert!(problem(&body).contains("services may read it as"), "{key}: {}", problem(&body));
        }
        for body in [
            r#"{"extra_body":{"Messages":[]}}"#,
            r#"{"messages":[{"role":"user","Content":"x"}]}"#,
            r#"{"messages":[{"role":"user","content":[{"type":"text","TEXT":"x"}]}]}"#,
        ] {
            assert!(problem(body).contains("services may read it as"), "{body}");
        }
        for body in [
            r#"{"messages":[{"role":"user","content":"x"}],"Foo":1,"X-Y":2,"metadata":{"Input":"a","Name":"b"}}"#,
            r#"{"tools":[{"function":{"parameters":{"properties":{"Content":{},"Input":{}}}}}]}"#,
            r#"{"messages":[],"input":"","prompt":null,"system":[]}"#,
        ] {
            assert_eq!(problem(body), "fine");
        }
    }

    #[test]
    fn no_invisible_character_makes_another_name() {
        let of_unicode =
            regex::Regex::new(r"[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]").unwrap();
        for letter in '\0'..=char::MAX {
            let expected = of_unicode.is_match(letter.encode_utf8(&mut [0; 4]));
            assert_eq!(is_invisible(letter), expected, "{letter:?}");
            if expected {
                for name in [format!("{letter}input"), format!("in{letter}put"), format!("input{letter}")] {
                    assert_eq!(folded(&name), "input", "{letter:?}");
                }
            }
        }
    }

    #[test]
    fn a_second_input_is_rejected() {
        for key in INPUTS {
            let body = format!(r#"{{"messages":[],"{key}":"x"}}"#);
            assert!(problem(&body).contains(&format!("cannot send `{key}` beside `messages`")));
        }
        assert!(problem(r#"{"messages":[],"extra_body":{"messages":[1]}}"#).contains("`messages`"));
    }
}
