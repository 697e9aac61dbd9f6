//! The tools `todo_add todo_list todo_update`, which manage a model's list of tasks in a chat.
//!
//! Each chat has one list, stored with the data of scripts; without a chat id, the list ends with the turn.
//! The list is stored under one key, so every change is atomic.

use super::native::native;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use valvehouse_core::context::Turn;
use valvehouse_core::tool::{Handler, Tool, ToolError, ToolResult};
use valvehouse_json::Json;
use valvehouse_store::{Kv, KvError, MAX_TRIES};

/// The owner of the map. A script cannot have this id, because ids contain no colon.
const OWNER: &str = "builtin:todo";
/// The key of the list in a chat's map.
const KEY: &str = "list";
/// The time after the last change at which a list expires, since the end of a chat is not announced.
const KEPT: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// The maximum number of tasks of a chat.
const MAX_TASKS: usize = 200;
/// The maximum length of a task in characters.
const MAX_LENGTH: usize = 2_000;

const STATUSES: [&str; 4] = ["pending", "in_progress", "completed", "cancelled"];

/// Returns the tools, with their lists in these maps.
pub(super) fn tools(kv: Arc<Kv>) -> Vec<Tool> {
    let tools: [(&str, &str, &str, Act); 3] = [
        (
            "todo_add",
            "Adds a task to this chat's list of tasks. Use it to plan work of several steps before \
             starting. Returns the task with its id.",
            r#"{
                "content": {"type": "string", "required": true, "description": "The task, at most 2000 characters"},
                "status": {"type": "string", "enum": ["pending", "in_progress", "completed", "cancelled"], "default": "pending", "description": "The status of the task"},
                "priority": {"type": "string", "enum": ["low", "medium", "high"], "description": "The priority of the task"}
            }"#,
            add,
        ),
        (
            "todo_list",
            "Lists the tasks of this chat in the order they were added, with the number of tasks in each status.",
            r#"{
                "status": {"type": "string", "enum": ["pending", "in_progress", "completed", "cancelled"], "description": "Only tasks with this status"}
            }"#,
            list,
        ),
        (
            "todo_update",
            "Changes the status or the content of a task of this chat, by its id. Mark a task \
             in_progress before working on it and completed right after. Returns the changed task.",
            r#"{
                "id": {"type": "integer", "required": true, "minimum": 1, "description": "The id that todo_add returned"},
                "status": {"type": "string", "enum": ["pending", "in_progress", "completed", "cancelled"], "description": "The new status"},
                "content": {"type": "string", "description": "The new content"}
            }"#,
            update,
        ),
    ];
    let tool = |(name, description, parameters, act)| {
        native(name, "todo", description, parameters, Todo { kv: kv.clone(), act })
    };
    tools.into_iter().map(tool).collect()
}

/// The function of a tool on the stored list of a chat. Returns the answer to the model, and the list if it
/// changed.
type Act = fn(&Json, Json) -> Result<(Json, Option<Json>), TodoError>;

struct Todo {
    kv: Arc<Kv>,
    act: Act,
}

impl Todo {
    async fn run(&self, args: &Json, turn: &Turn) -> Result<Json, TodoError> {
        let (kv, scope) = match turn.facts().chat_id.as_str() {
            "" => (turn.local::<Kv>(), "chat".to_owned()),
            chat => (self.kv.clone(), format!("chat/{chat}")),
        };
        let map = kv.map(OWNER, scope);
        for _ in 0..MAX_TRIES {
            let seen = map.look(KEY);
            let (answer, list) = (self.act)(args, seen.value.deep_clone())?;
            let Some(list) = list else { return Ok(answer) };
            if kv.swap(&map, KEY, &seen, &list, Some(KEPT)).await? {
                if let Some(write) = kv.want_flush() {
                    turn.flush_before_end(kv, write);
                }
                return Ok(answer);
            }
        }
        Err(KvError::Contended.into())
    }
}

impl Handler for Todo {
    fn call(&self, args: Json, turn: Turn) -> BoxFuture<'_, Result<ToolResult, ToolError>> {
        Box::pin(async move {
            let result = self.run(&args, &turn).await;
            result.map(ToolResult::from).map_err(|refused| refused.to_string().into())
        })
    }
}

/// The reason for rejecting a change of a list, written for the model.
#[derive(Debug, thiserror::Error)]
enum TodoError {
    #[error("`{0}` must be a string")]
    NoText(&'static str),
    #[error("`content` is empty: describe the task")]
    Blank,
    #[error(
        "`content` exceeded its limit of {MAX_LENGTH} characters with {0}: shorten it, or split it into several tasks"
    )]
    Long(usize),
    #[error("invalid `status`: expected one of {list}, got `{0}`", list = STATUSES.join(", "))]
    Status(String),
    #[error("unknown task {0}{1}")]
    Unknown(String, String),
    #[error("`todo_update` needs a `status` or a `content` to change")]
    NoChange,
    #[error(
        "cannot add a task: this chat has its limit of {MAX_TASKS} tasks; reuse a completed one with `todo_update`"
    )]
    Full,
    #[error("the tasks of this chat exceeded their limit of 64 KiB: shorten some with `todo_update`")]
    NoRoom,
    #[error("cannot store the tasks: {0}")]
    Kv(KvError),
}

