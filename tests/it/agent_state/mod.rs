//! An agent's state and its two tracks of messages: each field, each rule of its graph, and the
//! variables that last along its runs.

mod approval;
mod callbacks;
mod configured;
mod flow;
mod form;
mod graph;
mod many;
mod random;
mod scripts;
mod state;
mod variables;

use crate::kernel::json;
use std::sync::Arc;
use tempfile::TempDir;
use valvehouse::agent::{Agent, AgentBuilder};
use valvehouse::chat::message;
use valvehouse::json::Json;
use valvehouse::provider::{CannedProvider, Reply};
use valvehouse::store::{SqlStore, Store};
use valvehouse::tool::Tool;

/// An agent around a canned model, and the model to look at.
fn agent<R: Into<Reply>>(replies: impl IntoIterator<Item = R>) -> (AgentBuilder, CannedProvider) {
    let model = CannedProvider::new(replies);
    (Agent::builder().id("a-1").provider(Arc::new(model.clone())), model)
}

/// A store of its own, and the folder it lives in.
async fn store() -> (TempDir, Arc<dyn Store>) {
    let folder = TempDir::new().unwrap();
    let store = SqlStore::sqlite(&folder.path().join("state.db")).await.unwrap();
    (folder, Arc::new(store))
}

/// A tool that says how it is in a city.
fn weather() -> Tool {
    let parameters = json(r#"{"city":{"type":"string","required":true}}"#);
    let tool = Tool::from_json_fn("weather", |args| {
        Ok(format!("sunny in {}", args.text("city").unwrap_or_default()).into())
    });
    tool.parameters(&parameters).unwrap().description("Tells the weather.")
}

/// A person is asked before every call.
fn asking(builder: AgentBuilder) -> AgentBuilder {
    builder.middleware(("human_approval", Json::object()))
}

/// A model that writes no summaries sees this many of the newest messages.
fn window(size: u64) -> Json {
    Json::from([("window_size", size.into()), ("compress_threshold", size.into())])
}

/// Role and text of messages; of calls the names.
fn lines(messages: &[Json]) -> Vec<String> {
    let line = |message: &Json| {
        let calls = message.get("tool_calls").unwrap_or_default().items();
        let names: Vec<String> =
            calls.iter().map(|call| call.at_path("function.name").as_str().unwrap().to_owned()).collect();
        let said = match names.is_empty() {
            true => String::from(message::text_of(message)),
            false => format!("calls {}", names.join(", ")),
        };
        format!("{}: {said}", message::role_of(message))
    };
    messages.iter().map(line).collect()
}

/// The same of a list.
fn lines_of(list: &Json) -> Vec<String> {
    lines(&list.items())
}

/// Returns the messages that a model was sent.
fn sent(request: &Json) -> Vec<String> {
    lines_of(&request.get("messages").unwrap_or_default())
}
