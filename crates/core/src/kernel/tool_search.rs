//! Tool search: the model is offered a search instead of all tools, and a script that calls several tools.

use super::assembly::Kernel;
use crate::context::Turn;
use crate::tool::{
    FIND_TOOLS, Handler, RUN_SCRIPT, SchemaDialect, Tool, ToolError, ToolResult, ToolSpec, blocking,
    is_entry_tool, ranked,
};
use futures_util::future::BoxFuture;
use valvehouse_json::Json;

/// The maximum length of a query, in bytes.
const MAX_QUERY: usize = 1_000;
/// The default and the maximum number of tools in a result.
const FOUND: usize = 5;
const MAX_FOUND: usize = 20;
/// The maximum number of modules listed if no tool was found.
const MAX_MODULES: usize = 30;

/// Returns the tool that searches the tools of the kernel that runs the turn. Its result is `{tools: [{name,
/// description}]}`, best match first. With `shows_parameters`, each entry also has `parameters` as JSON Schema.
pub fn find_tools(shows_parameters: bool) -> Tool {
    let declared = Json::from([
        ("query", parameter("string", "What the tool should do, in a few words")),
        ("limit", parameter("integer", "The most tools to find, 1 to 20; default 5")),
    ]);
    declared.field("query").edit("required", true);
    let limit = declared.field("limit");
    limit.edit("minimum", 1_usize);
    limit.edit("maximum", MAX_FOUND);
    let description = match shows_parameters {
        false => {
            "Finds tools by what they do. More tools exist than are listed: search before saying that something cannot be \
             done. The tools found can be called afterwards."
        }
        true => {
            "Finds tools by what they do, with their parameters. More tools exist than are listed: search before saying that \
             something cannot be done. Call the tools found by name, or in run_script."
        }
    };
    let tool = Tool::new(ToolSpec::new(FIND_TOOLS), FindTools { shows_parameters }).description(description);
    tool.parameters(&declared).expect("parameters are declared as they may be")
}

fn parameter(kind: &str, description: &str) -> Json {
    Json::from([("type", kind.into()), ("description", description.into())])
}

struct FindTools {
    shows_parameters: bool,
}

impl Handler for FindTools {
    fn call(&self, args: Json, turn: Turn) -> BoxFuture<'_, Result<ToolResult, ToolError>> {
        let shows_parameters = self.shows_parameters;
        Box::pin(async move {
            let query = args.string("query");
            if query.len() > MAX_QUERY {
                let length = query.len();
                return Err(ToolError::from(format!(
                    "cannot search for a text of {length} bytes: a query has at most {MAX_QUERY}; write a few words"
                ))
                .answer());
            }
            let limit = args.integer("limit");
            let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(FOUND).min(MAX_FOUND);
            let kernel = Kernel::of_turn(&turn).ok_or("cannot call tools outside of a turn")?;
            // Thousands of descriptions take longer than a task may.
            blocking(move || Ok(found(&kernel, &query, limit, shows_parameters).into())).await
        })
    }
}

/// Returns the tools that match a query, as the result for the model.
fn found(kernel: &Kernel, query: &str, limit: usize, shows_parameters: bool) -> Json {
    let tools: Vec<&Tool> = kernel.toolbox().iter().filter(|tool| !is_entry_tool(tool.name())).collect();
    let described = |tool: &Tool| {
        let description = tool.spec.description.as_str();
        let entry = Json::from([("name", tool.name().into()), ("description", description.into())]);
        if shows_parameters {
            entry.edit("parameters", tool.spec.parameters.schema().deep_clone());
        }
        entry
    };
    let found: Vec<Json> = ranked(&tools, query).into_iter().take(limit).map(described).collect();
    let result = Json::object();
    if found.is_empty() {
        let mut modules: Vec<&str> = tools.iter().map(|tool| module_of(tool)).collect();
        modules.sort_unstable();
        modules.dedup();
        let more = modules.len().saturating_sub(MAX_MODULES);
        modules.truncate(MAX_MODULES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let hint = match tools.len() {
            0 => "there are no tools".to_owned(),
            count => format!(
                "no tool matches these words; the {count} tools come from {}{more}: search with other words",
                modules.join(", ")
            ),
        };
        result.edit("hint", hint);
    }
    result.edit("tools", found);
    result
}

fn module_of(tool: &Tool) -> &str {
    tool.spec.module.as_deref().unwrap_or(tool.name())
}

/// Returns the names of the tools in a search result, after the filters.
pub(super) fn names_in(result: &str) -> Vec<String> {
    let Ok(result) = Json::parse(result.as_bytes()) else { return Vec::new() };
    // If a person changed the arguments, the result is wrapped in a note.
    let listed = result.get("tools").or_else(|| result.get("result")?.get("tools"));
    let listed = listed.iter().flat_map(Json::items);
    listed.filter_map(|tool| tool.text("name")).map(String::from).collect()
}

impl Kernel {
    /// Returns the schemas offered to a model instead of all tools: the search, the tools found in this turn,
    /// tools that the request lists by name, and the tool that the model is forced to call.
    pub(super) fn searched_schemas(&self, request: &Json, found: &Json) -> Vec<Json> {
        let toolbox = self.toolbox();
        let entries = [FIND_TOOLS, RUN_SCRIPT].map(String::from).into_iter();
        let found = found.items().into_iter().filter_map(|name| name.as_str().map(str::to_owned));
        let of_client = request.list("tools").into_iter().map(|tool| tool.field("function").string("name"));
        let chosen = request.at_path("tool_choice.function.name");
        let mut names: Vec<String> = Vec::new();
        for name in entries.chain(found).chain(of_client).chain(chosen.as_str().map(str::to_owned)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let tools = names.iter().filter_map(|name| toolbox.find(name));
        tools.map(|tool| tool.spec.to_tool_schema(SchemaDialect::OpenAi)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_result_offers_only_the_names_left_by_filters() {
        let listed = r#"{"tools": [{"name": "a"}, {"title": "none"}, {"name": 1}, {"name": "b"}]}"#;
        assert_eq!(names_in(listed), ["a", "b"]);
        assert_eq!(names_in(&format!(r#"{{"note": "changed", "result": {listed}}}"#)), ["a", "b"]);
        for other in ["", "not JSON", "[]", "null", r#"{"tools": "a"}"#, r#"{"error": "no"}"#] {
            assert!(names_in(other).is_empty(), "{other}");
        }
    }
}
