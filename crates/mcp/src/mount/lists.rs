//! The lists of a server: its tools, prompts, resources and resource templates.

use super::connection::Unavailable;
use super::link::Remote;
use crate::pins::{PartKind, ToolParts};
use rmcp::model::{PaginatedRequestParams, ServerCapabilities};
use rmcp::service::ServiceError;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::Duration;

/// The time limit for each page of a list.
const LISTING: Duration = Duration::from_secs(30);
/// The maximum number of entries in a list of a server, and the maximum number of its pages.
const MAX_TOOLS: usize = 1_000;
const MAX_PAGES: usize = 100;

/// The lists of a server.
#[derive(Debug, Default)]
pub(super) struct ServerLists {
    /// The tools, prompts, resources and resource templates.
    pub(super) parts: Vec<ToolParts>,
    /// The lists that are not complete, or may not be.
    pub(super) problems: Vec<String>,
}

impl ServerLists {
    /// Adds a list. Entries of a page that was returned twice are added once.
    fn add<T>(&mut self, list: Pages<T>, seen: impl Fn(T) -> ToolParts) {
        let mut names = HashSet::new();
        let is_whole = list.problem.is_none();
        let entries = list.entries.into_iter().map(seen);
        self.parts.extend(entries.filter(|entry| is_whole || names.insert(entry.name.clone())));
        self.problems.extend(list.problem);
    }
}

/// Returns all tools, prompts, resources and resource templates of a server.
///
/// # Errors
/// Returns the reason if the tools cannot be listed or are too many. If another list fails, it is empty.
pub(super) async fn lists(remote: &Remote) -> Result<ServerLists, Unavailable> {
    let info = remote.peer_info();
    let has = |is_declared: fn(&ServerCapabilities) -> bool| {
        info.as_ref().is_some_and(|info| is_declared(&info.capabilities))
    };
    let (has_prompts, has_resources) = (has(|it| it.prompts.is_some()), has(|it| it.resources.is_some()));
    let mut all = ServerLists::default();
    // Some servers have tools and do not declare them.
    if has(|it| it.tools.is_some()) || !(has_prompts || has_resources) {
        let tools = pages("tools", |params| async {
            remote.list_tools(Some(params)).await.map(|page| (page.tools, page.next_cursor))
        });
        all.add(tools.await?, |tool| seen(&tool));
    }
    if has_prompts {
        let prompts = pages("prompts", |params| async {
            remote.list_prompts(Some(params)).await.map(|page| (page.prompts, page.next_cursor))
        });
        all.add(or_none(prompts.await), |prompt| seen_prompt(&prompt));
    }
    if has_resources {
        let resources = pages("resources", |params| async {
            remote.list_resources(Some(params)).await.map(|page| (page.resources, page.next_cursor))
        });
        all.add(or_none(resources.await), |it| {
            seen_resource(PartKind::Resource, &it.uri, it.title, it.description, (&it.name, it.mime_type))
        });
        let templates = pages("resource templates", |params| async {
            let page = remote.list_resource_templates(Some(params)).await;
            page.map(|page| (page.resource_templates, page.next_cursor))
        });
        all.add(or_none(templates.await), |it| {
            let more = (it.name.as_str(), it.mime_type);
            seen_resource(PartKind::Template, &it.uri_template, it.title, it.description, more)
        });
    }
    Ok(all)
}

/// The pages of a list.
struct Pages<T> {
    entries: Vec<T>,
    /// Set if the list ended because a page named one as the next that was read before.
    problem: Option<String>,
}

/// Reads a list page by page. An empty cursor ends it, because some servers send it with the last page.
async fn pages<T, F>(what: &str, ask: impl Fn(PaginatedRequestParams) -> F) -> Result<Pages<T>, Unavailable>
where
    F: Future<Output = Result<(Vec<T>, Option<String>), ServiceError>>,
{
    let (mut entries, mut cursor, mut known) = (Vec::new(), None, HashSet::new());
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
        let page = tokio::time::timeout(LISTING, ask(params)).await;
        let page = page.map_err(|_| format!("it did not list its {what} within {} s", LISTING.as_secs()))?;
        let (more, next) = page.map_err(|error| unlisted(what, &error))?;
        if entries.len() + more.len() > MAX_TOOLS {
            let help = if what == "tools" { "; name the ones to offer in `tools`" } else { "" };
            return Err(format!("it lists more than {MAX_TOOLS} {what}{help}").into());
        }
        entries.extend(more);
        match next.filter(|next| !next.is_empty()) {
            Some(next) if known.insert(next.clone()) => cursor = Some(next),
            Some(_) => {
                let problem =
                    format!("its list of {what} does not end: a page names an earlier one as the next one");
                return Ok(Pages { entries, problem: Some(problem) });
            }
            None => return Ok(Pages { entries, problem: None }),
        }
    }
    Err(format!("its list of {what} has more than {MAX_PAGES} pages").into())
}

