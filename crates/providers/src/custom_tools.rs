//! Custom tools for services that only support functions. A custom tool, whose input is any text, is
//! converted to a function with one text argument, and its calls are converted back.
//!
//! Filters read the text itself in both directions; only the service receives it as JSON.

use compact_str::CompactString;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use std::collections::HashSet;
use std::sync::Arc;
use valvehouse_core::breaker::OpenState;
use valvehouse_core::chat::delta::{call_name, continues_call, is_last};
use valvehouse_core::chat::event;
use valvehouse_core::chat::window::is_hollow;
use valvehouse_core::error::Error;
use valvehouse_core::metrics::Service;
use valvehouse_core::provider::{
    Answer, ForwardRequest, PassthroughAnswer, Provider, RelayRequest, RelayResponse, Request, StreamChunk,
};
use valvehouse_json::{Json, Object};

/// The argument of the function for a custom tool.
const INPUT: &str = "input";

/// A provider around one that supports only functions.
pub struct CustomTools(Arc<dyn Provider>);

impl CustomTools {
    /// Wraps a provider.
    pub fn new(inner: Arc<dyn Provider>) -> Self {
        Self(inner)
    }

    async fn ask(&self, request: Request, custom: HashSet<String>) -> Result<Answer, Error> {
        let request = Request { body: with_functions(&request.body), ..request };
        Ok(match self.0.chat(request).await? {
            Answer::Whole(answer) => {
                restore(&answer, &custom);
                Answer::Whole(answer)
            }
            Answer::Stream(chunks) => Answer::Stream(restored(chunks, custom)),
        })
    }
}

impl Provider for CustomTools {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Error>> {
        self.0.models()
    }

    fn chat(&self, request: Request) -> BoxFuture<'_, Result<Answer, Error>> {
        let custom = names(&request.body);
        match custom.is_empty() && !has_custom_calls(&request.body) {
            true => self.0.chat(request),
            false => Box::pin(self.ask(request, custom)),
        }
    }

    fn forward<'a>(
        &'a self,
        request: ForwardRequest<'a>,
    ) -> Option<BoxFuture<'a, Result<PassthroughAnswer, Error>>> {
        self.0.forward(request)
    }

    fn has_route(&self, path: &str) -> bool {
        self.0.has_route(path)
    }

    fn relay<'a>(&'a self, request: RelayRequest<'a>) -> BoxFuture<'a, Result<RelayResponse, Error>> {
        self.0.relay(request)
    }

    fn open_breakers(&self) -> Vec<OpenState> {
        self.0.open_breakers()
    }

    fn metrics(&self) -> Option<&Service> {
        self.0.metrics()
    }
}

fn is_custom(value: &Json) -> bool {
    value.is_text("type", "custom")
}

/// Returns the names of the custom tools of a request.
fn names(body: &Json) -> HashSet<String> {
    let Some(Json::Array(tools)) = body.get("tools") else { return HashSet::new() };
    let name = |tool: &Json| tool.at_path("custom.name").as_str().map(str::to_owned);
    tools.with(|tools| tools.iter().filter(|tool| is_custom(tool)).filter_map(name).collect())
}

/// Returns `true` if a message contains a call of a custom tool. Messages that have not been parsed stay
/// unparsed.
fn has_custom_calls(body: &Json) -> bool {
    let Some(Json::Array(messages)) = body.get("messages") else { return false };
    let calls_one = |message: &Json| match message {
        Json::Object(fields) => fields.with("tool_calls", |calls| match calls {
            Some(Json::Array(calls)) => calls.with(|calls| calls.iter().any(is_custom)),
            _ => false,
        }),
        _ => false,
    };
    messages.with(|messages| messages.iter().any(calls_one))
}

/// Returns the request with functions instead of custom tools, of their calls, and of the choice of one. All
/// other values are shared with the original request.
fn with_functions(body: &Json) -> Json {
    let entries = body.entries();
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
    let custom = tool.field("custom");
    let mut description = custom.string("description");
    let grammar = custom.at_path("format.grammar");
    if let Some(definition) = grammar.text("definition") {
        let syntax = grammar.text_or_empty("syntax");
        description.push_str(&format!("\n\nThe input must follow this {syntax} grammar:\n{definition}"));
    }
    let parameters = [
        ("type", "object".into()),
        ("properties", Json::from([(INPUT, Json::from([("type", "string".into())]))])),
        ("required", vec![Json::from(INPUT)].into()),
        ("additionalProperties", false.into()),
    ];
    let function = [
        ("name", custom.field("name")),
        ("description", description.into()),
        ("parameters", Json::from(parameters)),
    ];
    Json::from([("type", "function".into()), ("function", Json::from(function))])
}

