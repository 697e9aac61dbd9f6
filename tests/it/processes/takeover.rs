//! Hosts that are killed or stopped while they own a run, and another host on the same database that takes it
//! over: each step is in the history once, each tool call has one result, and a previous owner that wakes up
//! writes nothing more.

use super::serve::{Project, Server};
use super::sudden_end::{SAYS, answer_of, model, transcript};
use crate::host::{TIMEOUT, until};
use crate::upstream::{Reply, Upstream, UpstreamRequest};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use valvehouse::config::{Secret, SecretSource};
use valvehouse::store::Store;
use valvehouse_testkit::by_length;
use valvehouse_testkit::postgres::Postgres;

/// The number of takeovers, without and with VALVEHOUSE_CASES.
const MIN_CASES: usize = 6;
const MAX_CASES: usize = 300;
/// The number of pairs of hosts in parallel.
const LANES: usize = 3;
/// Every n-th owner is stopped instead of killed.
const STOPPED_EVERY: usize = 3;
const KEY: &str = "the same key on every host of this test";
/// Makes the owner count as silent for longer than permitted.
const SILENCE: &str = "UPDATE runs SET seen_at = seen_at - 31000 WHERE number IN
    (SELECT number FROM runs WHERE status = 'running' FOR UPDATE SKIP LOCKED)";
/// The number of runs of an owner that is stopped until it times out.
const LEFT: usize = 4;

/// The counts of the takeovers.
#[derive(Default, Debug)]
struct Tally {
    killed: usize,
    stopped: usize,
    /// Runs that another host continued.
    taken_over: usize,
    /// Calls whose outcome was unknown, by their resolution.
    answered: usize,
    retried: usize,
    /// Refused steps of owners that woke up.
    refused: usize,
    /// Tool effects that happened twice.
    twice: usize,
}

/// The payments and notes that reached the service, in order.
type Ledger = Arc<Mutex<Vec<(String, String)>>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_taken_over_by_another_host_has_every_step_once() {
    let Some(database) = Postgres::start() else { return };
    let cases = by_length(MIN_CASES, MAX_CASES);
    let (began, database) = (Instant::now(), Arc::new(database));
    let lanes = (0..LANES).map(|lane| tokio::spawn(take_over(lane, cases / LANES, database.clone())));
    let mut all = Tally::default();
    for lane in futures::future::join_all(lanes).await {
        let tally = lane.unwrap();
        all.killed += tally.killed;
        all.stopped += tally.stopped;
        all.taken_over += tally.taken_over;
        all.answered += tally.answered;
        all.retried += tally.retried;
        all.refused += tally.refused;
        all.twice += tally.twice;
    }
    println!("{cases} takeovers in {:.0?}: {all:?}", began.elapsed());
    assert_eq!(all.killed + all.stopped, cases);
    assert!(all.taken_over > 0);
}

async fn take_over(lane: usize, cases: usize, database: Arc<Postgres>) -> Tally {
    let ledger = Ledger::default();
    let upstream = Upstream::start().await;
    let writes = ledger.clone();
    upstream.script(move |request| serve(request, &writes));
    let url = database.database();
    let projects = [0; 2].map(|_| project(&upstream, &url));
    let mut random = fastrand::Rng::with_seed(lane as u64 + 11);
    let mut owner = projects[0].serve().await;
    let heir = projects[1].serve().await;
    let store = open(&url).await;
    let mut tally = Tally::default();
    finish(&owner, "warm", &ledger, &mut tally).await;
    let began = Instant::now();
    finish(&owner, "whole", &ledger, &mut tally).await;
    let whole = began.elapsed();
    let undisturbed = steps(&store, "whole").await;
    for case in 0..cases {
        let chat = format!("chat-{lane}-{case}");
        let is_stopped = case % STOPPED_EVERY == STOPPED_EVERY - 1;
        let at = whole.mul_f64(random.f64());
        let mut case_tally = Tally::default();
        if is_stopped {
            case_tally.stopped += 1;
            wakes_up(&owner, &heir, &database, &url, &chat, at, &ledger, &mut case_tally).await;
        } else {
            case_tally.killed += 1;
            let mut noticed = Tally::default();
            {
                let mut talking = std::pin::pin!(finish(&owner, &chat, &ledger, &mut noticed));
                if tokio::time::timeout(at, &mut talking).await.is_err() {
                    owner.dies();
                }
            }
            owner.kill();
            // Requests that the owner sent are still in flight.
            tokio::time::sleep(Duration::from_millis(50)).await;
            finish(&heir, &chat, &ledger, &mut case_tally).await;
            owner = projects[0].serve().await;
        }
        is_whole(&store, &chat, &undisturbed).await;
        let mut did: BTreeMap<(String, String), usize> = BTreeMap::new();
        for call in ledger.lock().unwrap().iter().filter(|(_, what)| what.starts_with(&format!("{chat}/"))) {
            *did.entry(call.clone()).or_default() += 1;
        }
        assert_eq!(did.len(), 5, "{chat}: each call had its effect: {did:?}");
        let twice = |tool: &str| did.iter().filter(|((name, _), times)| name == tool && **times > 1).count();
        assert!(did.values().all(|times| *times <= 2), "{chat}: {did:?}");
        // A payment is made twice only if a retry was requested while its owner slept.
        assert!(twice("pay") <= if is_stopped { case_tally.retried } else { 0 }, "{chat}: {did:?}");
        case_tally.twice += twice("pay") + twice("note");
        tally.killed += case_tally.killed;
        tally.stopped += case_tally.stopped;
        tally.taken_over += case_tally.taken_over;
        tally.answered += case_tally.answered;
        tally.retried += case_tally.retried;
        tally.refused += case_tally.refused;
        tally.twice += case_tally.twice;
    }
    if cases * LANES == MAX_CASES {
        sleeps_long(lane, &owner, &heir, &ledger, &mut tally).await;
        for chat in (0..LEFT).map(|number| format!("left-{lane}-{number}")) {
            is_whole(&store, &chat, &undisturbed).await;
        }
    }
    store.close().await;
    tally
}

