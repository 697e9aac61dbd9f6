//! A token budget at three hosts on one store, which exchange their counts in turn.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher as _};
use std::path::Path;
use std::sync::Arc;
use valvehouse::config::{Secret, SecretSource};
use valvehouse::context::{Context, Events, Turn, TurnFacts};
use valvehouse::filter::{Chain, FilterEntry, Hook};
use valvehouse::json::Json;
use valvehouse::script::{Kind, Script, Settings, read_file};
use valvehouse::store::{Kv, Store};
use valvehouse_testkit::postgres::Postgres;

const TOKENS: i64 = 5_000;
/// The tokens that a turn reserves for its question and its response.
const QUESTION: i64 = 100;
const ANSWER: i64 = 200;
const ROUNDS: u64 = 12;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

/// Returns the key-value store of a host and the shipped filter that uses it.
async fn host(url: &str) -> (Arc<Kv>, FilterEntry) {
    let key = SecretSource::Literal(Secret::new("the same key on every host of this test"));
    let store = Arc::new(Store::postgres(url, Some(&key)).await.unwrap());
    let (writes, reads) = (store.clone(), store);
    let kv = Kv::default().written_by(move |changes| {
        let store = writes.clone();
        Box::pin(async move { store.kv_write(&changes).await })
    });
    let kv = kv.shared(0, move |since| {
        let store = reads.clone();
        Box::pin(async move { store.kv_news(since).await })
    });
    let kv = Arc::new(kv);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("filters");
    let read = read_file(Kind::Filter, &folder, &folder.join("token_budget.rhai")).unwrap();
    let valves = json(&format!(r#"{{"tokens": {TOKENS}, "reserve": {ANSWER}}}"#));
    let settings = Settings { kv: kv.clone(), configured: valves, ..Settings::default() };
    let script = Script::compile(&read.file, &settings).unwrap_or_else(|problems| panic!("{problems:?}"));
    (kv, Arc::new(script).into_filter(Arc::default()))
}

/// A turn at a host, and the count of it that each host has: nothing, the reservation or the result.
struct UnderWay {
    host: usize,
    turn: Turn,
    now: i64,
    /// The count in the store.
    written: i64,
    known: [i64; 3],
    is_over: bool,
}

/// Returns a turn of a user as Open WebUI makes it if it calls its models itself: inlet and outlet.
fn turn(user: u64) -> Turn {
    let facts = TurnFacts {
        user: json(&format!(r#"{{"id": "{user}"}}"#)),
        request: json(r#"{"path": "/v1/token_budget/filter/outlet"}"#),
        ..TurnFacts::default()
    };
    Turn::new(facts, Context::default(), Events::default())
}

async fn begins(filter: &FilterEntry, turn: &Turn) -> bool {
    let question = "four".repeat(usize::try_from(QUESTION).unwrap());
    let body =
        json(&format!(r#"{{"model": "m", "messages": [{{"role": "user", "content": "{question}"}}]}}"#));
    Chain::new(vec![filter.clone()]).run(Hook::Inlet, body, turn).await.is_ok()
}

async fn ends(filter: &FilterEntry, turn: &Turn, took: i64) {
    let body = json(&format!(
        r#"{{"model": "m", "messages": [{{"role": "user", "content": "x"}}, {{"role": "assistant", "content": "y",
            "usage": {{"prompt_tokens": {QUESTION}, "completion_tokens": {}}}}}]}}"#,
        took - QUESTION
    ));
    Chain::new(vec![filter.clone()]).run(Hook::Outlet, body, turn).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_count_running_answers_of_other_hosts_against_a_budget() {
    let Some(server) = Postgres::start() else { return };
    let url = server.database();
    let hosts = futures::future::join_all((0..3).map(|_| host(&url))).await;
    let (mut worst, mut reserves) = (0, None);
    for round in 0..ROUNDS {
        let mut turns: Vec<UnderWay> = Vec::new();
        // At the start of the last turn: the number of turns that were unknown to its host, and the known
        // turns that had not ended.
        let (mut unknown, mut open) = (0, Vec::new());
        for step in 0..160_u64 {
            let mut hasher = DefaultHasher::new();
            (round, step).hash(&mut hasher);
            let [dice, more, ..] = hasher.finish().to_le_bytes();
            let host = usize::from(more) % 3;
            let (kv, filter) = &hosts[host];
            match dice % 8 {
                0..=3 => {
                    let known: i64 = turns.iter().map(|turn| turn.known[host]).sum();
                    let turn = turn(round);
                    let has_begun = begins(filter, &turn).await;
                    assert_eq!(has_begun, known < TOKENS, "host {host} knows of {known} in step {step}");
                    if !has_begun {
                        continue;
                    }
                    let now = *reserves.get_or_insert_with(|| {
                        let keys = kv.map("token_budget", "user/0").keys("reserved/");
                        kv.map("token_budget", "user/0").get(&keys[0]).unwrap().as_i64().unwrap()
                    });
                    unknown = turns.iter().filter(|turn| turn.known[host] == 0).count();
                    let is_open = |turn: &UnderWay| !turn.is_over || turn.known[host] != turn.now;
                    open = (0..=turns.len()).filter(|at| turns.get(*at).is_none_or(is_open)).collect();
                    let mut known = [0; 3];
                    known[host] = now;
                    turns.push(UnderWay { host, turn, now, written: 0, known, is_over: false });
                }
                // The turn used less than its reservation, or more.
                4..=6 => {
                    let Some(turn) = turns.iter_mut().find(|turn| turn.host == host && !turn.is_over) else {
                        continue;
                    };
                    let took = QUESTION + i64::from(more) * 2;
                    ends(filter, &turn.turn, took).await;
                    (turn.now, turn.known[host], turn.is_over) = (took, took, true);
                }
                _ => {
                    kv.exchange().await.unwrap();
                    for turn in &mut turns {
                        if turn.host == host {
                            turn.written = turn.now;
                        }
                        turn.known[host] = turn.written;
                    }
                }
            }
        }
        // The formula of docs/several-hosts.md.
        let (total, reserves): (i64, i64) = (turns.iter().map(|turn| turn.now).sum(), reserves.unwrap());
        let above: i64 = open.iter().map(|at| (turns[*at].now - reserves).max(0)).sum();
        let most = TOKENS + reserves * (1 + unknown as i64) + above;
        assert!(total <= most, "{total} of {TOKENS}, at most {most} in round {round}");
        worst = worst.max(total);
    }
    let reserves = reserves.unwrap();
    assert!((QUESTION + ANSWER..QUESTION + ANSWER + 20).contains(&reserves), "{reserves}");
    eprintln!(
        "at most {worst} of {TOKENS} tokens with turns that reserve {reserves} and take up to {}",
        QUESTION + 510
    );
}