/// Returns a message in which calls of custom tools are calls of functions.
fn message(message: &Json) -> Json {
    let calls = message.list("tool_calls");
    if !calls.iter().any(is_custom) {
        return message.clone();
    }
    let call = |call: &Json| {
        if !is_custom(call) {
            return call.clone();
        }
        let custom = call.field("custom");
        let arguments = Json::from([(INPUT, custom.get(INPUT).unwrap_or_else(|| "".into()))]).to_string();
        let function = Json::from([("name", custom.field("name")), ("arguments", arguments.into())]);
        let own = call.entries().into_iter().map(|(key, value)| match key.as_str() {
            "type" => (key, "function".into()),
            "custom" => ("function".into(), function.clone()),
            _ => (key, value),
        });
        own.collect::<Object>().into()
    };
    let calls: Vec<Json> = calls.iter().map(call).collect();
    let entries = message.entries();
    let entries = entries.into_iter().map(|(key, value)| match key == "tool_calls" {
        true => (key, calls.clone().into()),
        false => (key, value),
    });
    entries.collect::<Object>().into()
}

/// Returns the input of a custom tool from the arguments of its function. Arguments without the expected
/// object are returned unchanged, because some models write the text itself.
fn input_of(arguments: &str) -> String {
    let parsed = Json::parse(arguments.as_bytes()).ok();
    parsed.and_then(|parsed| parsed.text(INPUT)).map_or_else(|| arguments.to_owned(), String::from)
}

