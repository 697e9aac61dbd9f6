//! Reads the prompts and resources that a script serves, when it is loaded.
//!
//! Each is called like a tool, with the same filters, budget, timeout and trace.

use super::declaration::pointer;
use super::function::{Role, ServedFunction, ToolFunction};
use crate::declare::schedule::FunctionRef;
use crate::diagnostic::{Code, Diagnostic};
use crate::script::Script;
use rhai::Dynamic;
use valvehouse_core::limits::unknown_keys;
use valvehouse_dialect::answer::summary_of_run;
use valvehouse_dialect::value::json_of;
use valvehouse_json::{Json, Object};

/// The help for declarations of prompts and resources.
const LISTS: &str = "return a list of maps from `fn prompts()`, `[#{ name: \"review\", description: \"…\", \
                     arguments: [#{ name: \"code\", required: true }], handler: review }]`; return a list \
                     of `#{ uri: \"notes://all\", name: \"…\", description: \"…\", mimeType: \"…\" }` from \
                     `fn resources()`, for templates with `uriTemplate` instead of `uri`; return the \
                     content of one resource from `fn resource(uri)`";
/// The maximum number of prompts of one script; resources have the same limit.
const MAX_ENTRIES: usize = 256;
/// The keys of a prompt.
const PROMPT: [&str; 9] =
    ["name", "title", "description", "arguments", "handler", "complete", "icons", "timeout", "filters"];
/// The keys of a prompt's argument.
const ARGUMENT: [&str; 4] = ["name", "title", "description", "required"];
/// The keys of a resource.
const RESOURCE: [&str; 10] = [
    "uri",
    "uriTemplate",
    "name",
    "title",
    "description",
    "mimeType",
    "size",
    "icons",
    "annotations",
    "complete",
];

/// Returns the prompts and resources of a script, and the problems of those that are left out.
pub(crate) fn read(script: &Script, source: &str) -> (Vec<ServedFunction>, Vec<Diagnostic>) {
    let has = |name: &str| script.functions().any(|function| function.name == name);
    let (mut served, mut problems) = (Vec::new(), Vec::new());
    let mut failed = |function: &str, why: &str| {
        let problem = Diagnostic::of(Code::BadToolList, &script.file, format!("`{function}()` {why}"));
        problems.push(problem.at_function(source, function).help(LISTS));
    };
    if has("prompts") {
        match list(script, "prompts") {
            Ok(entries) => {
                for entry in &entries {
                    match prompt(script, entry) {
                        Ok(more) => served.extend(more),
                        Err(why) => failed("prompts", &why),
                    }
                }
            }
            Err(why) => failed("prompts", &why),
        }
    }
    match (
        has("resources"),
        script.functions().any(|function| function.name == "resource" && function.params.len() == 1),
    ) {
        (true, true) => match list(script, "resources").and_then(|entries| resources(script, &entries)) {
            Ok(more) => served.extend(more),
            Err(why) => failed("resources", &why),
        },
        (true, false) => {
            failed("resources", "needs `fn resource(uri)`, which returns the content of one resource")
        }
        (false, _) => {}
    }
    (served, problems)
}

fn list(script: &Script, function: &str) -> Result<Vec<Dynamic>, String> {
    let listed =
        script.list(function).map_err(|error| format!("failed: {}", summary_of_run(&error)))?.flatten();
    match listed.as_array_ref() {
        Ok(entries) if entries.len() > MAX_ENTRIES => {
            Err(format!("lists {} entries, which exceeds the limit of {MAX_ENTRIES}", entries.len()))
        }
        Ok(entries) => Ok(entries.to_vec()),
        Err(kind) => Err(format!("returned {kind}; expected a list of maps")),
    }
}

/// Reads an entry: its values and its functions.
fn entry_of(
    entry: &Dynamic,
    keys: &[&str],
) -> Result<(Json, Option<FunctionRef>, Option<FunctionRef>), String> {
    let map =
        entry.as_map_ref().map_err(|kind| format!("lists an invalid entry: expected a map, got {kind}"))?;
    let handler = map.get("handler").map(pointer).transpose()?;
    let complete =
        map.get("complete").map(|given| pointer(given).map_err(|why| why.replace("handler", "complete")));
    let complete = complete.transpose()?;
    let mut rest = rhai::Map::clone(&map);
    rest.remove("handler");
    rest.remove("complete");
    let declared = json_of(&rest.into()).map_err(|error| summary_of_run(&error))?;
    match unknown_keys(&declared, keys).first() {
        Some(unknown) => Err(format!("lists an entry that {unknown}")),
        None => Ok((declared, handler, complete)),
    }
}

