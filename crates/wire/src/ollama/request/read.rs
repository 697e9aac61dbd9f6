//! Conversion of a request of Ollama's API to a chat request.

use crate::service::media_type;
use compact_str::CompactString;
use std::collections::{HashMap, VecDeque};
use valvehouse_core::chat::ONLY_OLLAMA;
use valvehouse_core::chat::effort::DEFAULT_EFFORT;
use valvehouse_core::error::Error;
use valvehouse_json::{Json, Object};

/// Ollama's options, each with the corresponding field of a chat.
const OPTIONS: [(&str, &str); 11] = [
    ("temperature", "temperature"),
    ("top_p", "top_p"),
    ("top_k", "top_k"),
    ("min_p", "min_p"),
    ("seed", "seed"),
    ("stop", "stop"),
    ("presence_penalty", "presence_penalty"),
    ("frequency_penalty", "frequency_penalty"),
    ("repeat_penalty", "repeat_penalty"),
    ("num_ctx", "num_ctx"),
    ("num_predict", "max_tokens"),
];

/// The fields without an equivalent in chats.
const OWN: [&str; 4] = ["think", "keep_alive", "truncate", "shift"];

/// The route of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OllamaRoute {
    /// `/api/chat`
    Chat,
    /// `/api/generate`
    Generate,
}

/// A converted request.
#[derive(Debug)]
pub struct OllamaRequest {
    /// The chat request.
    pub body: Json,
    /// Set if the request has no messages and only asks to load the model.
    pub is_empty: bool,
}

/// Converts a request.
///
/// # Errors
/// Returns a request error that names the invalid field.
pub fn read(sent: &Json, kind: OllamaRoute) -> Result<OllamaRequest, Error> {
    let Some(model) = sent.text("model").filter(|model| !model.is_empty()) else {
        return Err(Error::invalid("missing `model`: name the model", Some("model")));
    };
    // Ollama streams by default.
    let stream = sent.get("stream").and_then(|stream| stream.as_bool()).unwrap_or(true);
    let messages = match kind {
        OllamaRoute::Chat => messages(sent)?,
        OllamaRoute::Generate => prompt(sent)?,
    };
    let is_empty = messages.is_empty();
    let mut body: Vec<(CompactString, Json)> =
        vec![("model".into(), model.into()), ("messages".into(), messages.into())];
    let mut add = |key: &str, value: Json| body.push((key.into(), value));
    if let Some(tools) = sent.get("tools").filter(|tools| !tools.is_empty()) {
        add("tools", tools);
    }
    match sent.get("format") {
        Some(schema @ Json::Object(_)) => {
            let schema = Json::from([("name", "answer".into()), ("schema", schema)]);
            add("response_format", Json::from([("type", "json_schema".into()), ("json_schema", schema)]));
        }
        Some(Json::Text(word)) if &*word == "json" => {
            add("response_format", Json::from([("type", "json_object".into())]));
        }
        _ => {}
    }
    match sent.get("think") {
        Some(Json::Text(effort)) => add("reasoning_effort", effort.into()),
        Some(Json::Bool(true)) => add("reasoning_effort", DEFAULT_EFFORT.into()),
        Some(Json::Bool(false)) => add("reasoning_effort", "none".into()),
        _ => {}
    }
    let options = sent.field("options");
    for (option, field) in OPTIONS {
        // A negative `num_predict` stands for no limit.
        let is_unlimited = |value: &Json| field == "max_tokens" && value.as_i64().is_some_and(|n| n < 0);
        if let Some(value) = options.get(option).filter(|value| !value.is_null() && !is_unlimited(value)) {
            add(field, value);
        }
    }
    for key in ["logprobs", "top_logprobs"] {
        sent.given(key).into_iter().for_each(|value| add(key, value));
    }
    let own = own(sent, &options);
    if !own.is_empty() {
        add(ONLY_OLLAMA, own);
    }
    if stream {
        add("stream", true.into());
        add("stream_options", Json::from([("include_usage", true.into())]));
    }
    Ok(OllamaRequest { body: body.into_iter().collect::<Object>().into(), is_empty })
}

/// Returns the settings without an equivalent in chats, for a service with the same API.
fn own(sent: &Json, options: &Json) -> Json {
    let is_other = |key: &str| OPTIONS.iter().all(|(own, _)| *own != key);
    let options = options.entries().into_iter().filter(|(key, value)| is_other(key) && !value.is_null());
    let options = Json::from_fields(options);
    let fields = OWN.into_iter().filter_map(|key| Some((key, sent.given(key)?)));
    let options = (!options.is_empty()).then_some(("options", options));
    Json::from_fields(fields.chain(options))
}

