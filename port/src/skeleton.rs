//! The test of a draft.

use crate::plugin::Plugin;
use crate::python::{Function, ParamKind};
use crate::schema::Schema;
use crate::value::Value;
use std::collections::BTreeSet;

/// Returns a test that calls each hook or tool.
pub(crate) fn test(
    plugin: &Plugin<'_>,
    id: &str,
    tools: &[&Function],
    capabilities: &BTreeSet<&'static str>,
    hooks: &[&str],
) -> String {
    let mut canned = String::new();
    if capabilities.contains("http") {
        canned.push_str("    canned::http(\"*\", #{ json: #{} });\n");
    }
    if capabilities.contains("llm") {
        canned.push_str("    canned::model(\"An answer\");\n");
    }
    // The test presses the first button.
    let buttons = plugin.initial.get("actions").and_then(|list| Value::of(list, &plugin.constants));
    let first = match &buttons {
        Some(Value::List(all)) => all.first(),
        _ => None,
    };
    let fields = match first {
        Some(Value::Map(fields)) => fields.as_slice(),
        _ => &[],
    };
    let first = fields.iter().find(|(name, _)| name == "id");
    let button = first.map_or_else(String::new, |(_, id)| format!(", {}", id.code()));
    let mut out = format!(
        "// Run with: valvehouse test {id}\n// A starting point: replace these with tests of the plugin's behavior.\n"
    );
    for hook in hooks {
        let test = match *hook {
            "inlet" => {
                "fn test_the_question_stays() {
CANNED    let body = inlet(conversation([\"hello\"]));
    assert_eq(body.messages.last(\"user\").text, \"hello\");
}"
            }
            "pre_chat" => {
                "fn test_the_model_is_asked() {
CANNED    let ctx = pre_chat(#{ messages: conversation([\"hello\"]).messages });
    assert_eq(ctx.messages.last(\"user\").text, \"hello\");
}"
            }
            "stream" => {
                "fn test_the_answer_is_streamed() {
CANNED    let seen = stream([\"An \", \"answer\"]);
    assert_eq(seen.text, \"An answer\");
}"
            }
            "outlet" => {
                "fn test_the_answer_stays() {
CANNED    let body = outlet(conversation([\"hello\", \"An answer\"]));
    assert_contains(body.messages[-1].text, \"An answer\");
}"
            }
            "pipe" => {
                "fn test_it_answers() {
CANNED    let answer = chat(\"hello\");
    assert(answer.text != \"not yet\");
}"
            }
            "action" => {
                "fn test_the_button_is_pressed() {
CANNED    let result = action(\"An answer\"BUTTON);
    assert(result != \"not yet\");
}"
            }
            _ => continue,
        };
        out.push('\n');
        out.push_str(&test.replace("CANNED", &canned).replace("BUTTON", &button));
        out.push('\n');
    }
    for tool in tools {
        let args: Vec<String> = tool
            .params
            .iter()
            .skip(1)
            .filter_map(|param| {
                if param.name.starts_with("__") || param.default.is_some() || param.kind != ParamKind::Plain {
                    return None;
                }
                let schema = param
                    .annotation
                    .as_ref()
                    .map(|one| Schema::of(one, &plugin.constants))
                    .unwrap_or_default();
                let value = match (schema.choices.first(), schema.kind) {
                    (Some(value), _) => value.code(),
                    (None, Some("integer")) => "1".to_owned(),
                    (None, Some("number")) => "1.0".to_owned(),
                    (None, Some("boolean")) => "true".to_owned(),
                    (None, Some("array")) => "[]".to_owned(),
                    (None, Some("object")) => "#{}".to_owned(),
                    _ => Value::Text(param.name.replace('_', " ")).code(),
                };
                Some(format!("{}: {value}", crate::names::key(&param.name)))
            })
            .collect();
        let args = crate::value::map(&args);
        let call = if tools.len() == 1 {
            format!("invoke({args})")
        } else {
            format!("invoke(\"{}\", {args})", tool.name)
        };
        let name = crate::names::variable(&tool.name).to_lowercase();
        out.push_str(&format!(
            "\nfn test_{name}() {{\n{canned}    let result = {};\n    assert(result != \"not yet\");\n}}\n",
            call.replace('\n', "\n    ")
        ));
    }
    if hooks.is_empty() && tools.is_empty() {
        out.push_str("\nfn test_nothing_yet() {\n    assert(true);\n}\n");
    }
    out
}
