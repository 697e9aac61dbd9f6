//! A turn is the same at every endpoint: random filters, bodies and responses, sent through each row of the
//! table of endpoints, streamed and whole, with and without a memory, to services of each API.

mod case;
mod filters;
mod rows;

use crate::generator::LOOK;
use crate::generator::answer::count_answers;
use crate::generator::outcome::{TurnView, plain_message};
use crate::generator::services::{SERVICES, Service};
use crate::host::TestHost;
use crate::upstream::{Upstream, UpstreamRequest};
use case::Case;
use rows::{ROWS, Way};
use serde_json::Value;
use std::sync::{Arc, Mutex};
use valvehouse_testkit::{cases, is_long};

/// The number of cases unless `VALVEHOUSE_CASES` sets another one.
const CASES: usize = 100;
/// The number of cases that share a host.
const GROUP: usize = 25;
/// The number of tests that share the cases.
const PARTS: usize = 3;

/// Every n-th case is also sent to models with a memory, which takes longer.
const REMEMBERED: usize = 4;
/// Every n-th case is also sent to models with another API, alternately.
const TRANSLATED: usize = 2;
/// A case takes every n-th way, from one that depends on its number; `tests/run --long` takes all.
const ROTATED: usize = 5;

/// The host's tool in Rhai; [`looked`] is the same in Rust.
const LOOKS: &str = "/*\ndescription: Looks.\n*/\n\
    const parameters = #{ n: #{ type: \"integer\" }, said: #{ type: \"string\" } };\n\
    fn handler(args) { `seen ${args.n}` }\n";

fn looked(n: Option<i64>) -> String {
    format!("seen {}", n.unwrap_or_default())
}

/// Returns the error of a failed filter as a client reads it.
fn broken(plugin: &str, hook: &str) -> String {
    format!("the plugin `{plugin}` failed in its {hook}; the host's log has the reason")
}

#[tokio::test]
async fn every_endpoint_runs_the_same_turn() {
    run(0).await;
}

#[tokio::test]
async fn every_endpoint_runs_the_same_turn_in_more_cases() {
    run(1).await;
}

#[tokio::test]
async fn every_endpoint_runs_the_same_turn_in_other_cases() {
    run(2).await;
}

/// Runs every third group of cases; the requests of a case are sent one after another, so the parts run side by side.
async fn run(part: usize) {
    let cases = cases(CASES);
    let mut wrong = Vec::new();
    if let Ok(numbers) = std::env::var("VALVEHOUSE_CASE") {
        let of = |number: &str| Case::new(number.parse().expect("numbers with commas between them"));
        let cases: Vec<Case> =
            numbers.split(',').map(of).filter(|case| case.number % PARTS == part).collect();
        let count = cases.len();
        Group::start(cases).await.check(&mut wrong).await;
        return report(&wrong, count);
    }
    for from in (part * GROUP..cases).step_by(PARTS * GROUP) {
        Group::start((from..cases.min(from + GROUP)).map(Case::new).collect()).await.check(&mut wrong).await;
    }
    report(&wrong, cases.div_ceil(PARTS));
}

fn report(wrong: &[(String, String)], cases: usize) {
    let all: Vec<&str> = wrong.iter().map(|(why, _)| why.as_str()).collect();
    let first = wrong.first().map(|(_, case)| case.as_str()).unwrap_or_default();
    assert!(
        all.is_empty(),
        "{} of {cases} cases went wrong:\n\n{}\n\nthe first:\n{first}",
        all.len(),
        all.join("\n")
    );
}

/// Cases on one host.
struct Group {
    host: TestHost,
    /// The services with other APIs than chat completions.
    _others: Upstream,
    cases: Arc<Vec<Case>>,
    /// The requests to the service since the last check.
    requests: Arc<Mutex<Vec<Value>>>,
}

