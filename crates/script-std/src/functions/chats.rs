//! `chats::…`: read-only access to the user's stored conversations.

use super::argument::{AnyMap, RhaiResultOf, effect, fail, running};
use super::host_calls;
use super::records::{self, charge_bytes, ungranted};
use super::waiting::Options;
use rhai::{Array, Dynamic, Map, Module};
use std::sync::Arc;
use valvehouse_core::chat::message;
use valvehouse_core::error::Error;
use valvehouse_dialect::budget;
use valvehouse_dialect::call::Call;
use valvehouse_dialect::call::resources::{ChatRecord, Chats};
use valvehouse_dialect::value::{Shape, live};
use valvehouse_grants::Capability;
use valvehouse_json::Json;

/// The maximum number of conversations in a list.
const MAX_CHATS: usize = 100;
const CHATS: usize = 20;
/// The maximum number of messages that one call reads.
const MAX_MESSAGES: usize = 1_000;
/// The maximum size of the messages that one call reads or searches, in bytes.
const MAX_BYTES: usize = 8 << 20;
/// The number of messages that are read at a time.
const BATCH: u64 = 50;
/// The number of messages before the first one of the user that are searched for a title.
const BEGINNING: u64 = 5;
/// The maximum length of a title, in characters; the same number is shown around a match.
const TITLE: usize = 80;
const AROUND: usize = 80;
/// The number of bytes that are charged for a call of the store.
const BYTES_OF_A_CALL: u64 = 20_000;
/// The number of searched bytes that are charged as one operation.
const BYTES_OF_AN_OPERATION: usize = 512;

/// The module `chats::…`.
pub(super) fn module() -> Module {
    let mut module = Module::new();
    effect(
        "list",
        &["Array"],
        "Returns the latest 20 stored conversations of the user, the newest first: `#{ id, title, model, length, \
         summary, created_at, updated_at }`, with Unix seconds. Conversations of models with `memory = true` are \
         stored.",
    )
    .set_into_module(&mut module, || list(&Map::new().into()));
    effect(
        "list",
        &["options: map", "Array"],
        "Like `chats::list` with options: `limit`, at most 100, and `before`, the `updated_at` of the last conversation \
         already listed.",
    )
    .set_into_module(&mut module, |options: AnyMap| list(&options));
    effect(
        "read",
        &["id: &str", "Array"],
        "Returns the messages of a conversation of the user, at most 1,000 and 8 MiB. Fails if the user has no \
         conversation with this id.",
    )
    .set_into_module(&mut module, |id: &str| read(id, &Map::new().into()));
    effect(
        "read",
        &["id: &str", "options: map", "Array"],
        "Like `chats::read` with options: `from`, the index of the first message, and `limit`.",
    )
    .set_into_module(&mut module, |id: &str, options: AnyMap| read(id, &options));
    effect(
        "search",
        &["text: &str", "Array"],
        "Returns the messages of the user's latest 100 conversations that contain a text, ignoring case, the newest \
         conversation first and at most 20: `#{ id, title, index, role, text }`, with the text around the match. At most 8 MiB of messages are searched.",
    )
    .set_into_module(&mut module, |text: &str| search(text, &Map::new().into()));
    effect(
        "search",
        &["text: &str", "options: map", "Array"],
        "Like `chats::search` with an option: `limit`, at most 100.",
    )
    .set_into_module(&mut module, |text: &str, options: AnyMap| search(text, &options));
    module
}

/// The conversations of the user of the running call.
struct Own {
    name: &'static str,
    call: Call,
    chats: Arc<dyn Chats>,
    user: String,
}

impl Own {
    fn find(name: &'static str) -> RhaiResultOf<Self> {
        let call = running(name)?;
        let chats = call.resources.chats.clone().ok_or_else(|| ungranted(name, &call, Capability::Chats))?;
        let (call, user) = records::user(name)?;
        Ok(Self { name, call, chats, user })
    }

    fn wait<T>(&self, work: impl Future<Output = Result<T, Error>>) -> RhaiResultOf<T> {
        let done = budget::wait(&self.call.turn, work)?;
        charge_bytes(BYTES_OF_A_CALL)?;
        done.map_err(|error| fail(self.name, error))
    }

    fn all(&self, before: Option<i64>, limit: usize) -> RhaiResultOf<Vec<ChatRecord>> {
        self.wait(self.chats.list(self.user.clone(), before, limit as u64))
    }

    fn messages(&self, id: &str, from: u64, to: u64) -> RhaiResultOf<Vec<Json>> {
        let found = self.wait(self.chats.messages(self.user.clone(), id.to_owned(), from, to))?;
        for message in found.iter().flatten() {
            charge_bytes(message.size_estimate() as u64)?;
        }
        found.ok_or_else(|| {
            let id = valvehouse_dialect::call::redaction::excerpt(id);
            fail(
                self.name,
                format!("unknown conversation `{id}` of this user; chats::list() returns the known ids"),
            )
        })
    }

    fn title(&self, chat: &ChatRecord) -> RhaiResultOf<String> {
        let beginning = self.messages(&chat.id, 0, BEGINNING)?;
        let first = beginning.iter().find(|message| message::role_of(message) == "user");
        let text = first.map_or_else(String::new, |message| message::text_of(message).to_string());
        Ok(line(&text, TITLE))
    }

