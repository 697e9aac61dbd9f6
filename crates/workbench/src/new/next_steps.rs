//! The suggested next commands.

use std::path::Path;
use std::sync::Arc;
use valvehouse_config::Config;
use valvehouse_core::filter::Hook;
use valvehouse_core::tool::SchemaDialect;
use valvehouse_json::Json;
use valvehouse_script::Script;
use valvehouse_terminal::{Paint, report, table};

/// A command and its purpose.
pub(super) struct Step {
    pub(super) command: String,
    why: &'static str,
}

fn step(command: impl Into<String>, why: &'static str) -> Step {
    Step { command: command.into(), why }
}

pub(super) fn shown(steps: &[Step], paint: Paint) -> String {
    let rows: Vec<Vec<String>> = steps
        .iter()
        .map(|Step { command, why }| vec![format!("  {}", paint.bold(command)), (*why).to_owned()])
        .collect();
    table(&rows)
}

/// Returns the next steps for a new script.
pub(super) fn of_script(config: &Config, id: &str, script: Option<Script>) -> Vec<Step> {
    let valvehouse = program(config);
    let test = step(format!("{valvehouse} test {id}"), "run its tests");
    let serve =
        step(format!("{valvehouse} serve"), "serve the project; a running host loads saved scripts at once");
    let Some(script) = script else {
        return vec![step(format!("{valvehouse} check {id}"), "show what is missing"), test, serve];
    };
    let hook = script.hooks().next();
    let script = Arc::new(script);
    let tools = script.tools(&Arc::default());
    let tries = match (tools.first(), hook) {
        (Some(scripted), _) => {
            let example = arguments(&scripted.tool.spec.to_tool_schema(SchemaDialect::OpenAi));
            let name = scripted.tool.name();
            step(format!("{valvehouse} invoke {name}{example}"), "call it, without a model")
        }
        (None, None) if !script.buttons().is_empty() => step(
            format!("{valvehouse} run action {id} --text \"an answer\""),
            "press its button, without a model",
        ),
        (None, None) if !script.offers().is_empty() => {
            step(format!("{valvehouse} run pipe {id} --text \"hello\""), "chat with it once")
        }
        (None, None) => step(format!("{valvehouse} check {id}"), "report errors and likely mistakes"),
        (None, Some(hook @ (Hook::PreInvocation | Hook::PostInvocation))) => {
            let call = r#"{"tool": "weather", "args": {}, "result": "sunny"}"#;
            step(format!("{valvehouse} run {hook} {id} --body '{call}'"), "show what it changes")
        }
        (None, Some(hook)) => {
            let text = if hook == Hook::Stream { "a streamed answer" } else { "hello" };
            step(format!("{valvehouse} run {hook} {id} --text \"{text}\""), "show what it changes")
        }
    };
    vec![test, tries, serve]
}

/// Returns the required arguments of a tool as words of a command line.
fn arguments(schema: &Json) -> String {
    let parameters = schema.at_path("function.parameters");
    let required = parameters.list("required");
    let properties = parameters.field("properties");
    let word = |name: &Json| {
        let name = name.as_str()?;
        let about = properties.get(name)?;
        let first = about.get("enum").and_then(|values| values.items().first().map(Json::deep_clone));
        let value = match (first, about.text("type").as_deref()) {
            (Some(Json::Text(text)), _) => text.to_string(),
            (Some(other), _) => other.to_string(),
            (None, Some("integer" | "number")) => "1".to_owned(),
            (None, Some("boolean")) => "true".to_owned(),
            (None, Some("array")) => "'[]'".to_owned(),
            (None, Some("object")) => "'{}'".to_owned(),
            _ => "…".to_owned(),
        };
        Some(format!(" {name}={value}"))
    };
    required.iter().filter_map(word).collect()
}

/// Returns the next steps for a new module.
pub(super) fn of_module(config: &Config, path: &Path) -> Vec<Step> {
    let valvehouse = program(config);
    let file = report::near(path);
    vec![
        step(format!("{valvehouse} test {}", file.with_extension("test.rhai").display()), "run its tests"),
        step(format!("{valvehouse} new filter house_style"), "a script to import it in"),
        step(format!("{valvehouse} serve"), "a saved module is live at once in all scripts that import it"),
    ]
}

/// Returns the next steps for a new project.
pub(super) fn of_project(folder: &Path) -> Vec<Step> {
    let mut steps = vec![
        step("valvehouse test", "run the tests of all scripts"),
        step("valvehouse chat --trace \"hello\"", "run a turn and show what each filter did"),
        step(
            "valvehouse dev",
            "serve on 127.0.0.1:9099 with a live view of scripts; use `serve` in production",
        ),
    ];
    if folder != Path::new(".") {
        steps.insert(0, step(format!("cd {}", folder.display()), "start in that folder"));
    }
    steps
}

/// Returns the command line of this program for a project.
fn program(config: &Config) -> String {
    let project = report::near(&config.project);
    match project.as_os_str().is_empty() {
        true => "valvehouse".to_owned(),
        false => format!("valvehouse --project {}", project.display()),
    }
}
