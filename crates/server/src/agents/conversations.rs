//! Conversations and their checkpoints.

use crate::extract::{Id, Words, json, number, object, text};
use crate::reply::{answer, list as as_list};
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use std::sync::Arc;
use valvehouse_agent::{checkpoint_to_json, conversation_to_json, run_to_json};
use valvehouse_core::error::Error;
use valvehouse_host::app::App;
use valvehouse_json::Json;
use valvehouse_store::Prune;

/// The default number of listed conversations.
const LISTED: u64 = 50;
/// The maximum number of messages or checkpoints per page.
const PAGE: u64 = 1000;

/// `GET /api/v1/agents/conversations?agent=&limit=`
pub(super) async fn list(State(app): State<Arc<App>>, words: Words) -> Response {
    let listed = async {
        let limit = words.number("limit")?.unwrap_or(LISTED);
        let agent = words.text("agent");
        let all = app.runs.store().conversations(agent.as_deref(), limit).await?;
        Ok(as_list(all.iter().map(conversation_to_json)))
    };
    answer(listed.await)
}

/// `GET …/conversations/{chat_id}?from=&to=`: the messages, never shortened.
pub(super) async fn show(State(app): State<Arc<App>>, Id(id): Id, words: Words) -> Response {
    answer(shown(&app, &id, &words).await)
}

async fn shown(app: &App, id: &str, words: &Words) -> Result<Json, Error> {
    let conversation = app.runs.conversation(id).await?;
    let from = words.number("from")?.unwrap_or(0).min(conversation.length);
    let to = words.number("to")?.unwrap_or(conversation.length);
    let to = to.min(conversation.length).min(from.saturating_add(PAGE)).max(from);
    let store = app.runs.store();
    let messages = store.messages(id, from, to).await?;
    let newest = store.runs(Some(id), None, 1).await?;
    let shown = conversation_to_json(&conversation);
    let newest = newest.first().map(|run| run_to_json(run, &conversation.agent));
    let parts: [(&str, Json); 4] = [
        ("run", newest.into()),
        ("from", from.into()),
        ("to", to.into()),
        ("full_messages", messages.into()),
    ];
    for (name, part) in parts {
        // New values in a new object: they fit.
        shown.put(name, part);
    }
    Ok(shown)
}

/// `DELETE …/conversations/{chat_id}`
pub(super) async fn forget(State(app): State<Arc<App>>, Id(id): Id) -> Response {
    let forgotten = app.runs.forget(&id).await;
    answer(forgotten.map(|()| Json::from([("chat_id", id.into()), ("deleted", true.into())])))
}

/// `GET …/conversations/{chat_id}/checkpoints?limit=`: the newest first, without their states.
pub(super) async fn checkpoints(State(app): State<Arc<App>>, Id(id): Id, words: Words) -> Response {
    let listed = async {
        app.runs.conversation(&id).await?;
        let limit = words.number("limit")?.unwrap_or(PAGE);
        let all = app.runs.store().checkpoints(&id, limit).await?;
        Ok(as_list(all.iter().map(checkpoint_to_json)))
    };
    answer(listed.await)
}

/// `GET /api/v1/agents/checkpoints/{id}`
pub(super) async fn checkpoint(State(app): State<Arc<App>>, Id(id): Id) -> Response {
    let read = app.runs.checkpoint(&id).await.map(|checkpoint| {
        let shown = checkpoint_to_json(&checkpoint);
        shown.put("state", checkpoint.state);
        shown
    });
    answer(read)
}

/// `POST /api/v1/agents/checkpoints/{id}/fork {chat_id}`
pub(super) async fn fork(State(app): State<Arc<App>>, Id(id): Id, body: Body) -> Response {
    let forked = async {
        let body = object(&app, body).await?;
        let new = text(&body, "chat_id")?.unwrap_or_default();
        Ok(conversation_to_json(&app.runs.fork(&id, &new).await?))
    };
    answer(forked.await)
}

/// `GET …/conversations/{chat_id}/export`
pub(super) async fn export(State(app): State<Arc<App>>, Id(id): Id) -> Response {
    answer(app.runs.export(&id).await)
}

/// `POST /api/v1/agents/conversations/import?chat_id=`: what an export gave, under its own id or another.
pub(super) async fn import(State(app): State<Arc<App>>, words: Words, body: Body) -> Response {
    let imported = async {
        let exported = json(&app, body).await?;
        let id = words.text("chat_id");
        Ok(conversation_to_json(&app.runs.import(&exported, id.as_deref()).await?))
    };
    answer(imported.await)
}

/// `POST /api/v1/agents/prune {chat_id?, whole_runs?, runs?}`
pub(super) async fn prune(State(app): State<Arc<App>>, body: Body) -> Response {
    let pruned = async {
        let body = object(&app, body).await?;
        let usual = Prune::default();
        let whole_runs = number(&body, "whole_runs")?.unwrap_or(usual.whole_runs);
        let runs = number(&body, "runs")?.unwrap_or(usual.runs.max(whole_runs));
        let chat_id = text(&body, "chat_id")?;
        if let Some(id) = &chat_id {
            app.runs.conversation(id).await?;
        }
        let keep = Prune { whole_runs, runs };
        let dropped = app.runs.store().prune(chat_id.as_deref(), keep).await?;
        Ok(Json::from([("dropped", dropped.into())]))
    };
    answer(pruned.await)
}