fn prompt(sent: &Json) -> Result<Vec<Json>, Error> {
    let prompt = sent.text_or_empty("prompt");
    let images = images(sent)?;
    if prompt.is_empty() && images.is_empty() {
        return Ok(Vec::new());
    }
    if sent.text("suffix").is_some_and(|suffix| !suffix.is_empty()) {
        let message = "`suffix` is not supported: chats have no text after the response; remove it, or use /v1/completions";
        return Err(Error::invalid(message, Some("suffix")));
    }
    if sent.get("raw").and_then(|raw| raw.as_bool()) == Some(true) {
        let message = "`raw` is not supported: the prompt would be a message of a chat; remove it, or use /v1/completions";
        return Err(Error::invalid(message, Some("raw")));
    }
    let system = sent.text("system").filter(|system| !system.is_empty());
    let system = system.map(|system| new_message("system", system.into()));
    Ok(system.into_iter().chain([new_message("user", content(&prompt, images))]).collect())
}

fn messages(sent: &Json) -> Result<Vec<Json>, Error> {
    let all = match sent.get("messages") {
        None | Some(Json::Null) => Vec::new(),
        Some(Json::Array(list)) => list.items(),
        Some(other) => {
            let message = format!("`messages` must be a list, not {}", other.kind());
            return Err(Error::invalid(message, Some("messages")));
        }
    };
    let mut open = OpenCalls::default();
    let mut out = Vec::with_capacity(all.len());
    for (place, message) in all.iter().enumerate() {
        let Some(role) = message.text("role") else {
            let what = format!("missing messages[{place}].role");
            return Err(Error::invalid(what, Some("messages")));
        };
        let text = message.text_or_empty("content");
        let own = new_message(&role, content(&text, images(message)?));
        if let Some(thinking) = message.text("thinking").filter(|thinking| !thinking.is_empty()) {
            put(&own, "reasoning_content", thinking.into())?;
        }
        let calls = message.list("tool_calls");
        if !calls.is_empty() {
            let calls = calls.iter().enumerate().map(|(at, call)| {
                let id = call.text("id").map_or_else(|| format!("call_{place}_{at}"), String::from);
                let function = call.field("function");
                let name = function.text_or_empty("name");
                open.add(name.clone(), id.clone());
                let arguments = match function.get("arguments") {
                    Some(Json::Text(text)) => text.to_string(),
                    Some(arguments) => arguments.to_string(),
                    None => "{}".into(),
                };
                let function = Json::from([("name", name.into()), ("arguments", arguments.into())]);
                Json::from([("id", id.into()), ("type", "function".into()), ("function", function)])
            });
            put(&own, "tool_calls", calls.collect::<Vec<_>>().into())?;
        }
        if role == "tool" {
            let name = message.text("tool_name").or_else(|| message.text("name"));
            let own_id = message.text("tool_call_id").map(String::from);
            let id = match (own_id, name) {
                (Some(own), _) => {
                    open.answer_id(&own);
                    Some(own)
                }
                (None, Some(name)) => open.answer_tool(&name),
                (None, None) => open.answer_first(),
            };
            put(&own, "tool_call_id", id.unwrap_or_default().into())?;
        }
        out.push(own);
    }
    Ok(out)
}

/// The calls without a result. Results arrive in the order of the calls, or name their tool or their call.
/// Each result takes constant time on average, however many calls there are.
#[derive(Default)]
struct OpenCalls {
    /// The ids of all calls; `None` once a call has a result.
    ids: Vec<Option<String>>,
    /// The number of calls at the beginning that are known to have a result.
    answered: usize,
    by_name: HashMap<CompactString, VecDeque<usize>>,
    by_id: HashMap<String, VecDeque<usize>>,
}

impl OpenCalls {
    fn add(&mut self, name: CompactString, id: String) {
        let at = self.ids.len();
        self.by_name.entry(name).or_default().push_back(at);
        self.by_id.entry(id.clone()).or_default().push_back(at);
        self.ids.push(Some(id));
    }

    fn answer_id(&mut self, id: &str) {
        if let Some(at) = next_open(self.by_id.get_mut(id), &self.ids) {
            self.ids[at] = None;
        }
    }

    fn answer_tool(&mut self, name: &str) -> Option<String> {
        let at = next_open(self.by_name.get_mut(name), &self.ids)?;
        self.ids[at].take()
    }

    fn answer_first(&mut self) -> Option<String> {
        while self.ids.get(self.answered)?.is_none() {
            self.answered += 1;
        }
        self.ids[self.answered].take()
    }
}

/// Removes the first call without a result from the calls of one name or id.
fn next_open(calls: Option<&mut VecDeque<usize>>, ids: &[Option<String>]) -> Option<usize> {
    let calls = calls?;
    while let Some(at) = calls.pop_front() {
        if ids[at].is_some() {
            return Some(at);
        }
    }
    None
}

fn new_message(role: &str, content: Json) -> Json {
    Json::from([("role", role.into()), ("content", content)])
}

fn put(object: &Json, key: &str, value: Json) -> Result<(), Error> {
    object.set(key, value).map(drop).map_err(|error| Error::Host(error.to_string()))
}

fn images(of: &Json) -> Result<Vec<Json>, Error> {
    let images = of.list("images");
    match images.iter().find(|image| image.as_str().is_none()) {
        None => Ok(images),
        Some(other) => {
            let message = format!("invalid images: expected base64 strings, got {}", other.kind());
            Err(Error::invalid(message, Some("images")))
        }
    }
}

