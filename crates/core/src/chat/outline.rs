//! The fields of a chat request and the traits of its messages, found by one scan of its bytes.

use valvehouse_json::{Json, KeyFilter, scan_object_and_list};

/// The fields of a chat request in their raw form, and the traits of its messages.
#[derive(Debug, Default)]
pub struct Outline<'a> {
    fields: Vec<(&'a str, &'a str)>,
    /// The fields that the request may have.
    pub keys: KeyFilter,
    /// The traits of the messages.
    pub messages: MessageTraits,
}

/// The traits of the messages of a request.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent")]
pub struct MessageTraits {
    /// Set if a message is more than a usual role, a text, and a name: it has calls, parts, or no content.
    pub is_rich: bool,
    /// Set if a message is from the model.
    pub has_assistant: bool,
    /// Set if a message has the role `developer`.
    pub has_developer: bool,
    /// Set if instructions are not the first message.
    pub has_later_system: bool,
    /// Set if there is a message.
    pub has_any: bool,
    /// Set if a message has a `name`.
    pub has_name: bool,
    /// Set if a message has an empty text.
    pub has_empty: bool,
}

/// The fields of most messages.
const USUAL: KeyFilter = KeyFilter::of(&["role", "content"]);
/// The fields of messages about tools.
const SPECIAL: [&str; 3] = ["tool_calls", "tool_call_id", "function_call"];

impl MessageTraits {
    /// Returns the traits of messages. Messages in their document stay unread.
    pub fn of<'a>(messages: impl Iterator<Item = &'a Json>) -> Self {
        let mut traits = Self::default();
        for message in messages {
            let Json::Object(fields) = message else {
                traits.is_rich = true;
                continue;
            };
            // Most messages are in their document and have nothing else.
            let is_usual = fields.with_unread_texts(|texts| {
                let is_usual = texts.keys() == USUAL;
                if is_usual {
                    traits.add_role(texts.word("role").unwrap_or(b""));
                }
                is_usual
            });
            if is_usual == Some(true) {
                continue;
            }
            fields.with_word("role", |role| traits.add_role(role.unwrap_or(b"")));
            traits.has_name |= fields.contains("name");
            traits.is_rich |= SPECIAL.iter().any(|name| fields.contains(name));
            if !fields.has_text("content") {
                let is_empty = fields.with_word("content", |text| text == Some(b""));
                traits.has_empty |= is_empty;
                traits.is_rich |= !is_empty;
            }
        }
        traits
    }

    fn add_role(&mut self, role: &[u8]) {
        let is_later = std::mem::replace(&mut self.has_any, true);
        match role {
            b"user" => {}
            b"system" => self.has_later_system |= is_later,
            b"assistant" => self.has_assistant = true,
            b"developer" => {
                (self.has_developer, self.has_later_system) = (true, self.has_later_system | is_later)
            }
            _ => self.is_rich = true,
        }
    }
}

impl<'a> Outline<'a> {
    /// Scans a request. Returns `None` if it is not a JSON object, or has escapes in its keys.
    pub fn read(body: &'a [u8]) -> Option<Self> {
        let (mut fields, mut keys) = (Vec::with_capacity(8), KeyFilter::default());
        let mut messages = MessageTraits::default();
        // The roles and contents of the message that is scanned.
        let (mut roles, mut contents) = (0, 0);
        let is_object = scan_object_and_list(
            body,
            "messages",
            |key, value| {
                keys.add(key.as_bytes());
                fields.push((key, value));
            },
            |member| match member {
                Some((b"role", role)) => {
                    roles += 1;
                    let word = match role {
                        [b'"', word @ .., b'"'] => word,
                        other => other,
                    };
                    messages.add_role(word);
                }
                Some((b"content", text)) => {
                    contents += 1;
                    messages.has_empty |= text == b"\"\"";
                    messages.is_rich |= !text.starts_with(b"\"");
                }
                Some((b"name", _)) => messages.has_name = true,
                Some(_) => messages.is_rich = true,
                None => {
                    messages.is_rich |= (roles, contents) != (1, 1);
                    (roles, contents) = (0, 0);
                }
            },
        );
        is_object.then_some(Self { fields, keys, messages })
    }

    /// Returns the fields in their order, each with its raw value.
    pub fn fields(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.fields.iter().copied()
    }

    /// Returns `true` if a field is there, even with null.
    pub fn has(&self, name: &str) -> bool {
        self.keys.may_have(name) && self.fields.iter().any(|(key, _)| *key == name)
    }

    /// Returns `true` if a field has a raw value other than null that satisfies `test`. Repeated fields are all tested.
    pub fn any(&self, name: &str, mut test: impl FnMut(&'a str) -> bool) -> bool {
        self.fields.iter().any(|(key, value)| *key == name && *value != "null" && test(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outline_shows_what_messages_have() {
        let traits = |messages: &str| {
            let body = format!(r#"{{"model":"m","stop":null,"messages":[{messages}]}}"#);
            let read = Outline::read(body.as_bytes()).unwrap().messages;
            let parsed = Json::parse(body.as_bytes()).unwrap().list("messages");
            (read, MessageTraits::of(parsed.iter()))
        };
        let traits = |messages: &str| {
            let (read, parsed) = traits(messages);
            assert!(read == parsed || read.is_rich, "{messages}: {read:?} {parsed:?}");
            read
        };
        let none = MessageTraits { has_any: true, ..MessageTraits::default() };
        let rich = MessageTraits { is_rich: true, ..none };
        assert_eq!(traits(r#"{"role":"system","content":"a\"b"}, {"content":"c","role":"user"}"#), none);
        assert_eq!(
            traits(r#"{"role":"assistant","content":"","name":"n"}"#),
            MessageTraits { has_assistant: true, has_empty: true, has_name: true, ..none }
        );
        assert_eq!(
            traits(r#"{"role":"developer","content":"a"}"#),
            MessageTraits { has_developer: true, ..none }
        );
        assert_eq!(
            traits(r#"{"role":"system","content":"a"},{"role":"system","content":"b"}"#),
            MessageTraits { has_later_system: true, ..none }
        );
        for message in [
            r#"{"role":"user"}"#,
            r#"{"role":"user","content":null}"#,
            r#"{"role":"user","content":[]}"#,
            r#"{"role":"tool","content":"a"}"#,
            r#"{"role":"user","content":"a","content":"b"}"#,
            r#"{"role":"user","content":"a","tool_calls":[]}"#,
            r#"{"role":"user","c\u006fntent":"a"}"#,
            "{}",
            "[]",
            "5",
        ] {
            assert_eq!(MessageTraits { has_any: true, ..traits(message) }, rich, "{message}");
        }
    }

    #[test]
    fn an_outline_finds_fields_by_name() {
        let outline = Outline::read(br#"{"model":"m","stop":null,"n":2,"n":3}"#).unwrap();
        assert!(outline.has("stop") && !outline.has("x") && !outline.any("stop", |_| true));
        assert!(outline.any("n", |value| value == "3") && !outline.any("n", |value| value == "4"));
        assert_eq!(outline.fields().count(), 4);
        assert!(Outline::read(b"[]").is_none() && Outline::read(br#"{"n":2"#).is_none());
    }
}
