//! Each text of a stream is filtered separately: for all filters and cuts, a client assembles what the
//! service sent, with the filter applied to each text.

pub(crate) mod blocks;
mod clients;
mod events;
pub(crate) mod raw;

use crate::kernel::{asking, json, script, stream, stream_body};
use events::{Call, Speech, cut_everywhere, events_of, speeches};
use proptest::prelude::*;
use valvehouse::chat::{Fold, message};
use valvehouse::error::Error;
use valvehouse::filter::FilterEntry;
use valvehouse::json::Json;
use valvehouse::kernel::{ModelDefaults, RunOptions};
use valvehouse::provider::Reply;

pub(crate) const SECRET: &str = "secret-42";
pub(crate) const MARK: &str = "[x]";
const SEEN: &str = " (seen)";

/// The effect of a filter on responses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Shape {
    None,
    Identity,
    Window,
    Redact,
    RedactTwice,
    Append,
    Hold,
}

impl Shape {
    pub(crate) const ALL: [Self; 7] =
        [Self::None, Self::Identity, Self::Window, Self::Redact, Self::RedactTwice, Self::Append, Self::Hold];

    /// Returns the scripts with this effect.
    pub(crate) fn scripts(self) -> Vec<String> {
        let redact = format!(
            "fn stream(event, state) {{ stream::window(event, state, 9, |text| text::replace(text, \"{SECRET}\", \"{MARK}\")); }}"
        );
        let window = "fn stream(event, state) { stream::window(event, state, 12, |text| text); }";
        match self {
            Self::None => Vec::new(),
            Self::Identity => vec!["fn stream(event) { event }\nfn outlet(body) { body }".into()],
            Self::Window => vec![window.into()],
            Self::Redact => vec![redact],
            Self::RedactTwice => vec![window.into(), redact],
            Self::Append => vec![format!("fn outlet(body) {{ body.messages[-1].text += \"{SEEN}\"; }}")],
            Self::Hold => vec![format!("/*\nhold: true\n*/\n{redact}")],
        }
    }

    fn filters(self) -> Vec<FilterEntry> {
        let scripts = self.scripts().into_iter().enumerate();
        scripts.map(|(n, text)| script(&format!("f{n}"), &text)).collect()
    }

    fn redacts(self) -> bool {
        matches!(self, Self::Redact | Self::RedactTwice | Self::Hold)
    }

    /// Returns the effect on an uncut response.
    pub(crate) fn expected(self, answer: &Json) -> Json {
        let answer = answer.deep_clone();
        for choice in answer.at_path("choices").items() {
            let message = choice.at_path("message");
            if self.redacts() {
                for place in valvehouse::chat::event::texts(&message) {
                    place.set_text(&place.text().replace(SECRET, MARK));
                }
            }
            if self == Self::Append {
                message::set_text(&message, &(String::from(message::text_of(&message)) + SEEN));
            }
        }
        answer
    }
}

fn folded<'a>(events: impl IntoIterator<Item = &'a Json>) -> Json {
    let mut fold = Fold::default();
    events.into_iter().for_each(|event| fold.push(event));
    fold.finish()
}

/// Returns the content of each choice of a response, without the fields that depend on its transport.
fn texts_of(answer: &Json) -> Vec<String> {
    let choices = answer.at_path("choices").items();
    let texts = choices.iter().map(|choice| {
        let message = choice.at_path("message").deep_clone();
        // Clients treat an empty text and a missing one alike.
        for key in ["content", "refusal", "reasoning_content"] {
            if message.get(key).is_some_and(|text| text.is_empty()) {
                message.remove(key);
            }
        }
        message.remove("role");
        // A call of the first version has no id; the host makes one.
        for call in message.list("tool_calls") {
            if call.string("id").strip_prefix("call_").is_some_and(|rest| rest.len() == 32) {
                call.remove("id");
            }
        }
        let mut fields: Vec<String> = Vec::new();
        message.as_object().unwrap().for_each(|key, value| fields.push(format!("{key}: {value}")));
        fields.sort();
        format!("{}: {} {}", choice.at_path("index"), fields.join(", "), choice.at_path("finish_reason"))
    });
    texts.collect()
}

