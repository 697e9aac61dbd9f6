//! `memories::…`: facts about a user that are shared by all scripts with the grant.
//!
//! A memory is a text with its vector. The vectors come from the configured embedding model or are computed by the
//! host. If the model changes, the memories of a user are embedded again at the next use.

use super::argument::{AnyMap, RhaiResultOf, effect, fail};
use super::host_calls;
use super::records::{self, charge_embedding, charge_search, space_of_user, ungranted, wait};
use super::vectors::{checked_count, min_score};
use super::waiting::Options;
use rhai::{Array, Dynamic, Map, Module};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use valvehouse_core::provider::{BUILTIN_EMBEDDING, builtin_embedding};
use valvehouse_core::text::hex;
use valvehouse_dialect::budget;
use valvehouse_dialect::call::resources::{EmbedRequest, Embeddings, Models};
use valvehouse_dialect::call::{self, Call};
use valvehouse_dialect::value::{Shape, live};
use valvehouse_grants::Capability;
use valvehouse_json::Json;
use valvehouse_store::{NewVector, StoreError, VectorIndex, VectorOwner};

/// The maximum number of memories per user.
const MAX_MEMORIES: u64 = 1_000;
/// The maximum length of a memory, in bytes.
const MAX_TEXT: usize = 8 << 10;
/// The number of texts that are embedded at a time.
const BATCH: usize = 100;

/// The module `memories::…`, with the same functions under `memories::user::…`.
pub(super) fn module() -> Module {
    let mut module = functions();
    let mut below = functions();
    below.set_id("memories::user");
    below.build_index();
    module.set_sub_module("user", below);
    module
}

fn functions() -> Module {
    let mut module = Module::new();
    effect(
        "available",
        &["bool"],
        "Returns true if the script has the grant and the request has a verified user.",
    )
    .set_into_module(&mut module, || -> RhaiResultOf<bool> {
        let call = super::argument::running("memories::available")?;
        Ok(call.resources.memories.is_some() && call.turn.facts().verified_user.is_some())
    });
    effect(
        "add",
        &["text: &str", "String"],
        "Stores a text of at most 8 KiB in the memories of the user and returns its id. The same text is stored once. \
         A user has at most 1,000 memories.",
    )
    .set_into_module(&mut module, add);
    effect(
        "list",
        &["Array"],
        "Returns the memories of the user, the oldest first: `#{ id, text, created_at }`, with Unix seconds.",
    )
    .set_into_module(&mut module, list);
    effect(
        "search",
        &["text: &str", "count: i64", "Array"],
        "Returns the `count` memories of the user that are most similar to a text, the most similar first: `#{ id, \
         text, score, created_at }`.",
    )
    .set_into_module(&mut module, |text: &str, count: i64| search(text, count, &Map::new().into()));
    effect(
        "search",
        &["text: &str", "count: i64", "options: map", "Array"],
        "Like `memories::search` with an option: `min_score`, the minimum score of a result, from -1.0 to 1.0 (equal).",
    )
    .set_into_module(&mut module, |text: &str, count: i64, options: AnyMap| search(text, count, &options));
    effect("delete", &["id: &str", "bool"], "Deletes a memory of the user and returns true if it existed.")
        .set_into_module(&mut module, delete);
    effect("clear", &["i64"], "Deletes all memories of the user and returns their number.")
        .set_into_module(&mut module, clear);
    module
}

/// The memories of the user of the running call.
struct Memories {
    name: &'static str,
    call: Call,
    index: VectorIndex,
    models: Arc<dyn Models>,
    owner: VectorOwner,
}

impl Memories {
    fn find(name: &'static str) -> RhaiResultOf<Self> {
        let call = super::argument::running(name)?;
        let missing = || ungranted(name, &call, Capability::Memories);
        let (index, models) = call.resources.memories.clone().ok_or_else(missing)?;
        let (call, user) = records::user(name)?;
        Ok(Self { name, call, index, models, owner: space_of_user("", &user) })
    }

    fn embed(&self, texts: Vec<String>) -> RhaiResultOf<Embeddings> {
        let plugin = self.call.caller.plugin.to_string();
        let (count, bytes) = (texts.len(), texts.iter().map(String::len).sum());
        let request = EmbedRequest { texts, model: None };
        let embedded =
            budget::wait(&self.call.turn, self.models.embed(plugin, request, self.call.turn.clone()))?;
        let embedded = embedded.map_err(|error| fail(self.name, error))?;
        charge_embedding(&embedded, bytes)?;
        let vectors = embedded.vectors.len();
        match vectors == count {
            true => Ok(embedded),
            false => Err(fail(
                self.name,
                format!("the model for embeddings returned {vectors} vectors for {count} texts"),
            )),
        }
    }

    /// Returns the name of the model, and the vector of a text.
    fn embed_one(&self, text: &str) -> RhaiResultOf<(String, Vec<f32>)> {
        let Embeddings { model, mut vectors } = self.embed(vec![text.to_owned()])?;
        let vector =
            vectors.pop().ok_or_else(|| fail(self.name, "the model for embeddings returned no vector"))?;
        Ok((model, vector))
    }

    fn all(&self) -> RhaiResultOf<Vec<(String, Json)>> {
        let all = wait(self.name, &self.call, self.index.list(&self.owner, "", MAX_MEMORIES))?;
        Ok(all.into_iter().map(|one| (one.id, one.data)).collect())
    }

