//! The library in a program: filters with a subject per hook, messages in any form, streams of chunks, typed
//! middleware, folders of scripts, and an embedded host.

use crate::kernel::{calls, json, note, notes};
use futures::future::BoxFuture;
use futures::stream;
use serde::Serialize;
use serde_json::json as value;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use valvehouse::agent::Decision;
use valvehouse::agent::middleware::{
    CallLimit, ContextEditing, HumanApproval, Middleware, MiddlewareSettings, ModelFallback, ModelRetry,
    Parts, Pii, PiiStrategy, Summarization, ToolRetry,
};
use valvehouse::chat::{Message, serialized};
use valvehouse::config::{Grant, Grants};
use valvehouse::context::{Context, Notice, Observer};
use valvehouse::error::{Blame, Error, Rejection};
use valvehouse::filter::{
    self, FailurePolicy, Hook, HookResult, Inlet, Outlet, PostChat, PostInvocation, PreChat, PreInvocation,
    StreamEnd, StreamEvent, Verdict,
};
use valvehouse::kernel::{ChatOptions, Kernel, TurnEvent};
use valvehouse::provider::{Answer, CannedProvider, Provider, Reply, Request};
use valvehouse::script::{BuilderScripts, ScriptFolder};
use valvehouse::tool::{Tool, ToolSpec};
use valvehouse::{Agent, Filter, Host, Json};

