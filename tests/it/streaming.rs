//! The events of a turn that a streaming client receives, and the changes of filters to a stream.

use crate::kernel::*;
use futures::StreamExt;
use futures::future::BoxFuture;
use std::sync::Arc;
use tokio::sync::Notify;
use valvehouse::chat::{event, message};
use valvehouse::context::{Context, Events, Turn, TurnFacts};
use valvehouse::error::{Error, PluginError};
use valvehouse::filter::{FailurePolicy, FilterEntry, Hook, Verdict::Continue, Verdict::Respond};
use valvehouse::json::Json;
use valvehouse::kernel::{Kernel, ModelDefaults, RunOptions, TurnEnd, TurnEvent};
use valvehouse::provider::{
    Answer, CannedProvider, ForwardRequest, PassthroughAnswer, PassthroughBody, Provider, Reply, Request,
    StreamChunk,
};

/// Returns a kernel whose model streams these pieces of text.
fn streaming(pieces: &[&str], filters: impl IntoIterator<Item = FilterEntry>) -> Kernel {
    asking([Reply::chunks(pieces.iter().copied())]).0.filters(filters).build()
}

fn holding(pieces: &[&str], filter: FilterEntry) -> Kernel {
    let settings = ModelDefaults { hold: true, ..ModelDefaults::default() };
    asking([Reply::chunks(pieces.iter().copied())]).0.filter(filter).settings(settings).build()
}