/// Returns a prompt and, if it has one, the completion of its arguments.
fn prompt(script: &Script, entry: &Dynamic) -> Result<Vec<ServedFunction>, String> {
    let (declared, handler, complete) = entry_of(entry, &PROMPT)?;
    let name = declared.text_or_empty("name");
    let handler = handler.ok_or_else(|| format!("lists the prompt `{name}` without a `handler`"))?;
    let arguments = match declared.field("arguments") {
        Json::Null => Vec::new(),
        Json::Array(arguments) => arguments.items(),
        other => {
            return Err(format!(
                "lists the prompt `{name}` with invalid `arguments`: expected a list, got {}",
                other.kind()
            ));
        }
    };
    let parameters = Json::object();
    for argument in &arguments {
        let unknown = unknown_keys(argument, &ARGUMENT).into_iter().next().map(|unknown| unknown.message);
        let own = argument.text("name").filter(|own| !own.is_empty());
        let (Some(own), None) = (own, &unknown) else {
            let why = unknown.unwrap_or_else(|| "has no `name`".into());
            return Err(format!("lists the prompt `{name}` with an argument that {why}"));
        };
        let required = argument.is_true("required");
        let description = argument.text_or_empty("description");
        let parameter = Json::from([
            ("type", "string".into()),
            ("description", description.as_str().into()),
            ("required", required.into()),
        ]);
        // A new value in a new object cannot create a cycle.
        parameters.edit(&own, parameter);
    }
    let described = parts(&declared, &["name", "title", "description", "arguments", "icons"]);
    let spec = parts(&declared, &["name", "description", "timeout", "filters"]);
    for (key, value) in [
        ("tag", "prompt".into()),
        ("parameters", parameters),
        ("metadata", Json::from([("prompt", described)])),
    ] {
        // Cannot fail, as above.
        spec.edit(key, value);
    }
    let function = ToolFunction::new(script, spec, &handler, &[], None)
        .map_err(|wrong| format!("lists an invalid prompt: {wrong}"))?;
    let complete = complete.map(|complete| completion(script, &complete, &name)).transpose()?;
    Ok(std::iter::once(ServedFunction { role: Role::Prompt, function }).chain(complete).collect())
}

/// Returns the function that reads resources, and the completions of templates.
fn resources(script: &Script, entries: &[Dynamic]) -> Result<Vec<ServedFunction>, String> {
    let (mut listed, mut templates, mut served) = (Vec::new(), Vec::new(), Vec::new());
    for entry in entries {
        let (declared, _, complete) = entry_of(entry, &RESOURCE)?;
        let text = |key: &str| declared.text(key).filter(|text| text.contains(':'));
        let (key, uri) = match (text("uri"), text("uriTemplate")) {
            (Some(uri), None) => ("uri", uri),
            (None, Some(template)) => ("uriTemplate", template),
            _ => {
                let why = "lists an entry without a `uri` or `uriTemplate`, such as \"notes://all\" or \"notes://{id}\"";
                return Err(why.to_owned());
            }
        };
        if declared.text("name").is_none() {
            // The entry is a copy without other references.
            declared.edit("name", uri.as_str());
        }
        if let Some(complete) = complete {
            served.push(completion(script, &complete, &uri)?);
        }
        if key == "uri" { listed.push(declared) } else { templates.push(declared) }
    }
    let spec = Json::from([
        ("name", "resource".into()),
        ("description", format!("Resources of {}", script.id()).into()),
        ("tag", "resource".into()),
        (
            "parameters",
            Json::from([("uri", Json::from([("type", "string".into()), ("required", true.into())]))]),
        ),
        ("metadata", Json::from([("resources", listed.into()), ("templates", templates.into())])),
    ]);
    let handler = FunctionRef::from_name("resource");
    let function = ToolFunction::new(script, spec, &handler, &[], Some("uri"))
        .map_err(|wrong| format!("lists an invalid resource: {wrong}"))?;
    served.push(ServedFunction { role: Role::Resource, function });
    Ok(served)
}

fn completion(script: &Script, handler: &FunctionRef, of: &str) -> Result<ServedFunction, String> {
    let text = || Json::from([("type", "string".into()), ("required", true.into())]);
    let spec = Json::from([
        ("name", "complete".into()),
        ("description", format!("Completes an argument of {of}").into()),
        ("tag", "completion".into()),
        (
            "parameters",
            Json::from([
                ("argument", text()),
                ("value", text()),
                ("arguments", Json::from([("type", "object".into())])),
            ]),
        ),
        ("metadata", Json::from([("of", of.into())])),
    ]);
    let function = ToolFunction::new(script, spec, handler, &[], None)
        .map_err(|wrong| format!("lists an invalid `complete`: {wrong}"))?;
    Ok(ServedFunction { role: Role::Completion, function })
}

/// Returns a copy of the keys that a declaration contains.
fn parts(declared: &Json, keys: &[&str]) -> Json {
    let given = keys.iter().filter_map(|key| Some(((*key).into(), declared.get(key)?.deep_clone())));
    Json::Object(given.collect::<Object>())
}
