use super::*;
use crate::metrics::CallCost;
use crate::valve::{Redactor, SecretGroup, ValveSchema};
use std::sync::Arc;
use valvehouse_json::Json;

fn facts(model: &str) -> RequestFacts {
    RequestFacts { endpoint: "chat", model: model.into(), ..RequestFacts::default() }
}

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

#[test]
fn a_finished_request_moves_from_live_to_recent() {
    let traces = Traces::new(2);
    let mut news = traces.news();
    for model in ["a", "b", "c"] {
        let mut recording = traces.begin(facts(model), false);
        assert_eq!(traces.running(), 1);
        recording.answered(200);
        recording.done();
    }
    assert_eq!(traces.running(), 0);
    let models: Vec<String> = traces.past().iter().map(|trace| trace.request.model.clone()).collect();
    assert_eq!(models, ["c", "b"]);
    assert!(matches!(news.try_recv(), Ok(News::Begun(trace)) if trace.request.model == "a"));
    assert!(matches!(news.try_recv(), Ok(News::Ended(trace)) if trace.ended().unwrap().whole));
}

#[test]
fn a_disconnected_client_has_its_own_outcome() {
    let traces = Traces::new(2);
    drop(traces.begin(facts("a"), false));
    let ended = traces.past()[0].ended().cloned().unwrap();
    assert_eq!((ended.status, ended.whole), (0, false));
}

#[test]
fn stream_calls_of_an_answer_form_one_step() {
    let traces = Traces::new(2);
    let recording = traces.begin(facts("a"), false);
    let (trace, plugin) = (recording.trace(), Arc::from("redact"));
    let call = |hook| {
        let step = trace.begin(What::Hook(&plugin, hook), &Json::Null);
        trace.spend(hook, "redact", CallCost { operations: 5, memory: 100, ..CallCost::default() });
        step.end("continue", None, None);
    };
    call("inlet");
    call("inlet");
    for _ in 0..2 {
        trace.begin(What::Model("demo/demo"), &Json::Null).end("ended", None, None);
        (0..3).for_each(|_| call("stream"));
    }
    let steps: Vec<_> = trace.records().iter().map(|it| (it.hook, it.calls)).collect();
    let events = ("stream", 3);
    assert_eq!(steps, [("inlet", 1), ("inlet", 1), ("model", 1), events, ("model", 1), events]);
    assert_eq!((trace.records()[3].cost.operations, trace.records()[3].cost.memory), (15, 100));
}

