//! `valvehouse chat`.

use super::{Row, Way, openai};
use crate::host::TestHost;
use crate::same_everywhere::case::Case;
use crate::same_everywhere::seen::Seen;
use futures::future::BoxFuture;

pub(super) struct Cli;

/// A process is a matter of seconds: one case in so many goes through one.
const EVERY: usize = 100;

impl Row for Cli {
    fn name(&self) -> &'static str {
        "valvehouse chat"
    }

    fn speaks(&self, case: &Case, way: &Way) -> bool {
        case.is_plain() && way.chat_id.is_none() && case.number % EVERY < 4
    }

    fn ask<'a>(&'a self, host: &'a TestHost, case: &'a Case, way: &'a Way) -> BoxFuture<'a, Seen> {
        Box::pin(async move {
            let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_valvehouse"));
            command.current_dir(host.folder()).args(["chat", "--format", "json", "--model"]);
            command.arg(case.model(false));
            if !way.stream {
                command.arg("--no-stream");
            }
            let output = command.arg(&case.says).output().await.unwrap();
            println!("{}", String::from_utf8_lossy(&output.stdout));
            println!("{}", String::from_utf8_lossy(&output.stderr));
            openai::of_body(500, &serde_json::json!({}))
        })
    }
}
