//! Scripts that subscribe to callbacks of agents: which of them are called, and with what data.

use crate::host::TestHost;
use std::sync::Arc;
use valvehouse::agent::callbacks::{Callback, Callbacks, Notifier, Who};
use valvehouse::context::Turn;
use valvehouse::json::Json;

const LISTENS: &str = "const callbacks = true;
    fn on_custom_event(event, state) { state.events = (state.events ?? \"\") + event.name; }";

fn notifier(host: &TestHost, turn: &Turn, filter_ids: &[String]) -> Notifier {
    let ready = host.snapshot().ready("demo", filter_ids).unwrap_or_else(|error| panic!("{error}"));
    Notifier::new(Who::default(), Callbacks::new()).with_listeners(&ready.callbacks, turn)
}

#[tokio::test]
async fn callback_listeners_are_notified_in_the_order_of_the_chain() {
    let host = TestHost::new()
        .filter("first", format!("const Valves = #{{ priority: -1 }}; {LISTENS}"))
        .filter("special", format!("/*\nglobal: false\n*/\n{LISTENS}"))
        .filter("toggled", format!("const toggle = true; {LISTENS}"))
        .filter("off", LISTENS)
        .filter("both", format!("{LISTENS} fn inlet(body, state) {{ state.events = \"hook \"; body }}"))
        .filter("deaf", "fn inlet(body) { body }")
        .config("[filters.off]\nenabled = false\n")
        .start()
        .await;
    let ready = host.snapshot().ready("demo", &[]).unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<&str> = ready.callbacks.iter().map(|listener| listener.name()).collect();
    assert_eq!(names, ["first", "both"]);
    assert!(ready.callbacks[0].handles(Callback::CustomEvent) && !ready.callbacks[0].handles(Callback::Text));

    let turn = Turn::default();
    let body = r#"{"model":"demo","messages":[{"role":"user","content":"hi"}]}"#;
    let body = Json::parse(body.as_bytes()).unwrap();
    let options = valvehouse::kernel::RunOptions::new(turn.clone());
    ready.kernel.run(crate::kernel::request(body), options).answer().await.unwrap();
    // The turn has ended by now.
    let notifications = notifier(&host, &turn, &["toggled".to_owned()]);
    notifications.custom("a", &Json::Null);
    notifications.custom("b", &Json::Null);
    notifications.drain().await;
    let events_of = |id: &str| turn.state(id).text("events").map(String::from);
    assert_eq!(events_of("first").as_deref(), Some("ab"));
    assert_eq!(events_of("toggled").as_deref(), Some("ab"));
    assert_eq!(events_of("both").as_deref(), Some("hook ab"), "it finds what its hooks have kept");
    assert_eq!([events_of("special"), events_of("off"), events_of("deaf")], [None, None, None]);
    let snapshot = host.snapshot();
    let sums = snapshot.plugins["first"].script.as_ref().unwrap().metrics().sums();
    assert_eq!((sums[0].0.as_str(), sums[0].1.calls), ("on_custom_event", 2));
}

#[tokio::test]
async fn a_failing_callback_script_is_reported_and_changes_nothing() {
    let breaks = "const callbacks = true; fn on_custom_event(event) { event.no.such(); }";
    let host = TestHost::new().filter("breaks", breaks).filter("listens", LISTENS).start().await;
    let turn = Turn::default();
    let notifications = Arc::new(notifier(&host, &turn, &[]));
    notifications.custom("a", &Json::Null);
    notifications.drain().await;
    assert_eq!(turn.state("listens").text("events").as_deref(), Some("a"));
    assert_eq!(host.ask("hi").await.status, 200);
}