impl Group {
    async fn start(cases: Vec<Case>) -> Self {
        let mut setup = TestHost::new().tool(LOOK, LOOKS);
        for case in &cases {
            for filter in &case.filters {
                setup = setup.filter(&filter.id, filter.script());
            }
            setup = setup.config(&case.config());
        }
        let others = Upstream::start().await;
        for service in SERVICES {
            setup = setup.config(&service.config(&others.url()));
        }
        let host = setup.config("[breaker]\nfailure_threshold = 0").start().await;
        let (cases, requests) = (Arc::new(cases), Arc::new(Mutex::new(Vec::new())));
        let (known, keeps) = (cases.clone(), requests.clone());
        let answer = Arc::new(move |upstream_request: &UpstreamRequest| {
            let (service, request) = Service::read(upstream_request);
            let case = known.iter().find(|case| request.model == format!("up{}", case.number));
            let case = case.expect("a model of a case");
            // The earlier messages are not responses of this turn.
            let before = count_answers(&request.plain["messages"]).saturating_sub(case.before.len() / 2);
            let reply = service.reply(&case.turn, before, request.stream);
            keeps.lock().unwrap().push(request.plain);
            reply
        });
        for upstream in [&host.upstream, &others] {
            let answer = answer.clone();
            upstream.script(move |upstream_request| answer(upstream_request));
        }
        Self { host, _others: others, cases, requests }
    }

    async fn check(&self, wrong: &mut Vec<(String, String)>) {
        for case in self.cases.iter() {
            if let Err(why) = self.check_one(case).await {
                wrong.push((format!("case {}: {why}", case.number), case.shown()));
            }
        }
    }

    async fn check_one(&self, case: &Case) -> Result<(), String> {
        let mut first: Option<(String, TurnView)> = None;
        let mut remembered: Option<(String, Value)> = None;
        let other = SERVICES[1 + case.number / REMEMBERED % (SERVICES.len() - 1)];
        let other = case.number.is_multiple_of(TRANSLATED).then_some(other);
        let services = [Service::Chat].into_iter().chain(other.filter(|service| case.fits(*service)));
        let mut ways = 0;
        for (service, row) in services.flat_map(|it| ROWS.map(|row| (it, row))) {
            for (stream, memory) in [(false, false), (true, false), (false, true), (true, true)] {
                ways += 1;
                if !is_long() && first.is_some() && ways % ROTATED != case.number % ROTATED {
                    continue;
                }
                if memory && !case.number.is_multiple_of(REMEMBERED) {
                    continue;
                }
                let chat_id = memory.then(|| format!("{}-{}-{stream}-{service:?}", row.name(), case.number));
                let way = Way { service, stream, chat_id };
                if !row.supports(case, &way) {
                    continue;
                }
                let name = format!("{} (stream: {stream}, memory: {memory}, {service:?})", row.name());
                let mut seen = row.ask(&self.host, case, &way).await;
                seen.sent = self.requests.lock().unwrap().drain(..).collect();
                if let Some(chat_id) = &way.chat_id {
                    seen.stored = Some(self.stored(chat_id).await);
                }
                let Some((reference, expected)) = &first else {
                    first = Some((name, seen));
                    continue;
                };
                // The thinking of earlier rounds is streamed, but is not part of a whole response.
                if let Some(answer) = seen.answer.as_mut().filter(|_| case.has_look) {
                    answer.thoughts = None;
                }
                let mut expected = expected.clone();
                for (request, known) in seen.sent.iter_mut().zip(&mut expected.sent) {
                    row.cannot_ask_for().iter().for_each(|part| request[part] = known[part].clone());
                }
                if let Some(difference) = expected.differs_from(&seen) {
                    return Err(format!("{reference} and {name} differ in {difference}"));
                }
                if let Some(stored) = seen.stored {
                    match &remembered {
                        Some((other, known)) if *known != stored => {
                            return Err(format!(
                                "{other} and {name} differ in the stored conversation:\n  {known}\n  {stored}"
                            ));
                        }
                        Some(_) => {}
                        None => remembered = Some((name, stored)),
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the conversation in the store.
    async fn stored(&self, chat_id: &str) -> Value {
        let path = format!("/api/v1/agents/conversations/{}", chat_id.replace(' ', "%20"));
        let answer = self.host.get(&path).await;
        let messages = answer.json()["full_messages"].as_array().cloned().unwrap_or_default();
        messages.iter().map(plain_message).collect()
    }
}
