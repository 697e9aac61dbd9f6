//! Hosts on one database: a question of one host is listed and can be answered at all of them, once.

use super::serve::{Project, Server};
use crate::host::{TIMEOUT, client, until};
use crate::upstream::{MODEL, Reply, Upstream, UpstreamRequest, chunk};
use serde_json::{Value, json};
use valvehouse_testkit::by_length;
use valvehouse_testkit::postgres::Postgres;

/// The number of concurrent answers, without and with VALVEHOUSE_CASES.
const MIN_CASES: usize = 3;
const MAX_CASES: usize = 200;
const KEY: &str = "the same key on every host of this test";
const LIST: &str = "/api/v1/questions";
/// A model whose payments wait for approval.
const CLERK: &str = "[[models]]\nname = \"clerk\"\nprovider = \"mock\"\nmodel = \"mock-1\"\ntools = [\"pay\"]\n\
    middleware = { human_approval = { timeout_ms = 60_000 } }\n\
    [[models]]\nname = \"plain\"\nprovider = \"mock\"\nmodel = \"mock-1\"\n";
/// Asks the client's user for a city.
const ASKS: &str = "fn inlet(body) {
    if body.messages[-1].content != \"where?\" { return; }
    body.messages[-1].content = ask(#{ type: \"input\", data: #{}, timeout: 60_000 }).city;
    body
}";
const USERS: &str = "[server]\nkeys = [{ key = \"sk-ann\", user = { id = \"ann\" } }, { key = \"sk-bob\", user = { id = \"bob\" } }, \"sk-any\"]\n\
    [admin]\nkey = \"sk-operator\"\n";

