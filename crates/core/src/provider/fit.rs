//! Adaptation of a request to its provider: settings that only the API of the client supports are omitted.

use super::contract::{Provider, RESPONSES, Request};
use crate::chat::items::ADDITIONAL_TOOLS;
use crate::chat::{ONLY_ANTHROPIC, left_out};
use crate::chat::{items, message};
use crate::error::Error;
use valvehouse_json::{Json, Object};

/// The route of providers that use the Anthropic Messages API.
pub const COUNT_TOKENS: &str = "messages/count_tokens";

/// The field of a chat request that holds settings of a Responses API client without an equivalent in chats.
/// Hosted tools are in `tools`, unchanged.
pub const ONLY_RESPONSES: &str = "responses";

/// Adapts a request to a provider. The names of the omitted settings are recorded for the response header, the
/// trace and the log. If the provider chooses among several providers, the request is returned unchanged,
/// because it is adapted for each of them.
///
/// # Errors
/// Returns a request error if the request forces a hosted tool that the provider does not support.
pub fn fit(provider: &dyn Provider, request: Request) -> Result<Request, Error> {
    if provider.chooses() {
        return Ok(request);
    }
    let body = &request.body;
    let (names, fitted) = if body.get(ONLY_RESPONSES).is_some() {
        match provider.has_route(RESPONSES) {
            true => (Vec::new(), None),
            false => (hosted(body), Some(as_chat(body, provider.has_route(COUNT_TOKENS))?)),
        }
    } else if body.get(ONLY_ANTHROPIC).is_some() {
        match provider.has_route(COUNT_TOKENS) {
            true => (Vec::new(), None),
            // The provider removes these fields itself.
            false => (left_out(body), None),
        }
    } else {
        return Ok(request);
    };
    if let Some(turn) = &request.turn {
        if let (false, Some(trace)) = (names.is_empty(), turn.trace()) {
            trace.left_out(provider.name(), &names);
        }
        turn.exchange().leave_out(provider.name(), names);
    }
    Ok(match fitted {
        Some(body) => Request { body, ..request },
        None => request,
    })
}

/// Returns `true` if a service runs a tool of a request itself.
fn is_hosted(tool: &Json) -> bool {
    tool.text("type").is_some_and(|kind| !matches!(&*kind, "function" | "custom"))
}

/// Returns the types of the hosted tools in a request, and of their items in its conversation.
fn hosted(body: &Json) -> Vec<String> {
    let tools = body.list("tools").into_iter().filter(is_hosted);
    let items = body.list("messages").into_iter().flat_map(|message| items::of(&message));
    // Additional tools are tools of the request.
    let is_left_out = |kind: &str| !matches!(kind, "reasoning" | "message" | ADDITIONAL_TOOLS);
    let items = items.filter(|item| is_left_out(&item.text_or_empty("type")));
    let mut names: Vec<String> = tools.chain(items).map(|own| own.string("type")).collect();
    names.sort();
    names.dedup();
    names
}

/// Returns the request without the settings that only the Responses API supports. A provider with Anthropic's API
/// receives `reasoning`, because a summary asks it for thinking.
fn as_chat(body: &Json, is_anthropic: bool) -> Result<Json, Error> {
    let choice = body.field("tool_choice");
    if is_hosted(&choice) {
        let kind = choice.text_or_empty("type");
        return Err(Error::invalid(
            format!(
                "cannot force the tool `{kind}`: only its own service has it; choose a function or `auto`"
            ),
            Some("tool_choice"),
        ));
    }
    let is_compaction = |item: &Json| item.text_or_empty("type").starts_with("compaction");
    if body.list("messages").iter().flat_map(items::of).any(|item| is_compaction(&item)) {
        let why = "cannot read an item of the type `compaction` in input: only the service that made it can; send the \
                   items themselves";
        return Err(Error::invalid(why, Some("input")));
    }
    let tools: Vec<Json> = body.list("tools").into_iter().filter(|tool| !is_hosted(tool)).collect();
    let without =
        |key: &str| key == ONLY_RESPONSES || (tools.is_empty() && matches!(key, "tools" | "tool_choice"));
    let fields = body.entries().into_iter().filter(|(key, _)| !without(key)).map(|(key, value)| {
        let value = match key.as_str() {
            "tools" => tools.clone().into(),
            "messages" => value
                .items()
                .into_iter()
                .filter(|message| !is_items_alone(message))
                .collect::<Vec<_>>()
                .into(),
            _ => value,
        };
        (key, value)
    });
    let chat: Object = fields.collect();
    if let Some(reasoning) = body.field(ONLY_RESPONSES).given("reasoning").filter(|_| is_anthropic) {
        chat.edit("reasoning", reasoning);
    }
    Ok(chat.into())
}

/// Returns `true` for a message of the model that consists only of items of its provider.
fn is_items_alone(message: &Json) -> bool {
    !items::of(message).is_empty()
        && message.get("tool_calls").is_none()
        && message.get("refusal").is_none_or(|rejection| rejection.is_null())
        && message::text_of(message).is_empty()
}
