//! Tests of valid and invalid callbacks.

use crate::{Diagnostic, Kind, Script, Settings, Severity, SourceFile};
use std::sync::Arc;
use std::time::Duration;
use valvehouse_core::breaker::BreakerSettings;
use valvehouse_core::callback::Callback;
use valvehouse_core::context::{Context, Events, Turn, TurnFacts};
use valvehouse_json::Json;

fn compile(kind: Kind, text: &str, settings: &Settings) -> Result<Arc<Script>, Vec<Diagnostic>> {
    Script::compile(&SourceFile::new(kind, "x", "filters/x.rhai", text), settings).map(Arc::new)
}

fn script(text: &str) -> Arc<Script> {
    compile(Kind::Filter, text, &Settings::default()).unwrap()
}

fn warnings(text: &str) -> Vec<String> {
    let describe = |problem: &Diagnostic| {
        assert_eq!(problem.severity, Severity::Warning);
        format!("{}; {}", problem.message, problem.help.as_deref().unwrap_or_default())
    };
    script(text).warnings.iter().map(describe).collect()
}

async fn called(text: &str, event: &str) -> (Result<(), String>, Json) {
    let state = Json::object();
    let callbacks = script(text).into_callbacks(Arc::default()).expect("it has callbacks");
    let event = Json::parse(event.as_bytes()).unwrap();
    let facts = TurnFacts { chat_id: "c-1".into(), ..TurnFacts::default() };
    let turn = Turn::new(facts, Context::default(), Events::default());
    let outcome = callbacks.run(Callback::ToolStart, event, state.clone(), turn).await;
    (outcome.map_err(|error| error.to_string()), state)
}

