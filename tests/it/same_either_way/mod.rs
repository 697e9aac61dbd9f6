//! A turn has the same response, memory and state whether it is streamed or not: random responses through
//! random filters, both ways.

mod filters;

use crate::kernel::{StreamedTurn, json, request, run};
use crate::sdk::upstream::{self, Round, completion, whole, wire};
use crate::sdk::{DOOR, LOOK};
use fastrand::Rng;
use filters::May;
use futures::StreamExt;
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use valvehouse::context::Turn;
use valvehouse::error::Error;
use valvehouse::json::Json;
use valvehouse::kernel::{Kernel, ModelDefaults};
use valvehouse::provider::{Answer, Provider, Request, StreamChunk};
use valvehouse::tool::{Tool, ToolResult};

/// The number of cases unless `VALVEHOUSE_CASES` sets another one.
const CASES: usize = 300;

#[tokio::test]
async fn streamed_and_unstreamed_turns_have_equal_answers_and_effects() {
    let mut wrong = Vec::new();
    let cases = valvehouse_testkit::cases(CASES);
    for number in 0..cases {
        let case = Case::new(number);
        if let Err(why) = case.check().await {
            wrong.push(format!("case {number}: {why}\n{}", case.shown()));
        }
    }
    let shown = wrong.iter().take(3).map(String::as_str).collect::<Vec<_>>().join("\n\n");
    assert!(wrong.is_empty(), "{} of {cases} cases went wrong:\n\n{shown}", wrong.len());
}

struct Case {
    rounds: Arc<Vec<Round>>,
    filters: Vec<String>,
    hold: bool,
    kernel: Kernel,
}

impl Case {
    fn new(number: usize) -> Self {
        let rng = &mut Rng::with_seed(number as u64);
        let (hold, tools) = (rng.u8(0..4) == 0, rng.bool());
        let mut rounds = Vec::new();
        if tools {
            rounds.extend((0..rng.usize(0..3)).map(|_| upstream::draw(rng, 1, Some(LOOK), false)));
        }
        let choices = if tools { 1 } else { rng.usize(1..=2) };
        let calls = (rng.u8(0..4) == 0).then_some(DOOR);
        let usage = rng.bool();
        rounds.push(upstream::draw(rng, choices, calls, usage));
        let drawn = filters::draw(rng, May { rewrite: hold, second_choice: choices > 1 });
        let (filters, texts): (Vec<_>, Vec<_>) = drawn.into_iter().unzip();
        let texts = filters.iter().zip(&texts).map(|(filter, text)| format!("{filter:?}:\n{text}")).collect();
        let rounds = Arc::new(rounds);
        let mut builder = Kernel::builder()
            .provider(Arc::new(DrawnModel { number, rounds: rounds.clone() }))
            .filters(filters)
            .settings(ModelDefaults { hold, ..ModelDefaults::default() });
        if tools {
            builder = builder.tool(look());
        }
        Self { rounds, filters: texts, hold, kernel: builder.build() }
    }

    async fn check(&self) -> Result<(), String> {
        let (unstreamed, streamed) = (self.run(false).await, self.run(true).await);
        for (what, one, other) in [
            ("the answer", &unstreamed.answer, &streamed.answer),
            ("the history", &unstreamed.history, &streamed.history),
            ("the variables", &unstreamed.variables, &streamed.variables),
            ("the metadata", &unstreamed.metadata, &streamed.metadata),
        ] {
            if one != other {
                return Err(format!("{what}:\n  unstreamed {one}\n  streamed   {other}"));
            }
        }
        let client = streamed.client.unwrap_or_default();
        let expected = self.expected_of(&unstreamed);
        if client != expected {
            return Err(format!("the client:\n  unstreamed {expected}\n  streamed   {client}"));
        }
        Ok(())
    }

    async fn run(&self, stream: bool) -> Outcome {
        let body = json!({
            "model": "m", "messages": [{"role": "user", "content": "hi"}],
            "tools": [{"type": "function", "function": {"name": DOOR}}],
        });
        let StreamedTurn { pieces, answer, turn } =
            run(&self.kernel, request(json(&body.to_string())), Turn::default(), stream).await;
        let answer = answer.unwrap_or_else(|error| panic!("{error}\n{}", self.shown()));
        let pieces: Vec<Value> = pieces.iter().map(|piece| value(&piece.event)).collect();
        Outcome {
            answer: choices(&value(&answer)),
            history: plain(value(turn.context().history())),
            variables: plain(value(turn.context().variables())),
            metadata: plain(value(turn.metadata())),
            client: stream.then(|| received(&pieces)),
        }
    }

