//! The tools `todo_add todo_list todo_update`, which manage a model's list of tasks in a chat.
//!
//! Each chat has one list, stored with the data of scripts; without a chat id, the list ends with the turn.
//! The list is stored under one key, so every change is atomic.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use valvehouse_core::context::Turn;
use valvehouse_core::tool::Tool;
use valvehouse_json::Json;
use valvehouse_store::{Kv, KvError, MAX_TRIES, scope_of_chat};

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

#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Status {
    #[default]
    Pending,
    InProgress,
    Completed,
    Cancelled,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Priority {
    Low,
    Medium,
    High,
}

/// Adds a task to this chat's list of tasks. Use it to plan work of several steps before starting. Returns the task with its id.
#[derive(Deserialize, JsonSchema)]
struct NewTask {
    /// The task, at most 2000 characters
    content: String,
    /// The status of the task
    #[serde(default)]
    status: Status,
    /// The priority of the task
    priority: Option<Priority>,
}

/// Lists the tasks of this chat in the order they were added, with the number of tasks in each status.
#[derive(Deserialize, JsonSchema)]
struct TaskQuery {
    /// Only tasks with this status
    status: Option<Status>,
}

/// Changes the status or the content of a task of this chat, by its id. Mark a task in_progress before working on it and completed right after. Returns the changed task.
#[derive(Deserialize, JsonSchema)]
struct TaskUpdate {
    /// The id that todo_add returned
    #[schemars(range(min = 1))]
    id: i64,
    /// The new status
    status: Option<Status>,
    /// The new content
    content: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Task {
    id: i64,
    content: String,
    status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<Priority>,
}

/// The tasks of a chat, as they are stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct TaskList {
    /// The id of the next task.
    next: i64,
    items: Vec<Task>,
}

impl Default for TaskList {
    fn default() -> Self {
        Self { next: 1, items: Vec::new() }
    }
}

/// The answer of `todo_list`.
#[derive(Serialize)]
struct Listing {
    items: Vec<Task>,
    total: usize,
    counts: Counts,
}

#[derive(Serialize)]
struct Counts {
    pending: usize,
    in_progress: usize,
    completed: usize,
    cancelled: usize,
}

/// Returns the tools, with their lists in these maps.
pub(super) fn tools(kv: Arc<Kv>) -> Vec<Tool> {
    vec![tool("todo_add", &kv, add), tool("todo_list", &kv, list), tool("todo_update", &kv, update)]
}

/// Creates a tool from a function that reads or changes the list of a chat.
fn tool<A, O>(name: &str, kv: &Arc<Kv>, act: fn(&A, &mut TaskList) -> Result<O, TodoError>) -> Tool
where
    A: DeserializeOwned + JsonSchema + Send + Sync + 'static,
    O: Serialize + Send + 'static,
{
    let kv = kv.clone();
    let run = move |args: A, turn| {
        let kv = kv.clone();
        async move { Ok(changed(kv, &turn, |list| act(&args, list)).await?) }
    };
    Tool::from_fn_with_turn(name, run).tag("todo")
}

/// Runs a function on the list of the chat, and stores the list if it changed.
async fn changed<O>(
    kv: Arc<Kv>,
    turn: &Turn,
    act: impl Fn(&mut TaskList) -> Result<O, TodoError>,
) -> Result<O, TodoError> {
    let (kv, scope) = match turn.facts().chat_id.as_str() {
        "" => (turn.local::<Kv>(), "chat".to_owned()),
        chat => (kv, scope_of_chat(chat, turn.facts().verified_user.as_deref())),
    };
    let map = kv.map(OWNER, scope);
    for _ in 0..MAX_TRIES {
        let seen = map.look(KEY);
        let before = match &seen.value {
            Json::Null => TaskList::default(),
            stored => serde_json::from_value(Value::from(stored)).map_err(TodoError::Stored)?,
        };
        let mut list = before.clone();
        let answer = act(&mut list)?;
        if list == before {
            return Ok(answer);
        }
        let list = Json::from(serde_json::to_value(&list).map_err(TodoError::Stored)?);
        if kv.swap(&map, KEY, &seen, &list, Some(KEPT)).await? {
            if let Some(write) = kv.want_flush() {
                turn.flush_before_end(kv, write);
            }
            return Ok(answer);
        }
    }
    Err(KvError::Contended.into())
}