/// Calls the payment tool and repeats its result.
fn model(request: &UpstreamRequest) -> Reply {
    let body = request.json();
    let last = body["messages"].as_array().unwrap().last().unwrap();
    if last["role"] == "tool" || body["tools"].is_null() {
        return Reply::fitting(request, last["content"].as_str().unwrap_or_default());
    }
    let call = json!({"index": 0, "id": "call_1", "type": "function",
        "function": {"name": "pay", "arguments": "{\"what\":\"tea\"}"}});
    if body["stream"] == true {
        let delta = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        let end = chunk(&json!({}), Some("tool_calls"));
        return Reply::raw("text/event-stream", format!("{}{end}data: [DONE]\n\n", chunk(&delta, None)));
    }
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    Reply::json(&json!({"id": "x", "object": "chat.completion", "created": 1, "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}))
}

/// Returns what the model receives if a person changed what is paid for.
fn paid(what: &str) -> String {
    format!(
        r#"{{"note":"a person changed the arguments of this call before it ran","arguments":{{"what":"{what}"}},"result":"paid {what}"}}"#
    )
}

fn project(upstream: &Upstream, url: &str, more: &str) -> Project {
    let project = Project::new(&upstream.url());
    // A script has a budget of 100 ms, which a busy machine may exceed, so the filter is added only for the
    // test that needs it.
    if more == USERS {
        project.filter("asks", ASKS);
    }
    project
        .configure(&format!("{CLERK}[store]\nurl = \"{url}\"\nkey = \"{KEY}\"\nconnect_ms = 1000\n{more}"));
    project
}

/// Starts three hosts on one database.
async fn hosts(upstream: &Upstream, url: &str, more: &str) -> (Vec<Project>, Vec<Server>) {
    upstream.script(model);
    let projects = Vec::from([0; 3].map(|_| project(upstream, url, more)));
    let servers = futures::future::join_all(projects.iter().map(Project::serve)).await;
    (projects, servers)
}

async fn list(server: &Server) -> Vec<Value> {
    let (status, list) = server.ask("GET", LIST, None).await;
    assert_eq!(status, 200, "{list}");
    list["data"].as_array().unwrap().clone()
}

/// Waits for the only question of a host and returns it.
async fn held(server: &Server) -> Value {
    until("an approval is listed", async || list(server).await.len() == 1).await;
    list(server).await.remove(0)
}

async fn pays(server: &Server) -> (u16, Value) {
    let body = json!({"model": "clerk", "messages": [{"role": "user", "content": "pay"}]});
    server.ask("POST", "/v1/chat/completions", Some(&body)).await
}

async fn answers(server: &Server, question: &Value, what: &str) -> (u16, Value) {
    let path = format!("{LIST}/{}", question["id"].as_str().unwrap());
    server.ask("POST", &path, Some(&json!({"approved": true, "arguments": {"what": what}}))).await
}

fn text(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_listed_at_every_host_and_answered_at_any() {
    let Some(database) = Postgres::start() else { return };
    let upstream = Upstream::start().await;
    let url = database.database();
    let (_projects, servers) = hosts(&upstream, &url, "").await;
    for answering in 0..servers.len() {
        let decide = async {
            let mut seen = Vec::new();
            for server in &servers {
                seen.push(held(server).await);
            }
            for one in &seen {
                assert_eq!(
                    (&one["id"], &one["host"], &one["data"]),
                    (&seen[0]["id"], &seen[0]["host"], &seen[0]["data"])
                );
                assert_eq!(one["data"]["arguments"], json!({"what": "tea"}));
            }
            let stored = database.ask(&url, "SELECT host_id, content FROM questions");
            assert!(
                stored.contains(seen[0]["host"].as_str().unwrap()) && stored.contains("sealed:"),
                "{stored}"
            );
            assert!(!stored.contains("approval") && !stored.contains("arguments"), "{stored}");
            let what = format!("cake {answering}");
            let (status, answer) = answers(&servers[answering], &seen[0], &what).await;
            assert_eq!((status, answer), (200, json!({"answered": true})));
            for server in &servers {
                let (status, late) = answers(server, &seen[0], "late").await;
                assert_eq!((status, &late["error"]["code"]), (404, &json!("question_not_found")), "{late}");
            }
            what
        };
        let ((status, answer), what) = tokio::join!(pays(&servers[0]), decide);
        assert_eq!((status, text(&answer)), (200, &*paid(&what)));
        for server in &servers {
            until("nothing waits any more", async || list(server).await.is_empty()).await;
        }
    }
    until("nothing is left of them", async || {
        let rows = "SELECT (SELECT count(*) FROM questions) + (SELECT count(*) FROM question_answers)";
        database.ask(&url, rows) == "0"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_concurrent_answers_at_different_hosts_counts() {
    let Some(database) = Postgres::start() else { return };
    let upstream = Upstream::start().await;
    let url = database.database();
    let (_projects, servers) = hosts(&upstream, &url, "").await;
    let cases = by_length(MIN_CASES, MAX_CASES);
    let mut won = [0; 3];
    for case in 0..cases {
        let asking = &servers[case % servers.len()];
        let decide = async {
            let question = held(&servers[(case + 1) % servers.len()]).await;
            let all = (0..servers.len()).map(async |number| {
                let (status, answer) = answers(&servers[number], &question, &format!("by {number}")).await;
                assert!(
                    status == 200 || answer["error"]["code"] == "question_not_found",
                    "{status} {answer}"
                );
                status == 200
            });
            futures::future::join_all(all).await
        };
        let ((status, answer), counted) = tokio::join!(pays(asking), decide);
        let winners: Vec<usize> = (0..servers.len()).filter(|number| counted[*number]).collect();
        assert_eq!((status, winners.len()), (200, 1), "{counted:?} {answer}");
        assert_eq!(text(&answer), paid(&format!("by {}", winners[0])));
        won[winners[0]] += 1;
        for server in &servers {
            until("nothing waits any more", async || list(server).await.is_empty()).await;
        }
    }
    println!("of {cases} questions so many were answered by each host: {won:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_disappears_with_its_turn_and_with_its_host() {
    let Some(database) = Postgres::start() else { return };
    let upstream = Upstream::start().await;
    let url = database.database();
    let (_projects, mut servers) = hosts(&upstream, &url, "").await;
    // The client disconnects.
    {
        let asking = pays(&servers[0]);
        tokio::select! {
            answer = asking => panic!("answered: {answer:?}"),
            _ = held(&servers[1]) => {}
        }
    }
    until("nothing waits any more", async || list(&servers[1]).await.is_empty()).await;

    // The host dies.
    let chats = servers[0].chats();
    let asking = tokio::spawn(async move { chats.tries_model("clerk", "pay").await });
    let question = held(&servers[1]).await;
    servers[0].kill();
    asking.await.unwrap().expect_err("its host is gone");
    // Until the hosts notice it, they do not confirm an answer.
    let (status, answer) = answers(&servers[2], &question, "early").await;
    assert!(status == 503 || status == 404, "{status} {answer}");
    for server in &servers[1..] {
        until("nothing waits any more", async || list(server).await.is_empty()).await;
        let (status, answer) = answers(server, &question, "late").await;
        assert_eq!((status, &answer["error"]["code"]), (404, &json!("question_not_found")), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered_at_every_host_by_its_user_or_an_operator_only() {
    let Some(database) = Postgres::start() else { return };
    let upstream = Upstream::start().await;
    let url = database.database();
    let (_projects, servers) = hosts(&upstream, &url, USERS).await;
    let ask = async |server: &Server, key: &str, method: &str, path: &str, body: &Value| {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let request = client().request(method, format!("{}{path}", server.url())).timeout(TIMEOUT);
        let request = request.header("authorization", format!("Bearer {key}"));
        request.header("content-type", "application/json").body(body.to_string()).send().await.unwrap()
    };
    // The client's user answers a question of a stream at another host; all hosts know it at once.
    for (asks, answers) in [("sk-ann", "sk-ann"), ("sk-any", "sk-any"), ("sk-ann", "sk-operator")] {
        let body =
            json!({"model": "plain", "stream": true, "messages": [{"role": "user", "content": "where?"}]});
        let asking = client().post(format!("{}/v1/chat/completions", servers[0].url())).timeout(TIMEOUT);
        let asking =
            asking.header("authorization", format!("Bearer {asks}")).header("x-valvehouse-events", "1");
        let mut response =
            asking.header("content-type", "application/json").body(body.to_string()).send().await.unwrap();
        let mut seen = String::new();
        while !seen.contains("\n\n") {
            seen.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
        }
        let event: Value =
            serde_json::from_str(seen.lines().next().unwrap().strip_prefix("data: ").unwrap()).unwrap();
        let path = format!("{LIST}/{}", event["event"]["id"].as_str().unwrap());
        for server in &servers {
            for other in ["sk-ann", "sk-bob", "sk-any"].into_iter().filter(|key| *key != asks) {
                let refused = ask(server, other, "POST", &path, &json!({"city": "Rome"})).await;
                assert_eq!(refused.status(), 404, "{other}");
                let list = ask(server, other, "GET", LIST, &Value::Null).await;
                assert_eq!(list.status(), 401, "{other}");
            }
            let list = ask(server, "sk-operator", "GET", LIST, &Value::Null).await.text().await.unwrap();
            assert!(list.contains("\"data\":[]"), "it is for its client: {list}");
        }
        let answered = ask(&servers[2], answers, "POST", &path, &json!({"city": "Oslo"})).await;
        assert_eq!(answered.status(), 200, "{}", answered.text().await.unwrap());
        let rest = response.text().await.unwrap();
        assert!(rest.contains("[DONE]"), "{rest}");
        let requests = upstream.requests();
        assert!(
            requests.last().unwrap().text().contains("Oslo")
                && !requests.iter().any(|one| one.text().contains("Rome"))
        );
    }
    // Only operators can answer an approval.
    let body = json!({"model": "clerk", "messages": [{"role": "user", "content": "pay"}]});
    let asking = ask(&servers[0], "sk-ann", "POST", "/v1/chat/completions", &body);
    let decide = async {
        let list = async || {
            let list = ask(&servers[1], "sk-operator", "GET", LIST, &Value::Null).await.text().await.unwrap();
            serde_json::from_str::<Value>(&list).unwrap()["data"].as_array().unwrap().clone()
        };
        until("an approval is listed", async || list().await.len() == 1).await;
        let path = format!("{LIST}/{}", list().await[0]["id"].as_str().unwrap());
        for key in ["sk-ann", "sk-bob", "sk-any"] {
            let refused = ask(&servers[1], key, "POST", &path, &json!(true)).await;
            assert_eq!(refused.status(), 404, "{key}");
        }
        assert_eq!(ask(&servers[1], "sk-operator", "POST", &path, &json!(true)).await.status(), 200);
    };
    let (answer, ()) = tokio::join!(asking, decide);
    let answer: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    assert_eq!(text(&answer), "paid tea");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_stays_open_during_a_database_outage() {
    let Some(mut database) = Postgres::start() else { return };
    let upstream = Upstream::start().await;
    let url = database.database();
    let (_projects, servers) = hosts(&upstream, &url, "").await;
    // Asked before the outage and answered at the same host during it.
    let own = async {
        held(&servers[1]).await;
        database.kill();
        let question = held(&servers[0]).await;
        until("the other one knows that it is away", async || {
            let (status, answer) = answers(&servers[1], &question, "elsewhere").await;
            status == 503 && answer["error"]["code"] == "store_unreachable"
        })
        .await;
        assert!(list(&servers[1]).await.is_empty(), "its own are none");
        assert_eq!(answers(&servers[0], &question, "alone").await.0, 200);
    };
    let ((status, answer), ()) = tokio::join!(pays(&servers[0]), own);
    assert_eq!((status, text(&answer)), (200, &*paid("alone")));
    // Asked during the outage and answered elsewhere after it.
    let later = async {
        let question = held(&servers[0]).await;
        database.resume();
        // The row of the previous question exists until its host removes it.
        let is_listed = async || list(&servers[2]).await.iter().any(|one| one["id"] == question["id"]);
        until("the question is listed elsewhere", is_listed).await;
        until("an answer counts", async || answers(&servers[1], &question, "together").await.0 == 200).await;
    };
    let ((status, answer), ()) = tokio::join!(pays(&servers[0]), later);
    assert_eq!((status, text(&answer)), (200, &*paid("together")));
    for server in &servers {
        until("nothing waits any more", async || list(server).await.is_empty()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_on_one_file_answer_each_others_questions() {
    let upstream = Upstream::start().await;
    upstream.script(model);
    let project = Project::new(&upstream.url());
    project.configure(CLERK);
    let servers = [project.serve().await, project.serve().await];
    let decide = async {
        let question = held(&servers[1]).await;
        assert_eq!(answers(&servers[1], &question, "cake").await.0, 200);
    };
    let ((status, answer), ()) = tokio::join!(pays(&servers[0]), decide);
    assert_eq!((status, text(&answer)), (200, &*paid("cake")));
}