/// Returns a text, or parts if there are images, which Ollama's clients send as base64.
fn content(text: &str, images: Vec<Json>) -> Json {
    if images.is_empty() {
        return text.into();
    }
    let text = (!text.is_empty()).then(|| Json::from([("type", "text".into()), ("text", text.into())]));
    let images = images.iter().map(|image| {
        let data = image.str_or_empty();
        let url = if data.starts_with("data:") {
            data.to_owned()
        } else {
            format!("data:{};base64,{data}", media_type(data).unwrap_or("image/png"))
        };
        Json::from([("type", "image_url".into()), ("image_url", Json::from([("url", url.into())]))])
    });
    text.into_iter().chain(images).collect::<Vec<_>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(sent: &str, kind: OllamaRoute) -> String {
        read(&Json::parse(sent.as_bytes()).unwrap(), kind).unwrap().body.to_string()
    }

    #[test]
    fn an_image_that_is_not_a_text_is_refused() {
        for (sent, kind) in [
            (r#"{"model":"m","prompt":"look","images":[{"data":"/9j/AA"}]}"#, OllamaRoute::Generate),
            (
                r#"{"model":"m","messages":[{"role":"user","content":"look","images":["/9j/AA",7]}]}"#,
                OllamaRoute::Chat,
            ),
        ] {
            let error = read(&Json::parse(sent.as_bytes()).unwrap(), kind).map(|_| ()).unwrap_err();
            assert!(error.to_string().contains("invalid images: expected base64 strings"), "{error}");
        }
    }

    #[test]
    fn ollama_chats_and_prompts_become_chat_requests() {
        assert_eq!(
            body(
                r#"{"model":"m","prompt":"hi","system":"s","stream":false,"options":{"num_predict":5,"seed":1}}"#,
                OllamaRoute::Generate
            ),
            r#"{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"}],"seed":1,"max_tokens":5}"#
        );
        let calls = body(
            r#"{"model":"m","stream":false,"messages":[{"role":"user","content":"look","images":["/9j/AA"]},
            {"role":"assistant","content":"","tool_calls":[{"function":{"name":"a","arguments":{"x":1}}},{"function":{"name":"b","arguments":{}}}]},
            {"role":"tool","tool_name":"b","content":"2"},{"role":"tool","content":"1"}]}"#,
            OllamaRoute::Chat,
        );
        for part in [
            r#""image_url":{"url":"data:image/jpeg;base64,/9j/AA"}"#,
            r#"{"id":"call_1_0","type":"function","function":{"name":"a","arguments":"{\"x\":1}"}}"#,
            r#"{"role":"tool","content":"2","tool_call_id":"call_1_1"}"#,
            r#"{"role":"tool","content":"1","tool_call_id":"call_1_0"}"#,
        ] {
            assert!(calls.contains(part), "{part}: {calls}");
        }
    }

    /// If each result searched all open calls, this test would take hours.
    #[test]
    fn ollama_tool_results_find_their_calls() {
        const COUNT: usize = 100_000;
        let calls: Vec<String> =
            (0..COUNT).map(|at| format!(r#"{{"id":"i{at}","function":{{"name":"n{at}"}}}}"#)).collect();
        let result = |at: usize| match at % 3 {
            0 => format!(r#"{{"role":"tool","tool_name":"n{at}"}}"#),
            1 => format!(r#"{{"role":"tool","tool_call_id":"i{at}"}}"#),
            _ => r#"{"role":"tool","tool_name":"nobody"}"#.to_owned(),
        };
        let results: Vec<String> = (0..COUNT).rev().map(result).collect();
        let last = r#"{"role":"tool"}"#;
        let sent = format!(
            r#"{{"model":"m","messages":[{{"role":"assistant","tool_calls":[{}]}},{},{last},{last}]}}"#,
            calls.join(","),
            results.join(",")
        );
        let read = read(&Json::parse(sent.as_bytes()).unwrap(), OllamaRoute::Chat).unwrap();
        let messages = read.body.get("messages").unwrap().items();
        let ids: Vec<String> =
            messages[1..].iter().map(|message| message.text("tool_call_id").unwrap().into()).collect();
        for (place, at) in (0..COUNT).rev().enumerate() {
            assert_eq!(ids[place], if at % 3 == 2 { String::new() } else { format!("i{at}") });
        }
        assert_eq!(ids[COUNT..], ["i2", "i5"]);
    }

    #[test]
    fn a_request_without_a_question_only_loads_its_model() {
        for (sent, kind) in [
            (r#"{"model":"m","messages":[]}"#, OllamaRoute::Chat),
            (r#"{"model":"m"}"#, OllamaRoute::Generate),
        ] {
            let request = read(&Json::parse(sent.as_bytes()).unwrap(), kind).unwrap();
            assert!(request.is_empty);
        }
        assert!(read(&Json::object(), OllamaRoute::Chat).is_err());
    }
}