    fn shown(&self, chat: &ChatRecord) -> RhaiResultOf<Dynamic> {
        let json = Json::from([
            ("id", chat.id.as_str().into()),
            ("title", self.title(chat)?.into()),
            ("model", chat.model.as_str().into()),
            ("length", chat.length.into()),
            ("summary", chat.summary.as_deref().into()),
            ("created_at", (chat.created_at as f64 / 1e3).into()),
            ("updated_at", (chat.updated_at as f64 / 1e3).into()),
        ]);
        Ok(live(&json, Shape::Plain))
    }
}

/// Returns the start of a text in one line.
fn line(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().take(most).collect();
    let line = words.join(" ");
    match line.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

fn list(options: &Dynamic) -> RhaiResultOf<Array> {
    const NAME: &str = "chats::list";
    let options = Options::of(NAME, options)?;
    let limit = options.count("limit", CHATS, MAX_CHATS)?;
    let before =
        options.value("before").map(|before| super::argument::float(NAME, "before", &before)).transpose()?;
    // Seconds with three decimals convert back to the exact milliseconds.
    let before = before.map(|seconds| (seconds * 1e3).round() as i64);
    let own = Own::find(NAME)?;
    host_calls::once(
        NAME,
        || vec![Json::from(limit), before.into()].into(),
        || own.all(before, limit)?.iter().map(|chat| own.shown(chat)).collect(),
    )
}

fn read(id: &str, options: &Dynamic) -> RhaiResultOf<Array> {
    const NAME: &str = "chats::read";
    let options = Options::of(NAME, options)?;
    let limit = options.count("limit", MAX_MESSAGES, MAX_MESSAGES)?;
    let from = match options.value("from").map(|from| from.as_int()) {
        None => 0,
        Some(Ok(from)) if from >= 0 => from.unsigned_abs(),
        Some(_) => return Err(options.wrong("`from` must be the index of a message, from 0")),
    };
    let own = Own::find(NAME)?;
    host_calls::once(
        NAME,
        || vec![Json::from(id), from.into(), limit.into()].into(),
        || {
            let (mut messages, mut bytes) = (Array::new(), 0);
            let to = from.saturating_add(limit as u64);
            let mut at = from;
            loop {
                let some = own.messages(id, at, to.min(at + BATCH))?;
                if some.is_empty() {
                    return Ok(messages);
                }
                at += some.len() as u64;
                for message in some {
                    bytes += message.size_estimate();
                    if bytes > MAX_BYTES {
                        return Err(fail(
                            NAME,
                            "the messages exceeded their limit of 8 MiB; read fewer with `limit`",
                        ));
                    }
                    messages.push(live(&message, Shape::Message));
                }
            }
        },
    )
}

fn search(text: &str, options: &Dynamic) -> RhaiResultOf<Array> {
    const NAME: &str = "chats::search";
    let options = Options::of(NAME, options)?;
    let limit = options.count("limit", CHATS, MAX_CHATS)?;
    let needle = text.trim().to_lowercase();
    if needle.is_empty() {
        return Err(fail(NAME, "`text` must not be empty"));
    }
    let own = Own::find(NAME)?;
    host_calls::once(
        NAME,
        || vec![Json::from(text), limit.into()].into(),
        || {
            let (mut found, mut bytes) = (Array::new(), 0);
            for chat in own.all(None, MAX_CHATS)? {
                let mut title = None;
                let mut at = 0;
                loop {
                    let some = own.messages(&chat.id, at, at + BATCH)?;
                    if some.is_empty() {
                        break;
                    }
                    for (index, message) in (at..).zip(&some) {
                        let message_text = message::text_of(message);
                        bytes += message_text.len();
                        budget::charge((message_text.len() / BYTES_OF_AN_OPERATION) as u64)
                            .map_err(budget::ended)?;
                        let Some(excerpt) = excerpt(&message_text, &needle) else { continue };
                        let title = match &title {
                            Some(title) => title,
                            None => title.insert(own.title(&chat)?),
                        };
                        let match_ = Json::from([
                            ("id", chat.id.as_str().into()),
                            ("title", title.as_str().into()),
                            ("index", index.into()),
                            ("role", message::role_of(message).as_str().into()),
                            ("text", excerpt.into()),
                        ]);
                        found.push(live(&match_, Shape::Plain));
                        if found.len() == limit {
                            return Ok(found);
                        }
                    }
                    at += some.len() as u64;
                    if bytes > MAX_BYTES {
                        return Ok(found);
                    }
                }
            }
            Ok(found)
        },
    )
}

/// Returns the text around the first match; `needle` is in lower case.
fn excerpt(text: &str, needle: &str) -> Option<String> {
    let lower = text.to_lowercase();
    let at = lower.find(needle)?;
    // Lower case may change the length in bytes, so the position is counted in characters.
    let place = lower[..at].chars().count();
    let count = needle.chars().count() + 2 * AROUND;
    let excerpt: String = text.chars().skip(place.saturating_sub(AROUND)).take(count).collect();
    Some(line(&excerpt, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_shows_the_match_in_context() {
        assert_eq!(excerpt("The Größe of it", "größe").as_deref(), Some("The Größe of it"));
        assert_eq!(excerpt("İİ x", "x").as_deref(), Some("İİ x"));
        assert_eq!(excerpt("abc", "d"), None);
        let long = format!("{}needle{}", "a".repeat(500), "b".repeat(500));
        assert_eq!(excerpt(&long, "needle").unwrap().len(), 6 + 2 * AROUND);
        assert_eq!(line("one\n two three", 7), "one two…");
    }
}
