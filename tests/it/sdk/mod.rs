//! Any change of a filter to any event: OpenAI's official clients receive one well-formed response.

mod case;
mod oracle;

use crate::generator::answer::count_answers;
use crate::generator::services::Service;
use crate::generator::{LOOK, clients};
use crate::host::TestHost;
use case::{Case, Model};
use oracle::{ExpectedView, expect};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;

/// The number of cases unless `VALVEHOUSE_CASES` sets another one.
const CASES: usize = 200;

const ACTS: &str = include_str!("acts.rhai");
const MARKS: &str = "fn stream(event) { if event.text != \"\" { event.text += \"'\"; } }";
const SIGNS: &str = "fn outlet(body) { body.messages[-1].text += \" -- signed\"; }";
const HOLDS: &str = "fn outlet(body) { body.messages[-1].text = `[${body.messages[-1].text}]`; }";
const LOOKS: &str = "/*\ndescription: Looks.\n*/\nconst parameters = #{};\nfn handler(args) { \"seen\" }";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_openai_python_sdk_sees_one_end_despite_any_filter() {
    let Some(client) = clients::python("tests/python/many_streams.py") else { return };
    check(client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_openai_javascript_sdk_sees_one_end_despite_any_filter() {
    let Some(client) = clients::javascript("tests/javascript/many_streams.cjs") else { return };
    check(client).await;
}

async fn check(client: Command) {
    let cases: Arc<Vec<(Case, ExpectedView)>> =
        Arc::new((0..valvehouse_testkit::cases(CASES)).map(case).collect());
    let host = host(cases.clone()).await;
    let requests: Vec<Value> = cases.iter().map(|(case, _)| case.request()).collect();
    let seen = clients::read(client, host.url("/v1"), &requests).await;
    let numbers: BTreeSet<u64> = seen.iter().filter_map(|seen| seen["number"].as_u64()).collect();
    assert_eq!((seen.len(), numbers.len()), (cases.len(), cases.len()), "each case ends once");
    let wrong: Vec<String> = seen
        .iter()
        .filter_map(|seen| {
            let (case, expected) = &cases[usize::try_from(seen["number"].as_u64()?).ok()?];
            let why = compare(case, expected, seen).err()?;
            Some(format!("{why}\n  {case:?}\n  expected {expected:?}\n  seen {seen}"))
        })
        .collect();
    let shown = wrong.iter().take(5).map(String::as_str).collect::<Vec<_>>().join("\n\n");
    assert!(wrong.is_empty(), "{} of {} cases went wrong:\n\n{shown}", wrong.len(), cases.len());
    let failed = cases.iter().filter(|(_, expected)| expected.failure.is_some()).count();
    eprintln!("{} cases, {failed} of which end with an error", cases.len());
}

fn case(number: usize) -> (Case, ExpectedView) {
    let mut case = Case::new(number);
    let expected = expect(&case);
    case.helper = expected.failure.is_none() && number.is_multiple_of(3) && case.is_plain();
    (case, expected)
}

async fn host(cases: Arc<Vec<(Case, ExpectedView)>>) -> TestHost {
    let with = |head: &str, priority: i32, text: &str| {
        format!("/*\nglobal: false\n{head}\n*/\nconst Valves = #{{ priority: {priority} }};\n{text}")
    };
    let mut setup = TestHost::new()
        .filter("acts", with("", 0, ACTS))
        .filter("forgives", with("on_error: continue", 0, ACTS))
        .filter("marks", with("", 1, MARKS))
        .filter("signs", with("", 2, SIGNS))
        .filter("holds", with("hold: true", 3, HOLDS))
        .tool(LOOK, LOOKS)
        .config("[breaker]\nfailure_threshold = 0");
    for id in ["acts", "forgives"] {
        // The budgets of operations and memory are small because they are often exhausted; that of time is
        // large because the machine may be busy.
        setup = setup.config(&format!(
            "[filters.{id}]\nbudget = {{ ms = 10_000, operations = 20_000, memory_mb = 4 }}"
        ));
    }
    for model in Model::all() {
        let mut filters = vec![if model.forgives { "forgives" } else { "acts" }, "marks"];
        filters.extend(model.signs.then_some("signs"));
        filters.extend(model.holds.then_some("holds"));
        let tools = if model.tools { vec![LOOK] } else { Vec::new() };
        setup = setup.config(&format!(
            "[[models]]\nname = \"{}\"\nprovider = \"mock\"\nmodel = \"m\"\nfilters = {}\ntools = {}",
            model.name(),
            json!(filters),
            json!(tools),
        ));
    }
    let host = setup.start().await;
    for id in ["acts", "forgives", "marks", "signs", "holds"] {
        host.stands(id, "live").await;
    }
    host.upstream.script(move |request| {
        let body = request.json();
        let messages = &body["messages"];
        let number: usize = messages[0]["content"].as_str().unwrap().parse().unwrap();
        Service::Chat.reply(&cases[number].0.turn, count_answers(messages), body["stream"] == true)
    });
    host
}

/// Compares the response that a client received with the expected one.
fn compare(case: &Case, expected: &ExpectedView, seen: &Value) -> Result<(), String> {
    let same = |what: &str, seen: &Value, expected: Value| {
        if *seen == expected { Ok(()) } else { Err(format!("{what}: {expected} expected, {seen} seen")) }
    };
    let of = |choice: usize| &seen["choices"][choice.to_string()];
    for (place, choice) in expected.choices.iter().enumerate() {
        let seen = of(place);
        if seen.is_null() && *choice == oracle::Choice::default() {
            continue;
        }
        let nothing = json!("");
        same("text", seen.get("text").unwrap_or(&nothing), json!(choice.text))?;
        if !case.helper {
            same("thought", seen.get("thought").unwrap_or(&nothing), json!(choice.thought))?;
        }
        if expected.failure.is_none() {
            same("calls", &seen["calls"], json!(choice.calls.values().collect::<Vec<_>>()))?;
            same("ends", &seen["finishes"], json!([choice.finish]))?;
        }
    }
    for (_, choice) in seen["choices"].as_object().into_iter().flatten() {
        same("sent after the end", &choice["after"], json!(0))?;
        if expected.failure.is_some() {
            same("ends beside an error", &choice["finishes"], json!([]))?;
        }
        if !case.helper {
            same("roles", &choice["roles"], json!(1))?;
        }
    }
    if seen["ids"].as_u64() > Some(1) {
        return Err("several ids".into());
    }
    let error = &seen["error"];
    match &expected.failure {
        None => {
            same("error", error, Value::Null)?;
            same("usage", &seen["usage"], json!(usize::from(expected.usage)))?;
        }
        Some(failure) => {
            let message = error["message"].as_str().unwrap_or_default();
            if !message.contains(&failure.says) {
                return Err(format!("{:?} is not in {error}", failure.says));
            }
            match (expected.sent, error["status"].as_u64()) {
                (Some(false), None) => return Err("nothing had been sent: the error wants a status".into()),
                (Some(true), Some(_)) => return Err("a status after something had been sent".into()),
                (_, Some(status)) if status != u64::from(failure.status) => {
                    return Err(format!("status {status} for {}", failure.status));
                }
                _ => {}
            }
        }
    }
    same("emitted", &seen["emitted"], json!(expected.emitted))
}
