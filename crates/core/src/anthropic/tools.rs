//! Tools and the choice among them, both ways.

use super::part::{others, with_others};
use crate::fault::Fault;
use valvehouse_json::Json;

/// A tool in Anthropic's words. The tools Anthropic runs itself have no others.
pub(super) fn tool(tool: &Json, at: usize) -> Result<Json, Fault> {
    let function = match &*tool.text_or_empty("type") {
        "function" => tool.get("function").filter(|function| function.as_object().is_some()),
        "custom" if tool.get("input_schema").is_none() => {
            let message = format!(
                "tools[{at}] takes free text (type custom), which Anthropic's models cannot write; make it a \
                 function with parameters"
            );
            return Err(Fault::invalid(message, Some("tools")));
        }
        _ => return Ok(tool.copy()),
    };
    let Some(function) = function else {
        return Err(Fault::invalid(
            format!("tools[{at}].function is missing; it must be an object"),
            Some("tools"),
        ));
    };
    let no_parameters = || Json::from([("type", "object".into()), ("properties", Json::object())]);
    let schema = function.given("parameters").filter(|schema| !schema.is_empty());
    let fields = [
        ("name", function.field("name")),
        ("input_schema", schema.map_or_else(no_parameters, |schema| schema.copy())),
    ];
    let beside = others(&function, &["name", "parameters"]);
    Ok(with_others(fields, [beside, others(tool, &["type", "function"])].concat()))
}

/// A tool in OpenAI's words, where it is one the client runs.
pub(super) fn function(tool: &Json) -> Json {
    if tool.get("input_schema").is_none() || tool.text("type").is_some_and(|kind| kind != "custom") {
        return tool.copy();
    }
    let function = Json::from([("name", tool.field("name"))]);
    for key in ["description", "strict"] {
        if let Some(value) = tool.given(key) {
            // A copy in an object just made, here and below.
            function.put(key, value.copy());
        }
    }
    function.put("parameters", tool.field("input_schema").copy());
    let known = ["type", "name", "description", "strict", "input_schema"];
    with_others([("type", "function".into()), ("function", function)], others(tool, &known))
}

/// `tool_choice` in Anthropic's words; none where nothing is said, or there is nothing to choose from.
pub(super) fn choice(body: &Json) -> Result<Option<Json>, Fault> {
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
            Some("auto" | "any" | "none" | "tool") => Some(choice.copy()),
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

fn no_choice(given: &str) -> Fault {
    let message = format!(
        "tool_choice is {given}, which Anthropic's models do not know; use auto, none, required or one function"
    );
    Fault::invalid(message, Some("tool_choice"))
}

/// `tool_choice` in OpenAI's words, and whether several calls at once may come of it.
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
