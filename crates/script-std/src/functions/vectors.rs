//! `vectors::…`: vectors that a script stores, and the search for the nearest ones.
//!
//! There are two spaces with the same functions: `vectors::` belongs to the script, `vectors::user::` to each
//! verified user.

use super::argument::{AnyArray, AnyMap, AnyNumber, RhaiResultOf, effect, fail, float, items, running};
use super::host_calls;
use super::records::{self, charge_bytes, charge_search, space_of_user, undeclared, vector, vector_of, wait};
use super::waiting::Options;
use rhai::{Array, Dynamic, Map, Module};
use valvehouse_dialect::call::Call;
use valvehouse_dialect::value::{Shape, json_of, live};
use valvehouse_json::Json;
use valvehouse_store::{FoundVector, MAX_SPACE_VECTORS, NewVector, VectorIndex, VectorOwner};

/// The maximum number of vectors that one call stores or returns.
const MAX_AT_ONCE: usize = 1_000;

/// The owner of the vectors that a function accesses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Own,
    User,
}

/// The module `vectors::…` with `vectors::user::…`.
pub(super) fn module() -> Module {
    let mut module = functions(Scope::Own);
    let mut below = functions(Scope::User);
    below.set_id("vectors::user");
    below.build_index();
    module.set_sub_module("user", below);
    module
}

fn functions(scope: Scope) -> Module {
    let mut module = Module::new();
    let place = scope.place();
    effect(
        "add",
        &["id: &str", "vector: array"],
        &format!("Stores a vector in {place} under an id, replacing an earlier one."),
    )
    .set_into_module(&mut module, move |id: &str, vector: AnyArray| scope.add(id, &vector, &Dynamic::UNIT));
    effect(
        "add",
        &["id: &str", "vector: array", "data"],
        &format!(
            "Stores a vector in {place} under an id, with data such as `#{{ text: \"…\" }}`, at most 64 KiB as JSON. \
             All vectors have the same number of dimensions, at most 4,096; there are at most 100,000."
        ),
    )
    .set_into_module(&mut module, move |id: &str, vector: AnyArray, data: Dynamic| {
        scope.add(id, &vector, &data)
    });
    effect(
        "add_all",
        &["entries: array"],
        &format!(
            "Stores up to 1,000 vectors in {place}, each `#{{ id, vector, data }}`: all of them or none."
        ),
    )
    .set_into_module(&mut module, move |entries: AnyArray| scope.add_all(&entries));
    effect(
        "nearest",
        &["vector: array", "count: i64", "Array"],
        &format!(
            "Returns the `count` entries of {place} whose vectors are nearest, the nearest first: \
             `#{{ id, score, data }}`. `score` is the cosine similarity, 1.0 for the same direction. Every entry is \
             compared."
        ),
    )
    .set_into_module(&mut module, move |vector: AnyArray, count: i64| {
        scope.nearest(&vector, count, &Map::new().into())
    });
    effect(
        "nearest",
        &["vector: array", "count: i64", "options: map", "Array"],
        &format!(
            "Searches {place} like `nearest` with an option: `min_score`, the minimum score of a result."
        ),
    )
    .set_into_module(&mut module, move |vector: AnyArray, count: i64, options: AnyMap| {
        scope.nearest(&vector, count, &options)
    });
    effect(
        "get",
        &["id: &str", "Dynamic"],
        &format!("Returns the data of an entry of {place}, `()` if there is none."),
    )
    .set_into_module(&mut module, move |id: &str| scope.get(id));
    effect(
        "delete",
        &["id: &str", "bool"],
        &format!("Deletes an entry of {place} and returns true if it existed."),
    )
    .set_into_module(&mut module, move |id: &str| scope.delete(id));
    effect("clear", &["i64"], &format!("Deletes all entries of {place} and returns their number."))
        .set_into_module(&mut module, move || scope.clear());
    effect("count", &["i64"], &format!("Returns the number of entries of {place}."))
        .set_into_module(&mut module, move || scope.count());
    module
}

/// The space that a call accesses.
struct Place {
    call: Call,
    index: VectorIndex,
    owner: VectorOwner,
}