/// Creates a folder with these scripts.
fn folder(scripts: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, text) in scripts {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn echo() -> Tool {
    Tool::from_json_fn("echo", |args| Ok(args.into()))
}

/// A filter that implements and records every hook.
struct Notes;

impl Filter for Notes {
    async fn inlet(&self, request: &mut Inlet) -> HookResult {
        note(request.turn(), "inlet");
        assert_eq!(request.model(), "default");
        Ok(Verdict::Continue)
    }

    async fn pre_chat(&self, chat: &mut PreChat) -> HookResult {
        tokio::task::yield_now().await;
        note(chat.turn(), "pre_chat");
        let mut messages = chat.messages().items();
        messages.insert(0, Message::system("Be brief.").into());
        chat.set_messages(messages);
        Ok(Verdict::Continue)
    }

    async fn stream(&self, event: &mut StreamEvent) -> HookResult {
        event.set_text(&event.text().to_uppercase());
        Ok(Verdict::Continue)
    }

    async fn stream_end(&self, end: &mut StreamEnd) -> HookResult {
        end.send("!");
        Ok(Verdict::Continue)
    }

    async fn post_chat(&self, chat: &mut PostChat) -> HookResult {
        note(chat.turn(), &format!("post_chat:{}", chat.text()));
        Ok(Verdict::Continue)
    }

    async fn pre_invocation(&self, call: &mut PreInvocation) -> HookResult {
        note(call.turn(), &format!("pre:{}", call.tool_name()));
        call.set_args(json(r#"{"n":2}"#));
        Ok(Verdict::Continue)
    }

    async fn post_invocation(&self, call: &mut PostInvocation) -> HookResult {
        note(call.turn(), &format!("post:{}", call.args()));
        call.set_result("two");
        Ok(Verdict::Continue)
    }

    async fn outlet(&self, conversation: &mut Outlet) -> HookResult {
        conversation.set_text(&format!("{} signed", conversation.text()));
        Ok(Verdict::Continue)
    }
}

#[tokio::test]
async fn a_filter_has_a_method_for_each_hook_with_its_own_subject() {
    let model = CannedProvider::new([calls("", &[("echo", r#"{"n":1}"#)]), "hello".into()]);
    let kernel = Kernel::builder().tool(echo()).filter(Notes).provider(model.clone()).build();
    let answer = kernel.chat("hi").await.unwrap();
    assert_eq!(answer.text(), "HELLO! signed");
    let requests = model.requests();
    assert_eq!(requests[0].at_path("messages.0.content"), "Be brief.".into());
    assert_eq!(requests[1].at_path("messages.-1.content"), "two".into());
    assert_eq!(
        notes(&answer.context),
        r#"inlet pre_chat post_chat:! pre:echo post:{"n":2} pre_chat post_chat:HELLO!"#
    );
}

#[tokio::test]
async fn hooks_that_a_filter_does_not_implement_cost_nothing() {
    struct Looks;
    impl Filter for Looks {
        async fn pre_chat(&self, _: &mut PreChat) -> HookResult {
            Ok(Verdict::Continue)
        }
    }
    struct Idle;
    impl Filter for Idle {}
    let kernel = Kernel::builder().filter(Looks).filter(Idle).build();
    let hooks: Vec<Vec<Hook>> =
        kernel.chain().filters().iter().map(|filter| filter.hooks().iter().collect()).collect();
    assert_eq!(hooks, [vec![Hook::PreChat], vec![]]);
    assert!(!kernel.chain().has(Hook::Stream));
    let all = Kernel::builder().filter(Notes).build();
    assert!(Hook::ALL.iter().all(|hook| all.chain().has(*hook)));
}

#[tokio::test]
async fn a_filter_has_its_own_name_priority_and_failure_policy() {
    struct Place(&'static str, f64, FailurePolicy);
    impl Filter for Place {
        fn name(&self) -> &str {
            self.0
        }

        fn priority(&self) -> f64 {
            self.1
        }

        fn failure_policy(&self) -> FailurePolicy {
            self.2
        }

        async fn pre_chat(&self, chat: &mut PreChat) -> HookResult {
            note(chat.turn(), self.0);
            match self.0 {
                "panics" => panic!("not today"),
                "fails" => Err(std::io::Error::other("the disk is full"))?,
                _ => Ok(Verdict::Continue),
            }
        }
    }
    let shaky =
        || [Place("panics", 0.0, FailurePolicy::FailOpen), Place("fails", -1.0, FailurePolicy::FailOpen)];
    let builder = || Kernel::builder().provider(CannedProvider::new(["hello"]));
    let kernel = builder().filter(Place("last", 5.0, FailurePolicy::FailClosed)).filters(shaky()).build();
    assert_eq!(notes(&kernel.chat("hi").await.unwrap().context), "fails panics last");
    let kernel = builder().filter(Place("panics", 0.0, FailurePolicy::FailClosed)).build();
    let error = kernel.chat("hi").await.unwrap_err();
    assert_eq!(error.to_string(), "panics failed in pre_chat: panicked: not today");
    assert_eq!((error.blame(), error.is_retryable()), (Blame::Plugin, false));
}

#[tokio::test]
async fn a_filter_responds_and_rejects() {
    struct Cache;
    impl Filter for Cache {
        async fn pre_chat(&self, chat: &mut PreChat) -> HookResult {
            match chat.messages().items().len() {
                1 => Ok(Verdict::respond("from the cache")),
                _ => Ok(Verdict::reject(Rejection::new("too long").with_status(413))),
            }
        }
    }
    let model = CannedProvider::new(["never"]);
    let kernel = Kernel::builder().filter(Cache).provider(model.clone()).build();
    assert_eq!(kernel.chat("hi").await.unwrap().text(), "from the cache");
    let Error::Rejected(refused) = kernel.chat(["hi", "again"]).await.unwrap_err() else { panic!() };
    assert_eq!((refused.status, refused.plugin.as_str()), (413, "Cache"));
    assert!(model.requests().is_empty());
}

#[tokio::test]
async fn an_async_filter_ends_with_its_turn() {
    struct Hangs(tokio::sync::mpsc::UnboundedSender<()>);
    impl Filter for Hangs {
        async fn pre_chat(&self, _: &mut PreChat) -> HookResult {
            self.0.send(()).unwrap();
            std::future::pending().await
        }
    }
    let (began, mut beginnings) = tokio::sync::mpsc::unbounded_channel();
    let kernel = Kernel::builder().filter(Hangs(began)).provider(CannedProvider::new(["never"])).build();
    let turn = tokio::spawn(async move { kernel.chat("hi").await.is_ok() });
    beginnings.recv().await.unwrap();
    turn.abort();
    assert_eq!(beginnings.recv().await, None, "the filter went with its kernel");
}

#[derive(Serialize)]
struct Utterance {
    role: &'static str,
    content: String,
}

#[tokio::test]
async fn messages_come_as_text_messages_json_and_serde_values() {
    let model = CannedProvider::new(["1", "2", "3", "4", "5"]);
    let kernel = Kernel::builder().provider(model.clone()).build();
    kernel.chat("hi").await.unwrap();
    kernel.chat(vec![Message::system("brief"), Message::user("hi")]).await.unwrap();
    kernel.chat(value!([{"role": "system", "content": "brief"}, "hi"])).await.unwrap();
    let utterances = [Utterance { role: "user", content: "hi".into() }];
    kernel.chat(serialized(&utterances).unwrap()).await.unwrap();
    let options = ChatOptions { model: Some("m".into()), ..ChatOptions::default() };
    kernel.chat_with_tools(Message::user("hi"), options).await.unwrap();
    let last = |request: &Json| request.at_path("messages.-1").to_string();
    let all: Vec<String> = model.requests().iter().map(last).collect();
    assert!(all.iter().all(|message| message == r#"{"role":"user","content":"hi"}"#), "{all:?}");
    assert_eq!(model.requests()[2].at_path("messages.0.role"), "system".into());
    let error = kernel.chat(value!(5)).await.unwrap_err();
    assert_eq!((error.blame(), error.is_retryable()), (Blame::Caller, false));
}

#[tokio::test]
async fn an_answer_streams_as_chunks() {
    let kernel = || Kernel::builder().provider(CannedProvider::new([Reply::chunks(["wa", "rm"])])).build();
    let mut stream = kernel().stream("hi").unwrap();
    let (mut texts, mut finish) = (Vec::new(), None);
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.unwrap();
        texts.extend(Some(chunk.text()).filter(|text| !text.is_empty()));
        finish = chunk.finish_reason().or(finish);
    }
    assert_eq!((texts, finish.as_deref()), (vec!["wa".to_owned(), "rm".to_owned()], Some("stop")));
    assert_eq!(stream.answer().unwrap().text(), "warm");
    let collected: Vec<_> = futures::StreamExt::collect(kernel().stream("hi").unwrap()).await;
    assert!(collected.len() >= 2 && collected.iter().all(Result::is_ok));
}

#[test]
fn typed_middleware_has_the_defaults_and_checks_of_named_middleware() {
    let parts = Parts::default();
    let of = |settings: MiddlewareSettings| Middleware::new(settings, &parts);
    let typed: [MiddlewareSettings; 7] = [
        CallLimit::default().into(),
        ToolRetry::default().into(),
        ModelRetry::default().into(),
        Pii::default().into(),
        ContextEditing::default().into(),
        Summarization::default().into(),
        HumanApproval::all().into(),
    ];
    for settings in typed {
        let made = of(settings).unwrap();
        assert!(Middleware::names().contains(&made.name()), "{made:?}");
    }
    assert!(of(HumanApproval::tools(["pay", "tag:money"]).into()).is_ok());
    assert!(of(HumanApproval::when(|_, _| true).into()).is_ok());
    assert!(of(ModelFallback::to(CannedProvider::new(["x"]), "m").into()).is_ok());
    assert!(of(Pii { kinds: Some(vec!["email".into()]), ..PiiStrategy::Hash.into() }.into()).is_ok());
    let wrong = of(CallLimit { max_model_calls: 0, ..CallLimit::default() }.into()).unwrap_err();
    assert!(wrong.to_string().contains("`max_model_calls`"), "{wrong}");
    let nothing = of(HumanApproval::tools(Vec::<String>::new()).into()).unwrap_err();
    assert!(nothing.to_string().contains("selects nothing"), "{nothing}");
    let conditions = HumanApproval::tools(Vec::<String>::new()).arguments("pay", "amount", "^9");
    assert!(of(conditions.into()).is_ok());
    assert!(of(("call_limits", Json::Null).into()).unwrap_err().to_string().contains("did you mean"));
}

#[tokio::test]
async fn an_approval_by_a_closure_pauses_only_the_calls_that_it_names() {
    let ask = |n: i64| calls("", &[("echo", &format!(r#"{{"n":{n}}}"#))]);
    let model = CannedProvider::new([ask(1), ask(9), "done".into()]);
    let large = HumanApproval::when(|_, args| args.field("n").as_i64() > Some(5));
    let agent = Agent::builder().provider(model).tool(echo()).middleware(large).build();
    let mut agent = agent.unwrap();
    let paused = agent.run("go").await.unwrap();
    assert_eq!(paused.pending_action.at_path("question.data.arguments.n"), 9_i64.into());
}

#[tokio::test]
async fn the_context_names_the_run_of_an_agent() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let filter = filter::pre_chat("sees", move |chat| {
        let context = chat.context();
        noted.lock().unwrap().push((context.get("agent_id"), context.get("run_id")));
        Ok(Verdict::Continue)
    });
    let scripts = folder(&[(
        "script.rhai",
        r#"fn pre_chat(ctx) {
            ctx.context.set("script", ctx.context.get("agent_id") + " " + ctx.context.get("run_id", "none"));
            ctx.context.set("run_id", "forged");
            if ctx.context.get("run_id") == "forged" { throw "a variable replaced the id of the run"; }
        }"#,
    )]);
    let agent = Agent::builder().id("a-7").provider(CannedProvider::new(["hello"])).filter(filter);
    let variables = value!({"agent_id": "forged"});
    let mut agent = agent.scripts(scripts.path()).unwrap().variables(variables).build().unwrap();
    agent.run("hi").await.unwrap();
    let run = agent.state().run_id.clone().unwrap();
    let id = |id: &str| Some(Json::from(id));
    assert_eq!(*seen.lock().unwrap(), [(id("a-7"), id(&run))]);
    assert_eq!(agent.variables().field("script"), format!("a-7 {run}").into());
    let kernel = Kernel::builder().provider(CannedProvider::new(["hello"])).build();
    assert_eq!(kernel.chat("hi").await.unwrap().context.get("run_id"), None);
}

#[tokio::test]
async fn script_callbacks_receive_the_runs_of_an_agent() {
    let scripts = folder(&[(
        "records.rhai",
        "/*\nrequirements: kv\n*/\nconst callbacks = true;\n
         fn on_tool_start(event) { kv::set(\"tool\", event.tool); }
         fn on_chain_end(event) { kv::set(\"end\", true); }
         fn inlet(body) { body.messages[-1].content = `${kv::get(\"tool\", \"none\")} ${kv::get(\"end\", false)}`; body }",
    )]);
    let model = CannedProvider::new([calls("", &[("echo", "{}")]), "one".into(), "two".into()]);
    let grants = ScriptFolder::new(scripts.path()).grant("records", Grants { kv: true, ..Grants::default() });
    let agent = Agent::builder().provider(model.clone()).tool(echo()).scripts(grants).unwrap().build();
    let mut agent = agent.unwrap();
    agent.run("first").await.unwrap();
    agent.run("second").await.unwrap();
    assert_eq!(model.requests()[2].at_path("messages.-1.content"), "echo true".into());
}

#[tokio::test]
async fn filters_and_tools_call_other_tools_of_the_kernel() {
    let called = filter::from_fn("asks", async |chat: &mut PreChat| {
        let kernel = Kernel::of_turn(chat.turn()).ok_or("no kernel")?;
        let found = kernel.invoke_for("asks", "echo", [("n", 7_i64.into())], chat.turn()).await?;
        chat.context().set("found", found);
        let unknown = kernel.invoke_for("asks", "eco", [("n", 7_i64.into())], chat.turn()).await.unwrap_err();
        chat.context().set("unknown", unknown.to_string());
        Ok(Verdict::Continue)
    });
    let guard = filter::pre_invocation("guard", |call| {
        note(call.turn(), &format!("{} for {}", call.tool_name(), call.caller().unwrap_or("the model")));
        Ok(Verdict::Continue)
    });
    let model = CannedProvider::new(["hello"]);
    let kernel = Kernel::builder().filter(called).filter(guard).tool(echo()).provider(model).build();
    let answer = kernel.chat("hi").await.unwrap();
    assert_eq!(answer.context.get("found"), Some(json(r#"{"n":7}"#)));
    assert!(answer.context.get_or("unknown", "").as_str().unwrap().contains("did you mean `echo`?"));
    assert_eq!(notes(&answer.context), "echo for asks");
}

#[tokio::test]
async fn a_script_calls_kernel_tools_in_bounded_depth() {
    let tools = folder(&[
        (
            "twice.rhai",
            "/*\nrequirements: tools\n*/\nfn handler(args, ctx) { ctx.kernel.invoke(\"echo\", #{ n: args.n * 2 }).n }",
        ),
        (
            "deep.rhai",
            "/*\nrequirements: tools\n*/\nfn handler(args, ctx) { ctx.kernel.invoke(\"deep\", args) }",
        ),
    ]);
    let filters = folder(&[(
        "asks.rhai",
        "/*\nrequirements: tools\n*/\nfn pre_chat(ctx) { ctx.context.set(\"n\", ctx.kernel.invoke(\"twice\", #{ n: 4 })); }",
    )]);
    let builder = Kernel::builder().tool(echo()).provider(CannedProvider::new(["hello"]));
    let kernel = builder.scripts(filters.path()).unwrap().script_tools(tools.path()).unwrap().build();
    let answer = kernel.chat("hi").await.unwrap();
    assert_eq!(answer.context.get("n"), Some(8_i64.into()));
    let deep = kernel.invoke("deep", Json::object(), &Context::default()).await.unwrap_err();
    assert!(deep.to_string().contains("nested more than 4 deep"), "{deep}");
}

#[tokio::test]
async fn the_opening_comment_of_a_script_may_set_its_priority() {
    let scripts = folder(&[
        (
            "a.rhai",
            "/*\npriority: 7\n*/\nfn inlet(body, __metadata__) { __metadata__.ensure(\"notes\", []).push(\"a\"); }",
        ),
        ("b.rhai", "fn inlet(body, __metadata__) { __metadata__.ensure(\"notes\", []).push(\"b\"); }"),
        (
            "c.rhai",
            "const Valves = #{ priority: -1 };\nfn inlet(body, __metadata__) { __metadata__.ensure(\"notes\", []).push(\"c\"); }",
        ),
    ]);
    let builder = Kernel::builder().provider(CannedProvider::new(["hello"]));
    let kernel = builder.scripts(scripts.path()).unwrap().build();
    assert_eq!(notes(&kernel.chat("hi").await.unwrap().context), "c b a");
    for (text, wrong) in [
        ("/*\npriority: soon\n*/\nfn inlet(body) { }", "invalid `priority`: expected a number, got soon"),
        (
            "/*\npriority: 1\n*/\nconst Valves = #{ priority: 2 };\nfn inlet(body) { }",
            "cannot use `priority` of the opening comment",
        ),
    ] {
        let scripts = folder(&[("x.rhai", text)]);
        let error = Kernel::builder().scripts(scripts.path()).err().unwrap().to_string();
        assert!(error.contains(wrong), "{error}");
    }
}

#[derive(Clone, Default)]
struct AnswerRecorder(Arc<Mutex<String>>);

impl Observer for AnswerRecorder {
    fn notice(&self, notice: Notice) {
        if let Notice::LlmToken { text } = notice {
            self.0.lock().unwrap().push_str(&text);
        }
    }
}

#[tokio::test]
async fn an_embedded_host_has_folders_grants_tools_and_an_observer() {
    let filters = folder(&[("shout.rhai", "fn stream(event) { event.text.make_upper(); event }")]);
    let tools = folder(&[(
        "home.rhai",
        "/*\nrequirements: env\n*/\nfn handler(args) { env::get(\"VALVEHOUSE_TEST_UNSET\") ?? \"unset\" }",
    )]);
    let env = Grants { env: Grant::Only(vec!["VALVEHOUSE_TEST_UNSET".into()]), ..Grants::default() };
    let model =
        CannedProvider::new([calls("", &[("home", "{}"), ("echo", "{}")]), "hello".into(), "bye".into()]);
    let recorder = AnswerRecorder::default();
    let host = Host::builder()
        .scripts(filters.path())
        .tools(tools.path())
        .grant("home", env)
        .tool(echo())
        .model("helper", model.clone(), "any")
        .observer(recorder.clone())
        .open()
        .await
        .unwrap();
    assert_eq!(host.chat("helper", "hi").await.unwrap().text(), "HELLO");
    let results = model.requests()[1].field("messages").items();
    let results: Vec<String> = results.iter().rev().take(2).map(|one| one.string("content")).collect();
    assert_eq!(results, ["{}", "unset"]);
    let mut stream = host.stream("helper", "hi").unwrap();
    while let Some(chunk) = stream.next().await {
        chunk.unwrap();
    }
    assert!(recorder.0.lock().unwrap().ends_with("BYE"), "{:?}", recorder.0);
    let unknown = host.chat("helpr", "hi").await.unwrap_err();
    assert_eq!(unknown.blame(), Blame::Caller);
    assert_eq!(host.problems().len(), 0);
    std::fs::write(tools.path().join("home.rhai"), "fn handler(args) { 1 + }").unwrap();
    host.reload().await;
    let problems: Vec<String> = host.problems().iter().map(ToString::to_string).collect();
    assert!(matches!(&problems[..], [one] if one.contains("home.rhai:1:24: error[V101]")), "{problems:?}");
    let guard = filters.path().join("guard.rhai");
    std::fs::write(&guard, "/*\nsecurity: true\n*/\nfn inlet(body) { }").unwrap();
    host.reload().await;
    std::fs::remove_file(&guard).unwrap();
    let is_missing =
        || host.problems().iter().any(|problem| problem.to_string().contains("the guard `guard` is missing"));
    for _ in 0..100 {
        if is_missing() {
            break;
        }
        host.reload().await;
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(is_missing(), "{:?}", host.problems());
    host.close().await;
}

#[tokio::test]
async fn a_host_without_its_folder_fails_to_open() {
    let error = Host::builder().scripts("no/such/folder").open().await.err().unwrap().to_string();
    assert!(error.contains("cannot find the folder of scripts no/such/folder"), "{error}");
}

#[tokio::test]
async fn the_model_receives_the_error_of_a_tool() {
    let fails = Tool::new(ToolSpec::new("fails"), |_: Json, _: Context| async { Err("no".into()) });
    let kernel = Kernel::builder().tool(fails).build();
    let error = kernel.invoke("fails", value!({}), &Context::default()).await.unwrap_err();
    assert!(matches!(error, Error::Rejected(_)), "{error}");
}

#[tokio::test]
async fn a_filter_closure_returns_any_error_and_its_source_is_kept() {
    let reads = valvehouse::filter::FilterEntry::closure("reads", Hook::Inlet, |_| {
        "many".parse::<u8>()?;
        Ok(Verdict::Continue)
    });
    let error = crate::kernel::chat(&crate::kernel::answering("hi", [reads]), "hello").await.unwrap_err();
    let source = std::error::Error::source(&error).expect("a source").to_string();
    assert!(source.contains("invalid digit") && error.to_string().contains("reads"), "{error}: {source}");
}

#[tokio::test]
async fn a_streamed_turn_has_plugin_events_usage_and_a_finish_reason() {
    let progress = filter::pre_chat("progress", |chat| {
        chat.append_system("Be brief.");
        chat.turn().emit_status("progress", "thinking", false)?;
        Ok(Verdict::Continue)
    });
    let provider = CannedProvider::new(["one two"]);
    let kernel = Kernel::builder().filter(progress).provider(provider.clone()).build();
    let mut stream = kernel.stream_chat("hi", ChatOptions::default()).unwrap();
    let (mut text, mut shown, mut ended) = (String::new(), String::new(), None);
    while let Some(event) = stream.next().await {
        match event.unwrap() {
            TurnEvent::Chunk(chunk) => text.push_str(&chunk.text()),
            TurnEvent::Emitted(event) => shown.push_str(event.at_path("data.description").str_or_empty()),
            TurnEvent::Answer(answer) => ended = Some(answer),
            TurnEvent::Passthrough(_) => panic!("nothing is passed through"),
        }
    }
    let answer = ended.unwrap();
    assert_eq!((text.as_str(), shown.as_str()), ("one two", "thinking"));
    assert_eq!(answer.finish_reason().as_deref(), Some("stop"));
    assert!(answer.usage().count("completion_tokens") > 0, "{}", answer.response);
    assert_eq!(provider.requests()[0].at_path("messages.0.content"), "Be brief.".into());
}

#[tokio::test]
async fn a_provider_answers_with_texts_and_an_error_has_a_status() {
    struct Words;

    impl Provider for Words {
        fn name(&self) -> &str {
            "words"
        }

        fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Error>> {
            Box::pin(async { Ok(Vec::new()) })
        }

        fn chat(&self, request: Request) -> BoxFuture<'_, Result<Answer, Error>> {
            Box::pin(async move {
                Ok(match request.stream {
                    true => Answer::texts(stream::iter(["a", "b"])),
                    false => Answer::text("ab"),
                })
            })
        }
    }

    let refuse = filter::pre_chat("refuse", |chat| {
        Ok(match chat.model().as_str() {
            "secret" => Verdict::reject(Rejection::new("not for you").with_status(403)),
            _ => Verdict::Continue,
        })
    });
    let kernel = Kernel::builder().filter(refuse).provider(Words).build();
    assert_eq!(kernel.chat("hi").await.unwrap().to_string(), "ab");
    let mut chunks = kernel.stream("hi").unwrap();
    let mut text = String::new();
    while let Some(chunk) = chunks.next().await {
        text.push_str(&chunk.unwrap().text());
    }
    assert_eq!(text, "ab");
    let options = ChatOptions { model: Some("secret".into()), ..ChatOptions::default() };
    let refused = kernel.chat_with_tools("hi", options).await.unwrap_err();
    assert_eq!((refused.status(), refused.blame()), (403, Blame::Caller));
}

#[tokio::test]
async fn a_tool_without_parameters_runs_and_its_failure_is_that_of_the_plugin() {
    let noon = Tool::from_fn("noon", |()| async { Ok("12:00") });
    let broken = Tool::from_fn("broken", |()| async { Err::<u8, _>("it broke".into()) });
    let kernel = Kernel::builder().tool(noon).tool(broken).provider(CannedProvider::new(["x"])).build();
    let context = Context::default();
    assert_eq!(kernel.invoke("noon", Json::object(), &context).await.unwrap().value, "12:00".into());
    let failed = kernel.invoke("broken", Json::object(), &context).await.unwrap_err();
    assert_eq!((failed.status(), failed.blame()), (500, Blame::Plugin));
}

#[tokio::test]
async fn an_agent_shows_the_pending_call_and_another_one_resumes_it() {
    let folder = TempDir::new().unwrap();
    let agent = async |replies: Vec<Reply>| {
        let store = valvehouse::store::open_file(folder.path().join("agents.db")).await.unwrap();
        let pay = Tool::from_json_fn("pay", |args| Ok(args.into()));
        Agent::builder()
            .provider(CannedProvider::new(replies))
            .model("small")
            .variable("currency", "NOK")
            .tool(pay)
            .middleware(HumanApproval::tools(["pay"]))
            .conversation("oslo")
            .storage(store)
            .auto_checkpoint(true)
            .build()
            .unwrap()
    };
    let mut first = agent(vec![Reply::tool_call("pay", valvehouse::json!({ "amount": 5 }))]).await;
    assert!(!first.load_latest().await.unwrap());
    let paused = first.run("pay five").await.unwrap();
    let call = paused.pending_call().unwrap();
    assert!(paused.is_paused());
    assert_eq!((call.tool.as_str(), call.arguments.field("amount").as_u64()), ("pay", Some(5)));
    drop(first);
    let mut second = agent(vec![Reply::text("Paid four.")]).await;
    let arguments = valvehouse::json!({ "amount": 4 });
    let ended = second.resume(Decision::approve_with(arguments)).await.unwrap();
    assert_eq!(ended.to_string(), "Paid four.");
    let result = second.messages().into_iter().find(|message| message.role() == "tool").unwrap();
    assert!(result.text().contains('4'), "{}", result.text());
    let nobody = agent(vec![Reply::text("x")]).await;
    assert_eq!(nobody.variables().field("currency"), "NOK".into());
}

#[tokio::test]
async fn a_program_reads_and_sets_valves() {
    let scripts = folder(&[(
        "polite.rhai",
        "const Valves = #{ signature: \"-- me\", loud: false };\nfn outlet(body, valves) { body.messages[-1].text += valves.signature; }",
    )]);
    let host = Host::builder()
        .scripts(scripts.path())
        .model("helper", CannedProvider::new(["hello "]), "canned")
        .open()
        .await
        .unwrap();
    assert_eq!(host.valves("polite").unwrap().string("signature"), "-- me");
    host.set_valves("polite", valvehouse::json!({ "loud": true })).await.unwrap();
    host.set_valves("polite", valvehouse::json!({ "signature": "-- you" })).await.unwrap();
    assert_eq!(host.valves("polite").unwrap().to_string(), r#"{"signature":"-- you","loud":true}"#);
    assert_eq!(host.chat("helper", "hi").await.unwrap().text(), "hello -- you");
    let unknown = host.set_valves("polite", valvehouse::json!({ "signatur": "x" })).await.unwrap_err();
    assert!(unknown.to_string().contains("signature"), "{unknown}");
    assert!(host.set_valves("polite", valvehouse::json!({ "loud": "x" })).await.is_err());
    assert_eq!(host.valves("polite").unwrap().string("signature"), "-- you");
}
