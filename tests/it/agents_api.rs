//! Agents over HTTP: runs that wait for a person, are followed and get decisions; conversations that are
//! read, branched, exported, imported and forgotten.

use crate::host::{Answer, Setup, TestHost, chat_body, until};
use crate::upstream::{Gate, MODEL, Reply, UpstreamRequest, chunk};
use futures::StreamExt;
use serde_json::{Value, json};

/// A model with a memory and a payment tool.
const AGENT: &str = "[[models]]\nname = \"clerk\"\nprovider = \"mock\"\nmodel = \"mock-1\"\ntools = [\"pay\", \"human_input\"]\n\
     system_prompt = \"You pay.\"\nmemory = true\n";
pub(crate) const PAY: &str = r#"/*
description: Pays.
*/
const parameters = #{ amount: #{ type: "integer", required: true } };
fn handler(args) { `paid ${args.amount}` }
"#;
/// Asks for approval before each payment.
pub(crate) const APPROVAL: &str = r#"
fn pre_invocation(ctx) {
    if ctx.tool.name != "pay" { return; }
    let answer = ask(#{ type: "approval", data: #{ tool: ctx.tool.name, arguments: ctx.args } });
    if !answer.approved { return skip(#{ error: "rejected", reason: answer.reason }); }
}
"#;

fn clerk() -> Setup {
    TestHost::new().config(AGENT).tool("pay", PAY).filter("approval", APPROVAL)
}

/// Makes the upstream call the tool that the user's last message names, and repeat the tool's result.
fn obeys(host: &TestHost) {
    host.upstream.script(|request| {
        let messages = request.json()["messages"].as_array().cloned().unwrap_or_default();
        let last = messages.last().cloned().unwrap_or_default();
        let text = last["content"].as_str().unwrap_or_default();
        match (last["role"].as_str(), text) {
            (Some("user"), "pay") => calls(request, "pay", r#"{"amount":10}"#),
            (Some("user"), "ask") => calls(request, "human_input", r#"{"question":"Which city?"}"#),
            _ => Reply::fitting(request, &format!("echo: {text}")),
        }
    });
}

fn calls(request: &UpstreamRequest, name: &str, arguments: &str) -> Reply {
    let call = json!({"index": 0, "id": "call_1", "type": "function",
        "function": {"name": name, "arguments": arguments}});
    if request.json()["stream"] == true {
        let delta = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        let end = chunk(&json!({}), Some("tool_calls"));
        return Reply::raw("text/event-stream", format!("{}{end}data: [DONE]\n\n", chunk(&delta, None)));
    }
    Reply::json(&json!({"id": "c", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [
        {"index": 0, "finish_reason": "tool_calls",
         "message": {"role": "assistant", "content": null, "tool_calls": [call]}}]}))
}

/// The requests of these tests.
trait AgentRequests {
    async fn put(&self, method: &str, path: &str, body: &Value) -> Answer;
    async fn run(&self, chat_id: &str, input: &str) -> Value;
    async fn paying(&self, chat_id: &str) -> String;
    async fn resume(&self, run: &str, decision: &Value) -> Answer;
    async fn look(&self, path: &str) -> Value;
}

impl AgentRequests for TestHost {
    async fn put(&self, method: &str, path: &str, body: &Value) -> Answer {
        Answer::of(self.request(method, path).body(body.to_string())).await
    }

    async fn run(&self, chat_id: &str, input: &str) -> Value {
        let body = json!({"input": input, "chat_id": chat_id, "user": "ann"});
        ok(&self.put("POST", "/api/v1/agents/clerk/runs", &body).await)
    }

    /// Starts a run that waits for approval. Returns its id.
    async fn paying(&self, chat_id: &str) -> String {
        obeys(self);
        let run = self.run(chat_id, "pay").await;
        assert_eq!(run["status"], "paused", "{run}");
        run["run_id"].as_str().unwrap().to_owned()
    }

    async fn resume(&self, run: &str, decision: &Value) -> Answer {
        self.put("POST", &format!("/api/v1/agents/runs/{run}/resume"), decision).await
    }

    async fn look(&self, path: &str) -> Value {
        ok(&self.get(format!("/api/v1/agents/{path}").trim_end_matches('/')).await)
    }
}

#[track_caller]
fn ok(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.body());
    answer.json()
}

fn roles(messages: &Value) -> Vec<&str> {
    messages.as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn agents_are_the_models_with_memory() {
    let host = clerk().start().await;
    host.run("a/b c%", "hello").await;
    let agents = host.look("").await;
    let clerk = json!({"id": "clerk", "provider": "mock", "model": "mock-1",
        "tools": ["human_input", "pay"], "conversations": 1});
    assert_eq!(agents["data"], json!([clerk]));
    host.put("POST", "/api/v1/agents/demo/runs", &json!({"input": "hi"})).await.refused(404, "memory = true");
    host.put("POST", "/api/v1/agents/nobody/runs", &json!({"input": "hi"})).await.refused(404, "nobody");
}

#[tokio::test]
async fn a_run_waits_for_approval_and_an_approved_call_runs_once() {
    let host = clerk().start().await;
    let run = host.paying("c1").await;
    let pending = host.look(&format!("runs/{run}/pending")).await;
    assert_eq!(pending["status"], "paused");
    assert_eq!(pending["decisions"], json!(["approve", "reject"]));
    assert_eq!(
        pending["pending_action"]["question"]["data"],
        json!({"tool": "pay", "arguments": {"amount": 10}})
    );
    let ended = ok(&host.resume(&run, &json!({"decision": "approve"})).await);
    assert_eq!(
        (&ended["status"], &ended["answer"], &ended["pending_action"]),
        (&json!("done"), &json!("echo: paid 10"), &Value::Null)
    );
    assert_eq!(ended["run_id"], run);
    let shown = host.look("conversations/c1").await;
    assert_eq!(roles(&shown["full_messages"]), ["user", "assistant", "tool", "assistant"]);
    host.resume(&run, &json!({"decision": "approve"}))
        .await
        .refused(409, "it is done, so there is nothing to decide");
    host.resume(&run, &json!({})).await.refused(409, "is done");
}

#[tokio::test]
async fn an_approval_with_changed_arguments_runs_the_tool_with_those() {
    let host = clerk().start().await;
    let run = host.paying("c1").await;
    let decision = json!({"decision": "approve", "arguments": {"amount": 3}});
    let ended = ok(&host.resume(&run, &decision).await);
    let answer = ended["answer"].as_str().unwrap();
    assert!(answer.contains("paid 3") && answer.contains("a person changed"), "{answer}");
}

#[tokio::test]
async fn a_rejection_and_its_reason_reach_the_model() {
    let host = clerk().start().await;
    let run = host.paying("c1").await;
    let ended = ok(&host.resume(&run, &json!({"decision": "reject", "reason": "too dear"})).await);
    let answer = ended["answer"].as_str().unwrap();
    assert!(answer.contains("too dear") && !answer.contains("paid"), "{answer}");
}

#[tokio::test]
async fn a_question_of_a_tool_is_answered_with_text() {
    let host = clerk().start().await;
    obeys(&host);
    let run = host.run("c1", "ask").await;
    assert!(run["answer"].as_str().unwrap().contains("Which city?"), "{run}");
    let run = run["run_id"].as_str().unwrap();
    host.resume(run, &json!({"decision": "approve"})).await.refused(409, "asks a question");
    host.resume(run, &json!({"decision": "perhaps"})).await.refused(400, "unknown decision `perhaps`");
    let ended = ok(&host.resume(run, &json!({"decision": "answer", "answer": "Oslo"})).await);
    assert!(ended["answer"].as_str().unwrap().contains("Oslo"), "{ended}");
}

#[tokio::test]
async fn one_of_two_concurrent_decisions_counts() {
    let host = clerk().start().await;
    let run = host.paying("c1").await;
    let approve = json!({"decision": "approve"});
    let (one, other) = tokio::join!(host.resume(&run, &approve), host.resume(&run, &approve));
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409], "{} {}", one.body(), other.body());
    let shown = host.look("conversations/c1").await;
    assert_eq!(roles(&shown["full_messages"]), ["user", "assistant", "tool", "assistant"]);
}

#[tokio::test]
async fn a_decision_on_a_settled_action_is_rejected() {
    let host = clerk().start().await;
    let run = host.paying("c1").await;
    let pending = host.look(&format!("runs/{run}/pending")).await["pending_action"].clone();
    let stale = json!({"decision": "approve", "hash": "0123"});
    host.resume(&run, &stale).await.refused(409, "does not wait for the action 0123");
    let right = json!({"decision": "approve", "hash": pending["hash"]});
    assert_eq!(ok(&host.resume(&run, &right).await)["status"], "done");
}

#[tokio::test]
async fn a_new_message_cancels_a_pending_action() {
    let host = clerk().start().await;
    let run = host.paying("c1").await;
    let ended = host.run("c1", "never mind").await;
    assert_eq!(ended["answer"], "echo: never mind");
    let shown = host.look("conversations/c1").await;
    let messages = &shown["full_messages"];
    assert_eq!(roles(messages), ["user", "assistant", "tool", "user", "assistant"]);
    assert!(messages[2]["content"].as_str().unwrap().contains("cancelled"), "{messages}");
    assert_eq!(host.look(&format!("runs/{run}")).await["status"], "cancelled");
    host.resume(&run, &json!({"decision": "approve"})).await.refused(409, "cancelled");
}

#[tokio::test]
async fn a_streamed_run_reports_its_outcome_at_the_end() {
    let host = clerk().start().await;
    obeys(&host);
    let body = json!({"input": "pay", "stream": true, "chat_id": "c1"});
    let answer = host.put("POST", "/api/v1/agents/clerk/runs", &body).await;
    assert_eq!(answer.header("x-valvehouse-chat-id"), Some("c1"));
    let events = answer.named_events();
    let (name, paused) = events.last().unwrap();
    assert_eq!((name.as_str(), &paused["status"]), ("run", &json!("paused")), "{}", answer.body());
    assert!(answer.body().ends_with("data: [DONE]\n\n"));
    let run = paused["run_id"].as_str().unwrap();
    let answer = host.resume(run, &json!({"decision": "approve", "stream": true})).await;
    let events = answer.named_events();
    let words = events.iter().filter_map(|(_, event)| event["choices"][0]["delta"]["content"].as_str());
    assert_eq!(words.collect::<String>(), "echo: paid 10");
    let (_, ended) = events.last().unwrap();
    assert_eq!((&ended["status"], &ended["answer"]), (&json!("done"), &json!("echo: paid 10")));
}

#[tokio::test]
async fn the_state_of_a_run_has_both_tracks_and_the_next_step() {
    let host = clerk().start().await;
    let run = host.paying("c1").await;
    let state = host.look(&format!("runs/{run}")).await;
    assert_eq!(roles(&state["messages"]), ["user", "assistant"]);
    assert_eq!(roles(&state["full_messages"]), ["user", "assistant"]);
    assert_eq!(state["system_prompt"], "You pay.");
    assert_eq!(state["tools"][1]["function"]["name"], "pay");
    assert_eq!(state["tool_calls"][0]["function"]["name"], "pay");
    assert_eq!((&state["iteration"], &state["max_iterations"]), (&json!(1), &json!(10)));
    assert_eq!(state["finish_reason"], "tool_calls");
    assert_eq!(state["callback_meta"]["run_id"], run);
    for key in [
        "scratchpad",
        "callbacks",
        "last_response",
        "last_content",
        "tool_results",
        "context",
        "compression_applied",
        "conversation_summary",
        "pending_action",
        "in_flight",
        "status",
    ] {
        assert!(state.get(key).is_some(), "{key} is missing in {state}");
    }
    host.get("/api/v1/agents/runs/none").await.refused(404, "unknown run `none`");
}

#[tokio::test]
async fn runs_are_listed_by_agent_chat_and_status() {
    let host = clerk().start().await;
    let run = host.paying("c1").await;
    host.run("c2", "hello").await;
    let all = host.look("clerk/runs").await;
    assert_eq!(all["data"].as_array().unwrap().len(), 2);
    assert_eq!(host.look("runs").await, all, "of all agents");
    assert_eq!(host.look("runs?limit=1").await["data"][0]["chat_id"], "c2");
    let paused = host.look("clerk/runs?status=paused").await;
    assert_eq!(paused["data"][0]["run_id"], run);
    assert_eq!(paused["data"].as_array().unwrap().len(), 1);
    let of_chat = host.look("clerk/runs?chat_id=c2&limit=5").await;
    assert_eq!(of_chat["data"][0]["status"], "done");
    host.get("/api/v1/agents/clerk/runs?status=odd")
        .await
        .refused(400, "`status` must be `running`, `paused`");
    host.get("/api/v1/agents/clerk/runs?limit=x").await.refused(400, "`limit` must be a whole number");
}

#[tokio::test]
async fn a_run_is_followed_from_start_across_a_pause_to_its_end() {
    let host = clerk().start().await;
    let run = host.paying("c1").await;
    let request = host.request("GET", &format!("/api/v1/agents/runs/{run}/events"));
    let mut coming = request.send().await.unwrap().bytes_stream();
    let mut text = String::new();
    while !text.contains("event: pending_action") {
        text.push_str(std::str::from_utf8(&coming.next().await.unwrap().unwrap()).unwrap());
    }
    ok(&host.resume(&run, &json!({"decision": "approve"})).await);
    while let Some(bytes) = coming.next().await {
        text.push_str(std::str::from_utf8(&bytes.unwrap()).unwrap());
    }
    let events = crate::well_formed::named_events(&text);
    let steps: Vec<u64> = events
        .iter()
        .filter(|(name, _)| name == "step")
        .map(|(_, step)| step["step"].as_u64().unwrap())
        .collect();
    assert!(steps.len() > 4 && steps.is_sorted_by(|a, b| a < b), "{text}");
    let (name, end) = events.last().unwrap();
    assert_eq!((name.as_str(), &end["status"], &end["agent"]), ("end", &json!("done"), &json!("clerk")));
    // The events of a run that has ended are sent completely.
    let again = host.get(&format!("/api/v1/agents/runs/{run}/events")).await;
    assert_eq!(again.named_events().last().unwrap().0, "end");
}

#[tokio::test]
async fn a_conversation_is_listed_paged_and_deleted() {
    let host = clerk().start().await;
    obeys(&host);
    let odd = "a/b ?#%2F ü";
    host.run(odd, "one").await;
    host.run(odd, "two").await;
    let listed = host.look("conversations?agent=clerk").await;
    assert_eq!((&listed["data"][0]["chat_id"], &listed["data"][0]["length"]), (&json!(odd), &json!(4)));
    assert_eq!(listed["data"][0]["user"], "ann");
    let encoded = "a%2Fb%20%3F%23%252F%20%C3%BC";
    let page = host.look(&format!("conversations/{encoded}?from=2&to=3")).await;
    assert_eq!(page["full_messages"], json!([{"role": "user", "content": "two"}]));
    assert_eq!((&page["from"], &page["to"], &page["length"]), (&json!(2), &json!(3), &json!(4)));
    ok(&host.put("DELETE", &format!("/api/v1/agents/conversations/{encoded}"), &json!({})).await);
    host.get(&format!("/api/v1/agents/conversations/{encoded}")).await.refused(404, "unknown conversation");
    let gone = host.put("DELETE", &format!("/api/v1/agents/conversations/{encoded}"), &json!({})).await;
    gone.refused(404, "unknown conversation");
}

#[tokio::test]
async fn a_conversation_branches_at_a_checkpoint() {
    let host = clerk().start().await;
    obeys(&host);
    host.run("c1", "one").await;
    let at = host.look("conversations/c1/checkpoints").await["data"][0].clone();
    assert_eq!((&at["name"], &at["length"]), (&json!("end"), &json!(2)));
    host.run("c1", "two").await;
    let id = at["checkpoint_id"].as_str().unwrap();
    assert!(host.look(&format!("checkpoints/{id}")).await["state"]["progress"].is_object());
    let fork = format!("/api/v1/agents/checkpoints/{id}/fork");
    let forked = ok(&host.put("POST", &fork, &json!({"chat_id": "c2"})).await);
    assert_eq!(forked["forked_from"], json!({"chat_id": "c1", "length": 2}));
    host.put("POST", &fork, &json!({"chat_id": "c2"}))
        .await
        .refused(409, "cannot create the conversation `c2`: it already exists");
    host.put("POST", &fork, &json!({})).await.refused(400, "missing `chat_id`");
    host.run("c2", "other").await;
    let texts_in = |shown: Value| {
        let messages = shown["full_messages"].as_array().unwrap().clone();
        messages.iter().map(|one| one["content"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(texts_in(host.look("conversations/c2").await), ["one", "echo: one", "other", "echo: other"]);
    assert_eq!(texts_in(host.look("conversations/c1").await), ["one", "echo: one", "two", "echo: two"]);
    // A client that sends the whole conversation continues the branch.
    let mut body = chat_body("clerk", "x");
    body["chat_id"] = json!("c2");
    body["user"] = json!("ann");
    body["messages"] = json!([{"role": "user", "content": "one"}, {"role": "assistant", "content": "echo: one"},
        {"role": "user", "content": "other"}, {"role": "assistant", "content": "echo: other"},
        {"role": "user", "content": "last"}]);
    assert_eq!(host.chat(&body).await.header("x-valvehouse-chat-id"), Some("c2"));
}

#[tokio::test]
async fn an_imported_conversation_is_complete_and_its_run_continues() {
    let host = clerk().start().await;
    let run = host.paying("c1").await;
    let exported = host.look("conversations/c1/export").await;

    let other = clerk().start().await;
    obeys(&other);
    let import = "/api/v1/agents/conversations/import";
    let imported = ok(&other.put("POST", import, &exported).await);
    assert_eq!((&imported["chat_id"], &imported["length"]), (&json!("c1"), &json!(2)));
    assert_eq!(other.look("conversations/c1/export").await, exported);
    other
        .put("POST", import, &exported)
        .await
        .refused(409, "cannot create the conversation `c1`: it already exists");
    ok(&other.put("POST", &format!("{import}?chat_id=c2"), &exported).await);
    other.put("POST", import, &json!({"format": "odd"})).await.refused(422, "format");
    let ended = ok(&other.resume(&run, &json!({"decision": "approve"})).await);
    assert_eq!(ended["answer"], "echo: paid 10");
}

#[tokio::test]
async fn dropping_old_checkpoints_keeps_every_message() {
    let host = clerk().start().await;
    obeys(&host);
    for text in ["one", "two", "three"] {
        host.run("c1", text).await;
    }
    let dropped = ok(&host
        .put("POST", "/api/v1/agents/prune", &json!({"chat_id": "c1", "whole_runs": 1, "runs": 2}))
        .await);
    assert!(dropped["dropped"].as_u64().unwrap() > 2, "{dropped}");
    assert_eq!(host.look("conversations/c1").await["length"], 6);
    host.put("POST", "/api/v1/agents/prune", &json!({"chat_id": "none"}))
        .await
        .refused(404, "unknown conversation");
    host.put("POST", "/api/v1/agents/prune", &json!({"runs": "x"})).await.refused(400, "`runs` must be");
}

#[tokio::test]
async fn variables_of_a_run_reach_its_scripts_and_persist() {
    let filter =
        "fn pre_chat(ctx) { ctx.messages.append_system(`for ${ctx.context.get(\"team\", \"nobody\")}`); }";
    let host = clerk().filter("team", filter).start().await;
    let runs = "/api/v1/agents/clerk/runs";
    let body = json!({"input": "hi", "chat_id": "c1", "variables": {"team": "red"}});
    ok(&host.put("POST", runs, &body).await);
    assert!(host.upstream.last().text().contains("for red"));
    ok(&host.put("POST", runs, &json!({"input": "hi", "chat_id": "c1"})).await);
    assert!(host.upstream.last().text().contains("for red"));
    host.put("POST", runs, &json!({"input": "hi", "variables": 1}))
        .await
        .refused(400, "`variables` must be an object");
    host.put("POST", runs, &json!({"chat_id": "c1"})).await.refused(400, "messages");
}

#[tokio::test]
async fn a_failed_run_is_listed_and_can_be_retried() {
    let host = clerk().start().await;
    host.upstream.reply(Reply::text("no").status(500));
    let body = json!({"input": "hello", "chat_id": "c1"});
    let failed = host.put("POST", "/api/v1/agents/clerk/runs", &body).await;
    assert_eq!(failed.status, 500, "{}", failed.body());
    let run = failed.header("x-valvehouse-run").unwrap().to_owned();
    assert_eq!(host.look(&format!("runs/{run}")).await["status"], "failed");
    obeys(&host);
    let ended = ok(&host.resume(&run, &json!({"decision": "retry"})).await);
    assert_eq!(ended["answer"], "echo: hello");
    until("it is done", || async { host.look(&format!("runs/{run}")).await["status"] == "done" }).await;
}

/// A second process that chats with a model of the host's project.
struct Beside(std::process::Child);

impl Beside {
    fn chats(host: &TestHost, model: &str, text: &str) -> Self {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_valvehouse"));
        command.args(["chat", "--model", model, text]).current_dir(host.folder());
        let none = std::process::Stdio::null;
        Self(command.stdin(none()).stdout(none()).stderr(none()).spawn().unwrap())
    }

    /// Kills the process.
    fn dies(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[tokio::test]
async fn a_run_of_a_dead_process_is_interrupted_and_resumes_in_another() {
    let host = clerk().start().await;
    host.upstream.reply(Reply::text("too late").behind(&Gate::closed()));
    let beside = Beside::chats(&host, "clerk", "hello");
    host.upstream.wait_for_requests(1).await;
    let run = host.look("clerk/runs?status=running").await["data"][0]["run_id"].as_str().unwrap().to_owned();
    host.resume(&run, &json!({})).await.refused(409, "is running");
    beside.dies();
    assert_eq!(host.look("clerk/runs?status=interrupted").await["data"][0]["run_id"], run);
    obeys(&host);
    assert_eq!(ok(&host.resume(&run, &json!({})).await)["answer"], "echo: hello");
}

#[tokio::test]
async fn a_tool_interrupted_by_a_crash_is_not_rerun_without_confirmation() {
    let runner = "[[models]]\nname = \"runner\"\nprovider = \"mock\"\nmodel = \"mock-1\"\n\
        tools = [\"shell_exec\"]\nmemory = true\n[grants.shell_exec]\nshell = [\"sleep\"]\nfiles = [\".\"]\n";
    let host = TestHost::new().config(runner).start().await;
    host.upstream.script(|request| match request.json()["messages"].as_array().unwrap().last().unwrap() {
        last if last["role"] == "tool" => Reply::fitting(request, &format!("echo: {}", last["content"])),
        _ => calls(request, "shell_exec", r#"{"argv":["sleep","20"]}"#),
    });
    let beside = Beside::chats(&host, "runner", "sleep");
    let runs = "runner/runs?limit=1";
    until("the tool runs", || async {
        let Some(run) = host.look(runs).await["data"][0]["run_id"].as_str().map(str::to_owned) else {
            return false;
        };
        host.look(&format!("runs/{run}")).await["in_flight"]["name"] == "shell_exec"
    })
    .await;
    beside.dies();
    let run = host.look(runs).await["data"][0]["run_id"].as_str().unwrap().to_owned();
    let pending = host.look(&format!("runs/{run}/pending")).await;
    assert_eq!(
        (&pending["status"], &pending["pending_action"]["type"], &pending["decisions"]),
        (&json!("interrupted"), &json!("unfinished_tool"), &json!(["retry", "answer", "reject"]))
    );
    host.resume(&run, &json!({})).await.refused(409, "which may or may not have taken effect");
    let ended = ok(&host.resume(&run, &json!({"decision": "answer", "answer": "it slept"})).await);
    assert!(ended["answer"].as_str().unwrap().contains("it slept"), "{ended}");
}

#[tokio::test]
async fn operator_routes_require_the_key_or_a_local_connection() {
    let host = clerk().config("[admin]\nkey = \"sk-operator\"\n").start().await;
    host.get("/api/v1/agents").await.refused(401, "[admin]");
    let with =
        |key: &str| host.request("GET", "/api/v1/agents").header("authorization", format!("Bearer {key}"));
    Answer::of(with("sk-other")).await.refused(401, "[admin]");
    assert_eq!(Answer::of(with("sk-operator")).await.status, 200);

    let host = clerk().start().await;
    for (name, value) in
        [("origin", "https://evil.example"), ("host", "evil.example"), ("x-forwarded-for", "10.0.0.1")]
    {
        let answer = Answer::of(host.request("GET", "/api/v1/agents").header(name, value)).await;
        assert_eq!(answer.status, 403, "{name}: {}", answer.body());
    }
    let own = host.url("");
    assert_eq!(Answer::of(host.request("GET", "/api/v1/agents").header("origin", own)).await.status, 200);
}
