//! Each middleware in a real kernel with a canned model.

use super::definition::{Middleware, NeedsApproval, Parts};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use valvehouse_core::chat::{ChatRequest, ModelCall, message};
use valvehouse_core::context::{
    Context, EmittedEvent, Events, Notice, Observer, Pauses, Questions, Turn, TurnFacts,
};
use valvehouse_core::error::{Error, Rejection};
use valvehouse_core::filter::{self, FilterContext, FilterEntry, Hook, Verdict};
use valvehouse_core::kernel::{ChatOptions, Kernel, RunOptions, TurnAnswer};
use valvehouse_core::provider::{CannedProvider, Provider, Reply};
use valvehouse_core::tool::{Tool, ToolError};
use valvehouse_json::Json;
use valvehouse_providers::Choice;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

fn of(name: &str, options: &str) -> Middleware {
    Middleware::of(name, &json(options), &Parts::default()).unwrap()
}

fn wrong(name: &str, options: &str) -> String {
    Middleware::of(name, &json(options), &Parts::default()).unwrap_err().to_string()
}

/// Creates a model that calls `pay` this many times in each of its answers and then says `done`.
fn calling(answers: usize, calls: usize) -> CannedProvider {
    let call = |id: usize| {
        let (id, arguments) = (format!("call_{id}").into(), r#"{"sum":5}"#.into());
        ModelCall { id, name: "pay".into(), arguments }.to_json()
    };
    let calls = Json::from((0..calls).map(call).collect::<Vec<_>>());
    let answer = Json::from([("role", "assistant".into()), ("content", Json::Null), ("tool_calls", calls)]);
    let replies = (0..answers).map(|_| Reply::message(answer.deep_clone()));
    CannedProvider::new(replies.chain([Reply::text("done")]).collect::<Vec<_>>())
}

/// Creates a tool that counts its calls and returns its arguments.
fn pay() -> (Arc<AtomicUsize>, Tool) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let tool = Tool::from_json_fn("pay", move |args| {
        counted.fetch_add(1, Relaxed);
        Ok(args.into())
    });
    (count, tool.tag("money").description("pays a sum"))
}

fn kernel(model: &CannedProvider, tool: Tool, all: &[Middleware]) -> Kernel {
    let model: Arc<dyn Provider> = Arc::new(model.clone());
    let provider = all.iter().fold(model, |model, one| one.wrap_provider(model));
    let tool = all.iter().fold(tool, |tool, one| one.wrap_tool(tool));
    let filters = all.iter().flat_map(|one| one.filters().to_vec());
    Kernel::builder().filters(filters).tool(tool).provider(provider).build()
}

async fn chat(kernel: &Kernel) -> Result<TurnAnswer, Error> {
    let options = ChatOptions { max_tool_iterations: Some(100), ..ChatOptions::default() };
    kernel.chat_with_tools(vec![message::user("go")], options).await
}

fn rejection<T: std::fmt::Debug>(result: Result<T, Error>) -> Rejection {
    match result {
        Err(Error::Rejected(rejection)) => rejection,
        other => panic!("{other:?}"),
    }
}

/// Returns the text that the model received for its first call.
fn tool_result(chatted: &TurnAnswer) -> String {
    message::text_of(&chatted.messages[2]).into()
}

