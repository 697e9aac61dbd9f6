//! The demonstration model, which answers without a network: it repeats the user's message, calls the tools
//! that the message names, or quotes their results.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream;
use sha2::{Digest, Sha256};
use std::time::Duration;
use valvehouse_core::chat::{Head, ModelCall, message, request, response, split};
use valvehouse_core::error::Error;
use valvehouse_core::provider::{
    Answer, PassthroughBody, Provider, RelayRequest, RelayResponse, Request, StreamChunk, builtin_embedding,
};
use valvehouse_core::text::{hex, optional};
use valvehouse_json::Json;

/// The provider `demo` with the model `demo`. It works offline, and the same request always has the same
/// answer.
///
/// The model repeats the user's message. A line such as `/weather {"city": "Oslo"}` calls a tool of the
/// request, with the arguments exactly as written. The lines of a paragraph are called in one round, those of
/// the next paragraph one round later. Tool results are quoted.
#[derive(Debug, Clone, Default)]
pub struct Demo {
    delay: Duration,
}

impl Demo {
    /// Creates a model that waits for this time before every chunk, to simulate a real model.
    pub fn with_delay(delay: Duration) -> Self {
        Self { delay }
    }
}

impl Provider for Demo {
    fn name(&self) -> &str {
        "demo"
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Error>> {
        let model = Json::from([
            ("id", "demo".into()),
            ("object", "model".into()),
            ("created", 0_u64.into()),
            ("owned_by", "valvehouse".into()),
        ]);
        Box::pin(std::future::ready(Ok(vec![model])))
    }

    fn chat(&self, request: Request) -> BoxFuture<'_, Result<Answer, Error>> {
        Box::pin(async move {
            // Other services could not encode the request either.
            if let Err(error) = request.body.encode() {
                return Err(Error::invalid(format!("the request is {error}"), None));
            }
            let whole = answer(&request.body);
            if !request.stream {
                tokio::time::sleep(self.delay).await;
                return Ok(Answer::Whole(whole));
            }
            let chunks = split(&whole, request::wants_usage(&request.body));
            let delay = self.delay;
            let chunks = stream::iter(chunks).then(move |chunk| async move {
                if !delay.is_zero() {
                    tokio::time::sleep(delay).await;
                }
                Ok(StreamChunk::new(chunk))
            });
            Ok(Answer::Stream(chunks.boxed()))
        })
    }

    fn has_route(&self, path: &str) -> bool {
        path == EMBEDDINGS
    }

    fn relay<'a>(&'a self, request: RelayRequest<'a>) -> BoxFuture<'a, Result<RelayResponse, Error>> {
        Box::pin(async move {
            if request.path != EMBEDDINGS {
                return Err(Error::Host(format!("provider demo has no {}", request.path)));
            }
            let mut stream = request.body.into_stream();
            let mut bytes = Vec::new();
            while let Some(some) = stream.next().await {
                bytes.extend_from_slice(&some?);
            }
            tokio::time::sleep(self.delay).await;
            let answer = embeddings(&bytes, request.model)?;
            let body = answer.encode().map_err(|error| Error::Host(error.to_string()))?;
            let headers = vec![("content-type".into(), "application/json".into())];
            Ok(RelayResponse { status: 200, headers, body: PassthroughBody::Whole(body.into()) })
        })
    }
}

/// The route for embeddings.
const EMBEDDINGS: &str = "embeddings";

