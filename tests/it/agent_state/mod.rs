//! The state of an agent and its two tracks of messages: each field, each rule of its graph, and the
//! variables that persist across its runs.

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
use valvehouse::store::Store;
use valvehouse::tool::Tool;

/// Returns an agent with a canned model, and the model for inspection.
fn agent<R: Into<Reply>>(replies: impl IntoIterator<Item = R>) -> (AgentBuilder, CannedProvider) {
    let model = CannedProvider::new(replies);
    (Agent::builder().id("a-1").provider(Arc::new(model.clone())), model)
}

/// Returns a new store and its folder.
async fn store() -> (TempDir, Arc<Store>) {
    let folder = TempDir::new().unwrap();
    let store = Store::sqlite(&folder.path().join("state.db")).await.unwrap();
    (folder, Arc::new(store))
}

/// Returns a tool that reports the weather of a city.
fn weather() -> Tool {
    let parameters = json(r#"{"city":{"type":"string","required":true}}"#);
    let tool = Tool::from_json_fn("weather", |args| {
        Ok(format!("sunny in {}", args.text("city").unwrap_or_default()).into())
    });
    tool.parameters(&parameters).unwrap().description("Tells the weather.")
}

/// Adds a person's approval before every call.
fn asking(builder: AgentBuilder) -> AgentBuilder {
    builder.middleware(("human_approval", Json::object()))
}

/// The options of a model that writes no summaries and receives this number of the newest messages.
fn window(size: u64) -> Json {
    Json::from([("window_size", size.into()), ("compress_threshold", size.into())])
}

/// Returns the role and the text of each message, or the names of its calls.
fn lines(messages: &[Json]) -> Vec<String> {
    let line = |message: &Json| {
        let calls = message.get("tool_calls").unwrap_or_default().items();
        let names: Vec<String> =
            calls.iter().map(|call| call.at_path("function.name").as_str().unwrap().to_owned()).collect();
        let text = match names.is_empty() {
            true => String::from(message::text_of(message)),
            false => format!("calls {}", names.join(", ")),
        };
        format!("{}: {text}", message::role_of(message))
    };
    messages.iter().map(line).collect()
}

/// Returns the lines of a list of messages.
fn lines_of(list: &Json) -> Vec<String> {
    lines(&list.items())
}

/// Returns the messages that a model was sent.
fn sent(request: &Json) -> Vec<String> {
    lines_of(&request.get("messages").unwrap_or_default())
}
