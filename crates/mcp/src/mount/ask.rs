//! Questions of MCP servers to the user of a turn.

use super::guarded_call::GuardedCall;
use rmcp::model::{
    ElicitRequestParams, ElicitResult, ElicitationAction, InputRequest, InputRequests, InputResponses,
};
use serde_json::{Map, Value, json};
use std::time::Duration;
use valvehouse_core::text::yes_or_no;
use valvehouse_json::Json;

/// Asks the client of a turn the questions that a call of a server waits for, and returns the answers by
/// name.
///
/// # Errors
/// Returns the reason if no client answers, or if the server requests something other than an answer of the
/// user.
pub(super) async fn answers(
    server: &str,
    call: &GuardedCall,
    requests: InputRequests,
    timeout: Duration,
) -> Result<InputResponses, String> {
    let mut answers = InputResponses::new();
    for (name, request) in requests {
        let InputRequest::Elicitation(request) = request else {
            return Err(format!(
                "the server `{server}` is not allowed to use models or folders of this host (sampling, roots)"
            ));
        };
        let result = elicit(server, call, &request.params, timeout).await?;
        answers.insert(name, serde_json::to_value(result).map_err(|error| error.to_string())?);
    }
    Ok(answers)
}

/// Asks one question. The question and the answer pass the guards of the call.
///
/// # Errors
/// Returns the reason if a guard refuses, if no client answers, or if the answer does not match the server's form.
pub(super) async fn elicit(
    server: &str,
    call: &GuardedCall,
    params: &ElicitRequestParams,
    timeout: Duration,
) -> Result<ElicitResult, String> {
    let mut data = serde_json::to_value(params).map_err(|error| error.to_string())?;
    if let Some(fields) = data.as_object_mut() {
        fields.remove("_meta");
    }
    let shown = call.shown(Json::from(data)).await;
    let shown =
        shown.map_err(|why| format!("a question of the server `{server}` is not passed on: {why}"))?;
    let mut data = Value::from(&shown);
    let Some(fields) = data.as_object_mut() else {
        return Err(format!("a guard removed a question of the server `{server}`"));
    };
    // The text comes from the server, so it is prefixed with the server's name.
    let text = fields.get("message").and_then(Value::as_str).map_or_else(String::new, str::to_owned);
    fields.insert("message".into(), format!("{server}: {text}").into());
    let schema = fields.get("requestedSchema").cloned().unwrap_or(Value::Null);
    let question = Json::from([("type", "elicitation".into()), ("data", Json::from(data))]);
    let answer = call.turn.ask(server, question, timeout).await;
    let answer =
        answer.map_err(|nobody| format!("the server `{server}` has a question: {text}; {nobody}"))?;
    let result = result(&Value::from(&answer), &schema);
    let mut result = result.map_err(|why| format!("the answer to `{server}` {why}"))?;
    if let Some(content) = result.content.take() {
        let sent = call.sent(Json::from(content)).await;
        let sent = sent.map_err(|why| format!("the answer to `{server}` is not passed on: {why}"))?;
        result.content = Some(Value::from(&sent));
    }
    Ok(result)
}

/// Converts an answer to the form of MCP. The answer may be `{action, content}`, the fields of the form, its
/// only field, or yes or no. Missing fields get the defaults of the form.
fn result(answer: &Value, schema: &Value) -> Result<ElicitResult, String> {
    let none = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let given = match answer {
        Value::Object(fields) if fields.get("action").is_some_and(|action| is_action(action, properties)) => {
            match fields.get("action").and_then(Value::as_str) {
                Some("accept") => fields.get("content").cloned(),
                Some("decline") => return Ok(ElicitResult::new(ElicitationAction::Decline)),
                _ => return Ok(ElicitResult::new(ElicitationAction::Cancel)),
            }
        }
        Value::Null | Value::Bool(false) => return Ok(ElicitResult::new(ElicitationAction::Decline)),
        Value::Bool(true) => None,
        Value::String(line) if line.is_empty() || yes_or_no(line) == Some(false) => {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        }
        Value::String(line) if yes_or_no(line) == Some(true) => None,
        Value::Object(_) => Some(answer.clone()),
        other => match properties.keys().next() {
            Some(only) if properties.len() == 1 => Some(json!({ only: other })),
            _ => return Err("is not an object with the fields of its form".into()),
        },
    };
    let mut content = match given {
        Some(Value::Object(content)) => content,
        Some(Value::Null) | None => Map::new(),
        Some(_) => return Err("has a `content` that is not an object".into()),
    };
    for (name, property) in properties {
        if let (false, Some(usual)) = (content.contains_key(name), property.get("default")) {
            content.insert(name.clone(), usual.clone());
        }
    }
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    if let Some(missing) = required.filter_map(Value::as_str).find(|name| !content.contains_key(*name)) {
        return Err(format!("is missing the field `{missing}`"));
    }
    // A question that opens a URL has no form and no content.
    let accepted = ElicitResult::new(ElicitationAction::Accept);
    Ok(if schema.is_null() { accepted } else { accepted.with_content(Value::Object(content)) })
}

/// Returns `true` if `action` is an action of MCP and not a field of the form.
fn is_action(action: &Value, properties: &Map<String, Value>) -> bool {
    !properties.contains_key("action")
        && action.as_str().is_some_and(|action| ["accept", "decline", "cancel"].contains(&action))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(answer: Value) -> Result<Value, String> {
        let schema = json!({ "type": "object", "required": ["name"], "properties": {
            "name": { "type": "string", "default": "Ann" }, "age": { "type": "integer" } } });
        result(&answer, &schema).map(|result| serde_json::to_value(result).unwrap())
    }

    #[test]
    fn a_form_answer_gets_defaults_and_must_have_required_fields() {
        let accepted = |content: Value| Ok(json!({ "action": "accept", "content": content }));
        assert_eq!(read(json!({ "action": "accept" })), accepted(json!({ "name": "Ann" })));
        assert_eq!(read(json!("yes")), accepted(json!({ "name": "Ann" })));
        assert_eq!(read(json!({ "age": 7, "name": "Bo" })), accepted(json!({ "age": 7, "name": "Bo" })));
        for no in
            [json!(null), json!(false), json!(""), json!("n"), json!({ "action": "decline", "content": {} })]
        {
            assert_eq!(read(no), Ok(json!({ "action": "decline" })));
        }
        assert_eq!(read(json!({ "action": "cancel" })), Ok(json!({ "action": "cancel" })));
        assert!(read(json!(7)).unwrap_err().contains("fields of its form"));
        let schema = json!({ "properties": { "city": {} }, "required": ["city"] });
        assert_eq!(result(&json!("Oslo"), &schema).unwrap().content, Some(json!({ "city": "Oslo" })));
        assert!(result(&json!(true), &schema).unwrap_err().contains("is missing the field `city`"));
        // The form has a field named `action`.
        let schema = json!({ "properties": { "action": {} } });
        assert_eq!(
            result(&json!({ "action": "decline" }), &schema).unwrap().content,
            Some(json!({ "action": "decline" }))
        );
    }
}