/// Returns the vectors of texts, which compare words.
fn embeddings(body: &[u8], model: &str) -> Result<Json, Error> {
    let invalid = |what: &str| Error::invalid(what.to_owned(), Some("input"));
    let body = Json::parse(body)
        .map_err(|error| Error::invalid(format!("the request body is not valid JSON: {error}"), None))?;
    let texts: Vec<String> = match body.get("input") {
        Some(Json::Text(text)) => vec![text.to_string()],
        Some(Json::Array(list)) => {
            let texts: Option<Vec<String>> =
                list.items().iter().map(|item| item.as_str().map(str::to_owned)).collect();
            texts.ok_or_else(|| {
                invalid("`input` must be a text or a list of texts: the demo model does not accept tokens")
            })?
        }
        _ => return Err(invalid("missing `input`: a text or a list of texts")),
    };
    // OpenAI's clients request base64: the components as 4-byte little-endian floats.
    let packed = match body.text("encoding_format").as_deref() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(_) => {
            let why = "`encoding_format` must be `float` or `base64`";
            return Err(Error::invalid(why, Some("encoding_format")));
        }
    };
    let vectors = texts.iter().enumerate().map(|(index, text)| {
        let parts = builtin_embedding(text).into_iter();
        let embedding: Json = match packed {
            true => STANDARD.encode(parts.flat_map(f32::to_le_bytes).collect::<Vec<u8>>()).into(),
            false => parts.map(|part| f64::from(part).into()).collect::<Vec<Json>>().into(),
        };
        Json::from([("object", "embedding".into()), ("index", index.into()), ("embedding", embedding)])
    });
    let words: usize = texts.iter().map(|text| text.split_whitespace().count()).sum();
    Ok(Json::from([
        ("object", "list".into()),
        ("data", vectors.collect::<Vec<Json>>().into()),
        ("model", model.into()),
        ("usage", Json::from([("prompt_tokens", words.into()), ("total_tokens", words.into())])),
    ]))
}

fn answer(body: &Json) -> Json {
    let messages = body.list("messages");
    let id = fingerprint(&messages);
    let message = next_message(body, &messages, &id);
    let head = Head::with_id(format!("chatcmpl-{id}"), body.text("model").unwrap_or_else(|| "demo".into()));
    let completion = head.completion(message.clone(), response::natural_finish(&message));
    // A new object accepts any value.
    completion.put("usage", response::word_usage(&messages, &message));
    completion
}

fn next_message(body: &Json, messages: &[Json], id: &str) -> Json {
    let Some(place) = request::last_user(messages) else {
        return message::assistant("The conversation is empty. Send a message, and I will answer.");
    };
    let text = message::text_of(&messages[place]);
    let since = &messages[place + 1..];
    let done = since.iter().filter(|message| !ModelCall::all(message).is_empty()).count();
    let tools = offered(body);
    if let Some(round) = rounds(&text, &tools).get(done) {
        let calls = round.iter().enumerate().map(|(index, (name, arguments))| ModelCall {
            id: format!("call_{id}_{index}").into(),
            name: (*name).into(),
            arguments: arguments.as_str().into(),
        });
        let message = message::assistant(Json::Null);
        // A new object accepts any value.
        message.put("tool_calls", calls.map(|call| call.to_json()).collect::<Vec<_>>());
        return message;
    }
    message::assistant(results(since).unwrap_or_else(|| echo(&text, &tools)))
}

/// Returns the names of the tools that the model may call.
fn offered(body: &Json) -> Vec<String> {
    if body.is_text("tool_choice", "none") {
        return Vec::new();
    }
    let names = body.list("tools").into_iter().filter_map(|tool| tool.get("function")?.text("name"));
    names.map(String::from).collect()
}

/// The name of a tool and its arguments as JSON text.
type WrittenCall<'a> = (&'a str, String);

/// Returns the calls in a text, by paragraph. Arguments may continue on the following lines.
fn rounds<'a>(text: &str, tools: &'a [String]) -> Vec<Vec<WrittenCall<'a>>> {
    let mut rounds: Vec<Vec<WrittenCall<'_>>> = vec![Vec::new()];
    for line in text.lines().map(str::trim) {
        let named =
            line.strip_prefix('/').map(|call| call.split_once(char::is_whitespace).unwrap_or((call, "")));
        let tool = named.and_then(|(name, rest)| Some((tools.iter().find(|tool| *tool == name)?, rest)));
        if line.is_empty() {
            rounds.push(Vec::new());
        }
        let Some(calls) = rounds.last_mut() else { continue };
        match (tool, calls.last_mut()) {
            (Some((tool, arguments)), _) => calls.push((tool, arguments.trim().to_owned())),
            (None, Some((_, arguments))) => arguments.push_str(line),
            (None, None) => {}
        }
    }
    rounds.retain(|calls| !calls.is_empty());
    for (_, arguments) in rounds.iter_mut().flatten().filter(|(_, arguments)| arguments.is_empty()) {
        arguments.push_str("{}");
    }
    rounds
}