/// The reason for rejecting a change of a list, written for the model.
#[derive(Debug, thiserror::Error)]
enum TodoError {
    #[error("`content` is empty: describe the task")]
    Blank,
    #[error(
        "`content` exceeded its limit of {MAX_LENGTH} characters with {0}: shorten it, or split it into several tasks"
    )]
    Long(usize),
    #[error("unknown task {0}{1}")]
    Unknown(i64, String),
    #[error("`todo_update` needs a `status` or a `content` to change")]
    NoChange,
    #[error(
        "cannot add a task: this chat has its limit of {MAX_TASKS} tasks; reuse a completed one with `todo_update`"
    )]
    Full,
    #[error("the tasks of this chat exceeded their limit of 64 KiB: shorten some with `todo_update`")]
    NoRoom,
    #[error("cannot read the stored tasks of this chat: {0}")]
    Stored(serde_json::Error),
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

fn add(new: &NewTask, list: &mut TaskList) -> Result<Task, TodoError> {
    let content = checked(&new.content)?;
    if list.items.len() >= MAX_TASKS {
        return Err(TodoError::Full);
    }
    let task = Task { id: list.next, content, status: new.status, priority: new.priority };
    list.next += 1;
    list.items.push(task.clone());
    Ok(task)
}

fn update(update: &TaskUpdate, list: &mut TaskList) -> Result<Task, TodoError> {
    if update.status.is_none() && update.content.is_none() {
        return Err(TodoError::NoChange);
    }
    let content = update.content.as_deref().map(checked).transpose()?;
    let Some(place) = list.items.iter().position(|task| task.id == update.id) else {
        return Err(unknown(update.id, &list.items));
    };
    let task = &mut list.items[place];
    task.status = update.status.unwrap_or(task.status);
    if let Some(content) = content {
        task.content = content;
    }
    Ok(task.clone())
}

fn unknown(id: i64, tasks: &[Task]) -> TodoError {
    let ids: Vec<String> = tasks.iter().map(|task| task.id.to_string()).collect();
    let there_are = match ids.as_slice() {
        [] => "; the list is empty".to_owned(),
        ids => format!("; known ids: {}", ids.join(", ")),
    };
    TodoError::Unknown(id, there_are)
}

#[allow(clippy::unnecessary_wraps)] // the signature of all three
fn list(query: &TaskQuery, list: &mut TaskList) -> Result<Listing, TodoError> {
    let count = |status| list.items.iter().filter(|task| task.status == status).count();
    let counts = Counts {
        pending: count(Status::Pending),
        in_progress: count(Status::InProgress),
        completed: count(Status::Completed),
        cancelled: count(Status::Cancelled),
    };
    let is_shown = |task: &&Task| query.status.is_none_or(|status| task.status == status);
    let items = list.items.iter().filter(is_shown).cloned().collect();
    Ok(Listing { items, total: list.items.len(), counts })
}

/// Returns the content of a task without surrounding spaces.
fn checked(content: &str) -> Result<String, TodoError> {
    let content = content.trim();
    match content.chars().count() {
        0 => Err(TodoError::Blank),
        1..=MAX_LENGTH => Ok(content.to_owned()),
        more => Err(TodoError::Long(more)),
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
        let nothing = r#"{"id": "2", "content": "do", "status": null}"#;
        assert_eq!(chat.call("todo_update", nothing).await.unwrap().text("status").unwrap(), "in_progress");
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
