//! Any events of a service in any order, with any filters: the client receives one well-formed stream, or one
//! error at its end.

use crate::kernel::{asking, echo, json, script, stream_body};
use crate::well_formed;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::Value;
use valvehouse::json::Json;
use valvehouse::kernel::ModelDefaults;
use valvehouse::provider::Reply;

/// The request asks for usage and declares a tool of the client.
const BODY: &str = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true},"tools":[{"type":"function","function":{"name":"open_door"}}]}"#;

/// Changes that filters make to events, useful ones and others.
const FILTERS: [&str; 17] = [
    "fn stream(event) { event }",
    "fn stream(event) { [] }",
    "fn stream(event) { [event, event] }",
    "fn stream(event) { [event, event.copy()] }",
    "fn stream(event) { [#{ text: \"a\" }, event, #{ text: \"b\", index: 1 }] }",
    "fn stream(event, state) { state.n = (state.n ?? 0) + 1; if state.n % 2 == 0 { [] } else { event } }",
    "fn stream(event, state) { state.kept = (state.kept ?? \"\") + event.text; event.text = \"\"; event }\nfn stream_end(state) { state.kept ?? \"\" }",
    "fn stream(event) { event.finish_reason = \"stop\"; event }",
    "fn stream(event) { event.finish_reason = (); event }",
    "fn stream(event) { event.id = \"other\"; event.choices = []; event }",
    "fn stream(event) { event.remove(\"choices\"); event }",
    "fn stream(event) { if event.text == \"b\" { throw \"no\"; } }",
    "fn stream(event) { if event.text == \"c\" { event.no.such.key } }",
    "fn stream(event) { if event.text == \"c\" { skip(#{ text: \"C\" }) } }",
    "fn stream_end(state) { [#{ text: \"!\" }, #{ text: \"?\", index: 1 }, #{ usage: 1 }] }",
    "fn outlet(body) { body.messages[-1].content += \" (end)\"; }",
    "fn post_chat(ctx) { ctx.result.finish_reason = \"length\"; ctx.result.content = \"other\"; }",
];

/// A delta that a service could send.
fn delta() -> impl Strategy<Value = &'static str> {
    select(vec![
        r#"{"role":"assistant","content":""}"#,
        r#"{"content":"a"}"#,
        r#"{"content":"b"}"#,
        r#"{"role":"assistant","content":"c"}"#,
        r#"{"content":[{"type":"text","text":"d"}]}"#,
        r#"{"reasoning_content":"e"}"#,
        r#"{"role":null,"content":null}"#,
        "{}",
        "null",
        r#"{"tool_calls":[{"index":0,"id":"x","type":"function","function":{"name":"open_door","arguments":""}}]}"#,
        r#"{"tool_calls":[{"index":1,"id":"y","function":{"name":"open_door","arguments":"{}"}}]}"#,
        r#"{"tool_calls":[{"id":"z","function":{"name":"open_door","arguments":{"n":1}}}]}"#,
        r#"{"tool_calls":[{"index":5,"function":{"name":"open_door","arguments":"{}"}}],"content":"f"}"#,
    ])
}

fn choice() -> impl Strategy<Value = String> {
    let index = select(vec!["\"index\":0,", "\"index\":0,", "\"index\":1,", ""]);
    let more = select(vec![
        "",
        "",
        "",
        r#","finish_reason":null"#,
        r#","finish_reason":"""#,
        r#","finish_reason":"stop""#,
        r#","finish_reason":"tool_calls""#,
        r#","message":{"content":"whole"}"#,
    ]);
    (index, delta(), more).prop_map(|(index, delta, more)| format!("{{{index}\"delta\":{delta}{more}}}"))
}

fn event() -> impl Strategy<Value = String> {
    let head = select(vec![r#""id":"c","#, r#""id":"c","#, r#""id":"d","#, r#""id":"","model":"","#, ""]);
    let kind = select(vec![r#""object":"chat.completion.chunk","#, "", r#""object":"","#]);
    let usage = select(vec!["", "", "", r#","usage":{"total_tokens":1}"#, r#","usage":null"#]);
    let choices = prop_oneof![
        8 => choice(),
        1 => Just(String::new()),
        1 => (choice(), choice()).prop_map(|(one, two)| format!("{one},{two}")),
    ];
    (head, kind, choices, usage)
        .prop_map(|(head, kind, choices, usage)| format!("{{{head}{kind}\"choices\":[{choices}]{usage}}}"))
}

/// A call in two events, as most services send it.
fn call() -> impl Strategy<Value = Vec<String>> {
    let rest = select(vec![r#""id":"","#, "", r#""id":"w","#]);
    rest.prop_map(|rest| {
        let begin =
            r#"{"index":3,"id":"w","type":"function","function":{"name":"open_door","arguments":""}}"#;
        let rest = format!(r#"{{"index":3,{rest}"function":{{"arguments":"{{}}"}}}}"#);
        [begin, &rest]
            .map(|call| {
                format!(r#"{{"id":"c","choices":[{{"index":0,"delta":{{"tool_calls":[{call}]}}}}]}}"#)
            })
            .to_vec()
    })
}

/// Returns a strategy for the events of a service.
fn events() -> impl Strategy<Value = Vec<String>> {
    let some = prop_oneof![6 => event().prop_map(|event| vec![event]), 1 => call()];
    prop::collection::vec(some, 1..12).prop_map(|events| events.concat())
}

fn parsed(event: &Json) -> Value {
    serde_json::from_str(&event.to_string()).unwrap()
}

proptest! {
    #[test]
    fn any_stream_through_any_filters_is_well_formed(
        events in events(),
        filters in subsequence(FILTERS.to_vec(), 0..4),
        ignored in any::<bool>(),
        hold in any::<bool>(),
        tools in any::<bool>(),
    ) {
        let head = if ignored { "/*\non_error: continue\n*/\n" } else { "" };
        let filters = filters.iter().enumerate().map(|(n, text)| script(&format!("f{n}"), &format!("{head}{text}")));
        let pieces: Vec<Json> = events.iter().map(|event| json(event)).collect();
        let settings = ModelDefaults { hold, ..ModelDefaults::default() };
        let mut builder = asking([Reply::chunks(pieces)]).0.filters(filters).settings(settings);
        if tools {
            builder = builder.tool(echo());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let streamed = runtime.block_on(stream_body(&builder.build(), BODY));
        let mut sent: Vec<Value> = streamed.pieces.iter().map(|piece| parsed(&piece.event)).collect();
        match &streamed.answer {
            Err(error) => sent.push(serde_json::json!({"error": {"message": error.to_string()}})),
            // A response without a choice has no content, so no stream can be made of it.
            Ok(answer) if answer.at_path("choices").items().is_empty() => return Ok(()),
            Ok(_) => {}
        }
        if let Err(wrong) = well_formed::check(&sent) {
            return Err(TestCaseError::fail(format!("{wrong}\n{sent:#?}")));
        }
    }
}
