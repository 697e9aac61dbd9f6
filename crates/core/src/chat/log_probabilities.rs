//! The log probabilities of a choice, in the one form that filters read.

use valvehouse_json::Json;

/// The lists of log probabilities of a choice.
const LISTS: [&str; 2] = ["content", "refusal"];
/// The fields of a token.
const FIELDS: [&str; 4] = ["token", "logprob", "bytes", "top_logprobs"];

/// Removes the log probabilities of a choice if they have another form than that of OpenAI's chats, and makes the text
/// of each token that of its bytes: filters judge the one, and clients read the other.
pub(crate) fn normalize(choice: &Json) {
    let Some(given) = choice.get("logprobs") else { return };
    if given.is_null() {
        return;
    }
    let is_list = |(key, value): &(compact_str::CompactString, Json)| {
        LISTS.contains(&key.as_str()) && (value.is_null() || is_tokens(value))
    };
    if given.as_object().is_none() || !given.entries().iter().all(is_list) {
        choice.remove("logprobs");
        return;
    }
    LISTS.iter().for_each(|list| settle(&given.field(list)));
}

fn is_tokens(list: &Json) -> bool {
    let is_token = |token: &Json| {
        token.as_object().is_some()
            && token.entries().iter().all(|(key, value)| match key.as_str() {
                "token" => value.is_string(),
                "top_logprobs" => value.is_null() || is_tokens(value),
                "bytes" => value.items().iter().all(|byte| byte.as_i64().is_some()),
                key => FIELDS.contains(&key) && !value.is_string(),
            })
    };
    matches!(list, Json::Array(_)) && list.items().iter().all(is_token)
}

fn settle(list: &Json) {
    for token in list.items() {
        let bytes: Option<Vec<u8>> = token
            .given("bytes")
            .map(|bytes| bytes.items().iter().filter_map(|byte| u8::try_from(byte.as_i64()?).ok()).collect());
        if let Some(bytes) = bytes.filter(|bytes| !means(&token.text_or_empty("token"), bytes)) {
            token.edit("token", String::from_utf8_lossy(&bytes).into_owned());
        }
        settle(&token.field("top_logprobs"));
    }
}

/// Returns `true` for the text of these bytes; a part of a character is written as escapes such as `\xe2`.
fn means(token: &str, bytes: &[u8]) -> bool {
    token.as_bytes() == bytes || {
        let escaped: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        token.strip_prefix("bytes:").unwrap_or(token) == escaped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_the_text_of_their_bytes_and_other_forms_are_removed() {
        for (given, expected) in [
            (r#"{"logprobs":null}"#, r#"{"logprobs":null}"#),
            (
                r#"{"logprobs":{"content":[{"token":"a","logprob":-1,"bytes":[97],"top_logprobs":[{"token":"a","logprob":-1,"bytes":null}]}],"refusal":null}}"#,
                r#"{"logprobs":{"content":[{"token":"a","logprob":-1,"bytes":[97],"top_logprobs":[{"token":"a","logprob":-1,"bytes":null}]}],"refusal":null}}"#,
            ),
            (
                r#"{"logprobs":{"content":[{"token":"secret","logprob":-1,"bytes":[120]}]}}"#,
                r#"{"logprobs":{"content":[{"token":"x","logprob":-1,"bytes":[120]}]}}"#,
            ),
            (
                r#"{"logprobs":{"content":[{"token":"\\xe2","logprob":-1,"bytes":[226]}]}}"#,
                r#"{"logprobs":{"content":[{"token":"\\xe2","logprob":-1,"bytes":[226]}]}}"#,
            ),
            (r#"{"a":1,"logprobs":{"tokens":["secret"],"token_logprobs":[-1]}}"#, r#"{"a":1}"#),
            (r#"{"a":1,"logprobs":"secret"}"#, r#"{"a":1}"#),
            (r#"{"a":1,"logprobs":{"content":[{"token":"a","x":"secret"}]}}"#, r#"{"a":1}"#),
        ] {
            let choice = Json::parse(given.as_bytes()).unwrap();
            normalize(&choice);
            assert_eq!(choice.to_string(), expected);
        }
    }
}
