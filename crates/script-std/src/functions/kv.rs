//! `kv::…`: values that a script stores beyond the turn and across restarts.
//!
//! There are three maps with the same functions: `kv::` belongs to the script, `kv::user::` to each user,
//! `kv::chat::` to each chat. All callers without a user id share the user "". Without a chat id, the chat is this
//! one turn, and its values end with it.
//!
//! Writes are on disk before the turn's answer ends, unless they set `#{durable: false}`.

use super::argument::{AnyNumber, RhaiResultOf, effect, fail, float, running};
use super::host_calls::{self, Recordable};
use rhai::{Array, Dynamic, EvalAltResult, FnPtr, Map, Module, NativeCallContext};
use std::sync::Arc;
use std::time::Duration;
use valvehouse_dialect::value::{Shape, json_of, live};
use valvehouse_dialect::{budget, call};
use valvehouse_json::Json;
use valvehouse_store::{Kv, KvError, KvMap, MAX_TRIES, scope_of_chat};

/// The work of a write that is charged to its call: the store writes it to the disk later.
const WRITE: Duration = Duration::from_micros(10);
/// The maximum time to live in seconds: a hundred years.
const MAX_TTL: f64 = 100.0 * 366.0 * 86_400.0;

/// The owner of the map that a function accesses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Own,
    User,
    Chat,
}

/// The documentation of the options of a write.
const FAST: &str = "With `#{durable: false}` the call does not wait for the disk: it is faster, and a crash \
                    may lose the write.";

/// The module `kv::…` with `kv::user::…` and `kv::chat::…`.
pub(super) fn module() -> Module {
    let mut module = functions(Scope::Own);
    for (name, scope) in [("user", Scope::User), ("chat", Scope::Chat)] {
        let mut below = functions(scope);
        below.set_id(format!("kv::{name}"));
        below.build_index();
        module.set_sub_module(name, below);
    }
    module
}

fn functions(scope: Scope) -> Module {
    let mut module = Module::new();
    for register in [reads, writes, counters, updates, windows] {
        register(&mut module, scope, scope.name());
    }
    module
}

/// Registers what reads the map.
fn reads(module: &mut Module, scope: Scope, place: &'static str) {
    effect(
        "get",
        &["key: &str", "Dynamic"],
        &format!("Returns the value of a key in {place}, `()` if there is none."),
    )
    .set_into_module(module, move |key: &str| -> RhaiResultOf<Dynamic> {
        Ok(live(&scope.get(key)?.into(), Shape::Plain))
    });
    effect(
        "get",
        &["key: &str", "fallback", "Dynamic"],
        &format!("Returns the value of a key in {place}, or the fallback."),
    )
    .set_into_module(module, move |key: &str, fallback: Dynamic| -> RhaiResultOf<Dynamic> {
        // A list or map is live in either case, so that a second name changes it too.
        let fallback = || match fallback.is_array() || fallback.is_map() {
            true => json_of(&fallback)
                .map_or_else(|_| fallback.clone(), |value| live(&value.deep_clone(), Shape::Plain)),
            false => fallback.clone(),
        };
        Ok(scope.get(key)?.map_or_else(fallback, |value| live(&value, Shape::Plain)))
    });

    effect("keys", &["Array"], &format!("Returns all keys of {place} in alphabetical order."))
        .set_into_module(module, move || scope.keys(""));
    effect(
        "keys",
        &["prefix: &str", "Array"],
        &format!("Returns the keys of {place} that start with `prefix`, in alphabetical order."),
    )
    .set_into_module(module, move |prefix: &str| scope.keys(prefix));
}

