//! Truncation of conversations at points that preserve tool calls and their results.

use valvehouse_json::Json;

/// Returns `true` if a message has this role.
pub fn is_role(message: &Json, role: &str) -> bool {
    match message {
        Json::Object(object) => object.with_word("role", |own| own == Some(role.as_bytes())),
        _ => false,
    }
}

/// Returns all system messages, followed by the newest other messages, at most `count`.
///
/// A tool result is never separated from its call: if the cut falls between them, the results are dropped as
/// well.
pub fn keep_last(messages: &[Json], count: usize) -> Vec<Json> {
    let (system, talk): (Vec<Json>, Vec<Json>) = messages
        .iter()
        .cloned()
        .partition(|message| is_role(message, "system") || is_role(message, "developer"));
    let mut from = talk.len().saturating_sub(count);
    while from > 0 && talk.get(from).is_some_and(|message| is_role(message, "tool")) {
        from += 1;
    }
    system.into_iter().chain(talk.into_iter().skip(from)).collect()
}

/// Joins assistant messages that follow one with tool calls and precede the results, as some clients split an
/// answer whose text came after its calls.
pub(crate) fn join_split_answers(body: &Json) {
    let Some(Json::Array(list)) = body.get("messages") else { return };
    let is_split = |pair: &[Json]| calls(&pair[0]) && is_role(&pair[1], "assistant");
    if !list.with(|messages| messages.windows(2).any(is_split)) {
        return;
    }
    let mut joined: Vec<Json> = Vec::new();
    // The place of the first message of an answer that may be split.
    let mut first = None;
    for message in list.items() {
        match first {
            Some(place) if is_role(&message, "tool") => {
                let rest = joined.split_off(place + 1);
                rest.iter().for_each(|part| append(&joined[place], part));
                first = None;
            }
            Some(_) if is_role(&message, "assistant") => {}
            _ => first = calls(&message).then_some(joined.len()),
        }
        joined.push(message);
    }
    if let Err(error) = list.replace(joined) {
        tracing::error!("cannot join the parts of an answer: {error}");
    }
}

/// Returns `true` for an assistant message with tool calls.
fn calls(message: &Json) -> bool {
    let Json::Object(fields) = message else { return false };
    fields.with("tool_calls", |calls| calls.is_some_and(|calls| !calls.is_empty()))
        && fields.with_word("role", |role| role == Some(b"assistant"))
}

/// Appends a part of an answer to its first message: texts and lists are appended, other fields are added.
fn append(first: &Json, part: &Json) {
    for (key, value) in part.entries() {
        let own = first.field(&key);
        let joined = match (&own, &value) {
            _ if value.is_empty() || key == "role" => continue,
            _ if own.is_empty() => value.clone(),
            (Json::Array(own), Json::Array(more)) => [own.items(), more.items()].concat().into(),
            _ if key != "content" => continue,
            (Json::Text(own), Json::Text(more)) => format!("{own}{more}").into(),
            _ => [parts(&own), parts(&value)].concat().into(),
        };
        first.edit(&key, joined);
    }
}

/// Returns content as a list of parts.
fn parts(content: &Json) -> Vec<Json> {
    match content {
        Json::Text(text) => vec![Json::from([("type", "text".into()), ("text", text.as_str().into())])],
        other => other.items(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(roles: &str) -> Vec<Json> {
        let one = |role: char| {
            let role = match role {
                's' => "system",
                'u' => "user",
                'a' => "assistant",
                _ => "tool",
            };
            Json::parse(format!(r#"{{"role":"{role}"}}"#).as_bytes()).unwrap()
        };
        roles.chars().map(one).collect()
    }

    fn roles(messages: &[Json]) -> String {
        messages.iter().map(|message| message.text("role").unwrap().chars().next().unwrap()).collect()
    }

    #[test]
    fn the_window_keeps_the_newest_and_the_system_messages() {
        assert_eq!(roles(&keep_last(&messages("suauau"), 3)), "suau");
        assert_eq!(roles(&keep_last(&messages("suau"), 9)), "suau");
        assert_eq!(roles(&keep_last(&messages("suau"), 0)), "s");
    }

    #[test]
    fn the_window_keeps_no_result_without_its_call() {
        assert_eq!(roles(&keep_last(&messages("uattau"), 4)), "au");
        assert_eq!(roles(&keep_last(&messages("uattau"), 5)), "attau");
    }

    fn joined(messages: &str) -> String {
        let body = Json::parse(format!(r#"{{"messages":[{messages}]}}"#).as_bytes()).unwrap();
        join_split_answers(&body);
        body.field("messages").to_string()
    }

    #[test]
    fn an_answer_that_was_split_after_its_calls_becomes_one_message() {
        let call = |id: &str| format!(r#"{{"id":"{id}"}}"#);
        let calling = format!(r#"{{"role":"assistant","content":null,"tool_calls":[{}]}}"#, call("1"));
        let text = r#"{"role":"assistant","content":" [signed]"}"#;
        let result = r#"{"role":"tool","tool_call_id":"1","content":"3"}"#;
        let user = r#"{"role":"user","content":"hi"}"#;
        let whole = format!(r#"{{"role":"assistant","content":" [signed]","tool_calls":[{}]}}"#, call("1"));
        assert_eq!(joined(&[user, &calling, text, result].join(",")), format!("[{user},{whole},{result}]"));
        // Twice in one conversation, and with a second part that calls.
        let again = format!(
            r#"{{"role":"assistant","content":[{{"type":"text","text":"a"}}],"tool_calls":[{}]}}"#,
            call("2")
        );
        let both = format!(
            r#"{{"role":"assistant","content":[{{"type":"text","text":"a"}}],"tool_calls":[{},{}]}}"#,
            call("1"),
            call("2")
        );
        let sent = [&calling, text, result, &calling, &again, result].join(",");
        assert_eq!(joined(&sent), format!("[{whole},{result},{both},{result}]"));
        for unchanged in [
            [user, text, text, user].join(","),
            [&calling, result, text, text].join(","),
            // Without results these are two answers.
            [&calling, text, user].join(","),
            [text, &calling, result].join(","),
        ] {
            assert_eq!(joined(&unchanged), format!("[{unchanged}]"));
        }
    }
}
