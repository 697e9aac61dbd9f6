//! `seen::…`: the effects of the script that were recorded since the test began.

use super::super::environment::TestEnvironment;
use super::registration::{environment, within};
use rhai::{Dynamic, Module};
use std::sync::atomic::Ordering::Relaxed;
use valvehouse_dialect::value::{Shape, live};
use valvehouse_json::Json;
use valvehouse_script_std::functions::RhaiResultOf;

type Look = fn(&TestEnvironment) -> Vec<Json>;

const LOOKS: [(&str, &str, Look); 6] = [
    ("model", "Returns the requests to the model.", |environment| environment.model.requests()),
    (
        "http",
        "Returns the requests to other hosts, each `#{ method, url, headers, body, json }`.",
        |environment| environment.hosts.calls(),
    ),
    ("tools", "Returns the calls of canned tools, each `#{ name, args }`.", |environment| {
        environment.tool_calls.lock().iter().map(Json::deep_clone).collect()
    }),
    ("shell", "Returns the calls of programs, each `#{ argv, stdin, folder }`.", |environment| {
        environment.shell.calls()
    }),
    (
        "events",
        "Returns the events and questions that the script sent, each `#{ type, data }`.",
        |environment| environment.people.seen(),
    ),
    ("log", "Returns the lines of the log, each `#{ level, text }`.", |environment| {
        let line =
            |(level, text): (&str, String)| Json::from([("level", level.into()), ("text", text.into())]);
        environment.lines().into_iter().map(line).collect()
    }),
];

pub(super) fn module() -> Module {
    let mut module = Module::new();
    for (name, comment, look) in LOOKS {
        within(name, &["Array"], comment).set_into_module(&mut module, move || -> RhaiResultOf<Dynamic> {
            Ok(live(&look(&*environment(&format!("seen::{name}"))?).into(), Shape::Plain))
        });
    }
    within("skipped", &["bool"], "Returns true if a hook of the script has skipped in this turn.")
        .set_into_module(&mut module, || -> RhaiResultOf<bool> {
            Ok(environment("seen::skipped")?.skipped.load(Relaxed))
        });
    module
}