impl From<KvError> for TodoError {
    fn from(error: KvError) -> Self {
        match error {
            KvError::Value => Self::NoRoom,
            error => Self::Kv(error),
        }
    }
}

fn add(args: &Json, stored: Json) -> Result<(Json, Option<Json>), TodoError> {
    let content = content(args)?.ok_or(TodoError::NoText("content"))?;
    let status = status(args)?.unwrap_or_else(|| STATUSES[0].to_owned());
    let priority = text(args, "priority")?;
    let mut items = stored.list("items");
    if items.len() >= MAX_TASKS {
        return Err(TodoError::Full);
    }
    let id = stored.get("next").and_then(|next| next.as_i64()).unwrap_or(1);
    let added = Json::from([("id", id.into()), ("content", content.into()), ("status", Json::from(status))]);
    if let Some(priority) = &priority {
        added.edit("priority", priority.as_str());
    }
    items.push(added.deep_clone());
    Ok((added, Some(Json::from([("next", (id + 1).into()), ("items", items.into())]))))
}

fn update(args: &Json, stored: Json) -> Result<(Json, Option<Json>), TodoError> {
    let (status, content) = (status(args)?, content(args)?);
    if status.is_none() && content.is_none() {
        return Err(TodoError::NoChange);
    }
    let id = args.field("id");
    let items = stored.list("items");
    let item = items.iter().find(|item| item.get("id").as_ref() == Some(&id));
    let item = item.ok_or_else(|| unknown(&id, &items))?;
    for (key, value) in [("status", &status), ("content", &content)] {
        if let Some(value) = value {
            item.edit(key, value.as_str());
        }
    }
    Ok((item.deep_clone(), Some(stored)))
}

fn unknown(id: &Json, items: &[Json]) -> TodoError {
    let ids: Vec<String> = items.iter().filter_map(|item| Some(item.get("id")?.to_string())).collect();
    let there_are = match ids.as_slice() {
        [] => "; the list is empty".to_owned(),
        ids => format!("; known ids: {}", ids.join(", ")),
    };
    TodoError::Unknown(id.to_string(), there_are)
}

fn list(args: &Json, stored: Json) -> Result<(Json, Option<Json>), TodoError> {
    let status_filter = status(args)?;
    let items = stored.list("items");
    let stands = |item: &Json, status: &str| item.text("status").is_some_and(|own| own == status);
    let counts =
        STATUSES.map(|status| (status, Json::from(items.iter().filter(|item| stands(item, status)).count())));
    let shown: Vec<Json> = items
        .iter()
        .filter(|item| status_filter.as_ref().is_none_or(|status| stands(item, status)))
        .cloned()
        .collect();
    let answer = [("items", shown.into()), ("total", items.len().into()), ("counts", counts.into())];
    Ok((Json::from(answer), None))
}

fn content(args: &Json) -> Result<Option<String>, TodoError> {
    let Some(content) = text(args, "content")? else { return Ok(None) };
    match content.chars().count() {
        0 => Err(TodoError::Blank),
        1..=MAX_LENGTH => Ok(Some(content)),
        more => Err(TodoError::Long(more)),
    }
}

fn status(args: &Json) -> Result<Option<String>, TodoError> {
    match text(args, "status")? {
        Some(status) if !STATUSES.contains(&status.as_str()) => Err(TodoError::Status(status)),
        status => Ok(status),
    }
}

