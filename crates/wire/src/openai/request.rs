//! Requests of OpenAI's chat API, in which a chat is already: what services expect beyond it.

use crate::service::KnownService;
use bytes::Bytes;
use compact_str::CompactString;
use memchr::memmem;
use valvehouse_core::chat::{message, plain};
use valvehouse_core::error::Error;
use valvehouse_json::{Json, Object};

/// Gemini's value for a signature that was lost. Source: "Thought signatures" of its documentation.
const LOST_SIGNATURE: &str = "skip_thought_signature_validator";

/// A request for a service with OpenAI's chat API.
#[derive(Debug)]
pub struct ChatBody {
    /// The body of `POST /chat/completions`.
    pub body: Json,
    /// The name of what is not sent, because the client lost it.
    pub left_out: Option<&'static str>,
}

/// Writes a chat request for a service. The request is not changed, because it may be retried.
///
/// # Errors
/// Returns a request error if the request is not an object.
pub fn write(request: &Json, stream: bool, service: &KnownService) -> Result<ChatBody, Error> {
    let Json::Object(body) = &plain(request) else {
        return Err(Error::invalid("the request body must be a JSON object", None));
    };
    let mut fields = body.entries();
    switch_off(service, &mut fields);
    let is_marked = service.expects_extras && mark_lost(&mut fields, &request.text_or_empty("model"));
    match fields.iter_mut().find(|(key, _)| key == "stream") {
        Some((_, own)) => *own = stream.into(),
        None if stream => fields.push(("stream".into(), true.into())),
        None => {}
    }
    if !stream {
        // Services reject the field if the answer is not streamed.
        fields.retain(|(key, _)| key != "stream_options");
    }
    let left_out = is_marked.then_some("thought_signature");
    Ok(ChatBody { body: fields.into_iter().collect::<Object>().into(), left_out })
}

/// Returns a request with the service's own field for no thinking; `None` if its bytes can be sent unchanged. Most
/// bodies are not parsed.
///
/// # Errors
/// Returns a request error if the body has to be parsed and is not valid JSON.
pub fn rewrite(body: &Bytes, service: &KnownService) -> Result<Option<Json>, Error> {
    if service.no_thinking.is_none() || memmem::find(body, b"\"reasoning_effort\"").is_none() {
        return Ok(None);
    }
    let parsed = Json::parse(body).map_err(|error| Error::invalid(error.to_string(), None))?;
    let mut fields = parsed.entries();
    switch_off(service, &mut fields);
    Ok(Some(fields.into_iter().collect::<Object>().into()))
}

/// Replaces `reasoning_effort: "none"` in the fields of a request by the service's own field.
fn switch_off(service: &KnownService, fields: &mut Vec<(CompactString, Json)>) {
    let Some((field, value)) = service.no_thinking else { return };
    let is_none =
        |(key, value): &(CompactString, Json)| key == "reasoning_effort" && value.as_str() == Some("none");
    let Some(at) = fields.iter().position(is_none) else { return };
    fields.remove(at);
    let Ok(value) = Json::parse(value.as_bytes()) else { return };
    match fields.iter_mut().find(|(key, _)| key == field) {
        Some((_, own @ Json::Object(_))) => {
            let new = value.entries();
            let others = own.entries().into_iter().filter(|(key, _)| new.iter().all(|(own, _)| own != key));
            *own = others.chain(new.iter().cloned()).collect::<Object>().into();
        }
        Some((_, own)) => *own = value,
        None => fields.push((field.into(), value)),
    }
}

/// Marks lost signatures in the messages of a request. Returns `true` if there were any.
fn mark_lost(fields: &mut [(CompactString, Json)], model: &str) -> bool {
    let Some((_, messages)) = fields.iter_mut().find(|(key, _)| key == "messages") else { return false };
    let Some(marked) = with_lost_signatures(model, &messages.items()) else { return false };
    *messages = marked.into();
    true
}