/// Stops an owner of several runs until it times out, and then wakes it up.
async fn sleeps_long(lane: usize, owner: &Server, heir: &Server, ledger: &Ledger, tally: &mut Tally) {
    let chats: Vec<String> = (0..LEFT).map(|number| format!("left-{lane}-{number}")).collect();
    let talking = futures::future::join_all(chats.iter().map(|chat| owner.tries(chat, SAYS[0])));
    let sleeps = async {
        for chat in &chats {
            until("the run has begun", async || !heir.runs(chat).await.is_empty()).await;
        }
        owner.signal("STOP");
        for chat in &chats {
            finish(heir, chat, ledger, tally).await;
        }
        owner.signal("CONT");
    };
    let (answers, ()) = tokio::join!(talking, sleeps);
    for (status, answer) in answers {
        // 503: the database ended the transaction that was open while the owner was stopped.
        assert!([200, 409, 503].contains(&status), "{status} {answer}");
    }
}

/// Stops an owner within a run, lets another host complete the conversation, and wakes the owner up in
/// between.
#[expect(clippy::too_many_arguments, reason = "all of them are the case")]
async fn wakes_up(
    owner: &Server,
    heir: &Server,
    database: &Postgres,
    url: &str,
    chat: &str,
    at: Duration,
    ledger: &Ledger,
    tally: &mut Tally,
) {
    let stops = async {
        until("the run has begun", async || !heir.runs(chat).await.is_empty()).await;
        tokio::time::sleep(at / 3).await;
        owner.signal("STOP");
        database.run(url, SILENCE);
        let wakes = async {
            tokio::time::sleep(at / 2).await;
            owner.signal("CONT");
        };
        tokio::join!(finish(heir, chat, ledger, tally), wakes);
    };
    let ((status, answer), ()) = tokio::join!(owner.tries(chat, SAYS[0]), stops);
    match status {
        200 => assert_eq!(answer["choices"][0]["message"]["content"], answer_of(0), "{chat}: {answer}"),
        409 => {
            assert!(answer.to_string().contains("the run continued elsewhere"), "{chat}: {answer}");
            tally.refused += 1;
        }
        other => panic!("{chat}: {other} {answer}"),
    }
}

/// Responds as the model does, and records the effects of the tools in a ledger.
fn serve(request: &UpstreamRequest, ledger: &Ledger) -> Reply {
    let Some(tool) = ["pay", "note"].into_iter().find(|tool| request.path.ends_with(tool)) else {
        return model(request);
    };
    let what = request.json()["what"].as_str().unwrap().to_owned();
    ledger.lock().unwrap().push((tool.to_owned(), what));
    Reply::json(&json!({})).after(Duration::from_millis(3))
}

