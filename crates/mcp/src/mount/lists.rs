//! The lists of a server: its tools, prompts, resources and resource templates.

use super::connection::{Unavailable, plain};
use super::link::Remote;
use crate::pins::{PartKind, ToolParts};
use rmcp::model::{
    ClientRequest, ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest, ListToolsRequest,
    PaginatedRequestParams, Prompt, Resource, ResourceTemplate, ServerCapabilities, ToolAnnotations,
};
use rmcp::service::ServiceError;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
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
    /// Adds a list. Of several entries with one name, the first is added; those of a page that was returned twice
    /// are not reported.
    fn add<T>(&mut self, list: Pages<T>, seen: impl Fn(T) -> ToolParts) {
        let mut names = HashSet::new();
        for entry in list.entries.into_iter().map(seen) {
            if !names.insert(entry.name.clone()) {
                let (kind, name) = (entry.kind.as_str(), entry.own_name());
                let why =
                    format!("it lists the {kind} `{name}` more than once, and the first one is offered");
                if list.is_whole && !self.problems.contains(&why) {
                    self.problems.push(why);
                }
                continue;
            }
            self.parts.push(entry);
        }
        self.problems.extend(list.problems);
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
        let tools = pages("tools", "tools", |page| ask(remote, ListToolsRequest::with_param(page)));
        all.add(tools.await?, seen);
    }
    if has_prompts {
        let prompts = pages("prompts", "prompts", |page| ask(remote, ListPromptsRequest::with_param(page)));
        all.add(or_none(prompts.await), |prompt: Prompt| seen_prompt(&prompt));
    }
    if has_resources {
        let resources =
            pages("resources", "resources", |page| ask(remote, ListResourcesRequest::with_param(page)));
        all.add(or_none(resources.await), |it: Resource| {
            seen_resource(PartKind::Resource, &it.uri, it.title, it.description, (&it.name, it.mime_type))
        });
        let templates = pages("resource templates", "resourceTemplates", |page| {
            ask(remote, ListResourceTemplatesRequest::with_param(page))
        });
        all.add(or_none(templates.await), |it: ResourceTemplate| {
            let more = (it.name.as_str(), it.mime_type);
            seen_resource(PartKind::Template, &it.uri_template, it.title, it.description, more)
        });
    }
    Ok(all)
}

/// The pages of a list.
struct Pages<T> {
    entries: Vec<T>,
    /// `false` if the list ended because a page named one as the next that was read before.
    is_whole: bool,
    /// The reasons why the list is not complete, or may not be.
    problems: Vec<String>,
}

/// Requests a page of a list. The library reads it if all of its entries are valid; this returns any.
async fn ask(remote: &Remote, request: impl Into<ClientRequest>) -> Result<Value, ServiceError> {
    let page = remote.send_request(request.into()).await?;
    serde_json::to_value(page).map_err(|_| ServiceError::UnexpectedResponse)
}

/// Reads a list page by page. An empty cursor ends it, because some servers send it with the last page. Entries
/// that cannot be read are left out.
async fn pages<T: DeserializeOwned, F>(
    what: &str,
    key: &str,
    ask: impl Fn(PaginatedRequestParams) -> F,
) -> Result<Pages<T>, Unavailable>
where
    F: Future<Output = Result<Value, ServiceError>>,
{
    let mut list = Pages { entries: Vec::new(), is_whole: true, problems: Vec::new() };
    let (mut count, mut cursor, mut known) = (0, None, HashSet::new());
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
        let page = tokio::time::timeout(LISTING, ask(params)).await;
        let page = page.map_err(|_| format!("it did not list its {what} within {} s", LISTING.as_secs()))?;
        let page = page.map_err(|error| unlisted(what, &error))?;
        let more = page[key].as_array().ok_or_else(|| unlisted(what, &ServiceError::UnexpectedResponse))?;
        if count + more.len() > MAX_TOOLS {
            let help = if what == "tools" { "; name the ones to offer in `tools`" } else { "" };
            return Err(format!("it lists more than {MAX_TOOLS} {what}{help}").into());
        }
        for entry in more {
            count += 1;
            match T::deserialize(entry) {
                Ok(entry) => list.entries.push(entry),
                Err(error) => {
                    let name =
                        entry["name"].as_str().map_or_else(|| count.to_string(), |name| format!("`{name}`"));
                    list.problems.push(format!("cannot read the entry {name} of its {what}: {error}"));
                }
            }
        }
        match page["nextCursor"].as_str().filter(|next| !next.is_empty()).map(str::to_owned) {
            Some(next) if known.insert(next.clone()) => cursor = Some(next),
            Some(_) => {
                let problem =
                    format!("its list of {what} does not end: a page names an earlier one as the next one");
                list.problems.push(problem);
                return Ok(Pages { is_whole: false, ..list });
            }
            None => return Ok(list),
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
        Pages { entries: Vec::new(), is_whole: true, problems: Vec::new() }
    })
}