/// Replaces the calls of functions for custom tools by calls of the custom tools.
fn restore(answer: &Json, custom: &HashSet<String>) {
    for choice in answer.list("choices") {
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

/// Converts a call to a call of a custom tool. The answer must not be shared yet.
fn become_custom(call: &Json, name: Json, input: String) {
    call.remove("function");
    let custom = Json::from([("name", name), (INPUT, input.into())]);
    for (key, value) in [("type", "custom".into()), ("custom", custom)] {
        if call.set(key, value).is_err() {
            tracing::error!("cannot restore a call of a custom tool: the response is read-only");
        }
    }
}

/// A call in progress.
struct OpenCall {
    choice: i64,
    /// The index that the service assigned.
    index: Option<i64>,
    id: CompactString,
    name: CompactString,
    /// The arguments of a custom tool so far, until they are sent as its input.
    arguments: Option<String>,
}

/// Converts the calls of functions for custom tools in a stream to calls of the custom tools. The input of a
/// call is known only when its arguments are complete. It is sent before the next call with the same index,
/// or before the end of the choice.
fn restored(
    chunks: BoxStream<'static, Result<StreamChunk, Error>>,
    custom: HashSet<String>,
) -> BoxStream<'static, Result<StreamChunk, Error>> {
    let state = (chunks, custom, Vec::new(), false);
    stream::unfold(state, |(mut chunks, custom, mut calls, is_over)| async move {
        if is_over {
            return None;
        }
        let next = chunks.next().await;
        let is_over = next.is_none();
        let out: Vec<_> = match next {
            Some(Ok(chunk)) => look(chunk, &custom, &mut calls).into_iter().map(Ok).collect(),
            Some(Err(error)) => vec![Err(error)],
            // The stream ended without a finish reason.
            None => {
                let template = Json::from([("choices", Json::array())]);
                inputs(&mut calls, &template, |_| true).into_iter().map(Ok).collect()
            }
        };
        Some((stream::iter(out), (chunks, custom, calls, is_over)))
    })
    .flatten()
    .boxed()
}

/// Converts one event to the events to send.
fn look(chunk: StreamChunk, custom: &HashSet<String>, calls: &mut Vec<OpenCall>) -> Vec<StreamChunk> {
    let mut out = Vec::new();
    let mut is_changed = false;
    for choice in chunk.event.list("choices") {
        let at = choice.integer("index").unwrap_or(0);
        let delta = choice.field("delta");
        let given = delta.list("tool_calls");
        let count = given.len();
        let mut left = Vec::new();
        for call in given {
            let index = call.integer("index");
            let is_own = |own: &OpenCall| own.choice == at && (index.is_none() || own.index == index);
            let known = calls.iter().rposition(is_own);
            let known = known.filter(|known| continues_call(&call, &calls[*known].id, &calls[*known].name));
            let arguments = call.at_path("function.arguments");
            if let Some(known) = known {
                match &mut calls[known].arguments {
                    Some(so_far) => so_far.push_str(arguments.str_or_empty()),
                    None => left.push(call),
                }
                continue;
            }
            out.extend(inputs(calls, &chunk.event, is_own));
            let name = call_name(&call);
            let is_custom = custom.contains(name.as_str());
            calls.push(OpenCall {
                choice: at,
                index,
                id: call.text_or_empty("id"),
                arguments: is_custom.then(|| arguments.str_or_empty().to_owned()),
                name: name.clone(),
            });
            if is_custom {
                become_custom(&call, name.into(), String::new());
                is_changed = true;
            }
            left.push(call);
        }
        if left.len() < count {
            is_changed = true;
            if delta.set("tool_calls", left).is_err() {
                tracing::error!("cannot restore a call of a custom tool: the response is read-only");
            }
        }
        if is_last(&choice) {
            out.extend(inputs(calls, &chunk.event, |own| own.choice == at));
        }
    }
    match is_changed {
        false => out.push(chunk),
        true if is_hollow(&chunk.event) => {}
        true => {
            let mut chunk = chunk;
            chunk.changed();
            out.push(chunk);
        }
    }
    out
}

/// Returns the events with the inputs of the completed calls.
fn inputs(calls: &mut [OpenCall], template: &Json, is_over: impl Fn(&OpenCall) -> bool) -> Vec<StreamChunk> {
    let over = calls.iter_mut().filter(|call| is_over(call));
    let events = over.filter_map(|call| {
        let input = Json::from([(INPUT, input_of(&call.arguments.take()?).into())]);
        let call_piece = Json::from([("index", call.index.into()), ("custom", input)]);
        let delta = Json::from([("tool_calls", vec![call_piece].into())]);
        let own = event::with_choice(template, Json::from([("index", call.choice.into())]));
        Some(StreamChunk::new(event::with_delta(&own, delta)))
    });
    events.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use valvehouse_core::chat::Fold;
    use valvehouse_core::provider::{CannedProvider, Reply};

    fn request(stream: bool) -> Request {
        let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"custom","custom":{"name":"patch","input":"+\"1\""}}]},{"role":"tool","tool_call_id":"a","content":"ok"}],
            "tools":[{"type":"custom","custom":{"name":"patch","description":"Patches.","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"start: X"}}}},{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"custom","custom":{"name":"patch"}}}"#;
        Request::new(Json::parse(body.as_bytes()).unwrap(), stream)
    }

    fn event(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    #[tokio::test]
    async fn a_custom_tool_becomes_a_function_only_for_its_service() {
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
        let chunks = vec![
            begin(0, "b", "patch"),
            begin(1, "c", "f"),
            more(0, r#"{"input":"line\n"#),
            more(1, "{}"),
            more(0, r#"\"two\""}"#),
            event(r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#),
        ];
        for reply in [Reply::whole(event(whole)), Reply::chunks(chunks)] {
            let stream = !format!("{reply:?}").contains("Whole");
            let canned = CannedProvider::new([reply]);
            let provider = CustomTools::new(Arc::new(canned.clone()));
            let answer = match provider.chat(request(stream)).await.unwrap() {
                Answer::Whole(answer) => answer,
                Answer::Stream(chunks) => {
                    let mut fold = Fold::default();
                    let chunks: Vec<_> = chunks.collect().await;
                    chunks.into_iter().for_each(|chunk| fold.push(&chunk.unwrap().event));
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
    async fn calls_that_share_an_index_stay_separate() {
        let begin = |id: &str, arguments: &str| {
            let function = Json::from([("name", "patch".into()), ("arguments", arguments.into())]);
            let call = Json::from([("index", 0_i64.into()), ("id", id.into()), ("function", function)]);
            let delta = Json::from([("tool_calls", vec![call].into())]);
            Json::from([("choices", vec![Json::from([("index", 0_i64.into()), ("delta", delta)])].into())])
        };
        let over = event(r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#);
        let chunks = vec![begin("b", r#"{"input":"one"}"#), begin("c", r#"{"input":"two"}"#), over];
        let provider = CustomTools::new(Arc::new(CannedProvider::new([Reply::chunks(chunks)])));
        let Answer::Stream(chunks) = provider.chat(request(true)).await.unwrap() else { panic!("whole") };
        let mut fold = Fold::default();
        chunks.collect::<Vec<_>>().await.into_iter().for_each(|chunk| fold.push(&chunk.unwrap().event));
        let calls = fold.finish().at_path("choices.0.message.tool_calls");
        let inputs: Vec<_> =
            calls.items().iter().map(|call| call.at_path("custom.input").to_string()).collect();
        assert_eq!(inputs, [r#""one""#, r#""two""#], "{calls}");
    }

    #[tokio::test]
    async fn translating_custom_tools_leaves_the_request_of_the_turn_unchanged() {
        let provider = CustomTools::new(Arc::new(CannedProvider::new(["hi"])));
        let request = request(false);
        let before = request.body.to_string();
        provider.chat(request.clone()).await.unwrap();
        assert_eq!(request.body.to_string(), before);
    }
}
