//! `valvehouse chat`.

use super::{Row, Way, openai};
use crate::generator::outcome::{Class, Refusal, TurnView};
use crate::host::TestHost;
use crate::same_everywhere::broken;
use crate::same_everywhere::case::Case;
use futures::future::BoxFuture;
use serde_json::Value;

pub(super) struct Cli;

/// Every n-th case, because a process takes as long as many other cases.
const EVERY: usize = 25;

impl Row for Cli {
    fn name(&self) -> &'static str {
        "valvehouse chat"
    }

    fn supports(&self, case: &Case, way: &Way) -> bool {
        case.is_plain() && way.chat_id.is_none() && case.number.is_multiple_of(EVERY)
    }

    fn cannot_ask_for(&self) -> &'static [&'static str] {
        &["limit"]
    }

    fn ask<'a>(&'a self, host: &'a TestHost, case: &'a Case, way: &'a Way) -> BoxFuture<'a, TurnView> {
        Box::pin(async move {
            let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_valvehouse"));
            command.current_dir(host.folder()).args(["chat", "--format", "json", "--model"]);
            command.arg(case.model(way));
            if !way.stream {
                command.arg("--no-stream");
            }
            let output = command.arg("--").arg(&case.says).output().await.unwrap();
            if output.status.success() {
                return openai::of_body(200, &serde_json::from_slice(&output.stdout).unwrap());
            }
            let error = String::from_utf8(output.stderr).unwrap();
            let error: Value = serde_json::from_str(error.lines().last().unwrap()).expect(&error);
            TurnView {
                refusal: Some(refusal(error["error"]["message"].as_str().unwrap())),
                ..TurnView::default()
            }
        })
    }
}

/// Reads `refused (403) by ID: WHY`, `ID failed in HOOK: …` or `… answered 429: WHY`.
fn refusal(text: &str) -> Refusal {
    if let Some((plugin, rest)) = text.split_once(" failed in ") {
        return Refusal::new(Class::Server, &broken(plugin, rest.split_once(':').unwrap().0));
    }
    let status = text.split(|letter: char| !letter.is_ascii_digit()).find(|part| part.len() == 3);
    let status = status.and_then(|status| status.parse().ok()).unwrap_or(500);
    Refusal::new(Class::of_status(status), text.rsplit_once(": ").map_or(text, |(_, why)| why))
}