fn project(upstream: &Upstream, database: &str) -> Project {
    let project = Project::new(&upstream.url());
    let host = upstream.url().trim_start_matches("http://").trim_end_matches("/v1").to_owned();
    for (name, did, more) in [("pay", "paid", ""), ("note", "noted", "idempotent: true\n")] {
        project.tool(
            name,
            &format!(
                "/*\nrequirements: http\nallow_hosts: {host}\n{more}*/\n\
                 const parameters = #{{ what: #{{ type: \"string\", required: true }} }};\n\
                 fn handler(args) {{ http::post(\"http://{host}/{name}\", #{{ json: #{{ what: args.what }} }}); `{did} ${{args.what}}` }}\n"
            ),
        );
    }
    let settings = project.folder().join("valvehouse.toml");
    let granted = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(settings, granted.replace("files = [\"work\"]", &format!("http = [\"{host}\"]"))).unwrap();
    project.configure(&format!("[store]\nurl = \"{database}\"\nkey = \"{KEY}\"\n"));
    project
}

async fn open(url: &str) -> Store {
    let key = SecretSource::Literal(Secret::new(KEY));
    Store::postgres(url, Some(&key)).await.unwrap()
}

/// Completes a conversation at a host, as a user would whose host is gone.
async fn finish(server: &Server, chat: &str, ledger: &Ledger, tally: &mut Tally) {
    for (turn, text) in SAYS.iter().enumerate() {
        let runs = server.runs(chat).await;
        let Some(run) = runs.len().checked_sub(turn + 1).map(|at| &runs[at]) else {
            let answer = server.send(chat, text).await;
            assert_eq!(answer["choices"][0]["message"]["content"], answer_of(turn), "{chat}: {answer}");
            continue;
        };
        if run["status"] != "done" {
            tally.taken_over += 1;
            go_on(server, chat, run["run_id"].as_str().unwrap(), ledger, tally).await;
        }
    }
}

/// Continues a run until it has ended, at any host.
async fn go_on(server: &Server, chat: &str, run: &str, ledger: &Ledger, tally: &mut Tally) {
    let end = Instant::now() + TIMEOUT;
    while server.runs(chat).await.iter().any(|found| found["run_id"] == run && found["status"] != "done") {
        decide(server, chat, run, ledger, tally).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(Instant::now() < end, "{chat}: the run does not end");
    }
}

/// Continues a run once. If it is unknown whether a payment was made, the ledger tells.
async fn decide(server: &Server, chat: &str, run: &str, ledger: &Ledger, tally: &mut Tally) {
    let (status, answer) = server.decides(run, &json!({"decision": "continue"})).await;
    if status == 200 {
        return;
    }
    // The run may be in progress again, or have ended already.
    assert_eq!(status, 409, "{chat}: {answer}");
    let pending = server.pending(run).await;
    if pending.is_null() {
        return;
    }
    assert_eq!(pending["type"], "unfinished_tool", "{chat}: {answer} {pending}");
    assert_eq!(pending["call"]["name"], "pay", "{chat}: a note may be made again: {answer}");
    let what = pending["call"]["arguments"]["what"].as_str().unwrap();
    let is_paid = ledger.lock().unwrap().iter().any(|(tool, paid)| tool == "pay" && paid == what);
    let decision = if is_paid {
        tally.answered += 1;
        json!({"decision": "answer", "answer": format!("paid {what}")})
    } else {
        tally.retried += 1;
        json!({"decision": "retry"})
    };
    let (status, answer) = server.decides(run, &decision).await;
    assert!(status == 200 || status == 409, "{chat}: {status} {answer}");
}

/// Returns the names of the stored steps of a conversation in order. A call with an unknown outcome may be
/// prepared more than once, so those steps are left out; a person's decision counts as a tool result.
async fn steps(store: &Store, chat: &str) -> Vec<String> {
    let steps = store.checkpoints(chat, 1_000).await.unwrap();
    let names = steps.iter().rev().filter(|step| step.name != "tool_start");
    names.map(|step| if step.name == "decided" { "tool".to_owned() } else { step.name.clone() }).collect()
}

/// Checks that the conversation equals an uninterrupted one.
async fn is_whole(store: &Store, chat: &str, undisturbed: &[String]) {
    let messages = store.messages(chat, 0, u64::MAX).await.unwrap();
    let actual: Vec<Value> =
        messages.iter().map(|message| serde_json::from_str(&message.to_string()).unwrap()).collect();
    assert_eq!(actual, transcript(chat), "{chat}");
    let runs = store.runs(Some(chat), None, 10).await.unwrap();
    assert_eq!(runs.len(), SAYS.len(), "{chat}: {runs:#?}");
    assert_eq!(steps(store, chat).await, undisturbed, "{chat}");
}
