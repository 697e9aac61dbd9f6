//! Plugins changed over HTTP in the shapes of Open WebUI's Functions API: what is live when it answers, what
//! is refused, and who may.

mod at_once;
mod scripts;
mod users;
mod valves;

use crate::host::{Answer, TestHost};
use serde_json::{Value, json};

/// A filter with all sorts of settings.
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

/// A filter that says one word.
pub(crate) fn says(word: &str) -> String {
    format!("fn outlet(body) {{ body.messages[-1].text = \"{word}\"; body }}\n")
}

/// A filter that does not load, at its second line.
pub(crate) const BROKEN: &str = "fn outlet(body) {\n    body.x = ;\n}\n";

impl TestHost {
    /// Asks a route of the Functions API.
    pub(crate) async fn api(&self, method: &str, path: &str, body: &Value) -> Answer {
        let request = self.request(method, &format!("/api/v1/functions{path}"));
        Answer::of(if body.is_null() { request } else { request.body(body.to_string()) }).await
    }

    /// Looks at one that answers.
    pub(crate) async fn api_get(&self, path: &str) -> Value {
        self.api("GET", path, &Value::Null).await.ok()
    }

    /// Changes something, which is done.
    pub(crate) async fn api_post(&self, path: &str, body: &Value) -> Value {
        self.api("POST", path, body).await.ok()
    }

    /// The history of a plugin: number, who, what; the newest first.
    pub(crate) async fn api_history(&self, id: &str) -> Vec<(u64, String, String)> {
        let all = self.api_get(&format!("/id/{id}/history")).await;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let one =
            |entry: &Value| (entry["version"].as_u64().unwrap(), text(&entry["by"]), text(&entry["action"]));
        all.as_array().unwrap().iter().map(one).collect()
    }
}

impl Answer {
    #[track_caller]
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body());
        self.json()
    }

    /// Checks that an answer is a refusal in Open WebUI's shape.
    #[track_caller]
    pub(crate) fn denied(&self, status: u16, detail: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.body());
        let told = self.json();
        assert!(
            told["detail"].as_str().is_some_and(|text| text.contains(detail)),
            "{detail:?} is not in {told}"
        );
        told
    }
}

/// Returns the body of a new function.
pub(crate) fn new(id: &str, content: &str) -> Value {
    json!({"id": id, "name": id, "type": "filter", "content": content, "meta": {"description": ""}})
}
