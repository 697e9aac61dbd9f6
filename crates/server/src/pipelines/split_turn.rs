//! Turns that are split into several requests: the inlets that an Open WebUI calls one by one, the chat
//! itself if a model of this host answers it, and the outlets. A hook that ran in a separate request does not
//! run again in the chat.

use super::names;
use crate::{auth, facts};
use axum::http::request::Parts;
use valvehouse_core::context::{Context, TurnFacts};
use valvehouse_core::filter::{FilterContext, FilterEntry, Hook, Hooks, Verdict};
use valvehouse_core::kernel::Kernel;
use valvehouse_host::app::{App, SplitTurn, TurnPart};
use valvehouse_host::{Ready, Snapshot};
use valvehouse_json::Json;

/// The prefix of the ids of turns that Open WebUI does not name: API calls and tasks.
const OWN: &str = "valvehouse-";
/// The prefix of the callers without the operators' key.
const OTHERS: &str = "others: ";

/// Returns the turn that a hook call belongs to; `None` if the request does not identify it.
pub(super) fn of_hook(snapshot: &Snapshot, body: &Json, user: &Json, hook: Hook) -> Option<TurnPart> {
    if hook == Hook::Inlet && comes_here(snapshot, body) {
        return of_model(body, user);
    }
    let message = text(body, "id").or_else(|| text(body, "metadata.message_id"))?;
    let chat = text(body, "chat_id").unwrap_or_else(|| text_or_empty(body, "metadata.chat_id"));
    Some(TurnPart { caller: String::new(), user: text_or_empty(user, "id"), chat, message })
}

/// Separates the turns of callers with a user's key from each other and from those of an operator's Open WebUI, which
/// alone is trusted to name users.
pub(super) fn of_caller(app: &App, parts: &Parts, part: TurnPart) -> TurnPart {
    if auth::may_operate(app, parts) {
        return part;
    }
    TurnPart { caller: format!("{OTHERS}{}", auth::asker(app, &parts.headers)), ..part }
}

/// Returns the turn of a chat that will come to this host. It always has an id.
pub(super) fn of_model(body: &Json, user: &Json) -> Option<TurnPart> {
    let user = text_or_empty(user, "id");
    let own = || format!("{OWN}{}", uuid::Uuid::new_v4().simple());
    let named = text(body, "id").or_else(|| text(body, "metadata.message_id").filter(|_| !is_task(body)));
    let chat = text(body, "chat_id").or_else(|| text(body, "metadata.chat_id").filter(|_| !is_task(body)));
    // Such chats must not be stored, so their id is omitted.
    let chat = chat.filter(|chat| !chat.starts_with("local:")).unwrap_or_default();
    Some(TurnPart { caller: String::new(), user, chat, message: named.unwrap_or_else(own) })
}

/// Returns `true` if the chat itself will come to this host, because its model is one of this host and a pipe
/// in Open WebUI.
pub(super) fn comes_here(snapshot: &Snapshot, body: &Json) -> bool {
    body.at_path("metadata.model.pipeline.type").as_str() == Some("pipe")
        && names::model(snapshot, &body.text_or_empty("model")).is_some()
}

/// Adds the id of the turn to the body of a chat that will come to this host. Other services might reject the
/// field.
pub(super) fn mark(snapshot: &Snapshot, body: &Json, part: &TurnPart) {
    if !comes_here(snapshot, body) {
        return;
    }
    // A text fits into any object.
    body.edit("id", part.message.as_str());
    if !part.chat.is_empty() {
        body.edit("chat_id", part.chat.as_str());
    }
}

/// Returns the turn of a chat whose earlier parts came to this host.
pub(crate) fn of_chat(app: &App, parts: &Parts, body: &Json) -> Option<SplitTurn> {
    let message = text(body, "id")?;
    let (user, chat) = (text_or_empty(body, "user.id"), text_or_empty(body, "chat_id"));
    let part = TurnPart { caller: String::new(), user, chat, message };
    // A caller with a user's key could run an inlet on one body and send another.
    app.parted.find(&part).filter(|_| auth::may_operate(app, parts))
}

/// Continues a turn whose earlier parts came to this host. Scripts find their stored state, and inlets that
/// ran do not run again. Outlets run here, where their events reach the client, and not again when Open WebUI
/// calls them for the answer.
pub(crate) fn go_on(
    app: &App,
    snapshot: &Snapshot,
    parts: &Parts,
    body: &Json,
    ready: &mut Ready,
    facts: &mut TurnFacts,
) -> Context {
    let Some(parted) = of_chat(app, parts, body) else { return facts::context(app, facts, body) };
    forget_strangers(&parted, snapshot);
    for filter in ready.kernel.chain().filters() {
        if let Some(plugin) = snapshot.plugins.get(filter.name()) {
            parted.meets(filter.name(), plugin.incarnation);
        }
    }
    let is_guard = |id: &str| snapshot.plugins.get(id).is_some_and(|plugin| plugin.security);
    let mut ran: Vec<String> = parted.inlets().into_iter().filter(|id| !is_guard(id)).collect();
    if let Some((filter, answer)) = parted.answer() {
        ready.kernel = answering(&ready.kernel, &filter, answer);
        ran.push(filter);
    }
    let mut spared = Hooks::default().with(Hook::Inlet);
    let is_task = !parted.metadata().field("task").is_empty();
    if is_task {
        spared = spared.with(Hook::Outlet);
    } else {
        parted.outlets_ran(ran.clone());
    }
    ready.kernel = ready.kernel.sparing(&ran, spared);
    facts.states = Some(parted.states().clone());
    facts::context_with(app, facts, body, parted.metadata().clone())
}

/// Returns a kernel in which the earlier answer of a filter's inlet replaces that inlet.
fn answering(kernel: &Kernel, id: &str, answer: Json) -> Kernel {
    let place =
        kernel.chain().filters().iter().find(|filter| filter.name() == id).map_or(0.0, FilterEntry::place);
    // The name differs, because the filter's own inlet is skipped.
    let name = format!("{id} (inlet)");
    let answers = move |_: &mut FilterContext| Ok(Verdict::Respond(answer.deep_clone()));
    kernel.with_filter(FilterEntry::closure(&name, Hook::Inlet, answers).priority(place))
}

/// Deletes the state of plugins that were removed or replaced.
pub(super) fn forget_strangers(parted: &SplitTurn, snapshot: &Snapshot) {
    parted.forget_strangers(|id| snapshot.plugins.get(id).map(|plugin| plugin.incarnation));
}

/// Returns `true` for a task that Open WebUI sends beside a chat, such as the request for a title or tags.
fn is_task(body: &Json) -> bool {
    !body.at_path("metadata.task").is_empty()
}

fn text(body: &Json, path: &str) -> Option<String> {
    Some(text_or_empty(body, path)).filter(|text| !text.is_empty())
}

fn text_or_empty(body: &Json, path: &str) -> String {
    body.at_path(path).str_or_empty().to_owned()
}
