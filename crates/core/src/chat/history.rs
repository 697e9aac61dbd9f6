//! Truncation of conversations at points that preserve tool calls and their results.

use valvehouse_json::{Json, Object};

/// Returns `true` if a message has this role.
pub fn is_role(message: &Json, role: &str) -> bool {
    match message {
        Json::Object(object) => has_role(object, role),
        _ => false,
    }
}

fn has_role(message: &Object, role: &str) -> bool {
    message.with("role", |value| matches!(value, Some(Json::Text(own)) if own == role))
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
}
