//! `POST /v1/responses/compact`: compacts a conversation to the user's messages and a summary of the rest.

use super::storage;
use crate::first_choice;
use crate::reply::unlogged;
use crate::turn::endpoint::{Call, Chunk, Encoder, Endpoint};
use axum::response::Response;
use bytes::Bytes;
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use valvehouse_core::chat::{ChatRequest, message, response};
use valvehouse_core::error::Error;
use valvehouse_json::Json;
use valvehouse_wire::responses::stream::NO_SUMMARY;
use valvehouse_wire::responses::{self, joined, new_id, now, request, usage};

/// The fields that have the same meaning in a response request.
const SAME: [&str; 8] = [
    "model",
    "instructions",
    "input",
    "previous_response_id",
    "reasoning",
    "prompt_cache_key",
    "service_tier",
    "max_output_tokens",
];

/// The endpoint that compacts conversations.
pub(super) struct Compactions;

impl Endpoint for Compactions {
    const NAME: &'static str = "responses";
    type Encoder = Compaction;

    async fn decode(&self, call: &Call<'_>, bytes: &Bytes) -> Result<(ChatRequest, Compaction), Error> {
        let (app, headers) = (call.app, &call.parts.headers);
        let sent = call.parse(bytes)?;
        request::check(&sent)?;
        let before = match sent.given("previous_response_id") {
            Some(id) => storage::before(app, call.parts, id.str_or_empty()).await?,
            None => Vec::new(),
        };
        call.count(&before)?;
        storage::resolve(app, headers, &sent, &before).await?;
        let same = SAME.into_iter().filter_map(|key| Some((key, sent.given(key)?)));
        let items = request::items(&sent.field("input"))?;
        let tools = tools_of(before.iter().chain(&items));
        let whole = Json::from_fields(same.chain([("tools", tools.into()), ("tool_choice", "none".into())]));
        let request = request::read(whole, before)?;
        if let Some(messages) = request.chat.field("messages").as_array() {
            let ask = Json::from([("role", "user".into()), ("content", request::COMPACT.into())]);
            messages.push(ask).map_err(|error| Error::Host(error.to_string()))?;
        }
        let kept = request.items().into_iter().filter(is_of_user).collect();
        Ok((ChatRequest::new(request.chat)?, Compaction { kept }))
    }
}

/// Returns the tools that a conversation calls, because providers reject calls of unlisted tools.
fn tools_of<'a>(items: impl Iterator<Item = &'a Json>) -> Vec<Json> {
    let mut tools = BTreeMap::new();
    for item in items {
        let name = match item.text("namespace").filter(|space| !space.is_empty()) {
            Some(space) => joined(&space, &item.text_or_empty("name")),
            None => item.string("name"),
        };
        match item.text("type").as_deref() {
            Some("function_call") => {
                let form = Json::from([("type", "object".into())]);
                let tool =
                    [("type", "function".into()), ("name", name.as_str().into()), ("parameters", form)];
                tools.insert(name, Json::from(tool));
            }
            Some("custom_tool_call") => {
                let tool = [("type", "custom".into()), ("name", name.as_str().into())];
                tools.insert(name, Json::from(tool));
            }
            _ => {}
        }
    }
    tools.into_values().collect()
}

fn is_of_user(item: &Json) -> bool {
    item.is_text("type", "message") && item.is_text("role", "user")
}

/// Writes the compacted conversation.
pub(super) struct Compaction {
    /// The messages of the user.
    kept: Vec<Json>,
}

impl Encoder for Compaction {
    async fn encode(self, answer: Json) -> Result<Json, Error> {
        first_choice::check(&answer)?;
        let choice = Json::from(response::first_choice(&answer));
        let summary = message::text_of(&choice.field("message"));
        if summary.is_empty() {
            return Err(Error::Misshapen { message: NO_SUMMARY.into() });
        }
        let kept = self.kept.iter().map(|item| {
            let item = item.deep_clone();

            item.put("status", "completed");
            item
        });
        let output: Vec<Json> = kept.chain([responses::answer::compaction(&summary)]).collect();
        let counted = answer.get("usage").filter(|usage| !usage.is_null()).unwrap_or_else(Json::object);
        Ok(Json::from([
            ("id", new_id("resp").into()),
            ("object", "response.compaction".into()),
            ("created_at", now().into()),
            ("output", output.into()),
            ("usage", usage::write(&counted)),
        ]))
    }

    /// A compaction is not streamed.
    fn encode_chunk(&mut self, _: Chunk) -> Bytes {
        Bytes::new()
    }

    fn encode_end(self, _: Result<Json, Error>) -> BoxFuture<'static, Bytes> {
        Box::pin(std::future::ready(Bytes::new()))
    }

    fn encode_error(error: Error) -> Response {
        unlogged(&error)
    }
}