/// Returns the tool results since the last user message.
fn results(since: &[Json]) -> Option<String> {
    let calls: Vec<ModelCall> = since.iter().flat_map(ModelCall::all).collect();
    let lines: Vec<String> = since
        .iter()
        .filter(|message| message::role_of(message) == "tool")
        .map(|result| {
            let id = result.text_or_empty("tool_call_id");
            let name = calls.iter().find(|call| call.id == id).map_or("the tool", |call| &call.name);
            format!("{name} answered: {}", message::text_of(result))
        })
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn echo(text: &str, tools: &[String]) -> String {
    let hint = optional((!tools.is_empty()).then_some(tools), |tools| {
        format!(" Call a tool with /NAME {{\"argument\": …}}: {}.", tools.join(", "))
    });
    format!("You said: {text}\n\nI am the demo model: I answer without a network, always the same way.{hint}")
}

/// Returns a hash that is equal for equal conversations.
fn fingerprint(messages: &[Json]) -> String {
    let mut hash = Sha256::new();
    for message in messages {
        hash.update(message::role_of(message).as_bytes());
        hash.update([0]);
        hash.update(message::text_of(message).as_bytes());
        hash.update([0]);
    }
    hex(&hash.finalize()[..6])
}

#[cfg(test)]
mod tests {
    use super::*;
    use valvehouse_core::chat::Fold;

    const TOOLS: &str = r#"[
        {"type":"function","function":{"name":"get_weather","description":"Get the weather for a city.",
         "parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}},
        {"type":"function","function":{"name":"todo_add","parameters":{"type":"object",
         "properties":{"text":{"type":"string"}},"required":["text"]}}}]"#;

    fn body(messages: Vec<Json>) -> Json {
        let tools = Json::parse(TOOLS.as_bytes()).unwrap();
        Json::from([("model", "demo".into()), ("messages", messages.into()), ("tools", tools)])
    }

    fn answer_text(body: &Json) -> String {
        message::text_of(&response::message_of(&answer(body))).into()
    }

    fn called(body: &Json) -> Vec<String> {
        let calls = ModelCall::all(&response::message_of(&answer(body)));
        calls.iter().map(|call| format!("{} {}", call.name, call.arguments)).collect()
    }

    #[test]
    fn the_demo_model_repeats_the_message_and_introduces_itself() {
        let body = body(vec![message::system("be kind"), message::user("Hello there")]);
        assert_eq!(
            answer_text(&body),
            "You said: Hello there\n\nI am the demo model: I answer without a network, always the same way. \
             Call a tool with /NAME {\"argument\": …}: get_weather, todo_add."
        );
        assert_eq!(answer(&body).get("id"), answer(&body).get("id"));
        assert_eq!(answer(&body).at_path("usage.prompt_tokens").as_i64(), Some(4));
        assert!(answer_text(&Json::object()).starts_with("The conversation is empty."));
    }

    #[test]
    fn the_demo_model_calls_tools_in_two_rounds_and_quotes_the_results() {
        let mut messages = vec![message::user(
            "/get_weather {\"city\":\"Bonn\"}\n/todo_add {\"text\":\n\"tea\"}\n\nthen:\n/get_weather {\"city\":\"Rome\"}",
        )];
        let first = answer(&body(messages.clone()));
        assert_eq!(
            called(&body(messages.clone())),
            [r#"get_weather {"city":"Bonn"}"#, r#"todo_add {"text":"tea"}"#]
        );
        assert_eq!(response::finish_reason_of(&first).as_deref(), Some("tool_calls"));
        let ids: Vec<_> =
            ModelCall::all(&response::message_of(&first)).into_iter().map(|call| call.id).collect();
        messages.push(response::message_of(&first));
        messages.extend(ids.iter().map(|id| message::tool(id, format!("result of {id}"))));

        let second = answer(&body(messages.clone()));
        let call = ModelCall::all(&response::message_of(&second)).remove(0);
        assert_eq!(call.arguments, r#"{"city":"Rome"}"#);
        assert!(!ids.contains(&call.id));
        messages.push(response::message_of(&second));
        messages.push(message::tool(&call.id, "rain"));
        let text = answer_text(&body(messages.clone()));
        assert!(text.starts_with("get_weather answered: result of call_"), "{text}");
        assert!(text.ends_with("\nget_weather answered: rain"), "{text}");

        messages.push(message::user("thanks"));
        assert!(answer_text(&body(messages)).starts_with("You said: thanks"));
    }

    #[test]
    fn tool_choice_none_keeps_the_demo_model_from_calling_tools() {
        let body = body(vec![message::user("/get_weather {}")]);
        body.set("tool_choice", "none").unwrap();
        assert!(called(&body).is_empty());
    }

    #[test]
    fn demo_embeddings_are_deterministic() {
        let body = br#"{"model":"demo","input":["red apples","green apples","invoices"]}"#;
        let answer = embeddings(body, "demo").unwrap();
        assert_eq!(answer, embeddings(body, "demo").unwrap());
        let vectors: Vec<Vec<f64>> = answer
            .list("data")
            .iter()
            .map(|one| one.list("embedding").iter().filter_map(|part| part.as_f64()).collect())
            .collect();
        let dot = |a: usize, b: usize| vectors[a].iter().zip(&vectors[b]).map(|(a, b)| a * b).sum::<f64>();
        assert!(dot(0, 1) > dot(0, 2) + 0.2);
        assert_eq!(answer.at_path("usage.total_tokens").as_i64(), Some(5));
        for wrong in [&b"{"[..], b"{}", br#"{"input":[1,2]}"#, br#"{"input":"a","encoding_format":"int8"}"#] {
            assert!(embeddings(wrong, "demo").is_err());
        }
    }

    #[test]
    fn arguments_are_sent_as_written_and_other_lines_call_nothing() {
        let called = |text: &str| called(&body(vec![message::user(text)]));
        assert_eq!(called("/get_weather"), ["get_weather {}"]);
        assert_eq!(called("please\n/get_weather {\"city\":"), ["get_weather {\"city\":"]);
        assert_eq!(called("/get_weather a\r\n/get_weather a"), ["get_weather a", "get_weather a"]);
        for text in ["get_weather", "/get_weather_now {}", "see /get_weather", "/", "/tmp/get_weather"] {
            assert!(called(text).is_empty(), "{text}");
        }
    }

    #[tokio::test]
    async fn the_demo_model_streams_word_by_word() {
        let body = Json::parse(
            br#"{"model":"demo","messages":[{"role":"user","content":"a b"}],"stream_options":{"include_usage":true}}"#,
        )
        .unwrap();
        let request = Request::new(body.clone(), true);
        let Ok(Answer::Stream(chunks)) = Demo::default().chat(request).await else { panic!("no stream") };
        let events: Vec<Json> = chunks.map(|chunk| chunk.unwrap().event).collect().await;
        assert_eq!(events[0].at_path("choices.0.delta.role"), Json::from("assistant"));
        assert_eq!(events[1].at_path("choices.0.delta.content"), Json::from("You "));
        assert!(!events[events.len() - 1].get("usage").unwrap().is_null());
        let mut fold = Fold::default();
        events.iter().for_each(|event| fold.push(event));
        assert_eq!(response::message_of(&fold.finish()), response::message_of(&answer(&body)));
    }
}
