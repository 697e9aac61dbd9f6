//! The parts of one turn: the inlets that an Open WebUI asked for one by one, the chat itself where one of our
//! models answers it, and the outlets. What ran as a part does not run again in the chat.

use super::names;
use crate::{auth, facts};
use axum::http::request::Parts;
use valvehouse_core::chat::request;
use valvehouse_core::context::{Context, SplitTurn, TurnFacts, TurnPart};
use valvehouse_core::filter::{FilterContext, FilterEntry, Hook, Hooks, Verdict};
use valvehouse_core::kernel::Kernel;
use valvehouse_host::app::App;
use valvehouse_host::{Ready, Snapshot};
use valvehouse_json::Json;

/// Before the names of turns that Open WebUI has none for: those of its API, and its tasks.
const OWN: &str = "valvehouse-";
/// The beginning of the names of users that callers without an operator's key give.
const OTHERS: &str = "by others: ";

/// The turn that a hook is a part of; `None` if nothing names it.
pub(super) fn of_hook(snapshot: &Snapshot, body: &Json, user: &Json, hook: Hook) -> Option<TurnPart> {
    if hook == Hook::Inlet && comes_here(snapshot, body) {
        return of_model(body, user);
    }
    let message = text(body, "id").or_else(|| text(body, "metadata.message_id"))?;
    let chat = text(body, "chat_id").unwrap_or_else(|| text_or_empty(body, "metadata.chat_id"));
    Some(TurnPart { user: text_or_empty(user, "id"), chat, message })
}

/// Keeps the parts that callers with a user's key send apart from those of an operator's Open WebUI, which alone says
/// whose chats they are.
pub(super) fn of_caller(app: &App, parts: &Parts, part: TurnPart) -> TurnPart {
    if auth::may_operate(app, parts) {
        return part;
    }
    TurnPart { user: format!("{OTHERS}{}", part.user), ..part }
}

/// The same for a turn whose chat comes here: it has a name in any case.
pub(super) fn of_model(body: &Json, user: &Json) -> Option<TurnPart> {
    let user = text_or_empty(user, "id");
    let own = || format!("{OWN}{}", uuid::Uuid::new_v4().simple());
    let named = text(body, "id").or_else(|| text(body, "metadata.message_id").filter(|_| !is_task(body)));
    let chat = text(body, "chat_id").or_else(|| text(body, "metadata.chat_id").filter(|_| !is_task(body)));
    // Chats of this kind are not to be kept, so they have no name here.
    let chat = chat.filter(|chat| !chat.starts_with("local:")).unwrap_or_default();
    Some(TurnPart { user, chat, message: named.unwrap_or_else(own) })
}

/// Returns `true` if the chat itself will come to this host: then its model is one of ours, and a pipe to Open WebUI.
pub(super) fn comes_here(snapshot: &Snapshot, body: &Json) -> bool {
    body.at_path("metadata.model.pipeline.type").as_str() == Some("pipe")
        && names::model(snapshot, &body.text_or_empty("model")).is_some()
}

/// Names the turn in the body of a chat that will come here. Other services would refuse what they do not know.
pub(super) fn mark(snapshot: &Snapshot, body: &Json, part: &TurnPart) {
    if !comes_here(snapshot, body) {
        return;
    }
    // New texts in an object: they fit.
    body.edit("id", part.message.as_str());
    if !part.chat.is_empty() {
        body.edit("chat_id", part.chat.as_str());
    }
}

/// Goes on with a chat whose earlier parts came here: scripts find what they kept, and inlets that ran do not
/// run again. Nor do the outlets that Open WebUI asks for when the answer is there, unless they can still
/// change what its client gets.
pub(crate) fn go_on(
    app: &App,
    snapshot: &Snapshot,
    parts: &Parts,
    body: &Json,
    ready: &mut Ready,
    facts: &mut TurnFacts,
) -> Context {
    let part = TurnPart {
        user: text_or_empty(body, "user.id"),
        chat: text_or_empty(body, "chat_id"),
        message: text_or_empty(body, "id"),
    };
    // Who has only a key to chat with could have an inlet look at one body and send another.
    let is_trusted = || auth::may_operate(app, parts);
    let parted = app.parted.find(&part).filter(|_| !part.message.is_empty() && is_trusted());
    let Some(parted) = parted else { return facts::context(app, facts, body) };
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
    let is_streamed = request::wants_stream(body) && !ready.kernel.settings().hold;
    if is_task || is_streamed {
        spared = spared.with(Hook::Outlet);
    } else {
        parted.outlets_ran(ran.clone());
    }
    ready.kernel = ready.kernel.sparing(&ran, spared);
    facts.states = Some(parted.states().clone());
    facts::context_with(app, facts, body, parted.metadata().clone())
}

/// The kernel with an answer in the place of a filter's inlet, which gave it before.
fn answering(kernel: &Kernel, id: &str, answer: Json) -> Kernel {
    let place =
        kernel.chain().filters().iter().find(|filter| filter.name() == id).map_or(0.0, FilterEntry::place);
    // By another name: the filter's own inlet is spared.
    let name = format!("{id} (inlet)");
    let answers = move |_: &mut FilterContext| Ok(Verdict::Respond(answer.deep_clone()));
    kernel.with_filter(FilterEntry::closure(&name, Hook::Inlet, answers).priority(place))
}

/// Forgets what plugins kept that are removed, or replaced by others under their ids.
pub(super) fn forget_strangers(parted: &SplitTurn, snapshot: &Snapshot) {
    parted.forget_strangers(|id| snapshot.plugins.get(id).map(|plugin| plugin.incarnation));
}

/// Returns `true` if it is one of the small questions that Open WebUI asks beside a chat: for a title, for tags.
fn is_task(body: &Json) -> bool {
    !body.at_path("metadata.task").is_empty()
}

fn text(body: &Json, path: &str) -> Option<String> {
    Some(text_or_empty(body, path)).filter(|text| !text.is_empty())
}

fn text_or_empty(body: &Json, path: &str) -> String {
    body.at_path(path).str_or_empty().to_owned()
}