/// Sends events through filters of a shape. Returns what the client received.
async fn through(shape: Shape, events: &[Json]) -> Vec<Json> {
    let settings = ModelDefaults { hold: shape == Shape::Hold, ..ModelDefaults::default() };
    let events: Vec<Json> = events.iter().map(Json::deep_clone).collect();
    let kernel = asking([Reply::chunks(events)]).0.filters(shape.filters()).settings(settings).build();
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"tools":[{"type":"function","function":{"name":"f0"}},{"type":"function","function":{"name":"f1"}},{"type":"custom","custom":{"name":"f2"}}]}"#;
    let streamed = stream_body(&kernel, body).await;
    streamed.answer.as_ref().unwrap();
    streamed.pieces.into_iter().map(|piece| piece.event).collect()
}

/// Returns the texts that an event adds to, in order.
fn lanes_of(event: &Json) -> Vec<String> {
    let delta = event.at_path("choices.0.delta");
    let mut lanes = Vec::new();
    for key in ["reasoning_content", "content", "refusal"] {
        if delta.get(key).is_some_and(|text| !text.is_empty()) {
            lanes.push(key.to_owned());
        }
    }
    for call in delta.get("tool_calls").unwrap_or_default().items() {
        lanes.push(format!("call {}", call.at_path("index")));
    }
    lanes
}

/// Returns the order of the first choice's texts.
fn order(events: &[Json]) -> Vec<String> {
    let of_first = events.iter().filter(|event| event.at_path("choices.0.index") == 0_i64.into());
    let mut lanes: Vec<String> = of_first.flat_map(lanes_of).collect();
    lanes.dedup();
    lanes
}

/// Returns the number of events without a text, a role or an end.
fn hollow(events: &[Json]) -> usize {
    let is_hollow = |event: &&Json| {
        let choice = event.at_path("choices.0");
        let ends = choice.get("finish_reason").is_some_and(|why| !why.is_null());
        let has_role = choice.at_path("delta.role").as_str().is_some();
        choice.as_object().is_some() && !ends && !has_role && lanes_of(event).is_empty()
    };
    events.iter().filter(is_hollow).count()
}

fn check(shape: Shape, given: &[Json], got: &[Json]) -> Result<(), String> {
    let (expected, seen) = (texts_of(&shape.expected(&folded(given))), texts_of(&folded(got)));
    if expected != seen {
        return Err(format!("{shape:?}:\nexpected {expected:#?}\nseen     {seen:#?}"));
    }
    if hollow(got) > hollow(given) {
        return Err(format!("{shape:?}: {} events without anything in them", hollow(got)));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(valvehouse_testkit::cases(150)))]
    #[test]
    fn an_assembled_stream_equals_the_original_with_each_text_filtered(events in speeches()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for shape in Shape::ALL {
            let got = runtime.block_on(through(shape, &events));
            if let Err(wrong) = check(shape, &events, &got) {
                let shown = |events: &[Json]| events.iter().map(|event| format!("{}\n", event.at_path("choices"))).collect::<String>();
                return Err(TestCaseError::fail(format!("{wrong}\ngiven\n{}got\n{}", shown(&events), shown(&got))));
            }
        }
    }
}