    /// Embeds all memories again if their vectors come from another model.
    fn keep_to(&self, model: &str) -> RhaiResultOf<()> {
        let space = wait(self.name, &self.call, self.index.space(&self.owner))?;
        if space.count == 0 || space.label == model {
            return Ok(());
        }
        let mut entries = Vec::new();
        let all = self.all()?;
        for some in all.chunks(BATCH) {
            let embedded = self.embed(some.iter().map(|(_, data)| data.string("text")).collect())?;
            let vectors = embedded.vectors.into_iter();
            entries.extend(some.iter().zip(vectors).map(|((id, data), vector)| NewVector {
                id: id.clone(),
                data: data.deep_clone(),
                vector,
            }));
        }
        wait(self.name, &self.call, self.index.put(&self.owner, model, entries, true, MAX_MEMORIES)).map(drop)
    }
}

fn add(text: &str) -> RhaiResultOf<String> {
    const NAME: &str = "memories::add";
    let memories = Memories::find(NAME)?;
    let text = text.trim();
    if text.is_empty() || text.len() > MAX_TEXT {
        let length = text.len();
        return Err(fail(NAME, format!("a memory must have 1 to {MAX_TEXT} bytes, got {length}")));
    }
    host_calls::once(
        NAME,
        || text.into(),
        || {
            let id = memories.index.id_of(&memories.owner, text);
            let (model, vector) = memories.embed_one(text)?;
            memories.keep_to(&model)?;
            let ids = [id.clone(), plain_id_of(text)];
            let known = wait(NAME, &memories.call, memories.index.get(&memories.owner, &ids))?;
            let old: Vec<String> =
                known.iter().map(|known| known.id.clone()).filter(|known| *known == ids[1]).collect();
            let data = match known.into_iter().next() {
                Some(known) => known.data,
                None => memory(text, call::now_ms()),
            };
            let entry = NewVector { id: id.clone(), data, vector };
            let most = MAX_MEMORIES + old.len() as u64;
            let put = memories.index.put(&memories.owner, &model, vec![entry], false, most);
            wait(NAME, &memories.call, put)?;
            if !old.is_empty() {
                wait(NAME, &memories.call, memories.index.delete(&memories.owner, Some(&old)))?;
            }
            Ok(id)
        },
    )
}

/// Returns the id that earlier versions gave a memory. It can be computed from the text, so the memory gets another
/// id when the same text is added again; until then it is found under this one.
fn plain_id_of(text: &str) -> String {
    hex(&Sha256::digest(text)[..12])
}

/// Stores a memory of a user with the built-in embedding.
///
/// # Errors
/// Returns an error if the index cannot be written.
pub async fn store_memory(
    index: &VectorIndex,
    user: &str,
    text: &str,
    created_ms: i64,
) -> Result<(), StoreError> {
    let owner = space_of_user("", user);
    let (id, vector) = (index.id_of(&owner, text), builtin_embedding(text));
    let entry = NewVector { id, data: memory(text, created_ms), vector };
    index.put(&owner, BUILTIN_EMBEDDING, vec![entry], false, MAX_MEMORIES).await.map(drop)
}

/// Returns the data of a memory.
fn memory(text: &str, created_ms: i64) -> Json {
    Json::from([("text", text.into()), ("created_at", (created_ms / 1_000).into())])
}

fn shown(id: &str, score: Option<f32>, data: &Json) -> Dynamic {
    let json = Json::from([("id", id.into()), ("text", data.field("text").deep_clone())]);
    if let Some(score) = score {
        json.edit("score", f64::from(score));
    }
    json.edit("created_at", data.field("created_at").deep_clone());
    live(&json, Shape::Plain)
}

fn list() -> RhaiResultOf<Array> {
    const NAME: &str = "memories::list";
    let memories = Memories::find(NAME)?;
    host_calls::once(
        NAME,
        || Json::Null,
        || {
            let mut all = memories.all()?;
            all.sort_by_key(|(id, data)| (data.count("created_at"), id.clone()));
            Ok(all.iter().map(|(id, data)| shown(id, None, data)).collect())
        },
    )
}

fn search(text: &str, count: i64, options: &Dynamic) -> RhaiResultOf<Array> {
    const NAME: &str = "memories::search";
    let count = checked_count(NAME, count)?;
    let options = Options::of(NAME, options)?;
    let min_score = min_score(NAME, options.value("min_score"))?;
    let memories = Memories::find(NAME)?;
    host_calls::once(
        NAME,
        || vec![Json::from(text), count.into()].into(),
        || {
            // Without memories, nothing is sent to a model.
            if wait(NAME, &memories.call, memories.index.space(&memories.owner))?.count == 0 {
                return Ok(Array::new());
            }
            let (model, vector) = memories.embed_one(&shortened(text))?;
            memories.keep_to(&model)?;
            let nearest = memories.index.nearest(&memories.owner, vector, count, min_score);
            let (found, components) = wait(NAME, &memories.call, nearest)?;
            charge_search(components)?;
            Ok(found.iter().map(|found| shown(&found.id, Some(found.score), &found.data)).collect())
        },
    )
}

/// Truncates a text to the maximum length of a memory.
fn shortened(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT)].to_owned()
}

fn delete(id: &str) -> RhaiResultOf<bool> {
    const NAME: &str = "memories::delete";
    let memories = Memories::find(NAME)?;
    let ids = [id.to_owned()];
    host_calls::once(
        NAME,
        || id.into(),
        || Ok(wait(NAME, &memories.call, memories.index.delete(&memories.owner, Some(&ids)))? > 0),
    )
}

fn clear() -> RhaiResultOf<i64> {
    const NAME: &str = "memories::clear";
    let memories = Memories::find(NAME)?;
    host_calls::once(
        NAME,
        || Json::Null,
        || {
            let deleted = wait(NAME, &memories.call, memories.index.delete(&memories.owner, None))?;
            Ok(i64::try_from(deleted).unwrap_or(i64::MAX))
        },
    )
}
