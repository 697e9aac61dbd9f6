//! `valvehouse test` as script authors use it: the real binary in folders with scripts and tests.

mod command;
mod coverage;
mod golden_files;
mod junit;
mod functions;

use crate::cli::{CommandOutput, Project};
use valvehouse::json::Json;

const LIMIT: &str = "/*
requirements: kv
*/
const Valves = #{ max: 2 };
fn inlet(body, valves) {
    kv::incr(\"turns\");
    print(`seen ${body.messages.len()}`);
    if body.messages.len() > valves.max {
        throw #{ message: `more than ${valves.max}`, status: 429 };
    }
    body
}
fn outlet(body) {
    body.messages[-1].content += \"!\";
}
";

/// Creates a project with the filter `limit` and these tests.
fn of_limit(tests: &str) -> Project {
    Project::new().filter("limit", LIMIT).with("filters/limit.test.rhai", tests)
}

/// Returns the name of each test, and `true` if it passed.
#[track_caller]
fn outcomes(ran: &CommandOutput) -> Vec<(String, bool)> {
    let tests: Vec<Json> = ran
        .json()
        .get("files")
        .unwrap()
        .items()
        .iter()
        .flat_map(|file| file.get("tests").unwrap().items())
        .collect();
    let outcome = |test: &Json| (text(test, "name"), test.get("passed") == Some(true.into()));
    tests.iter().map(outcome).collect()
}

fn text(json: &Json, key: &str) -> String {
    json.at_path(key).as_str().unwrap_or_default().to_owned()
}
