//! A turn has the same response, memory and state whether it is streamed or not: random responses through
//! random filters, both ways.

mod filters;

use crate::generator::answer::{ModelTurn, completion, count_answers, whole, wire};
use crate::generator::received::{ReceivedChoice, choices_of};
use crate::generator::{DOOR, LOOK};
use crate::kernel::{StreamedTurn, json, request, run, value};
use fastrand::Rng;
use filters::May;
use futures::StreamExt;
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
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
    turn: Arc<ModelTurn>,
    filters: Vec<String>,
    hold: bool,
    kernel: Kernel,
}

impl Case {
    fn new(number: usize) -> Self {
        let rng = &mut Rng::with_seed(number as u64);
        let (hold, tools) = (rng.u8(0..4) == 0, rng.bool());
        let choices = if tools { 1 } else { rng.usize(1..=2) };
        let usage = rng.bool();
        let turn = ModelTurn::draw(rng, number, (tools, usage), |rng| {
            (choices, (rng.u8(0..4) == 0).then_some(DOOR))
        });
        let drawn = filters::draw(rng, May { rewrite: hold, second_choice: choices > 1 });
        let (filters, texts): (Vec<_>, Vec<_>) = drawn.into_iter().unzip();
        let texts = filters.iter().zip(&texts).map(|(filter, text)| format!("{filter:?}:\n{text}")).collect();
        let turn = Arc::new(turn);
        let mut builder = Kernel::builder()
            .provider(Arc::new(DrawnModel(turn.clone())))
            .filters(filters)
            .settings(ModelDefaults { hold, ..ModelDefaults::default() });
        if tools {
            builder = builder.tool(look());
        }
        Self { turn, filters: texts, hold, kernel: builder.build() }
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
        format!("hold: {}\n{}\n{:?}", self.hold, self.filters.join("\n"), self.turn)
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
struct DrawnModel(Arc<ModelTurn>);

impl Provider for DrawnModel {
    fn name(&self) -> &str {
        "drawn"
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn chat(&self, request: Request) -> BoxFuture<'_, Result<Answer, Error>> {
        let number = self.0.number;
        let (round, _) = self.0.answer(count_answers(&value(&request.body.field("messages"))));
        let answer = if request.stream {
            let events =
                round.iter().map(|event| Ok(StreamChunk::new(json(&wire(number, event).to_string()))));
            Answer::Stream(futures::stream::iter(events.collect::<Vec<_>>()).boxed())
        } else {
            Answer::Whole(json(&completion(number, &whole(round)).to_string()))
        };
        Box::pin(async { Ok(answer) })
    }
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

/// Returns the choices that a client assembles from the events.
fn received(pieces: &[Value]) -> Value {
    let choice_view = |choice: ReceivedChoice| {
        let end = match choice.ends.as_slice() {
            [] => Value::Null,
            [one] => json!(one),
            several => json!(several),
        };
        let calls = choice.calls.into_values().map(|call| json!([call.id, call.name, call.input]));
        json!({
            "content": choice.content, "reasoning_content": choice.reasoning_content,
            "calls": calls.collect::<Vec<_>>(), "finish_reason": end,
        })
    };
    let all = choices_of(pieces).into_iter();
    plain(Value::Object(all.map(|(index, choice)| (index.to_string(), choice_view(choice))).collect()))
}