fn unlisted(what: &str, error: &ServiceError) -> Unavailable {
    let challenge = error.auth_challenge().map(str::to_owned);
    let why = match challenge {
        Some(_) => format!("it does not allow this token to list its {what}"),
        None => format!("cannot list its {what}: {}", plain(&error.to_string())),
    };
    Unavailable { challenge, ..Unavailable::from(why) }
}

/// A tool of a list. Some servers list no schema for a tool without parameters.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedTool {
    name: String,
    title: Option<String>,
    description: Option<String>,
    input_schema: Option<Map<String, Value>>,
    output_schema: Option<Map<String, Value>>,
    annotations: Option<ToolAnnotations>,
}

fn seen(tool: ListedTool) -> ToolParts {
    ToolParts {
        kind: PartKind::Tool,
        name: tool.name,
        title: tool.title,
        description: tool.description.as_deref().unwrap_or("").to_owned(),
        input_schema: tool.input_schema.map_or_else(|| json!({ "type": "object" }), Value::Object),
        output_schema: tool.output_schema.map(Value::Object),
        annotations: tool.annotations.and_then(|hints| serde_json::to_value(hints).ok()),
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
            std::future::ready(Ok(json!({ "tools": entries, "nextCursor": cursor })))
        };
        let mut lists = ServerLists::default();
        lists.add(pages("tools", "tools", ask).await.unwrap(), |name: String| part(&name));
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
            assert_eq!(&*names(&list), "abc");
            let twice = "it lists the resource `a` more than once, and the first one is offered";
            assert_eq!(list.problems, [twice]);
        }
    }

    #[tokio::test]
    async fn a_tool_that_cannot_be_read_does_not_take_the_others_away() {
        let tools = json!({ "tools": [
            { "name": "none" },
            { "name": "null", "inputSchema": null, "icons": 5 },
            { "name": 5, "inputSchema": {} },
            { "inputSchema": {} },
            { "name": "text", "inputSchema": "{}" },
            { "name": "good", "inputSchema": { "type": "object", "properties": {} } },
        ] });
        let mut lists = ServerLists::default();
        lists.add(pages("tools", "tools", |_| std::future::ready(Ok(tools.clone()))).await.unwrap(), seen);
        assert_eq!(names(&lists), "nonenullgood");
        assert_eq!(lists.parts[1].input_schema, json!({ "type": "object" }));
        let [number, nameless, text] = lists.problems.as_slice() else { panic!("{:?}", lists.problems) };
        assert!(
            number.starts_with("cannot read the entry 3 of its tools: invalid type: integer `5`"),
            "{number}"
        );
        assert!(nameless.ends_with("entry 4 of its tools: missing field `name`"), "{nameless}");
        assert!(
            text.starts_with("cannot read the entry `text` of its tools: invalid type: string"),
            "{text}"
        );
        assert!(pages::<String, _>("tools", "tools", |_| std::future::ready(Ok(json!({})))).await.is_err());
    }
}
