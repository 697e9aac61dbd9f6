//! Conversion of tools and `tool_choice` between the Anthropic and the OpenAI format.

use super::part::{others, with_others};
use valvehouse_core::error::Error;
use valvehouse_json::Json;

/// Converts a tool to Anthropic's format. Tools that Anthropic runs itself are copied.
pub(super) fn tool(tool: &Json, at: usize) -> Result<Json, Error> {
    let function = match &*tool.text_or_empty("type") {
        "function" => tool.get("function").filter(|function| function.as_object().is_some()),
        "custom" if tool.get("input_schema").is_none() => {
            let message = format!(
                "cannot send tools[{at}] to Anthropic's models: it takes free-form text (type custom); make it a \
                 function with parameters"
            );
            return Err(Error::invalid(message, Some("tools")));
        }
        _ => return Ok(tool.deep_clone()),
    };
    let Some(function) = function else {
        return Err(Error::invalid(format!("missing tools[{at}].function; send an object"), Some("tools")));
    };
    let no_parameters = || Json::from([("type", "object".into()), ("properties", Json::object())]);
    let schema = function.given("parameters").filter(|schema| !schema.is_empty());
    let fields = [
        ("name", function.field("name")),
        ("input_schema", schema.map_or_else(no_parameters, |schema| schema.deep_clone())),
    ];
    let beside = others(&function, &["name", "parameters"]);
    // A second form of the tool, which filters do not see, must not replace the first.
    let form = ["type", "function", "name", "description", "strict", "input_schema", "parameters"];
    Ok(with_others(fields, [beside, others(tool, &form)].concat()))
}

/// Converts a client tool to OpenAI's format. Other tools are copied.
pub(super) fn function(tool: &Json) -> Json {
    if tool.get("input_schema").is_none() || tool.text("type").is_some_and(|kind| kind != "custom") {
        return tool.deep_clone();
    }
    let function = Json::from([("name", tool.field("name"))]);
    for key in ["description", "strict"] {
        if let Some(value) = tool.given(key) {
            // The object is new and the value is a copy, so this write and those below cannot fail.
            function.put(key, value.deep_clone());
        }
    }
    function.put("parameters", tool.field("input_schema").deep_clone());
    let known = ["type", "name", "description", "strict", "input_schema"];
    with_others([("type", "function".into()), ("function", function)], others(tool, &known))
}

/// Converts `tool_choice` to Anthropic's format; `None` if it is missing or there are no tools.
pub(super) fn choice(body: &Json) -> Result<Option<Json>, Error> {
    if body.get("tools").is_none_or(|tools| tools.is_empty()) {
        return Ok(None);
    }
    let one_at_a_time = body.get("parallel_tool_calls").and_then(|many| many.as_bool()) == Some(false);
    let word = |word: &str| Some(Json::from([("type", word.into())]));
    let choice = match body.given("tool_choice") {
        None if one_at_a_time => word("auto"),
        None => None,
        Some(Json::Text(text)) => match &*text {
            "auto" | "none" => word(&text),
            "required" | "any" => word("any"),
            _ => return Err(no_choice(&format!("\"{text}\""))),
        },
        Some(choice) => match choice.text("type").as_deref() {
            Some("function") => {
                let name = choice.at_path("function.name");
                Some(Json::from([("type", "tool".into()), ("name", name)]))
            }
            Some("auto" | "any" | "none" | "tool") => Some(choice.deep_clone()),
            _ => return Err(no_choice(&choice.to_string())),
        },
    };
    if let Some(choice) = choice
        .as_ref()
        .filter(|choice| one_at_a_time && choice.text("type").is_some_and(|kind| kind != "none"))
    {
        choice.edit("disable_parallel_tool_use", true);
    }
    Ok(choice)
}

fn no_choice(given: &str) -> Error {
    let message = format!("invalid tool_choice: expected auto, none, required or one function, got {given}");
    Error::invalid(message, Some("tool_choice"))
}

/// Converts `tool_choice` to OpenAI's format. The second value is `parallel_tool_calls`, if specified.
pub(super) fn openai_choice(choice: &Json) -> (Json, Option<bool>) {
    let parallel = choice.get("disable_parallel_tool_use").and_then(|no| no.as_bool());
    let choice = match &*choice.text_or_empty("type") {
        "any" => "required".into(),
        "tool" => {
            let function = Json::from([("name", choice.field("name"))]);
            Json::from([("type", "function".into()), ("function", function)])
        }
        word => word.into(),
    };
    (choice, parallel.filter(|disabled| *disabled).map(|disabled| !disabled))
}
