//! Classification of the events of a streamed answer by the parts of the answer they contain, in one pass.

use super::delta;
use valvehouse_json::{Json, Object};

/// The parts of an answer that an event contains. An event can contain several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkParts {
    /// Set if the event has `choices`, which may be empty.
    pub choices: bool,
    /// Set if a choice has a role.
    pub role: bool,
    /// Set if a choice has content other than a role: text, thinking, a refusal or tool calls.
    pub content: bool,
    /// Set if a choice has a list of tool calls, which may be empty.
    pub calls: bool,
    /// Set if a choice has a `finish_reason`.
    pub finish: bool,
    /// Set if the event has token counts.
    pub usage: bool,
    /// Set if the event has at least one choice.
    is_of_choice: bool,
}

impl ChunkParts {
    /// Classifies an event.
    pub fn of(event: &Json) -> Self {
        let mut parts = Self::default();
        let Json::Object(event) = event else { return parts };
        parts.usage = event.with("usage", |usage| usage.is_some_and(|usage| !usage.is_null()));
        event.with("choices", |choices| {
            parts.choices = choices.is_some();
            if let Some(Json::Array(choices)) = choices {
                choices.with(|choices| choices.iter().for_each(|choice| parts.add(choice)));
            }
        });
        parts
    }

    /// Returns `true` if the event has content that clients read before the end of the answer.
    pub fn has_visible_content(self) -> bool {
        self.role || self.content
    }

    /// Returns `true` if the event has token counts and no choice.
    pub fn is_usage_alone(self) -> bool {
        self.usage && self.choices && !self.is_of_choice
    }

    fn add(&mut self, choice: &Json) {
        self.is_of_choice = true;
        self.finish |= delta::is_last(choice);
        let Json::Object(choice) = choice else { return };
        choice.with("delta", |delta| {
            if let Some(Json::Object(delta)) = delta {
                self.add_delta(delta);
            }
        });
    }

    fn add_delta(&mut self, delta: &Object) {
        delta.for_each(|key, value| match key {
            "role" => self.role = true,
            _ => {
                self.calls |= key == "tool_calls";
                self.content |= !value.is_empty();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_an_event_follow_from_its_fields() {
        let of = |text: &str| {
            let parts = ChunkParts::of(&Json::parse(text.as_bytes()).unwrap());
            let all = [
                (parts.role, "role"),
                (parts.content, "content"),
                (parts.calls, "calls"),
                (parts.finish, "finish"),
                (parts.usage, "usage"),
                (parts.is_usage_alone(), "alone"),
            ];
            all.into_iter().filter_map(|(has, name)| has.then_some(name)).collect::<Vec<_>>().join(" ")
        };
        for (event, parts) in [
            (r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#, "role"),
            (r#"{"choices":[{"delta":{"content":"a"},"finish_reason":""}],"usage":null}"#, "content"),
            (
                r#"{"choices":[{"delta":{}},{"delta":{"tool_calls":[{}]},"finish_reason":"stop"}]}"#,
                "content calls finish",
            ),
            (r#"{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{}}"#, "finish usage"),
            (r#"{"choices":[],"usage":{"total_tokens":1}}"#, "usage alone"),
            (r#"{"usage":{"total_tokens":1}}"#, "usage"),
            (r#"{"choices":null}"#, ""),
            (r#"{"error":{}}"#, ""),
            ("1", ""),
        ] {
            assert_eq!(of(event), parts, "{event}");
        }
    }
}
