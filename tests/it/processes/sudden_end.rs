//! Hosts that are killed at any moment of an agent's runs: every visible effect of a step is stored, nothing
//! is done or said twice, and the conversation ends in the same way.

use super::serve::{Project, Server};
use crate::upstream::{MODEL, Reply, Upstream, UpstreamRequest};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::Instant;
use valvehouse_testkit::by_length;

/// The number of moments at which a host is killed, without and with VALVEHOUSE_CASES.
const MIN_MOMENTS: usize = 6;
const MAX_MOMENTS: usize = 300;
/// The number of hosts that run in parallel.
const LANES: usize = 3;
/// The user messages, turn by turn.
pub(super) const SAYS: [&str; 2] = ["pay twice", "pay once more"];

/// The number of kills by moment.
#[derive(Default)]
struct Tally {
    before: usize,
    resumed: usize,
    unfinished: usize,
    after: usize,
    kills: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_killed_at_any_moment_loses_and_repeats_nothing() {
    let moments = by_length(MIN_MOMENTS, MAX_MOMENTS);
    let began = Instant::now();
    let lanes = (0..LANES).map(|lane| {
        let moments = moments / LANES + usize::from(lane < moments % LANES);
        tokio::spawn(kill_at(lane, moments))
    });
    let mut all = Tally::default();
    for lane in futures::future::join_all(lanes).await {
        let tally = lane.unwrap();
        all.before += tally.before;
        all.resumed += tally.resumed;
        all.unfinished += tally.unfinished;
        all.after += tally.after;
        all.kills += tally.kills;
    }
    assert_eq!(all.kills, moments);
    println!(
        "killed {} hosts in {:.0?}: {} before a run began, {} in a run that went on, {} of those in a tool that \
         a person had to look after, {} after the last answer",
        all.kills,
        began.elapsed(),
        all.before,
        all.resumed,
        all.unfinished,
        all.after
    );
}

/// Kills a host repeatedly, each time at a random moment of a new conversation, which the next host
/// completes.
async fn kill_at(lane: usize, moments: usize) -> Tally {
    let upstream = Upstream::start().await;
    upstream.script(model);
    let project = Project::new(&upstream.url());
    let mut random = fastrand::Rng::with_seed(lane as u64 + 1);
    let mut server = project.serve().await;
    // The first conversation warms up, the second is measured.
    let mut tally = Tally::default();
    talk(&server, &project, "warm", &mut tally).await;
    let began = Instant::now();
    talk(&server, &project, "whole", &mut tally).await;
    let whole = began.elapsed();
    assert_eq!(project.messages_of("whole").await, transcript("whole"));
    tally = Tally::default();
    for moment in 0..moments {
        let chat = format!("chat-{lane}-{moment}");
        let slice = whole.mul_f64(1.05 / moments as f64);
        let at = slice * moment as u32 + slice.mul_f64(random.f64());
        let request_count = upstream.requests().len();
        let mut noticed = Tally::default();
        {
            let mut talking = std::pin::pin!(talk(&server, &project, &chat, &mut noticed));
            // The client is still connected when its host dies.
            if tokio::time::timeout(at, &mut talking).await.is_err() {
                server.dies();
            }
        }
        server.kill();
        tally.kills += 1;
        let seen: Vec<UpstreamRequest> = upstream.requests().split_off(request_count);
        everything_seen_is_kept(&project, &chat, &seen).await;
        server = project.serve().await;
        talk(&server, &project, &chat, &mut tally).await;
        is_whole(&project, &chat).await;
    }
    tally
}

/// Sends the remaining messages and continues the runs that were started, as a user would after a crash.
async fn talk(server: &Server, project: &Project, chat: &str, tally: &mut Tally) {
    for (turn, text) in SAYS.iter().enumerate() {
        let runs = server.runs(chat).await;
        if runs.len() <= turn {
            if turn == 0 {
                tally.before += 1;
            }
            let answer = server.send(chat, text).await;
            assert_eq!(answer["choices"][0]["message"]["content"], answer_of(turn), "{chat}: {answer}");
            continue;
        }
        let run = &runs[runs.len() - 1 - turn];
        if run["status"] == "done" {
            if turn + 1 == SAYS.len() {
                tally.after += 1;
            }
            continue;
        }
        tally.resumed += 1;
        go_on(server, project, chat, run["run_id"].as_str().unwrap(), tally).await;
    }
}

/// Continues an interrupted run. If it is unknown whether a tool had its effect, the tool's file tells.
async fn go_on(server: &Server, project: &Project, chat: &str, run: &str, tally: &mut Tally) {
    let (status, answer) = server.decides(run, &json!({"decision": "continue"})).await;
    if status == 200 {
        return;
    }
    assert_eq!(status, 409, "{chat}: {answer}");
    let pending = server.pending(run).await;
    assert_eq!(pending["type"], "unfinished_tool", "{chat}: {answer} {pending}");
    tally.unfinished += 1;
    let name = pending["call"]["name"].as_str().unwrap();
    assert_eq!(name, "pay", "{chat}: what may run twice is nobody's to decide: {answer}");
    let line = pending["call"]["arguments"]["what"].as_str().unwrap();
    let decision = match project.lines("paid").iter().any(|paid| paid == line) {
        true => json!({"decision": "answer", "answer": format!("paid {line}")}),
        false => json!({"decision": "retry"}),
    };
    let (status, answer) = server.decides(run, &decision).await;
    assert_eq!(status, 200, "{chat}: {answer}");
}

/// The canned model: its reply depends only on the request.
pub(super) fn model(request: &UpstreamRequest) -> Reply {
    let body = request.json();
    let messages = body["messages"].as_array().unwrap();
    let last_user = messages.iter().rposition(|message| message["role"] == "user").unwrap();
    let chat = body["user"].as_str().unwrap_or_default();
    let turn = messages.iter().filter(|message| message["role"] == "user").count() - 1;
    let round = messages[last_user..].iter().filter(|message| message["role"] == "assistant").count();
    Reply::json(&json!({"id": "x", "object": "chat.completion", "created": 1, "model": MODEL,
        "choices": [{"index": 0, "message": message_of(chat, turn, round), "finish_reason": "stop"}]}))
}

/// Returns the model's reply in a round of a turn.
fn message_of(chat: &str, turn: usize, round: usize) -> Value {
    let call = |tool: &str, number: usize| {
        let what = format!("{chat}/{turn}/{number}");
        json!({"id": format!("call_{turn}_{number}"), "type": "function",
            "function": {"name": tool, "arguments": json!({"what": what}).to_string()}})
    };
    let calls = match (turn, round) {
        (0, 0) => vec![call("pay", 1)],
        (0, 1) => vec![call("note", 2), call("pay", 3)],
        (1, 0) => vec![call("note", 1), call("pay", 2)],
        _ => return json!({"role": "assistant", "content": answer_of(turn)}),
    };
    json!({"role": "assistant", "content": null, "tool_calls": calls})
}

pub(super) fn answer_of(turn: usize) -> Value {
    format!("turn {turn} is done").into()
}

/// Returns the transcript of an uninterrupted conversation.
pub(super) fn transcript(chat: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for (turn, text) in SAYS.iter().enumerate() {
        all.push(json!({"role": "user", "content": text}));
        for round in 0.. {
            let message = message_of(chat, turn, round);
            let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
            all.push(message);
            for call in &calls {
                let arguments = call["function"]["arguments"].as_str().unwrap();
                let what = serde_json::from_str::<Value>(arguments).unwrap()["what"].clone();
                let did = if call["function"]["name"] == "pay" { "paid" } else { "noted" };
                let result = format!("{did} {}", what.as_str().unwrap());
                all.push(json!({"role": "tool", "tool_call_id": call["id"], "content": result}));
            }
            if calls.is_empty() {
                break;
            }
        }
    }
    all
}

/// Checks that everything that the model received, or for which a tool was started, was stored before.
async fn everything_seen_is_kept(project: &Project, chat: &str, seen: &[UpstreamRequest]) {
    let kept = project.messages_of(chat).await;
    let whole = transcript(chat);
    assert_eq!(kept, whole[..kept.len()], "{chat}: what is kept is how the conversation began");
    for request in seen {
        let messages = request.json()["messages"].as_array().unwrap().clone();
        assert!(messages.len() <= kept.len(), "{chat}: the model saw what nobody kept: {kept:#?}");
        assert_eq!(messages, kept[..messages.len()], "{chat}");
    }
    let calls: HashSet<String> = kept
        .iter()
        .flat_map(|message| message["tool_calls"].as_array().cloned().unwrap_or_default())
        .map(|call| call["function"]["arguments"].as_str().unwrap().to_owned())
        .collect();
    for line in project.lines_of("paid", chat).into_iter().chain(project.lines_of("noted", chat)) {
        let arguments = json!({"what": line}).to_string();
        assert!(calls.contains(&arguments), "{chat}: {line} was done, and its call is not kept");
    }
}

/// Checks that the conversation equals an uninterrupted one and that each effect happened once.
async fn is_whole(project: &Project, chat: &str) {
    assert_eq!(project.messages_of(chat).await, transcript(chat), "{chat}");
    let paid = project.lines_of("paid", chat);
    assert_eq!(paid, [format!("{chat}/0/1"), format!("{chat}/0/3"), format!("{chat}/1/2")], "{chat}");
    let mut noted = project.lines_of("noted", chat);
    let often = noted.len();
    noted.dedup();
    assert_eq!(noted, [format!("{chat}/0/2"), format!("{chat}/1/1")], "{chat}");
    assert!(often <= 3, "{chat}: one host was killed, so one of them may have run again");
}