#[test]
fn a_typo_in_a_name_or_an_option_is_reported_with_the_nearest_name() {
    let error = Middleware::of("call_limits", &Json::Null, &Parts::default()).unwrap_err().to_string();
    assert!(error.starts_with("unknown middleware \"call_limits\"; did you mean `call_limit`?"), "{error}");
    for (name, options, expected) in [
        ("call_limit", r#"{"max_model_call":1}"#, "did you mean `max_model_calls`?"),
        (
            "call_limit",
            r#"{"on_limit":"stop"}"#,
            "`on_limit` must be one of \"halt\", \"warn_and_continue\", not \"stop\"",
        ),
        (
            "human_approval",
            r#"{"timeout_action":"approve"}"#,
            "`timeout_action` must be one of \"reject\", \"halt\", not \"approve\"",
        ),
        ("human_approval", r#"{"mode":"selective"}"#, "selects nothing: list `tools`"),
        ("human_approval", r#"{"mode":"custom"}"#, "write a filter script"),
        ("human_approval", r#"{"tools":["pay"]}"#, "set that mode"),
        ("human_approval", r#"{"mode":"selective","arguments":{"pay":{"sum":"("}}}"#, "pay.sum"),
        ("pii", r#"{"kinds":["mail"]}"#, "unknown kind \"mail\" in `kinds`: use email"),
        ("pii", r#"{"kinds":[]}"#, "has no `kinds`"),
        ("model_fallback", r#"{"models":["b"]}"#, "unknown model \"b\""),
        ("model_fallback", "{}", "has no `models`"),
        ("tool_retry", r#"{"factor":0.5}"#, "`factor` must be 1.0 or more, not 0.5"),
        ("model_retry", r#"{"max_retries":-1}"#, "`max_retries` must be 0 or more, not -1"),
        (
            "context_editing",
            r#"{"placeholder":1}"#,
            "has an invalid option: `placeholder` must be a string, not 1",
        ),
    ] {
        let error = wrong(name, options);
        assert!(error.starts_with(&format!("middleware {name} ")) && error.contains(expected), "{error}");
    }
    for name in Middleware::names().into_iter().filter(|name| *name != "model_fallback") {
        assert_eq!(of(name, "null").name(), name);
    }
}

#[test]
fn every_preset_can_be_made() {
    for preset in Middleware::presets() {
        for (name, options) in Middleware::preset(preset).unwrap() {
            assert!(Middleware::of(name, &options, &Parts::default()).is_ok(), "{preset} {name}");
        }
    }
    assert!(Middleware::preset("other").is_none());
}

#[tokio::test]
async fn a_turn_ends_at_its_limits_without_further_calls() {
    for (options, answers, calls, models, runs) in [
        (r#"{"max_model_calls":3}"#, 9, 1, 3, 3),
        (r#"{"max_tool_calls":5}"#, 9, 2, 3, 5),
        (r#"{"max_tool_calls_per_turn":2}"#, 9, 3, 1, 2),
    ] {
        let (model, (count, tool)) = (calling(answers, calls), pay());
        let rejection = rejection(chat(&kernel(&model, tool, &[of("call_limit", options)])).await);
        assert_eq!((rejection.status, rejection.plugin.as_str()), (429, "call_limit"), "{options}");
        assert_eq!((model.requests().len(), count.load(Relaxed)), (models, runs), "{options}");
        assert!(rejection.message.contains("raise it with max_"), "{}", rejection.message);
    }
}

#[tokio::test]
async fn a_turn_may_reach_its_limits_exactly() {
    let options = r#"{"max_model_calls":3,"max_tool_calls":4,"max_tool_calls_per_turn":2}"#;
    let (model, (count, tool)) = (calling(2, 2), pay());
    let chatted = chat(&kernel(&model, tool, &[of("call_limit", options)])).await.unwrap();
    assert_eq!((chatted.text().as_str(), count.load(Relaxed)), ("done", 4));
    let (model, (count, tool)) = (calling(2, 2), pay());
    let warned = r#"{"max_model_calls":1,"max_tool_calls":1,"on_limit":"warn_and_continue"}"#;
    chat(&kernel(&model, tool, &[of("call_limit", warned)])).await.unwrap();
    assert_eq!(count.load(Relaxed), 4);
}

#[tokio::test]
async fn a_call_that_runs_again_after_a_pause_is_counted_once() {
    let (model, (count, tool)) = (calling(1, 1), pay());
    let all = [of("call_limit", r#"{"max_tool_calls":1}"#), of("human_approval", "{}")];
    let kernel = kernel(&model, tool, &all);
    let turn = Turn::default().pausing(Pauses::default());
    let pauses = turn.pauses().unwrap();
    pauses.begin(json(r#"{"id":"call_1"}"#));
    assert!(matches!(kernel.invoke_in("pay", json(r#"{"sum":5}"#), &turn).await, Err(Error::Paused)));
    let pending = pauses.pending().unwrap();
    assert_eq!(pending.by, "human_approval");
    assert_eq!(
        pending.question.to_string(),
        r#"{"type":"approval","data":{"tool":"pay","arguments":{"sum":5},"description":"pays a sum"}}"#
    );
    assert_eq!(count.load(Relaxed), 0, "it does not run before the approval");
    pauses.answer(pending.hash(), json(r#"{"approved":true}"#));
    pauses.begin(json(r#"{"id":"call_1"}"#));
    kernel.invoke_in("pay", json(r#"{"sum":5}"#), &turn).await.unwrap();
    assert_eq!(count.load(Relaxed), 1);
    pauses.begin(json(r#"{"id":"call_2"}"#));
    let refused = rejection(kernel.invoke_in("pay", json(r#"{"sum":5}"#), &turn).await);
    assert_eq!(refused.status, 429, "another call counts");
}

#[tokio::test]
async fn an_approval_covers_only_the_approved_arguments() {
    let (count, tool) = pay();
    let kernel = kernel(&calling(1, 1), tool, &[of("human_approval", "{}")]);
    let turn = Turn::default().pausing(Pauses::default());
    let pauses = turn.pauses().unwrap();
    pauses.begin(json(r#"{"id":"call_1"}"#));
    assert!(kernel.invoke_in("pay", json(r#"{"sum":5}"#), &turn).await.is_err());
    pauses.answer(pauses.pending().unwrap().hash(), true.into());
    pauses.begin(json(r#"{"id":"call_1"}"#));
    assert!(matches!(kernel.invoke_in("pay", json(r#"{"sum":5000}"#), &turn).await, Err(Error::Paused)));
    assert_eq!(count.load(Relaxed), 0);
}

/// Runs a turn whose listener gives this answer to every question.
async fn answering(kernel: &Kernel, answer: Json) -> (Vec<Json>, Result<String, Error>) {
    let (questions, shown_questions) = (Questions::default(), Arc::new(Mutex::new(Vec::new())));
    let (board, seen) = (questions.clone(), shown_questions.clone());
    let listen = move |event: &EmittedEvent| {
        seen.lock().push(event.0.deep_clone());
        board.answer(&event.0.text("id").unwrap(), answer.deep_clone());
    };
    let events = Events::listening(listen, Some(questions));
    let turn = Turn::new(TurnFacts::default(), Context::default(), events);
    let body = json(r#"{"model":"m","messages":[{"role":"user","content":"go"}]}"#);
    let request = ChatRequest::new(body.clone()).unwrap();
    let answer = kernel.run(request, RunOptions::new(turn)).answer().await;
    let result = answer.map(|_| message::text_of(&body.at_path("messages.2")).into());
    let shown_questions = shown_questions.lock().clone();
    (shown_questions, result)
}

#[tokio::test]
async fn a_listener_receives_the_approval_question_and_decides() {
    for (answer, expected, runs) in [
        ("true", r#"{"sum":5}"#, 1),
        (
            r#"{"approved":true,"arguments":{"sum":3}}"#,
            r#"{"note":"a person changed the arguments of this call before it ran","arguments":{"sum":3},"result":{"sum":3}}"#,
            1,
        ),
        (r#"{"approved":false,"reason":"too dear"}"#, r#"{"error":"rejected","reason":"too dear"}"#, 0),
        ("{}", r#"{"error":"rejected","reason":"the answer {} has no `approved`"}"#, 0),
    ] {
        let (count, tool) = pay();
        let kernel = kernel(&calling(1, 1), tool, &[of("human_approval", "{}")]);
        let (questions, result) = answering(&kernel, json(answer)).await;
        assert_eq!(
            (result.unwrap().as_str(), count.load(Relaxed), questions.len()),
            (expected, runs, 1),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn a_tool_that_needs_approval_does_not_run_without_a_listener() {
    let (count, tool) = pay();
    let chatted = chat(&kernel(&calling(1, 1), tool, &[of("human_approval", "{}")])).await.unwrap();
    assert!(tool_result(&chatted).starts_with(
        r#"{"error":"rejected","reason":"cannot request approval: the client does not accept questions"#
    ));
    assert_eq!((count.load(Relaxed), chatted.text().as_str()), (0, "done"));
}

#[tokio::test]
async fn an_unanswered_approval_counts_as_rejected() {
    for (action, expected) in [("reject", "no answer within 20 ms"), ("halt", "403")] {
        let (count, tool) = pay();
        let options = format!(r#"{{"timeout_ms":20,"timeout_action":"{action}"}}"#);
        let kernel = kernel(&calling(1, 1), tool, &[of("human_approval", &options)]);
        let events = Events::listening(|_| (), Some(Questions::default()));
        let turn = Turn::new(TurnFacts::default(), Context::default(), events);
        let outcome = match kernel.invoke_in("pay", Json::object(), &turn).await {
            Ok(invoked) => invoked.value.text("reason").unwrap().to_string(),
            Err(error) => rejection::<()>(Err(error)).status.to_string(),
        };
        assert_eq!((outcome.as_str(), count.load(Relaxed)), (expected, 0));
    }
}

#[tokio::test]
async fn only_selected_calls_need_approval() {
    for (options, expects_question) in [
        (r#"{"mode":"selective","tools":["pay"]}"#, true),
        (r#"{"mode":"selective","tools":["p*"]}"#, true),
        (r#"{"mode":"selective","tools":["tag:money"]}"#, true),
        (r#"{"mode":"selective","tools":["repay","tag:other","p"]}"#, false),
        (r#"{"mode":"selective","arguments":{"pay":{"sum":"^\\d{3,}$"}}}"#, false),
        (r#"{"mode":"selective","arguments":{"pay":{"sum":"^\\d$"}}}"#, true),
        (r#"{"mode":"selective","tools":["pay"],"arguments":{"pay":{"to":"x"}}}"#, false),
    ] {
        let (count, tool) = pay();
        let kernel = kernel(&calling(1, 1), tool, &[of("human_approval", options)]);
        let (questions, _) = answering(&kernel, false.into()).await;
        assert_eq!(
            (!questions.is_empty(), count.load(Relaxed) == 0),
            (expects_question, expects_question),
            "{options}"
        );
    }
}

#[tokio::test]
async fn a_closure_decides_which_calls_need_approval() {
    let needs: NeedsApproval = Arc::new(|_, args| args.get("sum") != Some(5_i64.into()));
    let parts = Parts { needs_approval: Some(needs), ..Parts::default() };
    let custom = Middleware::of("human_approval", &json(r#"{"mode":"custom"}"#), &parts).unwrap();
    let (count, tool) = pay();
    let kernel = kernel(&calling(1, 1), tool, &[custom]);
    assert!(answering(&kernel, false.into()).await.0.is_empty());
    assert_eq!(count.load(Relaxed), 1);
}

/// Creates a kernel with the middleware and a native filter.
fn kernel_with(tool: Tool, all: &[Middleware], filter: FilterEntry) -> Kernel {
    let filters = [filter].into_iter().chain(all.iter().flat_map(|one| one.filters().to_vec()));
    Kernel::builder().filters(filters).tool(tool).provider(Arc::new(calling(1, 1))).build()
}

/// Creates a filter that raises the sum, by replacing the arguments or by changing them in place.
fn raises(priority: f64, in_place: bool) -> FilterEntry {
    let filter = filter::pre_invocation("raises", move |ctx| {
        if in_place {
            ctx.args().set("sum", 5000_i64).unwrap();
            return Ok(Verdict::Continue);
        }
        ctx.set_args(json(r#"{"sum":5000}"#));
        Ok(Verdict::Continue)
    });
    filter.priority(priority)
}

const CHANGED: &str = "its arguments were changed after a person approved them";

#[tokio::test]
async fn arguments_that_change_after_the_approval_do_not_run() {
    for priority in [9998.0, 9998.5, 9999.0, f64::MAX, f64::INFINITY, f64::NAN] {
        for in_place in [false, true] {
            let (count, tool) = pay();
            // At the same priority, it runs after the middleware because of its position in the list.
            let filters = [of("human_approval", "{}")];
            let kernel = Kernel::builder()
                .filters(filters[0].filters().iter().cloned().chain([raises(priority, in_place)]))
                .tool(tool)
                .provider(Arc::new(calling(1, 1)))
                .build();
            let (questions, result) = answering(&kernel, true.into()).await;
            let result = result.unwrap();
            assert!(result.contains(CHANGED), "{priority} {in_place}: {result}");
            assert_eq!((questions.len(), count.load(Relaxed)), (1, 0), "{priority}");
        }
    }
    // Before the approval, a change is allowed and shown to the person.
    let (count, tool) = pay();
    let kernel = kernel_with(tool, &[of("human_approval", "{}")], raises(9997.0, false));
    let (questions, result) = answering(&kernel, true.into()).await;
    assert_eq!(questions[0].at_path("data.arguments.sum"), 5000_i64.into());
    assert_eq!((result.unwrap().as_str(), count.load(Relaxed)), (r#"{"sum":5000}"#, 1));
}

#[tokio::test]
async fn arguments_that_change_after_a_resume_do_not_run() {
    for (priority, runs) in [(9997.0, 1), (9999.5, 0)] {
        let (count, tool) = pay();
        let kernel = kernel_with(tool, &[of("human_approval", "{}")], raises(priority, true));
        let turn = Turn::default().pausing(Pauses::default());
        let pauses = turn.pauses().unwrap();
        pauses.begin(json(r#"{"id":"call_1"}"#));
        assert!(matches!(kernel.invoke_in("pay", json(r#"{"sum":5}"#), &turn).await, Err(Error::Paused)));
        pauses.answer(pauses.pending().unwrap().hash(), true.into());
        pauses.begin(json(r#"{"id":"call_1"}"#));
        let ran = kernel.invoke_in("pay", json(r#"{"sum":5}"#), &turn).await;
        assert_eq!((ran.is_ok(), count.load(Relaxed)), (runs == 1, runs));
        if runs == 0 {
            assert!(rejection(ran).message.contains(CHANGED));
        }
    }
}

#[tokio::test]
async fn changed_arguments_that_need_approval_do_not_run_without_it() {
    for options in [
        r#"{"mode":"selective","arguments":{"pay":{"sum":"^\\d{3,}$"}}}"#,
        r#"{"mode":"selective","tools":["tag:money"],"arguments":{"pay":{"sum":"^5000$"}}}"#,
    ] {
        let (count, tool) = pay();
        let kernel = kernel_with(tool, &[of("human_approval", options)], raises(9999.0, false));
        let (questions, result) = answering(&kernel, true.into()).await;
        let result = result.unwrap();
        assert!(result.contains(CHANGED), "{result}");
        assert_eq!((questions.len(), count.load(Relaxed)), (0, 0));
    }
    // A filter that changes nothing is allowed.
    let (count, tool) = pay();
    let other = of("human_approval", r#"{"mode":"selective","tools":["other"]}"#);
    let kernel = kernel_with(tool, &[other], raises(9999.0, false));
    assert_eq!(answering(&kernel, true.into()).await.1.unwrap(), r#"{"sum":5000}"#);
    assert_eq!(count.load(Relaxed), 1);
}

#[tokio::test]
async fn an_approval_closure_runs_once_per_call_and_decides_that_call_alone() {
    for (changes, runs) in [(false, 1), (true, 0)] {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let needs: NeedsApproval = Arc::new(move |_, args| {
            counted.fetch_add(1, Relaxed);
            args.get("sum") != Some(5_i64.into())
        });
        let parts = Parts { needs_approval: Some(needs), ..Parts::default() };
        let custom = Middleware::of("human_approval", &json(r#"{"mode":"custom"}"#), &parts).unwrap();
        let (count, tool) = pay();
        let filter = match changes {
            true => raises(9999.0, true),
            false => filter::pre_invocation("looks", |_| Ok(Verdict::Continue)).priority(9999.0),
        };
        let kernel = kernel_with(tool, &[custom], filter);
        let (questions, _) = answering(&kernel, true.into()).await;
        assert_eq!((questions.len(), count.load(Relaxed), calls.load(Relaxed)), (0, runs, 1), "{changes}");
    }
}

#[tokio::test]
async fn a_filter_cannot_swap_the_tool_that_was_approved() {
    let replaces = |what: &'static str| {
        FilterEntry::closure("replaces", Hook::PreInvocation, move |ctx: &mut FilterContext| {
            match what {
                "name" => _ = ctx.tool().set("name", "harmless"),
                "tags" => _ = ctx.tool().get("tags").unwrap().set("0", "harmless"),
                _ => ctx.value.set("tool", json(r#"{"name":"harmless","tags":[]}"#)).unwrap(),
            }
            Ok(Verdict::Continue)
        })
    };
    for (what, expected) in
        [("name", "rejected"), ("tags", "rejected"), ("all", "a filter replaced `ctx.tool`")]
    {
        for place in [0.0, 9999.0] {
            let (count, tool) = pay();
            let selected = of("human_approval", r#"{"mode":"selective","tools":["tag:money"]}"#);
            let kernel = kernel_with(tool, &[selected], replaces(what).priority(place));
            let (_, result) = answering(&kernel, false.into()).await;
            let result = result.unwrap();
            assert!(
                result.contains(expected) || place > 0.0 && result.contains("rejected"),
                "{what}: {result}"
            );
            assert_eq!(count.load(Relaxed), 0, "{what}");
        }
    }
}

#[tokio::test]
async fn two_approval_middlewares_both_ask_about_a_call() {
    let (count, tool) = pay();
    let all = [of("human_approval", r#"{"mode":"selective","tools":["pay"]}"#), of("human_approval", "{}")];
    let kernel = kernel(&calling(1, 1), tool, &all);
    let (questions, result) = answering(&kernel, true.into()).await;
    assert_eq!((result.unwrap().as_str(), count.load(Relaxed), questions.len()), (r#"{"sum":5}"#, 1, 2));
}

/// A recorder of the events that a turn reported.
#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl Observer for Recorder {
    fn notice(&self, notice: Notice) {
        if let Notice::Retry { what, attempt, most, .. } = notice {
            self.0.lock().push(format!("{what} {attempt}/{most}"));
        }
    }
}

/// Creates a tool that fails this many times.
fn failing(times: usize, message: &'static str) -> (Arc<AtomicUsize>, Tool) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let tool = Tool::from_json_fn("pay", move |args| {
        if counted.fetch_add(1, Relaxed) < times { Err(ToolError::from(message)) } else { Ok(args.into()) }
    });
    (count, tool)
}

const SOON: &str = r#"{"max_retries":2,"initial_delay_ms":1,"tools":["pay"]}"#;

#[tokio::test]
async fn a_temporary_tool_failure_is_retried_and_the_retry_is_reported() {
    let (count, tool) = failing(2, "connection refused");
    let kernel = kernel(&calling(1, 1), tool, &[of("tool_retry", SOON)]);
    let recorder = Arc::new(Recorder::default());
    let turn = Turn::default().observed_by(recorder.clone());
    let invoked = kernel.invoke_in("pay", json(r#"{"sum":5}"#), &turn).await.unwrap();
    assert_eq!((invoked.value, count.load(Relaxed)), (json(r#"{"sum":5}"#), 3));
    assert_eq!(*recorder.0.lock(), ["tool pay 1/2", "tool pay 2/2"]);
}

#[tokio::test]
async fn permanent_errors_and_tools_that_are_not_listed_are_not_retried() {
    for (tool, options, tries) in [
        (failing(9, "no such account"), SOON, 1),
        (failing(9, "connection refused"), r#"{"initial_delay_ms":1}"#, 1),
        (failing(9, "connection refused"), SOON, 3),
    ] {
        let (count, tool) = tool;
        chat(&kernel(&calling(1, 1), tool, &[of("tool_retry", options)])).await.unwrap();
        assert_eq!(count.load(Relaxed), tries, "{options}");
    }
    let (count, tool) = failing(1, "timed out");
    let options = r#"{"initial_delay_ms":1}"#;
    chat(&kernel(&calling(1, 1), tool.idempotent(), &[of("tool_retry", options)])).await.unwrap();
    assert_eq!(count.load(Relaxed), 2, "it says that it may run twice");
}

#[tokio::test(start_paused = true)]
async fn attempts_and_delays_together_stay_within_the_timeout_times_the_attempts() {
    let options = r#"{"max_retries":100,"initial_delay_ms":50000,"max_delay_ms":80000000,"tools":["pay"]}"#;
    let (count, tool) = failing(1_000, "connection refused");
    let tool = tool.timeout(std::time::Duration::from_secs(1));
    let began = tokio::time::Instant::now();
    chat(&kernel(&calling(1, 1), tool, &[of("tool_retry", options)])).await.unwrap();
    assert!(began.elapsed() <= std::time::Duration::from_secs(101), "{:?}", began.elapsed());
    assert_eq!(count.load(Relaxed), 2);
}

#[tokio::test]
async fn each_attempt_has_the_full_timeout_of_the_tool() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let run = move |_: Json, _: Context| {
        let first = counted.fetch_add(1, Relaxed) == 0;
        async move {
            if first {
                std::future::pending::<()>().await;
            }
            Ok("there".into())
        }
    };
    let tool = Tool::new(valvehouse_core::tool::ToolSpec::new("pay"), run)
        .timeout(std::time::Duration::from_millis(30));
    let chatted = chat(&kernel(&calling(1, 1), tool, &[of("tool_retry", SOON)])).await.unwrap();
    assert_eq!((tool_result(&chatted).as_str(), count.load(Relaxed)), ("there", 2));
}

#[tokio::test]
async fn a_model_that_does_not_answer_is_retried_and_then_replaced() {
    let down = || Error::Answered { provider: "a".into(), status: 503, body: Json::Null, retry_after: None };
    let model = CannedProvider::new([Reply::error(down()), Reply::error(down()), Reply::text("late")]);
    let again = of("model_retry", r#"{"max_retries":2,"initial_delay_ms":1}"#);
    let recorder = Arc::new(Recorder::default());
    let turn = Turn::default().observed_by(recorder.clone());
    let body = json(r#"{"model":"m","messages":[{"role":"user","content":"go"}]}"#);
    let retried = kernel(&model, pay().1, std::slice::from_ref(&again));
    let request = ChatRequest::new(body).unwrap();
    let answer = retried.run(request, RunOptions::new(turn)).answer().await.unwrap();
    assert_eq!(answer.response.at_path("choices.0.message.content").as_str(), Some("late"));
    assert_eq!(*recorder.0.lock(), ["provider canned 1/2", "provider canned 2/2"]);

    let (model, other) =
        (CannedProvider::new([Reply::error(down())]), CannedProvider::named("b", ["instead"]));
    let choice = valvehouse_providers::Choice { provider: Arc::new(other.clone()), model: "b-1".into() };
    let parts = Parts { others: vec![("b".into(), choice)], ..Parts::default() };
    let instead = Middleware::of("model_fallback", &json(r#"{"models":["b"]}"#), &parts).unwrap();
    let chatted = chat(&kernel(&model, pay().1, &[again, instead])).await.unwrap();
    assert_eq!((chatted.text().as_str(), model.requests().len()), ("instead", 3));
    assert_eq!(other.requests()[0].text("model").unwrap(), "b-1");
}

async fn sent_to_model(options: &str, text: &str) -> Result<String, Error> {
    let model = CannedProvider::new(["fine"]);
    let kernel = kernel(&model, pay().1, &[of("pii", options)]);
    kernel.chat_with_tools(vec![message::user(text)], ChatOptions::default()).await?;
    Ok(message::text_of(&model.requests()[0].at_path("messages.0")).into())
}

#[tokio::test]
async fn the_model_does_not_see_personal_data() {
    let text = "I am ann@example.org, card 4111 1111 1111 1111";
    for (options, expected) in [
        (r#"{"strategy":"warn"}"#, text),
        (r#"{"strategy":"redact"}"#, "I am [email], card [card]"),
        (r#"{"strategy":"redact","kinds":["card"]}"#, "I am ann@example.org, card [card]"),
        (r#"{"strategy":"mask"}"#, "I am a***@example.org, card ***************1111"),
    ] {
        assert_eq!(sent_to_model(options, text).await.unwrap(), expected, "{options}");
    }
    let hashed = sent_to_model(r#"{"strategy":"hash","key":"k"}"#, text).await.unwrap();
    assert!(hashed.starts_with("I am [email:") && !hashed.contains("ann"), "{hashed}");
    assert_eq!(sent_to_model(r#"{"strategy":"hash","key":"k"}"#, text).await.unwrap(), hashed);
    assert_ne!(sent_to_model(r#"{"strategy":"hash"}"#, text).await.unwrap(), hashed);
    let refused = rejection(sent_to_model(r#"{"strategy":"block"}"#, text).await);
    assert_eq!(
        (refused.status, refused.message.as_str()),
        (400, "cannot pass on personal data: the messages contain it: email, card")
    );
    assert_eq!(sent_to_model(r#"{"strategy":"block"}"#, "nothing of it").await.unwrap(), "nothing of it");
}

#[tokio::test]
async fn personal_data_is_redacted_in_tool_arguments_and_results() {
    let seen = Arc::new(Mutex::new(Json::Null));
    let own = seen.clone();
    let tool = Tool::from_json_fn("pay", move |args| {
        *own.lock() = args;
        Ok(json(r#"{"of":["bob@example.org",{"13812345678":4111111111111111}]}"#).into())
    });
    let call = Json::from([
        ("id", "call_13812345678".into()),
        ("type", "function".into()),
        (
            "function",
            Json::from([
                ("name", "pay".into()),
                ("arguments", r#"{"id":"ann\u0040example.org","sum":5}"#.into()),
            ]),
        ),
    ]);
    let asks = Json::from([("role", "assistant".into()), ("tool_calls", vec![call].into())]);
    let model = CannedProvider::new([Reply::message(asks), Reply::text("done")]);
    chat(&kernel(&model, tool, &[of("pii", r#"{"strategy":"redact"}"#)])).await.unwrap();
    assert_eq!(*seen.lock(), json(r#"{"id":"[email]","sum":5}"#));
    let read = model.requests()[1].at_path("messages");
    assert_eq!(read.at_path("1.tool_calls.0.id"), read.at_path("2.tool_call_id"));
    assert_eq!(
        read.at_path("1.tool_calls.0.function.arguments").as_str(),
        Some(r#"{"id":"[email]","sum":5}"#)
    );
    assert_eq!(read.at_path("2.content").as_str(), Some(r#"{"of":["[email]",{"[phone]":"[card]"}]}"#));
}

#[tokio::test]
async fn old_tool_results_become_a_placeholder_and_new_ones_stay() {
    let (model, (_, tool)) = (calling(6, 2), pay());
    let options = r#"{"keep_tool_results":1,"placeholder":"[old]"}"#;
    let chatted = chat(&kernel(&model, tool, &[of("context_editing", options)])).await.unwrap();
    let results = |body: &Json| {
        let messages = body.get("messages").unwrap().items().into_iter();
        let results = messages.filter(|message| message.text("role").unwrap() == "tool");
        results.map(|result| message::text_of(&result).to_string()).collect::<Vec<_>>()
    };
    let requests = model.requests();
    assert_eq!(results(&requests[2]), [r#"{"sum":5}"#; 4], "seven messages are few");
    // Six of the ten messages are results; the last two have not been answered.
    let seen = results(&requests[3]);
    assert_eq!(
        (&seen[..4], &seen[4..]),
        (&["[old]"; 4].map(String::from)[..], &[r#"{"sum":5}"#; 2].map(String::from)[..])
    );
    let kept = results(&Json::from([("messages", chatted.messages.into())]));
    assert!(kept.iter().all(|result| result == r#"{"sum":5}"#), "results are not shortened");
}

#[tokio::test]
async fn a_summary_is_written_from_redacted_messages() {
    let model = CannedProvider::new(["so far", "fine"]);
    let parts = Parts {
        model: Some(Choice { provider: Arc::new(model.clone()), model: "m".into() }),
        ..Parts::default()
    };
    let options = json(r#"{"summarize":true,"window_size":2,"compress_threshold":3}"#);
    let all =
        [Middleware::of("summarization", &options, &parts).unwrap(), of("pii", r#"{"strategy":"redact"}"#)];
    let messages: Vec<_> = (0..5).map(|number| message::user(format!("{number}: ann@example.org"))).collect();
    kernel(&model, pay().1, &all).chat_with_tools(messages, ChatOptions::default()).await.unwrap();
    let (written, model_input) = (&model.requests()[0], &model.requests()[1]);
    assert!(written.to_string().contains("0: [email]") && !written.to_string().contains("ann@"));
    let model_input = model_input.get("messages").unwrap().items();
    assert_eq!(
        message::text_of(&model_input[0]),
        "[Summary of the first 3 messages of this conversation]\nso far"
    );
    assert_eq!((model_input.len(), message::text_of(&model_input[2]).as_str()), (3, "4: [email]"));
}
