//! Fits a request to the service that is asked: what only services of its client's own API can be sent is left out.

use super::contract::{Provider, RESPONSES, Request};
use crate::anthropic::{self, ONLY_ANTHROPIC};
use crate::chat::{items, message};
use crate::fault::Fault;
use valvehouse_json::{Json, Object};

/// The route of providers that are asked over Anthropic's Messages.
pub const COUNT_TOKENS: &str = "messages/count_tokens";

/// The field of a chat request in which a client of the Responses API says what a chat has no words for. Hosted tools
/// stand in `tools` beside it, as that client sent them.
pub const ONLY_RESPONSES: &str = "responses";

/// Returns the request as the service of a provider is sent it. The names of what is left out are recorded for the
/// header of the answer, in the trace and in the log. A provider that chooses between services is passed the request
/// as it is, and fits it for each.
///
/// # Errors
/// Returns a request fault if the request forces a hosted tool that the service does not have.
pub fn fit(provider: &dyn Provider, request: Request) -> Result<Request, Fault> {
    if provider.chooses() {
        return Ok(request);
    }
    let body = &request.body;
    let (names, fitted) = if body.get(ONLY_RESPONSES).is_some() {
        match provider.has_route(RESPONSES) {
            true => (Vec::new(), None),
            false => (hosted(body), Some(as_chat(body)?)),
        }
    } else if body.get(ONLY_ANTHROPIC).is_some() {
        match provider.has_route(COUNT_TOKENS) {
            true => (Vec::new(), None),
            // Its fields are taken out where the service is asked.
            false => (anthropic::left_out(body), None),
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

/// Returns `true` if a tool of a request is one that a service runs itself.
fn is_hosted(tool: &Json) -> bool {
    tool.text("type").is_some_and(|kind| !matches!(&*kind, "function" | "custom"))
}

/// The types of the hosted tools of a request, and of the items of such tools in its conversation.
fn hosted(body: &Json) -> Vec<String> {
    let tools = body.list("tools").into_iter().filter(is_hosted);
    let items = body.list("messages").into_iter().flat_map(|message| items::of(&message));
    let items =
        items.map(|(_, item)| item).filter(|item| item.text("type").is_none_or(|kind| kind != "reasoning"));
    let mut names: Vec<String> = tools.chain(items).map(|own| own.string("type")).collect();
    names.sort();
    names.dedup();
    names
}

/// The request without what only a service of the Responses API can be sent.
fn as_chat(body: &Json) -> Result<Json, Fault> {
    let choice = body.field("tool_choice");
    if is_hosted(&choice) {
        let kind = choice.text_or_empty("type");
        return Err(Fault::invalid(
            format!(
                "cannot force the tool `{kind}`: only its own service has it; choose a function or `auto`"
            ),
            Some("tool_choice"),
        ));
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
    Ok(fields.collect::<Object>().into())
}

/// Returns `true` for a message of the model that is nothing but items of its service.
fn is_items_alone(message: &Json) -> bool {
    !items::of(message).is_empty()
        && message.get("tool_calls").is_none()
        && message.get("refusal").is_none_or(|refusal| refusal.is_null())
        && message::text_of(message).is_empty()
}