/// Registers what sets and deletes entries.
fn writes(module: &mut Module, scope: Scope, place: &'static str) {
    effect(
        "set",
        &["key: &str", "value"],
        &format!("Sets a key in {place} without an expiry. The value `()` deletes the key."),
    )
    .set_into_module(module, move |key: &str, value: Dynamic| scope.set(key, &value, None, None));
    effect("set", &["key: &str", "value", "options: map"], &format!("Sets a key in {place}. {FAST}"))
        .set_into_module(module, move |key: &str, value: Dynamic, options: Map| {
            scope.set(key, &value, None, Some(options))
        });
    effect(
        "set",
        &["key: &str", "value", "ttl_seconds: number"],
        &format!("Sets a key in {place} that expires after `ttl_seconds`. The value `()` deletes the key."),
    )
    .set_into_module(module, move |key: &str, value: Dynamic, ttl_seconds: AnyNumber| {
        scope.set(key, &value, Some(ttl_seconds), None)
    });
    effect(
        "set",
        &["key: &str", "value", "ttl_seconds: number", "options: map"],
        &format!("Sets a key in {place} that expires after `ttl_seconds`. {FAST}"),
    )
    .set_into_module(module, move |key: &str, value: Dynamic, ttl_seconds: AnyNumber, options: Map| {
        scope.set(key, &value, Some(ttl_seconds), Some(options))
    });

    effect(
        "delete",
        &["key: &str", "bool"],
        &format!("Deletes a key of {place} and returns true if it existed."),
    )
    .set_into_module(module, move |key: &str| scope.delete(key, None));
    effect(
        "delete",
        &["key: &str", "options: map", "bool"],
        &format!("Deletes a key of {place} and returns true if it existed. {FAST}"),
    )
    .set_into_module(module, move |key: &str, options: Map| scope.delete(key, Some(options)));
}

/// Registers the counters.
fn counters(module: &mut Module, scope: Scope, place: &'static str) {
    const COUNTS: &str = "A new counter starts at 0. The update is atomic.";
    effect(
        "incr",
        &["key: &str", "number"],
        &format!("Adds 1 to a number in {place} and returns the new number. {COUNTS}"),
    )
    .set_into_module(module, move |key: &str| scope.incr(key, &1_i64.into(), None, None));
    effect(
        "incr",
        &["key: &str", "options: map", "number"],
        &format!("Adds 1 to a number in {place} and returns the new number. {FAST}"),
    )
    .set_into_module(module, move |key: &str, options: Map| {
        scope.incr(key, &1_i64.into(), None, Some(options))
    });
    effect(
        "incr",
        &["key: &str", "by: number", "number"],
        &format!("Adds `by` to a number in {place} and returns the new number. {COUNTS}"),
    )
    .set_into_module(module, move |key: &str, by: AnyNumber| scope.incr(key, &by, None, None));
    effect(
        "incr",
        &["key: &str", "by: number", "options: map", "number"],
        &format!("Adds `by` to a number in {place} and returns the new number. {FAST}"),
    )
    .set_into_module(module, move |key: &str, by: AnyNumber, options: Map| {
        scope.incr(key, &by, None, Some(options))
    });
    effect(
        "incr",
        &["key: &str", "by: number", "ttl_seconds: number", "number"],
        &format!(
            "Adds `by` to a number in {place} and returns the new number. {COUNTS}\nThe counter \
                  expires `ttl_seconds` after its start: `kv::incr(\"today\", 1, 86_400)`."
        ),
    )
    .set_into_module(module, move |key: &str, by: AnyNumber, ttl_seconds: AnyNumber| {
        scope.incr(key, &by, Some(ttl_seconds), None)
    });
    effect(
        "incr",
        &["key: &str", "by: number", "ttl_seconds: number", "options: map", "number"],
        &format!("Adds `by` to a number in {place} that expires `ttl_seconds` after its start. {FAST}"),
    )
    .set_into_module(module, move |key: &str, by: AnyNumber, ttl_seconds: AnyNumber, options: Map| {
        scope.incr(key, &by, Some(ttl_seconds), Some(options))
    });
}