    /// Returns the expected result of a streaming client, computed from the unstreamed turn: the response,
    /// preceded by the model's thinking before its calls of the host's tools.
    fn expected_of(&self, unstreamed: &Outcome) -> Value {
        let mut expected = unstreamed.answer.clone();
        let history = unstreamed.history.as_array().cloned().unwrap_or_default();
        if let Some(first) = expected.get_mut("0").filter(|_| !self.hold) {
            let answers = history.iter().filter(|message| message["role"] == "assistant");
            let all = answers.chain([&*first]).filter_map(|message| message["reasoning_content"].as_str());
            let all: Vec<&str> = all.filter(|text| !text.is_empty()).collect();
            first["reasoning_content"] = json!(all.join("\n\n"));
        }
        plain(expected)
    }

    fn shown(&self) -> String {
        format!("hold: {}\n{}\n{:?}", self.hold, self.filters.join("\n"), self.rounds)
    }
}

/// The result of a turn.
struct Outcome {
    answer: Value,
    history: Value,
    variables: Value,
    metadata: Value,
    client: Option<Value>,
}

/// Returns a tool that counts its calls in the context.
fn look() -> Tool {
    Tool::from_json_fn_with_context(LOOK, |_, context| {
        let looked = context.get_or("looked", 0_i64).as_i64().unwrap() + 1;
        let context = context.set("looked", looked);
        Ok(ToolResult { context: Some(context), ..looked.into() })
    })
}

/// Responds with the drawn rounds, streamed or not as requested.
struct DrawnModel {
    number: usize,
    rounds: Arc<Vec<Round>>,
}

impl Provider for DrawnModel {
    fn name(&self) -> &str {
        "drawn"
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn chat(&self, request: Request) -> BoxFuture<'_, Result<Answer, Error>> {
        let messages = request.body.get("messages").unwrap_or_default().items();
        let answers_before =
            messages.iter().filter(|message| message.text("role").is_some_and(|role| role == "assistant"));
        let round = &self.rounds[answers_before.count().min(self.rounds.len() - 1)];
        let answer = if request.stream {
            let events =
                round.iter().map(|event| Ok(StreamChunk::new(json(&wire(self.number, event).to_string()))));
            Answer::Stream(futures::stream::iter(events.collect::<Vec<_>>()).boxed())
        } else {
            Answer::Whole(json(&completion(self.number, &whole(round)).to_string()))
        };
        Box::pin(async { Ok(answer) })
    }
}

fn value(json: &Json) -> Value {
    serde_json::from_str(&json.to_string()).unwrap()
}

/// Removes values without a meaning: empty texts and lists, nulls.
fn plain(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(key, value)| (key, plain(value)));
            Value::Object(
                fields.filter(|(_, value)| !matches!(value, Value::Null) && *value != json!("")).collect(),
            )
        }
        Value::Array(items) => Value::Array(items.into_iter().map(plain).collect()),
        other => other,
    }
}

/// Returns the choices of a response by number: the texts, the tool calls and the finish reason.
fn choices(answer: &Value) -> Value {
    let mut all = Map::new();
    for choice in answer["choices"].as_array().into_iter().flatten() {
        let message = &choice["message"];
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        let choice_view = json!({
            "content": message["content"], "reasoning_content": message["reasoning_content"],
            "calls": calls.map(|call| json!([call["id"], call["function"]["name"], call["function"]["arguments"]]))
                .collect::<Vec<_>>(),
            "finish_reason": choice["finish_reason"],
        });
        all.insert(choice["index"].to_string(), choice_view);
    }
    plain(Value::Object(all))
}

/// A choice that is assembled from deltas.
#[derive(Default)]
struct ReceivedChoice {
    content: String,
    reasoning: String,
    calls: BTreeMap<u64, [String; 3]>,
    ends: Vec<Value>,
}

/// Returns the choices that a client assembles from the events, without the host's own code.
fn received(pieces: &[Value]) -> Value {
    let mut all: BTreeMap<String, ReceivedChoice> = BTreeMap::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for choice in pieces.iter().flat_map(|piece| piece["choices"].as_array().cloned().unwrap_or_default()) {
        let own = all.entry(choice["index"].to_string()).or_default();
        let delta = &choice["delta"];
        own.content += &text(&delta["content"]);
        own.reasoning += &text(&delta["reasoning_content"]);
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            let call = own.calls.entry(piece["index"].as_u64().unwrap()).or_default();
            let function = &piece["function"];
            for (part, more) in call.iter_mut().zip([&piece["id"], &function["name"], &function["arguments"]])
            {
                *part += &text(more);
            }
        }
        own.ends.extend(Some(choice["finish_reason"].clone()).filter(|why| !why.is_null()));
    }
    let all = all.into_iter().map(|(index, own)| {
        let end = match own.ends.as_slice() {
            [] => Value::Null,
            [one] => one.clone(),
            several => json!(several),
        };
        let choice_view = json!({
            "content": own.content, "reasoning_content": own.reasoning,
            "calls": own.calls.into_values().collect::<Vec<_>>(), "finish_reason": end,
        });
        (index, choice_view)
    });
    plain(Value::Object(all.collect()))
}