/// Returns an optional list, or an empty one if it failed: the tools are offered anyway.
fn or_none<T>(listed: Result<Pages<T>, Unavailable>) -> Pages<T> {
    listed.unwrap_or_else(|error| {
        tracing::info!(
            "cannot list resources or prompts of an MCP server, continuing without them: {}",
            error.why
        );
        Pages { entries: Vec::new(), problem: None }
    })
}

fn unlisted(what: &str, error: &ServiceError) -> Unavailable {
    let challenge = error.auth_challenge().map(str::to_owned);
    let why = match challenge {
        Some(_) => format!("it does not allow this token to list its {what}"),
        None => format!("cannot list its {what}: {error}"),
    };
    Unavailable { challenge, ..Unavailable::from(why) }
}

fn seen(tool: &rmcp::model::Tool) -> ToolParts {
    let annotations = tool.annotations.as_ref().and_then(|hints| serde_json::to_value(hints).ok());
    ToolParts {
        kind: PartKind::Tool,
        name: tool.name.to_string(),
        title: tool.title.clone(),
        description: tool.description.as_deref().unwrap_or("").to_owned(),
        input_schema: Value::Object((*tool.input_schema).clone()),
        output_schema: tool.output_schema.as_ref().map(|schema| Value::Object((**schema).clone())),
        annotations,
    }
}

fn seen_prompt(prompt: &rmcp::model::Prompt) -> ToolParts {
    ToolParts {
        kind: PartKind::Prompt,
        name: format!("prompt:{}", prompt.name),
        title: prompt.title.clone(),
        description: prompt.description.as_deref().unwrap_or("").to_owned(),
        input_schema: json!({ "arguments": prompt.arguments }),
        output_schema: None,
        annotations: None,
    }
}

/// Returns a resource or template without the properties that change with its content.
fn seen_resource(
    kind: PartKind,
    uri: &str,
    title: Option<String>,
    description: Option<String>,
    (name, mime_type): (&str, Option<String>),
) -> ToolParts {
    let mut about = json!({ "name": name });
    if let Some(mime_type) = mime_type {
        about["mimeType"] = json!(mime_type);
    }
    ToolParts {
        kind,
        name: format!("{}:{uri}", kind.as_str()),
        title,
        description: description.as_deref().unwrap_or("").to_owned(),
        input_schema: about,
        output_schema: None,
        annotations: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str) -> ToolParts {
        seen_resource(PartKind::Resource, name, None, None, (name, None))
    }

    /// Reads a list of which `next` returns the entries and the next cursor after a cursor.
    async fn listed(next: impl Fn(Option<&str>) -> (&'static str, Option<&'static str>)) -> ServerLists {
        let ask = |params: PaginatedRequestParams| {
            let (entries, cursor) = next(params.cursor.as_deref());
            let entries: Vec<String> = entries.chars().map(String::from).collect();
            std::future::ready(Ok((entries, cursor.map(str::to_owned))))
        };
        let mut lists = ServerLists::default();
        lists.add(pages("tools", ask).await.unwrap(), |name| part(&name));
        lists
    }

    fn names(lists: &ServerLists) -> String {
        lists.parts.iter().map(ToolParts::own_name).collect()
    }

    #[tokio::test]
    async fn a_list_ends_at_the_page_that_names_an_earlier_one() {
        // The server ignores the cursor.
        let stuck = listed(|_| ("abc", Some("x"))).await;
        assert_eq!((&*names(&stuck), stuck.problems.len()), ("abc", 1));
        let circle = listed(|cursor| match cursor {
            None => ("ab", Some("1")),
            Some("1") => ("cd", Some("2")),
            _ => ("ef", Some("1")),
        });
        let circle = circle.await;
        assert_eq!((&*names(&circle), circle.problems.len()), ("abcdef", 1));
    }

    #[tokio::test]
    async fn an_empty_cursor_and_none_end_a_list() {
        for last in [None, Some("")] {
            let list = listed(|cursor| if cursor.is_none() { ("ab", Some("1")) } else { ("ac", last) }).await;
            // Tools of the same name are reported later.
            assert_eq!((&*names(&list), list.problems.len()), ("abac", 0));
        }
    }
}
