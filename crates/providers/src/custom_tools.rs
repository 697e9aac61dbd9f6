//! Custom tools for services that only know functions: a custom tool, which is called with a text of any form, becomes a
//! function with one text, and its calls become calls of a custom tool again.
//!
//! Filters see the text itself in both directions: only what goes over the wire has it inside JSON.

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use valvehouse_core::breaker::Open;
use valvehouse_core::chat::delta;
use valvehouse_core::fault::Fault;
use valvehouse_core::figures::Service;
use valvehouse_core::provider::{Answer, Forwarded, Piece, Provider, Request};
use valvehouse_json::{Json, Object};

/// The argument of the function that stands for a custom tool.
const INPUT: &str = "input";

/// A provider around one that only knows functions.
pub struct CustomTools(Arc<dyn Provider>);

impl CustomTools {
    /// Wraps a provider.
    pub fn new(inner: Arc<dyn Provider>) -> Self {
        Self(inner)
    }

    async fn ask(&self, request: Request, custom: HashSet<String>) -> Result<Answer, Fault> {
        let request = Request { body: with_functions(&request.body), ..request };
        Ok(match self.0.chat(request).await? {
            Answer::Whole(answer) => {
                restore(&answer, &custom);
                Answer::Whole(answer)
            }
            Answer::Stream(pieces) => Answer::Stream(restored(pieces, custom)),
        })
    }
}

impl Provider for CustomTools {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Fault>> {
        self.0.models()
    }

    fn chat(&self, request: Request) -> BoxFuture<'_, Result<Answer, Fault>> {
        let custom = names(&request.body);
        match custom.is_empty() && !has_custom_calls(&request.body) {
            true => self.0.chat(request),
            false => Box::pin(self.ask(request, custom)),
        }
    }

    fn forward(&self, body: bytes::Bytes, stream: bool) -> Option<BoxFuture<'_, Result<Forwarded, Fault>>> {
        self.0.forward(body, stream)
    }

    fn takes_response_format(&self, format: &Json) -> bool {
        self.0.takes_response_format(format)
    }

    fn rests(&self) -> Option<Open> {
        self.0.rests()
    }

    fn figures(&self) -> Option<&Service> {
        self.0.figures()
    }
}

fn is_custom(value: &Json) -> bool {
    value.text("type").is_some_and(|kind| kind == "custom")
}

/// The names of the custom tools of a request.
fn names(body: &Json) -> HashSet<String> {
    let tools = body.get("tools").unwrap_or_default().items();
    let custom = tools.iter().filter(|tool| is_custom(tool));
    custom.filter_map(|tool| tool.at_path("custom.name").as_str().map(str::to_owned)).collect()
}

fn has_custom_calls(body: &Json) -> bool {
    let messages = body.get("messages").unwrap_or_default().items();
    messages.iter().any(|message| message.get("tool_calls").unwrap_or_default().items().iter().any(is_custom))
}

/// The request with functions in place of custom tools, of calls of them, and of a choice of one. What is not one of
/// these is shared with the request.
fn with_functions(body: &Json) -> Json {
    let entries = body.as_object().map(Object::entries).unwrap_or_default();
    let changed = entries.into_iter().map(|(key, value)| {
        let value = match key.as_str() {
            "tools" => value
                .items()
                .iter()
                .map(|tool| if is_custom(tool) { function(tool) } else { tool.clone() })
                .collect::<Vec<_>>()
                .into(),
            "messages" => value.items().iter().map(message).collect::<Vec<_>>().into(),
            "tool_choice" if is_custom(&value) => {
                let name = Json::from([("name", value.at_path("custom.name"))]);
                Json::from([("type", "function".into()), ("function", name)])
            }
            _ => value,
        };
        (key, value)
    });
    changed.collect::<Object>().into()
}

fn function(tool: &Json) -> Json {
    let custom = tool.get("custom").unwrap_or_default();
    let mut description = custom.text("description").map(String::from).unwrap_or_default();
    let grammar = custom.at_path("format.grammar");
    if let Some(definition) = grammar.text("definition") {
        let syntax = grammar.text("syntax").unwrap_or_default();
        description.push_str(&format!("\n\nThe input must follow this {syntax} grammar:\n{definition}"));
    }
    let parameters = [
        ("type", "object".into()),
        ("properties", Json::from([(INPUT, Json::from([("type", "string".into())]))])),
        ("required", vec![Json::from(INPUT)].into()),
        ("additionalProperties", false.into()),
    ];
    let function = [
        ("name", custom.get("name").unwrap_or_default()),
        ("description", description.into()),
        ("parameters", Json::from(parameters)),
    ];
    Json::from([("type", "function".into()), ("function", Json::from(function))])
}