impl Scope {
    const fn place(self) -> &'static str {
        match self {
            Self::Own => "the script's vectors",
            Self::User => "the script's vectors of this user",
        }
    }

    fn called(self, function: &str) -> String {
        match self {
            Self::Own => format!("vectors::{function}"),
            Self::User => format!("vectors::user::{function}"),
        }
    }

    fn find(self, name: &str) -> RhaiResultOf<Place> {
        let call = running(name)?;
        let index = call.resources.vectors.clone().ok_or_else(|| undeclared(name, "vectors"))?;
        let plugin = call.caller.plugin.to_string();
        let owner = match self {
            Self::Own => VectorOwner { plugin, scope: "own".to_owned() },
            Self::User => space_of_user(&plugin, &records::user(name)?.1),
        };
        Ok(Place { call, index, owner })
    }

    fn add(self, id: &str, given: &Dynamic, data: &Dynamic) -> RhaiResultOf<()> {
        let name = self.called("add");
        let entry = NewVector {
            id: id.to_owned(),
            data: json_of(data)?.deep_clone(),
            vector: vector(&name, "vector", given)?,
        };
        self.put(&name, vec![entry])
    }

    fn add_all(self, entries: &Dynamic) -> RhaiResultOf<()> {
        let name = self.called("add_all");
        let entries = items(&name, "entries", entries)?;
        if entries.len() > MAX_AT_ONCE {
            return Err(fail(
                &name,
                format!("exceeded its limit of {MAX_AT_ONCE} entries; store them in several calls"),
            ));
        }
        let entries = entries.iter().map(|entry| {
            let entry = json_of(entry)?;
            let Some(id) = entry.text("id") else {
                return Err(fail(
                    &name,
                    "each entry must be a map #{ id, vector, data } with a text as `id`",
                ));
            };
            let vector = vector_of(&name, "vector", &entry.field("vector"))?;
            Ok(NewVector { id: id.to_string(), data: entry.field("data").deep_clone(), vector })
        });
        let entries = entries.collect::<RhaiResultOf<Vec<_>>>()?;
        self.put(&name, entries)
    }

    fn put(self, name: &str, entries: Vec<NewVector>) -> RhaiResultOf<()> {
        let Place { call, index, owner } = self.find(name)?;
        // Charged in advance, so that a failing call is charged too.
        charge_bytes(
            entries
                .iter()
                .map(|entry| 4 * entry.vector.len() as u64 + entry.data.size_estimate() as u64)
                .sum(),
        )?;
        let ids: Vec<Json> = entries.iter().map(|entry| entry.id.as_str().into()).collect();
        host_calls::once(
            name,
            || ids.into(),
            || wait(name, &call, index.put(&owner, "", entries, false, MAX_SPACE_VECTORS)).map(drop),
        )
    }

    fn nearest(self, given: &Dynamic, count: i64, options: &Dynamic) -> RhaiResultOf<Array> {
        let name = self.called("nearest");
        let searched = vector(&name, "vector", given)?;
        let count = checked_count(&name, count)?;
        let options = Options::of(&name, options)?;
        let min_score = min_score(&name, options.value("min_score"))?;
        let Place { call, index, owner } = self.find(&name)?;
        host_calls::once(
            &name,
            || vec![Json::from(searched.len()), count.into()].into(),
            || {
                let search = index.nearest(&owner, searched.clone(), count, min_score);
                let (found, components) = wait(&name, &call, search)?;
                charge_search(components)?;
                Ok(found.iter().map(|found| live(&shown(found), Shape::Plain)).collect())
            },
        )
    }

    fn get(self, id: &str) -> RhaiResultOf<Dynamic> {
        let name = self.called("get");
        let Place { call, index, owner } = self.find(&name)?;
        let ids = [id.to_owned()];
        host_calls::once(
            &name,
            || id.into(),
            || {
                let found = wait(&name, &call, index.get(&owner, &ids))?;
                Ok(found.first().map_or(Dynamic::UNIT, |found| live(&found.data, Shape::Plain)))
            },
        )
    }

    fn delete(self, id: &str) -> RhaiResultOf<bool> {
        let name = self.called("delete");
        let Place { call, index, owner } = self.find(&name)?;
        let ids = [id.to_owned()];
        host_calls::once(
            &name,
            || id.into(),
            || Ok(wait(&name, &call, index.delete(&owner, Some(&ids)))? > 0),
        )
    }

    fn clear(self) -> RhaiResultOf<i64> {
        let name = self.called("clear");
        let Place { call, index, owner } = self.find(&name)?;
        host_calls::once(&name, || Json::Null, || Ok(number(wait(&name, &call, index.delete(&owner, None))?)))
    }

    fn count(self) -> RhaiResultOf<i64> {
        let name = self.called("count");
        let Place { call, index, owner } = self.find(&name)?;
        host_calls::once(&name, || Json::Null, || Ok(number(wait(&name, &call, index.space(&owner))?.count)))
    }
}

fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns the maximum number of entries that a search returns.
pub(super) fn checked_count(function: &str, count: i64) -> RhaiResultOf<usize> {
    let count = usize::try_from(count).ok().filter(|count| (1..=MAX_AT_ONCE).contains(count));
    count.ok_or_else(|| fail(function, format!("`count` must be from 1 to {MAX_AT_ONCE}")))
}

/// Returns the minimum score of the returned entries.
pub(super) fn min_score(function: &str, given: Option<AnyNumber>) -> RhaiResultOf<f32> {
    let given = given.map(|score| float(function, "min_score", &score)).transpose()?;
    Ok(given.unwrap_or(f64::from(f32::MIN)) as f32)
}

fn shown(found: &FoundVector) -> Json {
    Json::from([
        ("id", found.id.as_str().into()),
        ("score", f64::from(found.score).into()),
        ("data", found.data.deep_clone()),
    ])
}