#[tokio::test]
async fn a_callback_receives_its_event_and_what_hooks_receive() {
    let text = r#"
        const callbacks = true;
        const Valves = #{ prefix: "tool" };
        fn on_tool_start(event, state, valves, __chat_id__) {
            state.seen = `${valves.prefix} ${event.tool} ${event.args.city} ${__chat_id__}`;
        }"#;
    let (result, state) = called(text, r#"{"tool":"weather","args":{"city":"Oslo"}}"#).await;
    assert_eq!((result, state.to_string().as_str()), (Ok(()), r#"{"seen":"tool weather Oslo c-1"}"#));
}

#[tokio::test]
async fn a_script_may_have_callbacks_and_hooks_with_metrics_by_name() {
    let script =
        script("const callbacks = true; fn inlet(body) { body } fn on_tool_start() {} fn on_text(event) {}");
    assert_eq!(script.hooks().collect::<Vec<_>>(), [valvehouse_core::filter::Hook::Inlet]);
    assert_eq!(script.callbacks().collect::<Vec<_>>(), [Callback::Text, Callback::ToolStart]);
    let callbacks = script.clone().into_callbacks(Arc::default()).unwrap();
    for callback in [Callback::ToolStart, Callback::Text, Callback::Retry] {
        callbacks.run(callback, Json::object(), Json::object(), Turn::default()).await.unwrap();
    }
    let sums = script.metrics().sums();
    assert_eq!(
        sums.iter().map(|(name, sum)| (name.as_str(), sum.calls)).collect::<Vec<_>>(),
        [("on_text", 1), ("on_tool_start", 1)]
    );
}

#[tokio::test]
async fn a_callback_error_has_its_position_and_a_rejection_its_reason() {
    let bug = "const callbacks = true;\nfn on_tool_start(event) {\n event.nothing.at_all() }";
    let (result, _) = called(bug, "{}").await;
    assert!(result.clone().unwrap_err().contains("filters/x.rhai:3:"), "{result:?}");
    let endless = "const callbacks = true; fn on_tool_start(event) { loop {} }";
    assert!(called(endless, "{}").await.0.unwrap_err().contains("exceeded its"));
    let refuses = r#"const callbacks = true; fn on_tool_start(event) { deny("not so") }"#;
    assert_eq!(called(refuses, "{}").await.0, Err("not so".to_owned()));
}

#[tokio::test]
async fn repeated_callback_failures_open_a_breaker_that_does_not_affect_hooks() {
    let rest = Duration::from_secs(60);
    let breaker = BreakerSettings { failure_threshold: 2, window: rest, cool_down: rest };
    let settings = Settings { breaker, ..Settings::default() };
    let text = "const callbacks = true; fn inlet(body) { body } fn on_text(event) { throw 1 / 0; }";
    let script = compile(Kind::Filter, text, &settings).unwrap();
    let callbacks = script.clone().into_callbacks(Arc::default()).unwrap();
    let call = || callbacks.run(Callback::Text, Json::object(), Json::object(), Turn::default());
    assert!(call().await.is_err() && call().await.is_err());
    assert!(call().await.is_ok());
    assert_eq!(script.metrics().sums()[0].1.calls, 2);
    assert!(script.breaker.open().is_none());
}

#[test]
fn misspelled_callbacks_are_reported_with_the_nearest_name() {
    let missing = warnings("fn inlet(body) { body } fn on_text(event) {}");
    assert!(missing[0].starts_with("`on_text` is never called: missing `const callbacks = true`"));
    for (name, near) in [
        ("on_tool_begin", "on_tool_"),
        ("on_tokens", "on_token`"),
        ("onToolStart", "on_tool_start`"),
        ("on_turn_strat", "on_turn_start`"),
        ("on_chain_strat", "on_chain_start`"),
        ("onChainEnd", "on_chain_end`"),
        ("on_llm_new_tokens", "on_llm_new_token`"),
    ] {
        let problems =
            warnings(&format!("const callbacks = true; fn on_retry(event) {{}} fn {name}(event) {{}}"));
        assert!(
            problems[0]
                .starts_with(&format!("unknown callback `{name}`: it is never called; did you mean `{near}")),
            "{problems:?}"
        );
    }
    let empty = warnings("const callbacks = true; fn inlet(body) { body }");
    assert!(empty[0].starts_with("`callbacks` is true, but the file has no callback"));
    assert!(warnings("const callbacks = true; fn on_text(event) {} fn only(x) { x }").is_empty());
    let tool = "const callbacks = true; fn handler(args) { args } fn on_text(event) {}";
    let tool = compile(Kind::Tool, tool, &Settings::default()).unwrap();
    assert!(tool.warnings[0].message.contains("only filters have callbacks"));
    assert!(tool.into_callbacks(Arc::default()).is_none());
}

#[tokio::test]
async fn a_function_with_a_second_name_receives_the_event_under_its_own_name() {
    for (name, expected) in
        [("on_turn_start", "on_turn_start"), ("on_chain_start", "on_chain_start"), ("on_token", "none")]
    {
        let text = format!("const callbacks = true; fn {name}(event, state) {{ state.name = event.event; }}");
        let script = script(&text);
        let callbacks = script.clone().into_callbacks(Arc::default()).unwrap();
        let (state, event) = (Json::object(), Json::from([("event", "on_turn_start".into())]));
        callbacks.run(Callback::TurnStart, event, state.clone(), Turn::default()).await.unwrap();
        assert_eq!(state.text("name").as_deref().unwrap_or("none"), expected);
        assert!(script.warnings.is_empty(), "{:?}", script.warnings);
    }
}

#[tokio::test]
async fn of_two_names_of_an_event_the_first_is_called_and_the_second_reported() {
    let text = "const callbacks = true;
        fn on_chain_end(event, state) { state.second = true; }
        fn on_chain_end(event) { }
        fn on_turn_end(event, state) { state.calls = (state.calls ?? 0) + 1; }";
    let problems = warnings(text);
    assert_eq!(
        problems,
        [
            "`on_chain_end` is never called: it is the second name of `on_turn_end`, which is called; move its \
          statements to the other function, and remove it"
        ]
    );
    let script = script(text);
    assert_eq!(script.warnings[0].line, Some(2));
    assert_eq!(script.callbacks().collect::<Vec<_>>(), [Callback::TurnEnd]);
    let (callbacks, state) = (script.into_callbacks(Arc::default()).unwrap(), Json::object());
    callbacks.run(Callback::TurnEnd, Json::object(), state.clone(), Turn::default()).await.unwrap();
    assert_eq!(state.to_string(), r#"{"calls":1}"#);
}

#[test]
fn an_unknown_parameter_of_a_callback_is_an_error() {
    let text = "const callbacks = true; fn on_text(evnt) {}";
    let problems = compile(Kind::Filter, text, &Settings::default()).unwrap_err();
    assert_eq!(problems[0].message, "unknown parameter `evnt` of `on_text`");
    assert!(problems[0].help.as_deref().unwrap().starts_with("did you mean `event`?"));
    let computed = compile(
        Kind::Filter,
        "const callbacks = 1 == 1 && maybe(); fn on_text(event) {}",
        &Settings::default(),
    );
    assert!(
        computed.unwrap_err().iter().any(|problem| problem.message.contains("cannot compute `callbacks`"))
    );
}