/// Registers the updates by functions of the script.
fn updates(module: &mut Module, scope: Scope, place: &'static str) {
    const UPDATES: &str = "The function gets the value, `()` if there is none, and returns the new one, \
                           `()` to delete it. It runs again if another turn changed the value meanwhile, so \
                           it must not have side effects.";
    effect(
        "update",
        &["key: &str", "change: FnPtr", "Dynamic"],
        &format!(
            "Replaces a value in {place} with the result of a function and returns the new value.\n{UPDATES}"
        ),
    )
    .set_into_module(module, move |context: NativeCallContext<'_>, key: &str, change: FnPtr| {
        scope.update(&context, key, &change, None, None)
    });
    effect(
        "update",
        &["key: &str", "change: FnPtr", "options: map", "Dynamic"],
        &format!(
            "Replaces a value in {place} with the result of a function and returns the new value. {FAST}"
        ),
    )
    .set_into_module(
        module,
        move |context: NativeCallContext<'_>, key: &str, change: FnPtr, options: Map| {
            scope.update(&context, key, &change, None, Some(options))
        },
    );
    effect(
        "update",
        &["key: &str", "change: FnPtr", "ttl_seconds: number", "Dynamic"],
        &format!(
            "Replaces a value in {place} with the result of a function and returns the new value, which expires after \
             `ttl_seconds`.\n{UPDATES}"
        ),
    )
    .set_into_module(
        module,
        move |context: NativeCallContext<'_>, key: &str, change: FnPtr, ttl_seconds: AnyNumber| {
            scope.update(&context, key, &change, Some(ttl_seconds), None)
        },
    );
    effect(
        "update",
        &["key: &str", "change: FnPtr", "ttl_seconds: number", "options: map", "Dynamic"],
        &format!(
            "Replaces a value in {place} with the result of a function and returns the new value, which expires after \
             `ttl_seconds`. {FAST}"
        ),
    )
    .set_into_module(
        module,
        move |context: NativeCallContext<'_>,
              key: &str,
              change: FnPtr,
              ttl_seconds: AnyNumber,
              options: Map| {
            scope.update(&context, key, &change, Some(ttl_seconds), Some(options))
        },
    );
}

/// Registers the windows of events.
fn windows(module: &mut Module, scope: Scope, place: &'static str) {
    effect(
        "window",
        &["key: &str", "seconds: number", "limit: i64", "window"],
        &format!(
            "Counts an event in {place} unless it would exceed `limit` events within the last \
                  `seconds`, and returns\n`#{{allowed, count, retry_after}}`, where `retry_after` is the \
                  number of seconds until the next event is allowed."
        ),
    )
    .set_into_module(module, move |key: &str, seconds: AnyNumber, limit: i64| {
        scope.window(key, &seconds, limit, None)
    });
    effect(
        "window",
        &["key: &str", "seconds: number", "limit: i64", "options: map", "window"],
        &format!("Counts an event in {place}, like `window` without options. {FAST}"),
    )
    .set_into_module(module, move |key: &str, seconds: AnyNumber, limit: i64, options: Map| {
        scope.window(key, &seconds, limit, Some(options))
    });
}