/// A message with its calls of custom tools as calls of functions.
fn message(message: &Json) -> Json {
    let calls = message.get("tool_calls").unwrap_or_default().items();
    if !calls.iter().any(is_custom) {
        return message.clone();
    }
    let call = |call: &Json| {
        if !is_custom(call) {
            return call.clone();
        }
        let custom = call.get("custom").unwrap_or_default();
        let arguments = Json::from([(INPUT, custom.get(INPUT).unwrap_or_else(|| "".into()))]).to_string();
        let function = [("name", custom.get("name").unwrap_or_default()), ("arguments", arguments.into())];
        let id = call.get("id").unwrap_or_default();
        Json::from([("id", id), ("type", "function".into()), ("function", Json::from(function))])
    };
    let calls: Vec<Json> = calls.iter().map(call).collect();
    let entries = message.as_object().map(Object::entries).unwrap_or_default();
    let entries = entries.into_iter().map(|(key, value)| match key == "tool_calls" {
        true => (key, calls.clone().into()),
        false => (key, value),
    });
    entries.collect::<Object>().into()
}

/// The text in the arguments of a function that stands for a custom tool. A model that wrote the text itself, without an
/// object around it, is taken at its word.
fn input_of(arguments: &str) -> String {
    let parsed = Json::parse(arguments.as_bytes()).unwrap_or_default();
    parsed.text(INPUT).map_or_else(|| arguments.to_owned(), String::from)
}

/// Puts calls of custom tools in place of those of their functions.
fn restore(answer: &Json, custom: &HashSet<String>) {
    for choice in answer.get("choices").unwrap_or_default().items() {
        for call in choice.at_path("message.tool_calls").items() {
            let name = call.at_path("function.name");
            if name.as_str().is_some_and(|name| custom.contains(name)) {
                let arguments = call.at_path("function.arguments");
                let input = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
                become_custom(&call, name, input_of(&input));
            }
        }
    }
}

/// Makes a call, of an answer that nobody else has yet, one of a custom tool.
fn become_custom(call: &Json, name: Json, input: String) {
    call.remove("function");
    let custom = Json::from([("name", name), (INPUT, input.into())]);
    for (key, value) in [("type", "custom".into()), ("custom", custom)] {
        if call.set(key, value).is_err() {
            tracing::error!("cannot restore a call of a custom tool: the answer is read-only");
        }
    }
}

/// The calls under way, by choice and index, with the arguments so far.
type Calls = BTreeMap<(i64, i64), String>;

/// The events of an answer with calls of custom tools in place of those of their functions. Their text is known only
/// with the last of the arguments, and comes before the end of the choice.
fn restored(
    pieces: BoxStream<'static, Result<Piece, Fault>>,
    custom: HashSet<String>,
) -> BoxStream<'static, Result<Piece, Fault>> {
    let state = (pieces, custom, Calls::new(), false);
    stream::unfold(state, |(mut pieces, custom, mut calls, is_over)| async move {
        if is_over {
            return None;
        }
        let (out, is_over) = match pieces.next().await {
            Some(Ok(piece)) => (look(piece, &custom, &mut calls).into_iter().map(Ok).collect(), false),
            Some(Err(fault)) => (vec![Err(fault)], false),
            // A stream that ends without a reason.
            None => (inputs(&mut calls, None, &Json::object()).map(Ok).into_iter().collect(), true),
        };
        Some((stream::iter(out), (pieces, custom, calls, is_over)))
    })
    .flatten()
    .boxed()
}

/// The events that an event becomes.
fn look(piece: Piece, custom: &HashSet<String>, calls: &mut Calls) -> Vec<Piece> {
    let index_of = |value: &Json| value.get("index").and_then(|index| index.as_i64());
    let mut is_changed = false;
    let mut out = Vec::new();
    for choice in piece.event.get("choices").unwrap_or_default().items() {
        let at = index_of(&choice).unwrap_or(0);
        let delta = choice.get("delta").unwrap_or_default();
        let mut left = Vec::new();
        for (place, call) in delta.get("tool_calls").unwrap_or_default().items().into_iter().enumerate() {
            let index = index_of(&call).unwrap_or_else(|| i64::try_from(place).unwrap_or(0));
            let name = call.at_path("function.name");
            let more = call.at_path("function.arguments");
            let more = more.as_str().unwrap_or_default();
            if let Some(arguments) = calls.get_mut(&(at, index)) {
                arguments.push_str(more);
                is_changed = true;
            } else if name.as_str().is_some_and(|name| custom.contains(name)) {
                calls.insert((at, index), more.to_owned());
                become_custom(&call, name, String::new());
                is_changed = true;
                left.push(call);
            } else {
                left.push(call);
            }
        }
        if is_changed {
            let _ = match left.is_empty() {
                true => delta.remove("tool_calls").is_some(),
                false => delta.set("tool_calls", left).is_ok(),
            };
        }
        if choice.text("finish_reason").is_some_and(|reason| !reason.is_empty()) {
            out.extend(inputs(calls, Some(at), &piece.event));
        }
    }
    let is_hollow = is_changed && piece.event.get("usage").is_none_or(|usage| usage.is_null()) && {
        let choices = piece.event.get("choices").unwrap_or_default().items();
        let says_nothing = |choice: &Json| {
            !delta::finishes(&piece.event) && choice.get("delta").is_none_or(|delta| delta.is_empty())
        };
        choices.iter().all(says_nothing)
    };
    if !is_hollow {
        out.push(if is_changed { Piece { raw: bytes::Bytes::new(), ..piece } } else { piece });
    }
    out
}