/// Returns a response with two interleaved choices: `a b` and `A B`.
fn two_choices() -> Reply {
    let piece = |index: usize, delta: &str, finish: &str| {
        json(&format!(
            r#"{{"id":"c","choices":[{{"index":{index},"delta":{delta},"finish_reason":{finish}}}]}}"#
        ))
    };
    Reply::chunks([
        piece(0, r#"{"role":"assistant","content":"a "}"#, "null"),
        piece(1, r#"{"role":"assistant","content":"A "}"#, "null"),
        piece(0, r#"{"content":"b"}"#, "null"),
        piece(0, "{}", r#""stop""#),
        piece(1, r#"{"content":"B"}"#, r#""length""#),
    ])
}

fn choice_texts(answer: &Json) -> Vec<String> {
    let choices = answer.get("choices").unwrap_or_default().items();
    choices.iter().map(|choice| message::text_of(&choice.at_path("message")).into()).collect()
}

/// Returns a stream filter in Rust that changes the text of each event.
fn on_text(name: &str, change: impl Fn(&str) -> String + Send + Sync + 'static) -> FilterEntry {
    FilterEntry::closure(name, Hook::Stream, move |ctx| {
        event::set_text(&ctx.value, &change(&event::text(&ctx.value)));
        Ok(Continue)
    })
}

/// A provider that sends exactly these bytes and waits after the first piece until it is notified.
struct Wire {
    pieces: Vec<&'static str>,
    go_on: Option<Arc<Notify>>,
}

impl Provider for Wire {
    fn name(&self) -> &str {
        "wire"
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn chat(&self, _: Request) -> BoxFuture<'_, Result<Answer, Error>> {
        let (pieces, go_on) = (self.pieces.clone(), self.go_on.clone());
        let pieces = futures::stream::iter(pieces.into_iter().enumerate()).then(move |(place, text)| {
            let go_on = go_on.clone().filter(|_| place > 0);
            async move {
                if let Some(go_on) = go_on {
                    go_on.notified().await;
                }
                let event = Json::parse(text.as_bytes()).unwrap_or_default();
                Ok(StreamChunk::received(text.into(), event, None))
            }
        });
        Box::pin(async { Ok(Answer::Stream(pieces.boxed())) })
    }

    fn forward<'a>(
        &'a self,
        request: ForwardRequest<'a>,
    ) -> Option<BoxFuture<'a, Result<PassthroughAnswer, Error>>> {
        let body = request.body;
        let body = PassthroughBody::Stream(futures::stream::iter([Ok(body)]).boxed());
        Some(Box::pin(async {
            Ok(PassthroughAnswer { provider: "raw".into(), status: 200, content_type: None, body })
        }))
    }
}

#[tokio::test]
async fn an_answer_streams_word_by_word() {
    let streamed = stream(&answering("one two three", [])).await;
    assert_eq!(streamed.texts(), ["one ", "two ", "three"]);
    assert_eq!(
        (streamed.text().as_str(), streamed.answer().as_str()),
        ("one two three|stop", "one two three")
    );
}

#[tokio::test]
async fn a_chunk_is_sent_before_the_next_one_exists() {
    let pieces = vec![
        r#"{"choices":[{"index":0,"delta":{"content":"one "}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"two"},"finish_reason":"stop"}]}"#,
    ];
    let go_on = Arc::new(Notify::new());
    let wire = Wire { pieces, go_on: Some(go_on.clone()) };
    let kernel = Kernel::builder().provider(Arc::new(wire)).filter(on_text("same", str::to_owned)).build();
    let body = json(r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#);
    let mut answer = kernel.run(request(body), RunOptions::default().streamed(true));
    let mut texts = vec![answer.next().await.unwrap().unwrap().text()];
    go_on.notify_one();
    let mut has_answer = false;
    while let Some(event) = answer.next().await {
        let event = event.unwrap();
        texts.push(event.text());
        has_answer |= matches!(event, TurnEvent::Answer(_));
    }
    assert_eq!((has_answer, texts.concat().as_str()), (true, "one two"));
}

#[tokio::test]
async fn an_emitted_event_keeps_its_position_for_a_slow_reader() {
    let emits = |name: &'static str, hook: Hook| {
        FilterEntry::closure(name, hook, move |ctx| {
            ctx.turn.emit(name, Json::from([("type", name.into())]))?;
            Ok(Continue)
        })
    };
    let kernel = streaming(&["one ", "two"], [emits("first", Hook::Inlet), emits("last", Hook::Outlet)]);
    let (events, emitted) = Events::channel(None);
    let turn = Turn::new(TurnFacts::default(), Context::default(), events);
    let options = RunOptions::new(turn).streamed(true).emitted(emitted);
    let body = json(r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#);
    let mut answer = kernel.run(request(body), options);
    let mut seen = String::new();
    // The whole turn runs before the first event is read.
    while let Some(event) = answer.next().await {
        match event.unwrap() {
            TurnEvent::Emitted(event) => seen.push_str(&format!("[{}]", event.string("type"))),
            TurnEvent::Chunk(piece) => seen.push_str(&event::text(&piece.event)),
            TurnEvent::Answer(_) | TurnEvent::Passthrough(_) => {}
        }
    }
    assert_eq!(seen, "[first]one two[last]");
}

#[tokio::test]
async fn unchanged_events_keep_their_bytes() {
    let pieces = vec![
        r#"{ "id":"1", "choices":[{"index":0,"delta":{"role":"assistant","content":"keep"},"x":1.50}] }"#,
        r#"{ "id":"1", "choices":[{"index":0,"delta":{"content":"change"}}] }"#,
        r#"{ "id":"1", "choices":[{"index":0,"delta":{},"finish_reason":"stop"}] }"#,
    ];
    let closure = on_text("change", |text| text.replace("change", "changed"));
    let script_text = r#"fn stream(event) { if event.text == "change" { event.text = "changed"; } event }"#;
    for filter in both(closure, script_text) {
        let wire = Wire { pieces: pieces.clone(), go_on: None };
        let kernel = Kernel::builder().provider(Arc::new(wire)).filter(filter).build();
        let streamed = stream(&kernel).await;
        let raw: Vec<_> = streamed.pieces.iter().map(|piece| piece.raw.clone()).collect();
        assert_eq!(raw, [pieces[0], "", pieces[2]]);
        assert_eq!(streamed.texts(), ["keep", "changed"]);
    }
}

#[tokio::test]
async fn a_turn_without_filters_passes_byte_for_byte() {
    let wire = || Arc::new(Wire { pieces: Vec::new(), go_on: None });
    let prompt = script("prompt", r#"fn pre_chat(ctx) { ctx.messages.append_system("s"); }"#);
    let body = || json(r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"n":1.0,"files":[]}"#);
    let options = || RunOptions::default().passthrough(true);
    let kernel = Kernel::builder().provider(wire()).filter(prompt).build();
    let Ok(TurnEnd::Passthrough(forwarded)) = kernel.run(request(body()), options()).end().await else {
        panic!("not passed through")
    };
    let sent: Vec<_> = forwarded.body.into_stream().collect().await;
    let expected = r#"{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"}],"n":1.0}"#;
    assert_eq!(sent[0].as_ref().unwrap(), expected);

    for name in ["stream(event)", "stream_end(state)", "post_chat(ctx)", "outlet(body)"] {
        let looks = script("looks", &format!("fn {name} {{ }}"));
        let kernel = Kernel::builder().provider(wire()).filter(looks).build();
        let end = kernel.run(request(body()), options()).end().await;
        assert!(matches!(end, Ok(TurnEnd::Answer(_))), "{name} has to see the answer");
    }
}

#[tokio::test]
async fn a_stream_hook_changes_drops_and_splits_events() {
    let closure = FilterEntry::closure("edit", Hook::Stream, |ctx| {
        match &*event::text(&ctx.value) {
            "secret " => ctx.value = Json::array(),
            "split " => ctx.value = vec![json(r#"{"text":"sp"}"#), json(r#"{"text":"lit "}"#)].into(),
            text => event::set_text(&ctx.value, &text.to_uppercase()),
        }
        Ok(Continue)
    });
    let text = r#"fn stream(event) {
        if event.text == "secret " { return []; }
        if event.text == "split " { return [#{ text: "sp" }, #{ text: "lit " }]; }
        event.text = event.text.to_upper();
    }"#;
    for filter in both(closure, text) {
        let streamed = stream(&streaming(&["one ", "secret ", "split ", "two"], [filter])).await;
        assert_eq!(streamed.texts(), ["ONE ", "sp", "lit ", "TWO"]);
        assert_eq!(
            (streamed.text().as_str(), streamed.answer().as_str()),
            ("ONE split TWO|stop", "ONE split TWO")
        );
    }
}

#[tokio::test]
async fn the_next_filter_sees_events_of_the_previous_one() {
    let split =
        script("split", r#"fn stream(event) { if event.text != "" { [#{ text: "x" }, #{ text: "y" }] } }"#);
    let double = on_text("double", |text| format!("{text}{text}")).priority(1.0);
    assert_eq!(stream(&streaming(&["a"], [double, split])).await.text(), "xxyy|stop");
}

#[tokio::test]
async fn skip_in_the_stream_is_final_for_that_event() {
    let closure = FilterEntry::closure("first", Hook::Stream, |ctx| match &*event::text(&ctx.value) {
        "a" => Ok(Respond(json(r#"{"text":"A"}"#))),
        _ => Ok(Continue),
    });
    for filter in both(closure, r##"fn stream(event) { if event.text == "a" { skip(#{ text: "A" }) } }"##) {
        let later =
            on_text("later", |text| if text.is_empty() { String::new() } else { format!("<{text}>") });
        let streamed = stream(&streaming(&["a", "b"], [filter, later.priority(1.0)])).await;
        assert_eq!(streamed.text(), "A<b>|stop");
    }
}

#[tokio::test]
async fn an_answer_ends_even_if_a_filter_drops_its_last_event() {
    for text in [r#"fn stream(event) { if event.text == "" { [] } }"#, "fn stream(event) { [] }"] {
        for reply in [
            Reply::chunks(["one"]),
            Reply::text("one"),
            Reply::chunks([json(
                r#"{"id":"c","choices":[{"index":0,"delta":{"content":"one"},"finish_reason":"stop"}]}"#,
            )]),
        ] {
            let kernel = asking([reply]).0.filter(script("drop", text)).build();
            let streamed = stream(&kernel).await;
            let expected = if text.contains("if") { "one|stop" } else { "|stop" };
            assert_eq!(streamed.text(), expected);
            assert_eq!(streamed.answer.unwrap().at_path("choices.0.finish_reason"), "stop".into());
        }
    }
}

#[tokio::test]
async fn choices_are_filtered_and_finished_separately() {
    let shout = r#"fn stream(event) { if event.index == 1 { event.text += "!"; } }"#;
    for (filters, second) in [(vec![], "A B|length"), (vec![script("shout", shout)], "A !B!|length")] {
        let kernel = asking([two_choices()]).0.filters(filters).build();
        let streamed = stream(&kernel).await;
        assert_eq!((streamed.text().as_str(), streamed.text_of(1).as_str()), ("a b|stop", second));
        assert_eq!(choice_texts(&streamed.answer.unwrap()), ["a b", second.trim_end_matches("|length")]);
    }
}

#[tokio::test]
async fn several_choices_in_one_event_are_seen_one_by_one() {
    let both = r#"{"id":"c","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"},{"index":1,"delta":{"content":"A"},"finish_reason":"stop"}]}"#;
    let mark = script("mark", "fn stream(event) { event.text += `${event.index}`; }");
    let streamed = stream(&asking([Reply::chunks([json(both)])]).0.filter(mark).build()).await;
    assert_eq!((streamed.text().as_str(), streamed.text_of(1).as_str()), ("a0|stop", "A1|stop"));
}

#[tokio::test]
async fn one_choice_keeps_streaming_after_another_ended() {
    let kernel = asking([two_choices()]).0.build();
    let texts: Vec<String> =
        stream(&kernel).await.pieces.iter().map(|piece| event::text(&piece.event).into()).collect();
    assert_eq!(texts, ["a ", "A ", "b", "B", "", ""], "both ends come last");
}

#[tokio::test]
async fn usage_comes_last_and_only_on_request() {
    let wanted = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}"#;
    let last_is_usage = |streamed: &StreamedTurn| {
        let last = &streamed.pieces.last().unwrap().event;
        last.get("choices").unwrap().is_empty() && last.at_path("usage.total_tokens").as_i64().is_some()
    };
    let sees_usage = r#"fn stream(event, state) { if "usage" in event { event.usage.seen = true; } }"#;
    for filters in [vec![], vec![script("usage", sees_usage)]] {
        let kernel = answering("hello", filters.clone());
        let streamed = stream_body(&kernel, wanted).await;
        assert!(last_is_usage(&streamed));
        assert_eq!(streamed.text(), "hello|stop");
        assert_eq!(streamed.pieces.last().unwrap().event.at_path("usage.seen").is_null(), filters.is_empty());
        assert!(!last_is_usage(&stream(&kernel).await));
    }
    let held = holding(&["hello"], script("held", "fn outlet(body) { }"));
    assert!(!last_is_usage(&stream(&held).await));
    let held = asking(["hello"]).0.settings(ModelDefaults { hold: true, ..ModelDefaults::default() }).build();
    assert!(last_is_usage(&stream_body(&held, wanted).await));
    assert!(!last_is_usage(&stream(&held).await));
}

#[tokio::test]
async fn filters_read_the_usage_of_streams_that_clients_do_not_receive() {
    let reads = r#"fn outlet(body) { body.messages[-1].content += ` (${body.messages[-1].usage.total_tokens > 0})`; }"#;
    let wanted = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false}}"#;
    let unwanted = wanted.replace(r#""include_usage":true,"#, "");
    for (body, is_sent) in [(wanted, true), (&*unwanted, false)] {
        let kernel = answering("hello", vec![script("reads", reads)]);
        let streamed = stream_body(&kernel, body).await;
        assert_eq!(streamed.text(), "hello (true)|stop");
        let has_usage = streamed.pieces.iter().any(|piece| piece.event.get("usage").is_some());
        assert_eq!(has_usage, is_sent);
    }
}

#[tokio::test]
async fn stream_end_adds_text_before_the_end() {
    let closure = FilterEntry::closure("sign", Hook::StreamEnd, |ctx| {
        ctx.value = json(r#"{"text":" - the host"}"#);
        Ok(Continue)
    });
    for filter in both(closure, r#"fn stream_end(state) { " - the host" }"#) {
        let kernel = streaming(&["hello"], [filter]);
        let streamed = stream(&kernel).await;
        assert_eq!(streamed.texts(), ["hello", " - the host"]);
        assert_eq!(
            (streamed.text().as_str(), streamed.answer().as_str()),
            ("hello - the host|stop", "hello - the host")
        );
        assert_eq!(streamed.pieces.len(), 3, "one event each, and the end");
        assert_eq!(chat(&kernel, "hi").await.unwrap().text(), "hello - the host");
    }
}

#[tokio::test]
async fn text_buffered_by_a_stream_hook_is_released_by_stream_end() {
    let buffer = script(
        "buffer",
        r#"
        fn stream(event, state) { state.kept = (state.kept ?? "") + event.text; [] }
        fn stream_end(state) { [#{ text: text::replace(state.kept, "secret", "******") }] }
        "#,
    );
    let kernel = streaming(&["a sec", "ret b"], [buffer]);
    let streamed = stream(&kernel).await;
    assert_eq!((streamed.text().as_str(), streamed.answer().as_str()), ("a ****** b|stop", "a ****** b"));
    assert_eq!(chat(&kernel, "hi").await.unwrap().text(), "a ****** b");
}

#[tokio::test]
async fn text_added_by_stream_end_passes_later_filters_only() {
    let wrap =
        |name: &str| on_text(name, |text| if text.is_empty() { String::new() } else { format!("<{text}>") });
    let end = |text: &str| script("end", &format!("fn stream_end(state) {{ {text} }}"));
    let run = async |text| {
        let filters = [wrap("before"), end(text), wrap("after")];
        let kernel = streaming(&["a"], filters);
        (stream(&kernel).await.text(), chat(&kernel, "hi").await.unwrap().text())
    };
    assert_eq!(run("\"b\"").await, ("<<a>><b>|stop".into(), "<<a>><b>".into()));
    assert_eq!(run("skip(\"b\")").await, ("<<a>>b|stop".into(), "<<a>>b".into()));
}

#[tokio::test]
async fn text_appended_to_an_answer_arrives_as_another_delta() {
    for text in [
        "fn outlet(body) { body.messages[-1].content += \" (1)\"; }",
        "fn post_chat(ctx) { ctx.result.content += \" (1)\"; }",
    ] {
        let streamed = stream(&streaming(&["hello"], [script("note", text)])).await;
        assert_eq!(streamed.texts(), ["hello", " (1)"]);
        assert_eq!((streamed.text().as_str(), streamed.answer().as_str()), ("hello (1)|stop", "hello (1)"));

        let streamed = stream(&asking([two_choices()]).0.filter(script("note", text)).build()).await;
        assert_eq!(
            (streamed.text().as_str(), streamed.text_of(1).as_str()),
            ("a b (1)|stop", "A B (1)|length")
        );
    }
}

#[tokio::test]
async fn outlet_can_rewrite_the_answer_but_not_streamed_text() {
    let rewrite = script("rewrite", "fn outlet(body) { body.messages[-1].content = \"other\"; }");
    let streamed = stream(&streaming(&["hel", "lo"], [rewrite])).await;
    assert_eq!((streamed.text().as_str(), streamed.answer().as_str()), ("hello|stop", "other"));
}

#[tokio::test]
async fn a_kernel_that_holds_streams_sends_only_the_filtered_answer() {
    let rewrite = "fn outlet(body) { body.messages[-1].content = \"some other words\"; }";
    let streamed = stream(&holding(&["hel", "lo"], script("rewrite", rewrite))).await;
    assert_eq!(streamed.texts(), ["some ", "other ", "words"]);
    assert_eq!(
        (streamed.text().as_str(), streamed.answer().as_str()),
        ("some other words|stop", "some other words")
    );

    let refuse = "fn post_chat(ctx) { deny(\"not this answer\", 403); }";
    let streamed = stream(&holding(&["hel", "lo"], script("refuse", refuse))).await;
    assert!(streamed.pieces.is_empty());
    assert_eq!(rejection(streamed.answer), ("refuse".into(), "not this answer".into(), 403));
}

#[tokio::test]
async fn a_tool_loop_is_one_stream_without_host_tool_calls() {
    for filters in [vec![], vec![recording_script()]] {
        for hold in [false, true] {
            let (builder, model) = asking([
                calls("let me see, ", &[("echo", r#"{"a":1}"#)]),
                calls("", &[("echo", "{}")]),
                "it is 1".into(),
            ]);
            let settings = ModelDefaults { hold, ..ModelDefaults::default() };
            let kernel = builder.tool(echo()).filters(filters.clone()).settings(settings).build();
            let streamed = stream(&kernel).await;
            assert_eq!(streamed.text(), "let me see, \n\nit is 1|stop", "hold: {hold}");
            assert!(streamed.pieces.iter().all(|piece| !piece.event.to_string().contains("tool_calls")));
            assert_eq!((streamed.answer().as_str(), model.requests().len()), ("let me see, \n\nit is 1", 3));
        }
    }
}

#[tokio::test]
async fn client_tool_calls_arrive_complete() {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"tools":[{"type":"function","function":{"name":"open_door"}}]}"#;
    // Some services put a call and the finish reason into one event.
    let at_once = json(
        r#"{"id":"c","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"call_0","type":"function","function":{"name":"open_door","arguments":"{\"n\":1}"}}]},"finish_reason":"tool_calls"}]}"#,
    );
    for reply in [calls("", &[("open_door", r#"{"n":1}"#)]), Reply::chunks([at_once])] {
        for kernel in [asking([reply.clone()]).0.tool(echo()).build(), asking([reply.clone()]).0.build()] {
            let streamed = stream_body(&kernel, body).await;
            assert_eq!(streamed.text(), "|tool_calls");
            let mut fold = valvehouse::chat::Fold::default();
            streamed.pieces.iter().for_each(|piece| fold.push(&piece.event));
            let expected = r#"[{"id":"call_0","type":"function","function":{"name":"open_door","arguments":"{\"n\":1}"}}]"#;
            let folded = fold.finish();
            assert_eq!(folded.at_path("choices.0.message.tool_calls").to_string(), expected);
            assert_eq!(folded.at_path("choices.0.message.role"), "assistant".into());
        }
    }
}

#[tokio::test]
async fn a_skipped_model_call_still_streams_a_complete_answer() {
    let first = script("always", "fn pre_chat(ctx) { skip(\"from the cache\") }");
    assert_eq!(stream(&streaming(&["never"], [first])).await.text(), "from the cache|stop");
    let second = script(
        "second",
        r#"fn pre_chat(ctx) { if ctx.messages[-1].role == "tool" { skip("that is enough") } }"#,
    );
    let (builder, _) = asking([calls("well, ", &[("echo", "{}")])]);
    let streamed = stream(&builder.tool(echo()).filter(second).build()).await;
    assert_eq!(
        (streamed.text().as_str(), streamed.answer().as_str()),
        ("well, \n\nthat is enough|stop", "well, \n\nthat is enough")
    );
    let inlet = script("shut", "fn inlet(body) { skip(\"closed today\") }");
    assert_eq!(stream(&streaming(&["never"], [inlet])).await.text(), "closed today|stop");
}

#[tokio::test]
async fn an_early_rejection_precedes_any_chunk() {
    for name in ["inlet(body)", "pre_chat(ctx)"] {
        let refuse = script("refuse", &format!("fn {name} {{ deny(\"no\", 451); }}"));
        let streamed = stream(&streaming(&["never"], [refuse])).await;
        assert!(streamed.pieces.is_empty());
        assert_eq!(rejection(streamed.answer), ("refuse".into(), "no".into(), 451));
    }
}

#[tokio::test]
async fn a_failed_stream_keeps_sent_chunks_and_has_no_end() {
    let at_b = |what: &str| format!("fn stream(event) {{ if event.text == \"b\" {{ {what} }} }}");
    let broken = FilterEntry::closure("broken", Hook::Stream, |ctx| match &*event::text(&ctx.value) {
        "b" => Err(PluginError::new("bug").into()),
        _ => Ok(Continue),
    });
    for filter in both(broken, &at_b("event.no.such.key")) {
        let streamed = stream(&streaming(&["a", "b", "c"], [filter])).await;
        assert_eq!((streamed.texts(), streamed.pieces.len()), (vec!["a".into()], 1));
        assert_eq!(failure(streamed.answer).0, "broken");
    }
    let streamed = stream(&streaming(&["a", "b", "c"], [script("deny", &at_b("deny(\"enough\");"))])).await;
    assert_eq!((streamed.texts(), streamed.pieces.len()), (vec!["a".into()], 1));
    assert_eq!(rejection(streamed.answer).1, "enough");

    let cut = Error::Provider { message: "gone".into(), timeout: false };
    let streamed = stream(&asking([Reply::chunks_then_error(["a"], cut)]).0.build()).await;
    assert_eq!((streamed.texts(), streamed.pieces.len()), (vec!["a".into()], 1));
    assert!(matches!(streamed.answer, Err(Error::Provider { .. })));
}

#[tokio::test]
async fn on_error_continue_passes_the_event_unchanged() {
    for what in ["event.no.such.key", "throw \"no\"", "42"] {
        let text = format!(
            "/*\non_error: continue\n*/\nfn stream(event) {{ event.text = \"spoilt\"; {what} }}\nfn stream_end(state) {{ {what} }}"
        );
        let text = text.replace(
            "fn stream_end(state) { event.no.such.key }",
            "fn stream_end(state) { state.no.such.key }",
        );
        let kernel = streaming(&["a", "b"], [script("shaky", &text)]);
        let streamed = stream(&kernel).await;
        assert_eq!((streamed.text().as_str(), streamed.answer().as_str()), ("ab|stop", "ab"), "{what}");
        assert_eq!(chat(&kernel, "hi").await.unwrap().text(), "ab");
    }
}

#[tokio::test]
async fn returning_too_many_or_invalid_events_is_a_plugin_error() {
    let many = Json::from(vec![Json::from("x"); 1001]);
    let odd = json(r#"["x", 1]"#);
    for (given, wrong) in [(many, "returned 1001 events"), (odd, "returned a list with a number in it")] {
        for hook in [Hook::Stream, Hook::StreamEnd] {
            for skips in [false, true] {
                let given = given.clone();
                let filter = FilterEntry::closure("odd", hook, move |ctx| {
                    if skips {
                        return Ok(Respond(given.deep_clone()));
                    }
                    ctx.value = given.deep_clone();
                    Ok(Continue)
                });
                let streamed = stream(&streaming(&["a"], [filter.clone()])).await;
                let (plugin, hook_name, cause) = failure(streamed.answer);
                assert_eq!((plugin.as_str(), hook_name.as_str()), ("odd", hook.name()));
                assert!(cause.contains(wrong), "{cause}");
                let ignored = filter.failure_policy(FailurePolicy::FailOpen);
                assert_eq!(stream(&streaming(&["a"], [ignored])).await.text(), "a|stop");
            }
        }
    }
    for (text, wrong) in [
        ("let all = [\"x\"]; while all.len() < 1001 { all = all + all; } all", "returned 1024 events"),
        ("[\"x\", 1]", "returned a list with a number in it"),
        ("skip([1])", "returned a list with a number in it"),
    ] {
        for name in ["stream(event)", "stream_end(state)"] {
            let filter = script("odd", &format!("fn {name} {{ {text} }}"));
            let (_, _, cause) = failure(stream(&streaming(&["a"], [filter])).await.answer);
            assert!(cause.contains(wrong) && cause.contains("filters/odd.rhai"), "{cause}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_not_streamed_passes_the_stream_hook_as_one_event() {
    let closure = on_text("redact", |text| text.replace("secret", "******"));
    let text = r#"fn stream(event, __metadata__) {
        __metadata__.ensure("notes", []).push(event.text);
        event.text = text::replace(event.text, "secret", "******");
    }"#;
    for filter in both(closure, text) {
        let chat = chat(&answering("a secret b", [filter]), "hi").await.unwrap();
        assert_eq!(chat.text(), "a ****** b");
        assert_eq!(chat.response.at_path("choices.0.finish_reason"), "stop".into());
        assert_eq!(chat.response.text("object").unwrap(), "chat.completion");
        assert!(notes(&chat.context).is_empty() || notes(&chat.context) == "a secret b");
    }
}

#[tokio::test]
async fn choices_of_an_answer_that_is_not_streamed_pass_the_stream_hook_one_by_one() {
    let answer = r#"{"id":"c","object":"chat.completion","choices":[
        {"index":0,"message":{"role":"assistant","content":"a","refusal":null},"finish_reason":"stop"},
        {"index":1,"message":{"role":"assistant","content":"b"},"finish_reason":"length"}],"usage":{"total_tokens":3}}"#;
    let run = async |text: &str| {
        let kernel = asking([Reply::whole(json(answer))]).0.filter(script("each", text)).build();
        chat(&kernel, "hi").await.unwrap().response
    };
    let marked = run("fn stream(event) { event.text += `${event.index}`; }").await;
    assert_eq!(choice_texts(&marked), ["a0", "b1"]);
    assert_eq!(marked.at_path("choices.1.finish_reason"), "length".into());
    let split = run("fn stream(event) { [#{ text: event.text }, #{ text: `${event.index}` }] }").await;
    assert_eq!(choice_texts(&split), ["a0", "b1"]);
    assert_eq!(split.at_path("choices.1.finish_reason"), "length".into());
    assert_eq!(split.at_path("usage.total_tokens").as_i64(), Some(3));
    let dropped = run("fn stream(event) { if event.index == 0 { [] } }").await;
    assert_eq!(choice_texts(&dropped), ["", "b"]);
    let ended = run("fn stream_end(state) { [#{ text: \"!\" }, #{ text: \"?\", index: 1 }] }").await;
    assert_eq!(choice_texts(&ended), ["a!", "b?"]);
    assert_eq!(run("fn stream(event) { event }").await, json(answer), "what nobody changes stays as it is");
}

#[tokio::test]
async fn text_added_by_stream_end_can_name_its_choice() {
    let filter = script("end", "fn stream_end(state) { [#{ text: \"!\" }, #{ text: \"?\", index: 1 }] }");
    let streamed = stream(&asking([two_choices()]).0.filter(filter).build()).await;
    assert_eq!((streamed.text().as_str(), streamed.text_of(1).as_str()), ("a b!|stop", "A B?|length"));
    assert_eq!(choice_texts(&streamed.answer.unwrap()), ["a b!", "A B?"]);
}

#[tokio::test]
async fn a_disconnected_client_ends_the_turn() {
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    drop(receiver);
    let kernel = Kernel::builder().provider(Arc::new(CannedProvider::new(["one two"]))).build();
    let body = json(r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#);
    let ended = kernel.run(request(body), RunOptions::default().sending(sender)).end().await;
    assert!(matches!(ended, Err(Error::Host(_))));
}