impl Scope {
    const fn name(self) -> &'static str {
        match self {
            Self::Own => "the script's map",
            Self::User => "the script's map for this user",
            Self::Chat => "the script's map for this chat",
        }
    }

    /// Writes to the running call's map. The end of the turn's answer waits for the disk, unless the options
    /// disable it.
    fn write<T, E>(
        self,
        function: &str,
        options: Option<Map>,
        write: impl FnOnce(&KvMap) -> Result<T, E>,
    ) -> RhaiResultOf<Result<T, E>> {
        let durable = self.durable(function, options)?;
        budget::charge_work(WRITE).map_err(budget::ended)?;
        let written = write(&self.map(function)?);
        if durable {
            self.flush_before_end();
        }
        Ok(written)
    }

    /// Makes the end of the turn's answer wait for the disk.
    fn flush_before_end(self) {
        if !self.ends_with_the_turn()
            && let Some(call) = call::current()
            && let Some(kv) = &call.resources.kv
            && let Some(write) = kv.want_flush()
        {
            call.turn.flush_before_end(Arc::<Kv>::clone(kv), write);
        }
    }

    /// Reads the option `#{durable: false}`.
    fn durable(self, function: &str, options: Option<Map>) -> RhaiResultOf<bool> {
        let mut durable = true;
        for (name, value) in options.into_iter().flatten() {
            let function = self.called(function);
            if name != "durable" {
                return Err(fail(
                    &function,
                    format!("unknown option `{name}`; the only option is `durable`"),
                ));
            }
            durable = value.as_bool().map_err(|kind| {
                fail(&function, format!("invalid option `durable`: expected true or false, got {kind}"))
            })?;
        }
        Ok(durable)
    }

    /// Returns `true` if this map belongs to the turn and ends with it.
    fn ends_with_the_turn(self) -> bool {
        self == Self::Chat && call::current().is_none_or(|call| call.turn.facts().chat_id.is_empty())
    }

    /// Returns the running call's map.
    fn map(self, function: &str) -> RhaiResultOf<KvMap> {
        let call = running(&self.called(function))?;
        let undeclared = || {
            fail(
                &self.called(function),
                "missing capability `kv`; add a line to the opening comment of the file: requirements: kv",
            )
        };
        let kv = call.resources.kv.as_ref().ok_or_else(undeclared)?;
        let facts = call.turn.facts();
        Ok(match self {
            Self::Own => kv.map(&call.caller.plugin, "own"),
            Self::User => {
                let id = facts.user.field("id");
                let id = id
                    .as_str()
                    .map_or_else(|| if id.is_null() { String::new() } else { id.to_string() }, str::to_owned);
                kv.map(&call.caller.plugin, format!("user/{id}"))
            }
            Self::Chat if facts.chat_id.is_empty() => {
                call.turn.local::<Kv>().map(&call.caller.plugin, "chat")
            }
            Self::Chat => {
                kv.map(&call.caller.plugin, scope_of_chat(&facts.chat_id, facts.verified_user.as_deref()))
            }
        })
    }

    fn called(self, function: &str) -> String {
        match self {
            Self::Own => format!("kv::{function}"),
            Self::User => format!("kv::user::{function}"),
            Self::Chat => format!("kv::chat::{function}"),
        }
    }

    fn refused(self, function: &str, error: &KvError) -> Box<EvalAltResult> {
        fail(&self.called(function), error)
    }

    fn ttl(self, function: &str, seconds: Option<AnyNumber>) -> RhaiResultOf<Option<Duration>> {
        seconds.map(|seconds| self.seconds(function, "ttl_seconds", &seconds)).transpose()
    }

    fn seconds(self, function: &str, name: &str, value: &Dynamic) -> RhaiResultOf<Duration> {
        let function = self.called(function);
        let seconds = float(&function, name, value)?;
        if seconds > 0.0 && seconds <= MAX_TTL {
            return Ok(Duration::from_secs_f64(seconds));
        }
        Err(fail(&function, format!("`{name}` must be above 0 and at most 100 years, not {value}")))
    }

    /// Makes a call on this map once, even if its step runs again after a pause.
    fn once<T: Recordable>(
        self,
        function: &str,
        arguments: impl FnOnce() -> Vec<Json>,
        work: impl FnOnce() -> RhaiResultOf<T>,
    ) -> RhaiResultOf<T> {
        host_calls::once(&self.called(function), || arguments().into(), work)
    }

    fn get(self, key: &str) -> RhaiResultOf<Option<Json>> {
        let map = self.map("get")?;
        self.once("get", || vec![key.into()], || Ok(map.get(key)))
    }

    fn set(
        self,
        key: &str,
        value: &Dynamic,
        ttl: Option<AnyNumber>,
        options: Option<Map>,
    ) -> RhaiResultOf<()> {
        let ttl = self.ttl("set", ttl)?;
        let value = json_of(value)?;
        self.once(
            "set",
            || vec![key.into(), value.deep_clone()],
            || {
                let written = self.write("set", options, |map| map.set(key, &value, ttl))?;
                written.map_err(|error| self.refused("set", &error))
            },
        )
    }

    fn delete(self, key: &str, options: Option<Map>) -> RhaiResultOf<bool> {
        self.once(
            "delete",
            || vec![key.into()],
            || {
                let written = self.write("delete", options, |map| Ok::<_, KvError>(map.delete(key)))?;
                written.map_err(|error| self.refused("delete", &error))
            },
        )
    }

    fn incr(
        self,
        key: &str,
        by: &Dynamic,
        ttl: Option<AnyNumber>,
        options: Option<Map>,
    ) -> RhaiResultOf<Dynamic> {
        let ttl = self.ttl("incr", ttl)?;
        let by = json_of(by)?;
        let sum = self.once(
            "incr",
            || vec![key.into(), by.deep_clone()],
            || {
                let sum = self.write("incr", options, |map| map.incr(key, &by, ttl))?;
                sum.map_err(|error| self.refused("incr", &error))
            },
        )?;
        Ok(live(&sum, Shape::Plain))
    }

    fn keys(self, prefix: &str) -> RhaiResultOf<Array> {
        let map = self.map("keys")?;
        self.once(
            "keys",
            || vec![prefix.into()],
            || Ok(map.keys(prefix).into_iter().map(Dynamic::from).collect()),
        )
    }

    fn update(
        self,
        context: &NativeCallContext<'_>,
        key: &str,
        change: &FnPtr,
        ttl: Option<AnyNumber>,
        options: Option<Map>,
    ) -> RhaiResultOf<Dynamic> {
        let ttl = self.ttl("update", ttl)?;
        let changed = |old: Json| json_of(&change.call_raw(context, None, [live(&old, Shape::Plain)])?);
        let work = || {
            if let Some(kv) = self.shared()? {
                let durable = self.durable("update", options)?;
                let value = self.update_shared(&kv, key, ttl, changed)?;
                if durable {
                    // The value is written, unless the store is unavailable.
                    self.flush_before_end();
                }
                return Ok(value);
            }
            let after = self.write("update", options, |map| {
                map.update(key, ttl, |old| changed(old).map_err(UpdateError::Script))
            })?;
            after.map_err(|failed| match failed {
                UpdateError::Script(error) => error,
                UpdateError::Kv(error) => self.refused("update", &error),
            })
        };
        let value = self.once("update", || vec![key.into()], work)?;
        Ok(live(&value, Shape::Plain))
    }

    /// Returns the maps of the running call if other hosts can write this one too.
    fn shared(self) -> RhaiResultOf<Option<Arc<Kv>>> {
        let call = running(&self.called("update"))?;
        Ok(call.resources.kv.clone().filter(|kv| kv.is_shared() && !self.ends_with_the_turn()))
    }

    /// Replaces a value that other hosts can replace too: their store accepts it only if the value has not changed
    /// meanwhile. The script waits for this.
    fn update_shared(
        self,
        kv: &Kv,
        key: &str,
        ttl: Option<Duration>,
        changed: impl Fn(Json) -> RhaiResultOf<Json>,
    ) -> RhaiResultOf<Json> {
        let refused = |error: KvError| self.refused("update", &error);
        let (map, turn) = (self.map("update")?, running(&self.called("update"))?.turn);
        for _ in 0..MAX_TRIES {
            let seen = map.look(key);
            let after = changed(seen.value.deep_clone())?;
            if budget::wait(&turn, kv.swap(&map, key, &seen, &after, ttl))?.map_err(refused)? {
                return Ok(after);
            }
        }
        Err(refused(KvError::Contended))
    }

    fn window(self, key: &str, seconds: &Dynamic, limit: i64, options: Option<Map>) -> RhaiResultOf<Map> {
        let length = self.seconds("window", "seconds", seconds)?;
        let negative = |_| fail(&self.called("window"), format!("`limit` must not be negative, not {limit}"));
        let limit = u64::try_from(limit).map_err(negative)?;
        let work = || {
            let window = self.write("window", options, |map| map.window(key, length, limit))?;
            let window = window.map_err(|error| self.refused("window", &error))?;
            let number = |number: u64| Dynamic::from(i64::try_from(number).unwrap_or(i64::MAX));
            Ok([
                ("allowed".into(), window.allowed.into()),
                ("count".into(), number(window.count)),
                ("retry_after".into(), number(window.retry_after)),
            ]
            .into_iter()
            .collect())
        };
        self.once("window", || vec![key.into()], work)
    }
}

/// The reason why an update failed.
enum UpdateError {
    Script(Box<EvalAltResult>),
    Kv(KvError),
}

impl From<KvError> for UpdateError {
    fn from(error: KvError) -> Self {
        Self::Kv(error)
    }
}