/// The event with the texts of the calls of a choice, or of all of them.
fn inputs(calls: &mut Calls, choice: Option<i64>, like: &Json) -> Option<Piece> {
    let over: Vec<(i64, i64)> =
        calls.keys().filter(|(at, _)| choice.is_none_or(|choice| *at == choice)).copied().collect();
    let mut choices: BTreeMap<i64, Vec<Json>> = BTreeMap::new();
    for key in over {
        let input = input_of(&calls.remove(&key)?);
        let call = Json::from([("index", key.1.into()), ("custom", Json::from([(INPUT, input.into())]))]);
        choices.entry(key.0).or_default().push(call);
    }
    if choices.is_empty() {
        return None;
    }
    let choices: Vec<Json> = choices
        .into_iter()
        .map(|(at, calls)| {
            Json::from([
                ("index", at.into()),
                ("delta", Json::from([("tool_calls", calls.into())])),
                ("finish_reason", Json::Null),
            ])
        })
        .collect();
    let head =
        ["id", "object", "created", "model"].into_iter().filter_map(|key| Some((key.into(), like.get(key)?)));
    let event: Object = head.chain([("choices".into(), choices.into())]).collect();
    Some(Piece::new(event.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use valvehouse_core::chat::Fold;
    use valvehouse_core::provider::{Canned, Reply};

    fn request(stream: bool) -> Request {
        let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"custom","custom":{"name":"patch","input":"+\"1\""}}]},{"role":"tool","tool_call_id":"a","content":"ok"}],
            "tools":[{"type":"custom","custom":{"name":"patch","description":"Patches.","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"start: X"}}}},{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"custom","custom":{"name":"patch"}}}"#;
        Request::new(Json::parse(body.as_bytes()).unwrap(), stream)
    }

    fn event(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    #[tokio::test]
    async fn a_custom_tool_is_a_function_for_its_service_alone() {
        let whole = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[
            {"id":"b","type":"function","function":{"name":"patch","arguments":"{\"input\":\"line\\n\\\"two\\\"\"}"}},
            {"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#;
        let begin = |index: u8, id: &str, name: &str| {
            event(&format!(
                r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":{index},"id":"{id}","type":"function","function":{{"name":"{name}","arguments":""}}}}]}}}}]}}"#
            ))
        };
        let more = |index: u8, text: &str| {
            let text = Json::from(text).to_string();
            event(&format!(
                r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":{index},"function":{{"arguments":{text}}}}}]}}}}]}}"#
            ))
        };
        let pieces = vec![
            begin(0, "b", "patch"),
            begin(1, "c", "f"),
            more(0, r#"{"input":"line\n"#),
            more(1, "{}"),
            more(0, r#"\"two\""}"#),
            event(r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#),
        ];
        for reply in [Reply::whole(event(whole)), Reply::pieces(pieces)] {
            let stream = !format!("{reply:?}").contains("Whole");
            let canned = Canned::new([reply]);
            let provider = CustomTools::new(Arc::new(canned.clone()));
            let answer = match provider.chat(request(stream)).await.unwrap() {
                Answer::Whole(answer) => answer,
                Answer::Stream(pieces) => {
                    let mut fold = Fold::default();
                    let pieces: Vec<_> = pieces.collect().await;
                    pieces.into_iter().for_each(|piece| fold.push(&piece.unwrap().event));
                    fold.finish()
                }
            };
            let calls = answer.at_path("choices.0.message.tool_calls");
            assert_eq!(calls.at_path("0.custom.input").as_str(), Some("line\n\"two\""), "{answer}");
            assert_eq!(calls.at_path("0.type").as_str(), Some("custom"));
            assert_eq!(calls.at_path("1.function.name").as_str(), Some("f"), "{answer}");
            let sent = canned.requests().remove(0);
            assert_eq!(sent.at_path("tools.0.function.name").as_str(), Some("patch"));
            assert!(sent.at_path("tools.0.function.description").to_string().contains("start: X"));
            assert_eq!(sent.at_path("tool_choice.function.name").as_str(), Some("patch"));
            let arguments = sent.at_path("messages.1.tool_calls.0.function.arguments");
            assert_eq!(arguments.as_str(), Some(r#"{"input":"+\"1\""}"#));
        }
    }

    #[tokio::test]
    async fn the_request_of_the_turn_stays_as_it_is() {
        let provider = CustomTools::new(Arc::new(Canned::new(["hi"])));
        let request = request(false);
        let before = request.body.to_string();
        provider.chat(request.clone()).await.unwrap();
        assert_eq!(request.body.to_string(), before);
    }
}
