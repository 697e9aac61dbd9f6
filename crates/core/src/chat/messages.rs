//! Messages in the forms that programs have them: text, a [`Message`], JSON, or lists of these.

use super::message;
use crate::error::Error;
use valvehouse_json::Json;

/// A message of a conversation.
///
/// ```
/// use valvehouse_core::chat::Message;
/// let messages = vec![Message::system("Be brief."), Message::user("hello")];
/// assert_eq!((messages[1].role().as_str(), messages[1].text().as_str()), ("user", "hello"));
/// ```
#[derive(Debug, Clone)]
pub struct Message(Json);

impl Message {
    /// Creates a user message.
    pub fn user(text: &str) -> Self {
        Self(message::user(text))
    }

    /// Creates a system message.
    pub fn system(text: &str) -> Self {
        Self(message::system(text))
    }

    /// Creates an assistant message.
    pub fn assistant(text: &str) -> Self {
        Self(message::assistant(text))
    }

    /// Creates the result of a tool call.
    pub fn tool(call_id: &str, text: &str) -> Self {
        Self(message::tool(call_id, text))
    }

    /// Returns the role; "" if there is none.
    pub fn role(&self) -> String {
        message::role_of(&self.0).into()
    }

    /// Returns the text; the text parts of a list are joined.
    pub fn text(&self) -> String {
        message::text_of(&self.0).into()
    }

    /// Returns the message as JSON.
    pub fn as_json(&self) -> &Json {
        &self.0
    }
}

impl From<Message> for Json {
    fn from(message: Message) -> Self {
        message.0
    }
}

impl From<Json> for Message {
    fn from(json: Json) -> Self {
        Self(json)
    }
}

/// A value that a chat accepts as its messages: a text (a user message), a [`Message`], a JSON object, or a list of
/// these. With the feature `typed`, [`serialized`] makes messages of any value that implements `serde::Serialize`.
pub trait IntoMessages {
    /// Returns the messages, as independent copies.
    ///
    /// # Errors
    /// Returns a request error if a value is neither text, an object nor a list.
    fn into_messages(self) -> Result<Vec<Json>, Error>;
}

impl IntoMessages for Json {
    fn into_messages(self) -> Result<Vec<Json>, Error> {
        match &self {
            Self::Text(text) => Ok(vec![message::user(text.as_str())]),
            Self::Object(_) => Ok(vec![self.deep_clone()]),
            Self::Array(list) => list.items().into_messages(),
            other => Err(Error::invalid(
                format!("invalid messages: expected text, an object or a list, got {}", other.kind()),
                Some("messages"),
            )),
        }
    }
}

impl IntoMessages for Message {
    fn into_messages(self) -> Result<Vec<Json>, Error> {
        self.0.into_messages()
    }
}

impl IntoMessages for &str {
    fn into_messages(self) -> Result<Vec<Json>, Error> {
        Ok(vec![message::user(self)])
    }
}

impl IntoMessages for String {
    fn into_messages(self) -> Result<Vec<Json>, Error> {
        self.as_str().into_messages()
    }
}

impl IntoMessages for &String {
    fn into_messages(self) -> Result<Vec<Json>, Error> {
        self.as_str().into_messages()
    }
}

impl<M: IntoMessages> IntoMessages for Vec<M> {
    fn into_messages(self) -> Result<Vec<Json>, Error> {
        let mut messages = Vec::with_capacity(self.len());
        for one in self {
            messages.extend(one.into_messages()?);
        }
        Ok(messages)
    }
}

impl<M: IntoMessages, const N: usize> IntoMessages for [M; N] {
    fn into_messages(self) -> Result<Vec<Json>, Error> {
        Vec::from(self).into_messages()
    }
}

impl<M: IntoMessages + Clone> IntoMessages for &[M] {
    fn into_messages(self) -> Result<Vec<Json>, Error> {
        self.to_vec().into_messages()
    }
}

#[cfg(feature = "typed")]
impl IntoMessages for serde_json::Value {
    fn into_messages(self) -> Result<Vec<Json>, Error> {
        Json::from(self).into_messages()
    }
}

/// Converts a value that implements `serde::Serialize` to JSON, for example to messages.
///
/// # Errors
/// Returns a request error if the value has no JSON form.
#[cfg(feature = "typed")]
pub fn serialized(value: &impl serde::Serialize) -> Result<Json, Error> {
    let value = serde_json::to_value(value);
    value.map(Json::from).map_err(|error| Error::invalid(format!("cannot write JSON: {error}"), None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_made_from_text_objects_and_lists() {
        let texts = |messages: Result<Vec<Json>, Error>| {
            messages.unwrap().iter().map(|one| Message::from(one.clone()).text()).collect::<Vec<_>>()
        };
        assert_eq!(texts("a".into_messages()), ["a"]);
        assert_eq!(texts(["a".to_owned(), "b".to_owned()].into_messages()), ["a", "b"]);
        assert_eq!(texts(vec![Message::system("a"), Message::user("b")].into_messages()), ["a", "b"]);
        let list = Json::parse(br#"["a", {"role": "user", "content": "b"}]"#).unwrap();
        assert_eq!(texts(list.into_messages()), ["a", "b"]);
        let error = Json::from(5_i64).into_messages().unwrap_err().to_string();
        assert!(error.starts_with("invalid messages: expected text, an object or a list, got"), "{error}");
    }

    #[test]
    fn messages_are_copies() {
        let own = message::user("a");
        let messages = vec![own.clone()].into_messages().unwrap();
        message::set_text(&own, "b");
        assert_eq!(message::text_of(&messages[0]), "a");
    }
}