#[test]
fn contents_are_recorded_only_for_the_named_plugins() {
    let traces = Traces::new(2);
    traces.keep_contents("seen", true);
    let recording = traces.begin(facts("a"), false);
    let trace = recording.trace();
    for plugin in ["seen", "unseen"] {
        let value = json(r#"{"text": "secret"}"#);
        let step = trace.begin(What::Hook(&Arc::from(plugin), "inlet"), &value);
        value.set("text", "changed").unwrap();
        step.end("continue", None, Some(&value));
        trace.line(plugin, "info", "secret");
        trace.emitted(plugin, &json(r#"{"type": "status", "data": "secret"}"#));
    }
    let records = trace.records();
    assert_eq!((records[0].details().changed, records[1].details().changed), (1, 0));
    let (before, after) = &records[0].details().values[0];
    assert_eq!(before.to_string(), r#"{"text":"secret"}"#);
    assert_eq!(after.as_ref().unwrap().to_string(), r#"{"text":"changed"}"#);
    assert!(records[1].details().values.is_empty());
    assert_eq!(trace.lines()[0].text.as_deref(), Some("secret"));
    assert!(trace.lines()[1].text.is_none() && trace.events()[1].event.is_none());
    assert_eq!(trace.events()[1].kind, "status");
}

#[test]
fn a_fully_recorded_turn_can_be_replayed() {
    let traces = Traces::new(2);
    let record = |traces: &Arc<Traces>| {
        let recording = traces.begin(facts("a"), false);
        let trace = recording.trace();
        let body = json(r#"{"messages": ["hi"]}"#);
        trace.begins_with(&body);
        // A filter calls a model in a nested turn.
        trace.begins_with(&json(r#"{"messages": ["inner"]}"#));
        let step = trace.begin(What::Model("demo/demo"), &Json::Null);
        let event = json(r#"{"text": "he"}"#);
        step.record_answer(&event);
        for changed in [&body, &event] {
            changed.set("text", "changed").unwrap();
        }
        step.end("ended", None, None);
        trace.ends_with(&json(r#"{"answer": "inner"}"#));
        trace.ends_with(&json(r#"{"answer": "hello"}"#));
        let texts = [trace.body(), trace.answer()].map(|kept| kept.map(|kept| kept.to_string()));
        (texts, trace.records()[0].details().model_answer.iter().map(Json::to_string).collect::<Vec<_>>())
    };
    assert_eq!(record(&traces), ([None, None], vec![]));
    traces.keep_everything();
    let kept = [r#"{"messages":["hi"]}"#, r#"{"answer":"hello"}"#].map(|text| Some(text.to_owned()));
    assert_eq!(record(&traces), (kept, vec![r#"{"text":"he"}"#.to_owned()]));
    traces.past().iter().for_each(|trace| trace.forget_contents());
    assert!(
        traces
            .past()
            .iter()
            .all(|trace| trace.body().is_none() && trace.records()[0].details().model_answer.is_empty())
    );
}

#[test]
fn a_step_starts_when_the_previous_one_ends_unless_contents_are_recorded() {
    let traces = Traces::new(1);
    let (plugin, value) = (Arc::from("a"), json("{}"));
    let what = What::Hook(&plugin, "inlet");
    let recording = traces.begin(RequestFacts::default(), false);
    let end = recording.trace().begin(what, &value).end("continue", None, Some(&value));
    assert!(end.is_some());
    recording.trace().begin_after(end, what, &value).end("continue", None, Some(&value));
    let records = recording.trace().records();
    assert_eq!(records[1].at, records[0].at + records[0].cost.took);
    traces.keep_contents("a", true);
    let kept = traces.begin(RequestFacts::default(), false);
    assert!(kept.trace().begin(what, &value).end("continue", None, Some(&value)).is_none());
}

#[test]
fn the_contents_of_one_trace_are_limited() {
    let traces = Traces::new(2);
    let recording = traces.begin(facts("a"), true);
    let trace = recording.trace();
    let large: Json = Json::from("x".repeat(3 << 19));
    for _ in 0..3 {
        let step = trace.begin(What::Hook(&Arc::from("a"), "inlet"), &large);
        step.end("continue", None, Some(&large));
    }
    let kept: Vec<usize> = trace.records().iter().map(|record| record.details().values.len()).collect();
    assert_eq!(kept, [1, 0, 0]);
}

#[test]
fn a_valid_traceparent_header_continues_the_trace_of_the_client() {
    let belongs = |text: &str| {
        let traces = Traces::new(0);
        let recording = traces.begin(facts("a"), false);
        recording.trace().belongs_to(text);
        recording.trace().parent().map(|(id, parent)| format!("{id} {parent}"))
    };
    let (id, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    assert_eq!(belongs(&format!("00-{id}-{parent}-01")), Some(format!("{id} {parent}")));
    let none = "0".repeat(32);
    for wrong in ["", "00", &format!("00-{id}-{parent}x-01"), &format!("00-{none}-{parent}-01")] {
        assert_eq!(belongs(wrong), None, "{wrong}");
    }
}

#[test]
fn the_time_of_many_events_is_extrapolated_from_a_sample() {
    let traces = Traces::new(0);
    let recording = traces.begin(facts("a"), false);
    let (trace, plugin) = (recording.trace(), Arc::from("a"));
    let calls = 1_000;
    for call in 0..calls {
        let step = trace.begin(What::Hook(&plugin, "stream"), &Json::Null);
        step.end(if call == 500 { "skip" } else { "continue" }, None, None);
    }
    let record = &trace.records()[0];
    assert_eq!((record.calls, record.word), (calls, "skip"));
    let measured = trace.with_records(|records| records[0].cost.took);
    assert!(record.cost.took > measured * 3, "{:?} of {measured:?}", record.cost.took);
}

#[test]
fn contents_of_older_requests_make_room_for_newer_ones() {
    let traces = Traces::new(100);
    let large = Json::from("x".repeat(3 << 20));
    for _ in 0..30 {
        let recording = traces.begin(facts("a"), true);
        recording.trace().begin(What::Hook(&Arc::from("a"), "inlet"), &large).end("refused", None, None);
        recording.done();
    }
    let kept: Vec<bool> =
        traces.past().iter().map(|it| !it.records()[0].details().values.is_empty()).collect();
    assert!(kept[0] && !kept[29], "{kept:?}");
    assert!(kept.iter().filter(|kept| **kept).count() > 10, "{kept:?}");
}

#[test]
fn long_names_and_reasons_are_cut_in_traces() {
    let traces = Traces::new(2);
    let long = "x".repeat(1 << 20);
    let recording =
        traces.begin(RequestFacts { user: long.clone(), chat_id: long.clone(), ..facts(&long) }, false);
    let trace = recording.trace();
    trace.begin(What::Hook(&Arc::from("a"), "inlet"), &Json::Null).end("refused", Some(&long), None);
    trace.begin(What::Model(&long), &Json::Null).end("ended", None, None);
    trace.emitted("a", &Json::from([("type", long.as_str().into())]));
    trace.fail(&long);
    assert!(trace.summary().to_string().len() + trace.detail().to_string().len() < 40_000);
}

#[test]
fn a_full_queue_drops_the_oldest_requests_and_counts_them() {
    let traces = Traces::new(0);
    drop(traces.begin(facts("before"), false));
    assert!(traces.queue().is_none());
    traces.fill_queue();
    for number in 0..10_003 {
        traces.begin(facts(&number.to_string()), false).done();
    }
    let queue = traces.queue().unwrap();
    assert_eq!((queue.waiting(), queue.dropped()), (10_000, 3));
    let models =
        |batch: &TraceBatch<'_>| batch.iter().map(|trace| trace.request.model.clone()).collect::<Vec<_>>();
    let batch = queue.take(2);
    assert_eq!((models(&batch), queue.waiting()), (["3", "4"].map(String::from).to_vec(), 9_998));
    drop(batch);
    let batch = queue.take(1);
    assert_eq!(models(&batch), ["3"], "what was not stored comes back first");
    batch.end();
    assert_eq!((queue.waiting(), queue.dropped()), (9_999, 3));
}

#[test]
fn a_secret_in_the_type_of_an_event_is_redacted() {
    let schema = ValveSchema::declare(&json(r#"{"key": {"value": "", "secret": true}}"#)).unwrap();
    let secrets = SecretGroup::default();
    let _redactor = Redactor::of(&schema, &json(r#"{"key": "sk-secret-0123"}"#)).among(&secrets);
    let recording = Traces::redacting(1, &secrets).begin(facts("a"), false);
    recording.trace().emitted("a", &json(r#"{"type": "is sk-secret-0123"}"#));
    assert_eq!(recording.trace().events()[0].kind, "is ***");
}

#[test]
fn a_key_cannot_push_out_the_requests_of_another_one() {
    let traces = Traces::new(10);
    traces.fill_queue();
    let large = Json::from("x".repeat(3 << 20));
    let end = |key: &str, contents: bool| {
        let recording = traces.begin(facts(key), contents);
        recording.trace().set_key(key);
        if contents {
            recording.trace().begins_with(&large);
        }
        recording.done();
    };
    let past = |key: &str| {
        let past = traces.past().into_iter().filter(|trace| trace.key() == Some(key));
        past.map(|trace| trace.body().is_some()).collect::<Vec<_>>()
    };
    end("ann", true);
    (0..4).for_each(|_| end("ann", false));
    (0..10_020).for_each(|_| end("mallory", false));
    assert_eq!((past("ann").len(), past("mallory").len()), (5, 5));
    let queue = traces.queue().unwrap();
    assert_eq!((queue.waiting(), queue.dropped()), (10_000, 25));
    assert!(queue.take(5).iter().all(|trace| trace.key() == Some("ann")));
    // The contents of a key make no room in those of others either.
    let traces = Traces::new(100);
    traces.fill_queue();
    let end = |key: &str| {
        let recording = traces.begin(facts(key), true);
        recording.trace().set_key(key);
        recording.trace().begins_with(&large);
        recording.done();
    };
    end("ann");
    (0..40).for_each(|_| end("mallory"));
    let past = traces.past();
    assert!(past[40].body().is_some() && past[0].body().is_some() && past[39].body().is_none());
    assert_eq!(traces.queue().unwrap().take(1)[0].key(), Some("ann"));
}

#[test]
fn contents_of_waiting_requests_are_limited() {
    let traces = Traces::new(0);
    traces.fill_queue();
    let large = Json::from("x".repeat(3 << 20));
    for _ in 0..30 {
        let recording = traces.begin(facts("a"), true);
        recording.trace().begins_with(&large);
        recording.done();
    }
    let queue = traces.queue().unwrap();
    assert!((20..=22).contains(&queue.waiting()), "{}", queue.waiting());
    assert_eq!(queue.dropped() + queue.waiting() as u64, 30);
}

#[test]
fn a_request_ends_with_one_of_five_outcomes() {
    let traces = Traces::new(9);
    let end = |status: u16, error: Option<&str>, word: Option<&'static str>, whole: bool| {
        let mut recording = traces.begin(facts("a"), false);
        let trace = recording.trace().clone();
        assert_eq!(trace.outcome(), None);
        if let Some(word) = word {
            trace.begin(What::Hook(&Arc::from("redact"), "inlet"), &Json::Null).end(word, None, None);
        }
        if let Some(error) = error {
            recording.failed(error);
            assert_eq!(trace.outcome(), Some("failed"));
        }
        recording.answered(status);
        if whole {
            recording.done()
        } else {
            drop(recording)
        }
        trace.outcome().unwrap()
    };
    assert_eq!(end(200, None, Some("ignored"), true), "succeeded");
    assert_eq!(end(403, Some("no"), Some("refused"), true), "refused");
    assert_eq!(end(500, Some("no"), Some("breaker_open"), true), "breaker_open");
    assert_eq!(end(502, Some("no"), None, true), "failed");
    assert_eq!(end(200, None, None, false), "disconnected");
}
