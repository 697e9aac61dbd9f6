//! The table of the state: one test per row.

use super::*;
use crate::kernel::calls;
use parking_lot::Mutex;
use valvehouse::agent::Decision;
use valvehouse::agent::callbacks::Callbacks;
use valvehouse::agent::summary::Summarization;
use valvehouse::error::Error;
use valvehouse::filter::{self, Verdict::Continue};

const SCHEMA: &str = r#"{"type":"json_schema","json_schema":{"name":"price","schema":
    {"type":"object","properties":{"price":{"type":"number"}},"required":["price"]}}}"#;

/// Returns the replies: a call of `weather`, then a text.
fn looks() -> Vec<Reply> {
    vec![calls("", &[("weather", r#"{"city":"Oslo"}"#)]), "warm".into()]
}

#[tokio::test]
async fn the_state_has_exactly_the_documented_fields() {
    let rows = "id name system_prompt tools tool_handlers llm_config graph max_iterations messages buffer_config \
        scratchpad pending_action response_format callbacks middlewares middleware_chain storage \
        auto_checkpoint run_id";
    let (builder, _) = agent(["hi"]);
    let state = builder.build().unwrap().state().to_json();
    let keys: Vec<String> = state.as_object().unwrap().keys().iter().map(ToString::to_string).collect();
    assert_eq!(keys.join(" "), rows);
}

#[tokio::test]
async fn state_id_identifies_the_agent() {
    let (_folder, store) = store().await;
    let (builder, _) = agent(["hi"]);
    let mut agent = builder.storage(store.clone()).auto_checkpoint(true).build().unwrap();
    agent.run("hello").await.unwrap();
    assert_eq!(agent.state().id, "a-1");
    let stored = store.conversation(agent.conversation()).await.unwrap().unwrap();
    assert_eq!(stored.agent, "a-1");
}

#[tokio::test]
async fn state_name_is_used_in_callbacks_and_defaults_to_the_id() {
    assert_eq!(agent(["hi"]).0.build().unwrap().state().name, "a-1");
    let agent_name = Arc::new(Mutex::new(String::new()));
    let name_log = agent_name.clone();
    let listens = Callbacks::new().on_chain_start(move |event| name_log.lock().push_str(&event.agent_name));
    let mut agent = agent(["hi"]).0.name("Ann").callbacks(listens).build().unwrap();
    agent.run("hello").await.unwrap();
    assert_eq!((agent.state().name.as_str(), agent_name.lock().as_str()), ("Ann", "Ann"));
}

#[tokio::test]
async fn state_system_prompt_is_sent_first_and_never_stored() {
    let (builder, model) = agent(["hi"]);
    let mut agent = builder.system_prompt("Be kind.").build().unwrap();
    agent.run("one").await.unwrap();
    agent.set_system_prompt("Be brief.").unwrap();
    agent.run("two").await.unwrap();
    let requests = model.requests();
    assert_eq!(sent(&requests[0]), ["system: Be kind.", "user: one"]);
    assert_eq!(sent(&requests[1]), ["system: Be brief.", "user: one", "assistant: hi", "user: two"]);
    assert_eq!(agent.state().system_prompt, "Be brief.");
    assert!(!lines(&agent.state().messages).iter().any(|line| line.starts_with("system")));
}

#[tokio::test]
async fn state_tools_are_the_schemas_for_the_model() {
    let (builder, model) = agent(["hi"]);
    let mut agent = builder.tool(weather()).build().unwrap();
    agent.add_tool(crate::kernel::echo()).unwrap();
    agent.run("hello").await.unwrap();
    assert_eq!(Json::from(agent.state().tools.clone()), model.requests()[0].get("tools").unwrap());
    let first = &agent.state().tools[0];
    assert_eq!(first.text("type").as_deref(), Some("function"));
    assert_eq!(first.at_path("function.description"), "Tells the weather.".into());
    assert!(agent.remove_tool("weather").unwrap() && !agent.remove_tool("weather").unwrap());
    agent.run("again").await.unwrap();
    assert_eq!(model.requests()[1].at_path("tools").items().len(), 1);
}

#[tokio::test]
async fn state_tool_handlers_run_when_the_model_calls_them() {
    let mut agent = agent(looks()).0.tool(weather()).build().unwrap();
    agent.run("how is it?").await.unwrap();
    assert_eq!(agent.state().tool_handlers.keys().collect::<Vec<_>>(), ["weather"]);
    let expected = ["user: how is it?", "assistant: calls weather", "tool: sunny in Oslo", "assistant: warm"];
    assert_eq!(lines(&agent.state().messages), expected);
}

#[tokio::test]
async fn state_llm_config_is_sent_with_every_request() {
    let (builder, model) = agent(looks());
    let config = json(r#"{"model":"m-1","temperature":0.5,"stop":["x"]}"#);
    let mut agent = builder.tool(weather()).llm_config(config.clone()).build().unwrap();
    agent.run("hello").await.unwrap();
    for request in model.requests() {
        for key in ["model", "temperature", "stop"] {
            assert_eq!(request.get(key), config.get(key));
        }
    }
    assert_eq!(agent.state().llm_config, config);
}

#[tokio::test]
async fn state_graph_lists_the_steps_and_their_transitions() {
    let (_folder, store) = store().await;
    let mut agent =
        agent(looks()).0.tool(weather()).storage(store.clone()).auto_checkpoint(true).build().unwrap();
    agent.run("hello").await.unwrap();
    let graph = agent.state().graph.clone().unwrap();
    let nodes = graph.get("nodes").unwrap().items();
    assert!(nodes.contains(&graph.get("entry").unwrap()) && nodes.contains(&graph.get("end").unwrap()));
    for checkpoint in agent.list_checkpoints().await.unwrap() {
        let whole = store.checkpoint(&checkpoint.id).await.unwrap().unwrap();
        assert!(nodes.contains(&whole.state.at_path("progress.next")), "{}", whole.name);
    }
}

#[tokio::test]
async fn state_max_iterations_limits_the_model_calls_of_a_run() {
    let (builder, model) = agent([calls("", &[("weather", r#"{"city":"Oslo"}"#)])]);
    let mut agent = builder.tool(weather()).max_iterations(3).build().unwrap();
    let error = agent.run("for ever").await.unwrap_err();
    assert!(matches!(error, Error::ToolLoop { limit: 3, .. }), "{error:?}");
    assert_eq!((model.requests().len(), agent.state().max_iterations), (3, 3));
}

#[tokio::test]
async fn state_messages_are_the_whole_conversation() {
    let (builder, model) = agent(["yes"]);
    let mut agent = builder.middleware(("summarization", window(2))).build().unwrap();
    for text in ["one", "two", "three", "four"] {
        agent.run(text).await.unwrap();
    }
    let all: Vec<String> = ["one", "two", "three", "four"]
        .iter()
        .flat_map(|text| [format!("user: {text}"), "assistant: yes".into()])
        .collect();
    assert_eq!(lines(&agent.state().messages), all);
    assert!(sent(&model.requests()[3]).len() < 5);
}

#[tokio::test]
async fn state_buffer_config_limits_the_initial_messages_of_a_run() {
    let (_folder, store) = store().await;
    for storage in [None, Some(store)] {
        let (mut builder, model) = agent(["yes"]);
        if let Some(store) = storage {
            builder = builder.storage(store).auto_checkpoint(true);
        }
        let config = Summarization { window_size: 3, ..Summarization::default() };
        let mut agent = builder.buffer_config(config).build().unwrap();
        for text in ["one", "two", "three"] {
            agent.run(text).await.unwrap();
        }
        assert_eq!(sent(&model.requests()[2]), ["user: two", "assistant: yes", "user: three"]);
        assert_eq!(agent.state().messages.len(), 6);
        assert_eq!(agent.state().to_json().at_path("buffer_config.window_size"), 3_i64.into());
    }
}

#[tokio::test]
async fn state_scratchpad_lists_the_steps_of_a_run() {
    let mut agent = agent(looks()).0.tool(weather()).build().unwrap();
    agent.run("hello").await.unwrap();
    let entries = Json::from(agent.state().scratchpad.clone()).to_string();
    assert_eq!(
        entries,
        r#"[{"type":"tool_call","name":"weather","args":{"city":"Oslo"},"ok":true,"result":"sunny in Oslo"}]"#
    );
}

#[tokio::test]
async fn state_pending_action_is_the_decision_to_make() {
    let mut agent = asking(agent(looks()).0.tool(weather())).build().unwrap();
    let answer = agent.run("hello").await.unwrap();
    let pending = agent.state().pending_action.clone().unwrap();
    assert_eq!(pending, answer.pending_action);
    assert_eq!(pending.at_path("question.data.arguments"), json(r#"{"city":"Oslo"}"#));
    assert_eq!(agent.resume(Decision::Approve { arguments: None }).await.unwrap().text(), "warm");
    assert!(agent.state().pending_action.is_none());
}

#[tokio::test]
async fn state_response_format_is_enforced() {
    let (builder, model) = agent(["three", r#"{"price":3}"#]);
    let mut agent = builder.response_format(json(SCHEMA)).build().unwrap();
    assert_eq!(agent.run("how much?").await.unwrap().text(), r#"{"price":3}"#);
    assert_eq!(agent.state().response_format, Some(json(SCHEMA)));
    assert_eq!(model.requests()[0].get("response_format"), Some(json(SCHEMA)));
    assert_eq!(lines(&agent.state().messages), ["user: how much?", r#"assistant: {"price":3}"#]);
}

#[tokio::test]
async fn state_callbacks_are_named_in_the_exported_state() {
    let listens = Callbacks::new().on_tool_start(|_| ()).on_chain_end(|_| ());
    let agent = agent(["hi"]).0.callbacks(listens).build().unwrap();
    let names = agent.state().to_json().get("callbacks").unwrap();
    assert_eq!(names.to_string(), r#"["on_turn_end","on_tool_start"]"#);
}

#[tokio::test]
async fn state_middlewares_lists_names_and_options() {
    let options = json(r#"{"max_model_calls":1}"#);
    let builder = agent(looks()).0.tool(weather()).middleware(("call_limit", options.clone()));
    let mut agent = builder.build().unwrap();
    assert_eq!(agent.state().middlewares, [("call_limit".to_owned(), options)]);
    assert!(agent.run("hello").await.is_err(), "the second model call is one too many");
}

#[tokio::test]
async fn state_middleware_chain_lists_all_filters_in_running_order() {
    let mine = filter::pre_chat("mine", |_| Ok(Continue));
    let builder = agent(["hi"]).0.middleware(("summarization", Json::object())).filter(mine);
    let agent = builder.middleware(("call_limit", Json::object())).build().unwrap();
    let chain = agent.state().middleware_chain.clone().unwrap();
    assert_eq!(chain, ["call_limit", "call_limit", "summarization", "mine"]);
}

#[tokio::test]
async fn state_storage_keeps_the_conversation_for_the_next_process() {
    let (_folder, store) = store().await;
    let one = |replies: Vec<Reply>| {
        let (builder, model) = agent(replies);
        let builder = builder.storage(store.clone()).auto_checkpoint(true).conversation("c");
        (builder.build().unwrap(), model)
    };
    one(vec!["hi".into()]).0.run("one").await.unwrap();
    let (mut later, model) = one(vec!["again".into()]);
    later.load_latest().await.unwrap();
    later.run("two").await.unwrap();
    let all = ["user: one", "assistant: hi", "user: two"];
    assert_eq!(sent(&model.requests()[0]), all);
    assert_eq!(lines(&store.messages("c", 0, 99).await.unwrap())[..3], all);
    assert!(later.state().to_json().get("storage").unwrap().as_bool().unwrap());
}

#[tokio::test]
async fn state_auto_checkpoint_stores_every_step_and_without_it_only_on_request() {
    let (_folder, store) = store().await;
    for auto in [true, false] {
        let builder = agent(looks()).0.tool(weather()).storage(store.clone()).auto_checkpoint(auto);
        let mut agent = builder.build().unwrap();
        agent.run("hello").await.unwrap();
        let kept = agent.list_checkpoints().await.unwrap();
        assert_eq!(kept.len() > 3, auto, "{kept:?}");
        let id = agent.save_checkpoint().await.unwrap();
        assert_eq!(agent.list_checkpoints().await.unwrap()[0].id, id);
        let length = store.conversation(agent.conversation()).await.unwrap().unwrap().length;
        assert_eq!(length, 4);
    }
}

#[tokio::test]
async fn state_run_id_identifies_the_latest_run() {
    let mut agent = asking(agent(looks()).0.tool(weather())).build().unwrap();
    assert_eq!(agent.state().run_id, None);
    let waits = agent.run("hello").await.unwrap();
    let first = agent.state().run_id.clone().unwrap();
    assert_eq!(waits.response.text("run_id").as_deref(), Some(first.as_str()));
    agent.resume(Decision::GoOn).await.unwrap();
    assert_eq!(agent.state().run_id.as_deref(), Some(first.as_str()), "the same one goes on");
    agent.run("never mind").await.unwrap();
    assert_ne!(agent.state().run_id, Some(first));
}

#[tokio::test]
async fn an_imported_agent_has_the_whole_state_of_the_exported_one() {
    let config = Summarization { window_size: 5, ..Summarization::default() };
    let (builder, _) = agent(looks());
    let mut first = builder
        .name("Ann")
        .system_prompt("Be kind.")
        .llm_config(json(r#"{"model":"big","temperature":0.5}"#))
        .max_iterations(3)
        .response_format(json(r#"{"type":"text"}"#))
        .middleware(("call_limit", json(r#"{"max_model_calls":7}"#)))
        .buffer_config(config)
        .tool(weather())
        .build()
        .unwrap();
    first.run("how is it?").await.unwrap();
    let exported = json(&first.export_state().to_string());
    let (builder, model) = agent(["and now?"]);
    let mut second = builder.tool(weather()).build().unwrap();
    second.import_state(&exported).unwrap();
    assert_eq!(second.export_state().to_string(), exported.to_string());
    // The options take effect as well.
    second.run("and now?").await.unwrap();
    let request = &model.requests()[0];
    assert_eq!(request.at_path("temperature").to_string(), "0.5");
    assert_eq!(request.at_path("response_format.type"), "text".into());
    assert_eq!(sent(request)[0], "system: Be kind.");
}

#[tokio::test]
async fn an_agent_rejects_an_incompatible_export_and_stays_unchanged() {
    let (_folder, store) = store().await;
    let mut whole = agent(looks()).0.tool(weather()).build().unwrap();
    whole.run("how is it?").await.unwrap();
    let tooled = whole.export_state();
    let stored = agent(["hi"]).0.storage(store).auto_checkpoint(true).build().unwrap().export_state();
    let listening = agent(["hi"]).0.callbacks(Callbacks::new().on_chain_start(|_| {})).build().unwrap();
    let change = |path: &str, value: Json| {
        let changed = tooled.deep_clone();
        changed.field("state").set("tool_handlers", json("[]")).unwrap();
        changed.field("state").set(path, value).unwrap();
        changed
    };
    let unknown_middleware = change("tool_handlers", json("[]"));
    unknown_middleware
        .field("state")
        .set("middlewares", json(r#"[{"name":"nobody","options":{}}]"#))
        .unwrap();
    let cases = [
        (tooled.deep_clone(), "it has the tool `weather`, which this agent lacks"),
        (stored, "it has a storage for `auto_checkpoint`"),
        (listening.export_state(), "it has the callback `on_turn_start`"),
        (change("tool_handlers", Json::Null), "its `tool_handlers` is missing or damaged"),
        (change("max_iterations", 0i64.into()), "its `max_iterations`"),
        (unknown_middleware, "nobody"),
    ];
    for (exported, why) in cases {
        let mut bare = agent(["hi"]).0.build().unwrap();
        let before = bare.export_state().to_string();
        let error = bare.import_state(&exported).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        assert_eq!(bare.export_state().to_string(), before);
        assert_eq!(bare.run("hello").await.unwrap().text(), "hi");
    }
}

#[tokio::test]
async fn settings_without_effect_are_rejected() {
    let beyond = Summarization { max_tokens: 100, ..Summarization::default() };
    let cases = [
        (agent(["hi"]).0.max_iterations(0), ".max_iterations(0)"),
        (agent(["hi"]).0.auto_checkpoint(true), "add `.storage(…)`"),
        (agent(["hi"]).0.buffer_config(beyond), "only `window_size` takes effect"),
    ];
    for (builder, why) in cases {
        let error = builder.build().err().unwrap().to_string();
        assert!(error.contains(why), "{error}");
    }
}