/// Returns thinking, a text and calls of both types, each with the text that the filters replace.
fn all_kinds() -> [Speech; 3] {
    [
        Speech::Thinking("I think of secret-42 now. ".into()),
        Speech::Text("Let me look, secret-42. ".into()),
        Speech::Calls(vec![
            Call::function("f0", r#"{"q":"a secret-42"}"#),
            Call::function("f1", r#"{"place":"Seattle, WA"}"#),
            Call::custom("f2", "print(secret-42)"),
        ]),
    ]
}

#[tokio::test]
async fn texts_keep_their_order_wherever_they_are_cut() {
    for events in cut_everywhere(&all_kinds()) {
        for shape in Shape::ALL {
            let got = through(shape, &events).await;
            check(shape, &events, &got).unwrap();
            if shape != Shape::Append {
                assert_eq!(order(&got), order(&events), "{shape:?}: {got:#?}");
            }
        }
    }
}

#[tokio::test]
async fn recorded_streams_keep_all_content() {
    for recording in crate::recordings::all() {
        if !recording.is("chat.") || !recording.is_stream() || recording.fails() {
            continue;
        }
        let given = recording.chat_events();
        let expected = texts_of(&folded(&through(Shape::None, &given).await));
        for shape in [Shape::Identity, Shape::Window, Shape::Redact, Shape::RedactTwice, Shape::Hold] {
            let got = through(shape, &given).await;
            assert_eq!(texts_of(&folded(&got)), expected, "{} {shape:?}", recording.name);
        }
    }
}

#[tokio::test]
async fn text_held_back_in_a_failed_stream_precedes_the_error() {
    let error = || Error::Provider { message: "it broke off".into(), timeout: false };
    let events = events_of(&[Speech::Text("one secret-42 two".into())], 3, false);
    let kernel =
        asking([Reply::chunks_then_error(events, error())]).0.filters(Shape::Redact.filters()).build();
    let streamed = stream(&kernel).await;
    assert!(streamed.answer.is_err());
    assert_eq!(streamed.texts().concat(), "one [x] two");
    let finishes = streamed.pieces.iter().filter(|piece| valvehouse::chat::delta::finishes(&piece.event));
    assert_eq!(finishes.count(), 0, "a stream that broke has no end of its own");
}

#[tokio::test]
async fn a_text_interrupted_by_a_call_is_still_filtered() {
    let piece = |delta: &str| {
        json(&format!(r#"{{"id":"c","choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#))
    };
    let events = vec![
        piece(r#"{"role":"assistant","content":"it is secr"}"#),
        piece(
            r#"{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f0","arguments":"{}"}}]}"#,
        ),
        piece(r#"{"content":"et-42, really"}"#),
        json(r#"{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#),
    ];
    let got = through(Shape::Redact, &events).await;
    let text = String::from(message::text_of(&folded(&got).at_path("choices.0.message")));
    assert!(text.ends_with("[x], really") && !text.contains(SECRET), "{text}");
}

#[tokio::test]
async fn a_held_answer_is_collected_from_a_stream_and_sent_complete() {
    let events = events_of(&[Speech::Text("one secret-42 two".into())], 3, true);
    let settings = ModelDefaults { hold: true, ..ModelDefaults::default() };
    let (builder, model) = asking([Reply::chunks(events)]);
    let kernel = builder.filters(Shape::Hold.filters()).settings(settings).build();
    let streamed = stream(&kernel).await;
    assert_eq!(streamed.text(), "one [x] two|stop");
    assert_eq!(model.requests()[0].at_path("stream"), true.into());
}

#[tokio::test]
async fn calls_of_custom_tools_pass_an_idle_filter() {
    let events = events_of(&[Speech::Calls(vec![Call::custom("f2", "any text\nat all")])], 2, true);
    let kernel = asking([Reply::chunks(events)]).0.filter(script("idle", "fn outlet(body) { }")).build();
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"tools":[{"type":"custom","custom":{"name":"f2"}}]}"#;
    let streamed = stream_body(&kernel, body).await;
    let call =
        folded(streamed.pieces.iter().map(|piece| &piece.event)).at_path("choices.0.message.tool_calls.0");
    assert_eq!(
        call.to_string(),
        r#"{"id":"call_0","type":"custom","custom":{"name":"f2","input":"any text\nat all"}}"#
    );
}

#[tokio::test]
async fn a_turn_of_several_rounds_has_one_text_and_the_usage_of_all() {
    let usage = |prompt: usize| valvehouse::chat::response::usage(prompt, 2);
    let rounds = || {
        let look = crate::kernel::calls("Look.", &[("echo", "{}")]);
        [look, Reply::text("final")]
    };
    let with_usage = |n: usize, completion: &str| {
        let answer = json(completion);
        answer.set("usage", usage(n)).unwrap();
        Reply::whole(answer)
    };
    let replies = || {
        [
            with_usage(
                9,
                r#"{"id":"a","choices":[{"index":0,"message":{"role":"assistant","content":"Look.","tool_calls":[{"id":"c","type":"function","function":{"name":"echo","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#,
            ),
            with_usage(
                20,
                r#"{"id":"b","choices":[{"index":0,"message":{"role":"assistant","content":"final"},"finish_reason":"stop"}]}"#,
            ),
        ]
    };
    let kernel = asking(replies()).0.tool(crate::kernel::echo()).build();
    let body = json(r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#);
    let answer = kernel.run(crate::kernel::request(body), RunOptions::default()).answer().await;
    let whole = answer.unwrap().reply;
    assert_eq!(whole.at_path("choices.0.message.content"), "Look.\n\nfinal".into());
    let spent = whole.at_path("usage");
    assert_eq!(spent.at_path("prompt_tokens"), 29_i64.into());
    assert_eq!(spent.at_path("total_tokens"), 33_i64.into());
    assert_eq!(spent.at_path("last_call.prompt_tokens"), 20_i64.into());

    let kernel = asking(rounds()).0.tool(crate::kernel::echo()).build();
    let streamed = stream(&kernel).await;
    assert_eq!(streamed.texts().concat(), "Look.\n\nfinal");
    assert_eq!(
        String::from(message::text_of(&streamed.answer.unwrap().at_path("choices.0.message"))),
        "Look.\n\nfinal"
    );
}