/// Returns `true` if a model refuses calls of the current turn without their signatures.
fn requires_signatures(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let version = name.strip_prefix("gemini-").and_then(|rest| rest.chars().next()?.to_digit(10));
    version.is_some_and(|version| version >= 3)
}

/// Marks the lost signatures of calls since the user's last message, which newer Gemini models refuse to miss.
/// Returns `None` if none was lost.
fn with_lost_signatures(model: &str, messages: &[Json]) -> Option<Vec<Json>> {
    if !requires_signatures(model) {
        return None;
    }
    let question = messages.iter().rposition(|message| message::role_of(message) == "user").unwrap_or(0);
    let lost = |message: &Json| {
        let first = message.list("tool_calls").into_iter().next()?;
        let signature = first.at_path("extra_content.google.thought_signature");
        signature.is_empty().then_some(first)
    };
    let mut any = false;
    let marked = messages.iter().enumerate().map(|(at, message)| match lost(message) {
        Some(first) if at > question => {
            any = true;
            let google = Json::from([("thought_signature", LOST_SIGNATURE.into())]);
            let own = first.entries().into_iter().filter(|(key, _)| key != "extra_content");
            let own = own.chain([("extra_content".into(), Json::from([("google", google)]))]);
            let mut calls = message.list("tool_calls");
            calls[0] = own.collect::<Object>().into();
            let fields = message.entries().into_iter().map(|(key, value)| match key == "tool_calls" {
                true => (key, calls.clone().into()),
                false => (key, value),
            });
            fields.collect::<Object>().into()
        }
        _ => message.clone(),
    });
    let marked: Vec<Json> = marked.collect();
    any.then_some(marked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_decides_how_thinking_is_switched_off() {
        for (kind, host, sent) in [
            ("openai", "api.openai.com", r#"{"reasoning_effort":"none","x":1}"#),
            ("deepseek", "127.0.0.1", r#"{"x":1,"thinking":{"type":"disabled"}}"#),
            ("openai", "api.moonshot.cn", r#"{"x":1,"thinking":{"type":"disabled"}}"#),
            ("openai", "evilmoonshot.cn", r#"{"reasoning_effort":"none","x":1}"#),
            ("vllm", "", r#"{"x":1,"chat_template_kwargs":{"enable_thinking":false}}"#),
        ] {
            let mut fields = Json::parse(br#"{"reasoning_effort":"none","x":1}"#).unwrap().entries();
            switch_off(KnownService::of(host, kind), &mut fields);
            assert_eq!(Json::from(fields.into_iter().collect::<Object>()).to_string(), sent, "{kind} {host}");
        }
    }

    #[test]
    fn only_streams_have_options_of_streams() {
        let request = Json::parse(br#"{"model":"m","stream_options":{"include_usage":true}}"#).unwrap();
        let has_options = |stream: bool| {
            let service = KnownService::of("api.openai.com", "openai");
            write(&request, stream, service).unwrap().body.get("stream_options").is_some()
        };
        assert_eq!([true, false].map(has_options), [true, false]);
    }

    #[test]
    fn only_the_lost_signatures_of_the_current_turn_are_marked() {
        let call = r#"{"role":"assistant","tool_calls":[{"id":"a"},{"id":"b"}]}"#;
        let signed = r#"{"role":"assistant","tool_calls":[{"id":"c","extra_content":{"google":{"thought_signature":"s"}}}]}"#;
        let talk = format!(r#"[{{"role":"user"}},{call},{{"role":"user"}},{call},{signed}]"#);
        let messages = Json::parse(talk.as_bytes()).unwrap().items();
        assert_eq!(with_lost_signatures("gemini-2.5-flash", &messages), None);
        let marked = with_lost_signatures("models/gemini-3-pro", &messages).unwrap();
        let count = |message: &Json| message.to_string().matches(LOST_SIGNATURE).count();
        assert_eq!(marked.iter().map(count).collect::<Vec<_>>(), [0, 0, 0, 1, 0]);
        assert_eq!(with_lost_signatures("gemini-3-pro", &messages[4..]), None);
    }
}