fn text(args: &Json, key: &'static str) -> Result<Option<String>, TodoError> {
    match args.get(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Text(text)) => Ok(Some(text.trim().to_owned())),
        Some(_) => Err(TodoError::NoText(key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use valvehouse_core::context::{Context, Events, TurnFacts};
    use valvehouse_core::tool::Toolbox;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    fn turn(chat_id: &str) -> Turn {
        let facts = TurnFacts { chat_id: chat_id.to_owned(), ..TurnFacts::default() };
        Turn::new(facts, Context::default(), Events::default())
    }

    struct Chat(Toolbox, Turn);

    impl Chat {
        fn new(kv: &Arc<Kv>, chat_id: &str) -> Self {
            Self(Toolbox::new(tools(kv.clone())), turn(chat_id))
        }

        async fn call(&self, name: &str, args: &str) -> Result<Json, String> {
            let result = self.0.find(name).unwrap().invoke(json(args), &self.1).await;
            result.map(|result| result.value).map_err(|error| error.message)
        }

        #[track_caller]
        fn assert_error(result: Result<Json, String>, text: &str) {
            let message = result.unwrap_err();
            assert!(message.contains(text), "{message}");
        }
    }

    #[tokio::test]
    async fn tasks_are_added_changed_and_listed_with_their_numbers() {
        let kv = Arc::new(Kv::default());
        let chat = Chat::new(&kv, "c");
        let added = chat.call("todo_add", r#"{"content": " plan ", "priority": "high"}"#).await.unwrap();
        assert_eq!(added, json(r#"{"id": 1, "content": "plan", "status": "pending", "priority": "high"}"#));
        chat.call("todo_add", r#"{"content": "do", "status": "in_progress"}"#).await.unwrap();
        let done =
            chat.call("todo_update", r#"{"id": 1, "status": "completed", "content": "planned"}"#).await;
        assert_eq!(done.unwrap().text("content").unwrap(), "planned");
        let listed = chat.call("todo_list", r#"{"status": "completed"}"#).await.unwrap();
        assert_eq!(listed.at_path("items.0.id"), json("1"));
        assert_eq!(listed.get("items").unwrap().items().len(), 1);
        assert_eq!(listed.get("total").unwrap(), json("2"));
        assert_eq!(
            listed.get("counts").unwrap(),
            json(r#"{"pending": 0, "in_progress": 1, "completed": 1, "cancelled": 0}"#)
        );
    }

    #[tokio::test]
    async fn invalid_todo_changes_are_rejected_with_a_reason() {
        let kv = Arc::new(Kv::default());
        let chat = Chat::new(&kv, "c");
        chat.call("todo_add", r#"{"content": "one"}"#).await.unwrap();
        let before = chat.call("todo_list", "{}").await.unwrap();
        Chat::assert_error(chat.call("todo_add", "{}").await, "`content` is required");
        Chat::assert_error(chat.call("todo_add", r#"{"content": " "}"#).await, "is empty");
        Chat::assert_error(
            chat.call("todo_add", r#"{"content": "x", "status": "done"}"#).await,
            "in_progress",
        );
        let long = format!(r#"{{"content": "{}"}}"#, "ü".repeat(MAX_LENGTH + 1));
        Chat::assert_error(chat.call("todo_add", &long).await, "2000 characters with 2001");
        Chat::assert_error(
            chat.call("todo_update", r#"{"id": 7, "status": "completed"}"#).await,
            "known ids: 1",
        );
        Chat::assert_error(chat.call("todo_update", r#"{"id": 1}"#).await, "to change");
        assert_eq!(chat.call("todo_list", "{}").await.unwrap(), before);
    }

    #[tokio::test]
    async fn a_todo_list_has_a_maximum_length() {
        let kv = Arc::new(Kv::default());
        let chat = Chat::new(&kv, "c");
        for _ in 0..MAX_TASKS {
            chat.call("todo_add", r#"{"content": "x"}"#).await.unwrap();
        }
        Chat::assert_error(chat.call("todo_add", r#"{"content": "x"}"#).await, "its limit of 200 tasks");
        let chat = Chat::new(&kv, "long");
        let long = format!(r#"{{"content": "{}"}}"#, "x".repeat(MAX_LENGTH));
        for _ in 0..30 {
            chat.call("todo_add", &long).await.unwrap();
        }
        chat.call("todo_add", &long).await.unwrap();
        chat.call("todo_add", &long).await.unwrap();
        Chat::assert_error(chat.call("todo_add", &long).await, "64 KiB");
        chat.call("todo_update", r#"{"id": 3, "content": "short"}"#).await.unwrap();
        chat.call("todo_add", r#"{"content": "x"}"#).await.unwrap();
    }

    #[tokio::test]
    async fn todo_lists_are_separate_per_chat_and_outlive_a_turn() {
        let kv = Arc::new(Kv::default());
        let (ann, bob) = (Chat::new(&kv, "ann"), Chat::new(&kv, "bob"));
        ann.call("todo_add", r#"{"content": "hers"}"#).await.unwrap();
        assert_eq!(bob.call("todo_list", "{}").await.unwrap().get("total").unwrap(), json("0"));
        let turn = Chat::new(&kv, "");
        turn.call("todo_add", r#"{"content": "now"}"#).await.unwrap();
        assert_eq!(turn.call("todo_list", "{}").await.unwrap().get("total").unwrap(), json("1"));
        let next = Chat::new(&kv, "");
        assert_eq!(next.call("todo_list", "{}").await.unwrap().get("total").unwrap(), json("0"));
        assert_eq!(kv.take_changes().len(), 1, "only what has a chat is stored");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn tasks_added_concurrently_get_unique_ids() {
        let kv = Arc::new(Kv::default());
        let calls = (0..100).map(|_| {
            let chat = Chat::new(&kv, "c");
            tokio::spawn(async move { chat.call("todo_add", r#"{"content": "x"}"#).await })
        });
        let mut ids: Vec<i64> = Vec::new();
        for call in futures::future::join_all(calls.collect::<Vec<_>>()).await {
            ids.push(call.unwrap().unwrap().get("id").unwrap().as_i64().unwrap());
        }
        ids.sort_unstable();
        assert_eq!(ids, (1..=100).collect::<Vec<i64>>());
    }

    #[test]
    fn todo_tool_descriptions_name_their_arguments() {
        let tools = Toolbox::new(tools(Arc::default()));
        let schema = tools.find("todo_update").unwrap().spec.parameters.schema().deep_clone();
        assert_eq!(schema.at_path("required").to_string(), r#"["id"]"#);
        assert_eq!(schema.at_path("properties.status.enum.3").as_str(), Some("cancelled"));
        assert!(tools.tagged("todo").count() == 3);
    }
}
