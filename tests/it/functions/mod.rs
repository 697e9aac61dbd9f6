//! Plugins changed over HTTP in the format of Open WebUI's Functions API: what is live after the response,
//! what is refused, and who has access.

mod at_once;
mod grants;
mod scripts;
mod test_runs;
mod users;
mod valves;

use serde_json::{Value, json};

/// A filter with settings of many types.
pub(crate) const SHOUTS: &str = r#"/*
title: Shouts
author: Ann
version: 1.2.0
description: Puts a word behind each answer.
*/
const Valves = #{
    word: #{ value: "hi", enum: ["hi", "ho", "hu"] },
    times: #{ value: 1, minimum: 1, maximum: 3 },
    token: #{ value: "", secret: true },
};
const UserValves = #{ loud: false, pin: #{ value: "", secret: true } };
fn outlet(body, valves, __user__) {
    let word = if __user__.valves.loud { valves.word.to_upper() } else { valves.word };
    for turn in 0..valves.times { body.messages[-1].text += ` ${word}`; }
    body
}
"#;

/// Returns a filter that replaces the response with one word.
pub(crate) fn filter_with_answer(word: &str) -> String {
    format!("fn outlet(body) {{ body.messages[-1].text = \"{word}\"; body }}\n")
}

/// A filter that does not load; the error is in its second line.
pub(crate) const BROKEN: &str = "fn outlet(body) {\n    body.x = ;\n}\n";

/// Returns the body of a request that creates a function.
pub(crate) fn new(id: &str, content: &str) -> Value {
    json!({"id": id, "name": id, "type": "filter", "content": content, "meta": {"description": ""}})
}
