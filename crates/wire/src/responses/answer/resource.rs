//! The response object: its status, items, usage and the settings of its request.

use crate::responses::id::{new_id, now};
use crate::responses::request::ResponsesRequest;
use valvehouse_core::chat::Ending;
use valvehouse_json::Json;

/// The fields of a response that stay the same in all its events.
#[derive(Clone)]
pub struct Resource {
    /// `resp_…`.
    id: String,
    created_at: i64,
    /// The fields of the request, as sent or with their default values.
    settings: Vec<(&'static str, Json)>,
    model: Json,
    /// Set if reasoning items contain the provider's encrypted content.
    pub(in crate::responses) with_encrypted: bool,
    /// Set if the request asks for a summary of the reasoning.
    pub(in crate::responses) with_summary: bool,
    /// Set if the answer is a summary that replaces the conversation.
    pub(in crate::responses) is_compaction: bool,
}

/// The state of a response.
pub enum ResponseState {
    /// The response waits in the background.
    Queued,
    /// The response is in progress.
    InProgress,
    /// The client canceled the response.
    Canceled,
    /// The model finished; the value is the `finish_reason` of the chat.
    Finished(String),
    /// The response failed; the value is the error, `{code, message}`.
    Failed(Json),
}

impl Resource {
    /// Creates the response to a request, with a new id.
    pub fn new(request: &ResponsesRequest) -> Self {
        let sent = &request.sent;
        let or = |key: &str, default: Json| sent.given(key).map_or(default, |value| value.deep_clone());
        let format = sent.at_path("text.format");
        let format =
            if format.is_null() { Json::from([("type", "text".into())]) } else { format.deep_clone() };
        let verbosity = sent.field("text").given("verbosity");
        let text =
            Json::from([("format", format), ("verbosity", verbosity.unwrap_or_else(|| "medium".into()))]);
        let reasoning = sent.field("reasoning");
        let with_summary = reasoning.text("summary").is_some_and(|kind| kind != "none");
        let reasoning = ["effort", "summary"].map(|key| (key, reasoning.field(key)));
        let settings = vec![
            ("background", or("background", false.into())),
            ("frequency_penalty", or("frequency_penalty", 0.0.into())),
            ("instructions", or("instructions", Json::Null)),
            ("max_output_tokens", or("max_output_tokens", Json::Null)),
            ("max_tool_calls", or("max_tool_calls", Json::Null)),
            ("metadata", or("metadata", Json::object())),
            ("parallel_tool_calls", or("parallel_tool_calls", true.into())),
            ("presence_penalty", or("presence_penalty", 0.0.into())),
            ("previous_response_id", or("previous_response_id", Json::Null)),
            ("prompt_cache_key", or("prompt_cache_key", Json::Null)),
            ("reasoning", Json::from(reasoning)),
            ("safety_identifier", or("safety_identifier", Json::Null)),
            ("service_tier", or("service_tier", "default".into())),
            ("store", or("store", true.into())),
            ("temperature", or("temperature", 1.0.into())),
            ("text", text),
            ("tool_choice", or("tool_choice", "auto".into())),
            ("tools", sent.list("tools").iter().map(tool).collect::<Vec<_>>().into()),
            ("top_logprobs", or("top_logprobs", 0_i64.into())),
            ("top_p", or("top_p", 1.0.into())),
            ("truncation", or("truncation", "disabled".into())),
            ("user", or("user", Json::Null)),
        ];
        let conversation = request
            .conversation_id
            .as_ref()
            .map(|id| ("conversation", Json::from([("id", id.as_str().into())])));
        let settings: Vec<_> = settings.into_iter().chain(conversation).collect();
        let include = sent.list("include");
        Self {
            id: new_id("resp"),
            created_at: now(),
            settings,
            model: sent.field("model"),
            with_summary,
            is_compaction: request.compacts,
            with_encrypted: include.iter().any(|word| word.as_str() == Some("reasoning.encrypted_content")),
        }
    }

    /// Returns the id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the response with these items.
    pub fn with(&self, output: &[Json], usage: &Json, end: &ResponseState) -> Json {
        let (status, error, incomplete) = match end {
            ResponseState::Queued => ("queued", Json::Null, Json::Null),
            ResponseState::InProgress => ("in_progress", Json::Null, Json::Null),
            ResponseState::Canceled => ("cancelled", Json::Null, Json::Null),
            ResponseState::Failed(error) => ("failed", error.clone(), Json::Null),
            ResponseState::Finished(reason) => match incomplete_reason(reason) {
                Some(reason) => ("incomplete", Json::Null, Json::from([("reason", reason.into())])),
                None => ("completed", Json::Null, Json::Null),
            },
        };
        let completed_at = if status == "completed" { now().into() } else { Json::Null };
        let own = [
            ("id", self.id.as_str().into()),
            ("object", "response".into()),
            ("created_at", self.created_at.into()),
            ("completed_at", completed_at),
            ("status", status.into()),
            ("error", error),
            ("incomplete_details", incomplete),
            ("model", self.model.clone()),
            ("output", output.to_vec().into()),
            ("usage", usage.clone()),
        ];
        Json::from_fields(own.into_iter().chain(self.settings.iter().cloned()))
    }
}

/// Returns a tool in the form of a response: a function has all of its fields.
fn tool(tool: &Json) -> Json {
    let tool = tool.deep_clone();
    if tool.is_text("type", "function") {
        let absent =
            ["description", "parameters", "strict"].into_iter().filter(|key| tool.get(key).is_none());
        absent.for_each(|key| tool.put(key, Json::Null));
    }
    tool
}

/// Converts a `finish_reason` to the reason for an incomplete response; `None` if the response is complete.
pub(in crate::responses) fn incomplete_reason(finish: &str) -> Option<&'static str> {
    match Ending::of(finish) {
        Ending::Length => Some("max_output_tokens"),
        Ending::ContentFilter => Some("content_filter"),
        _ => None,
    }
}
