//! Calls with effects outside of the turn, which are made once even if their step runs again after a pause.

use super::argument::RhaiResultOf;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rhai::{Array, Dynamic, EvalAltResult, Map};
use valvehouse_core::context::{HostCall, HostResult};
use valvehouse_dialect::answer::summary_of_run;
use valvehouse_dialect::budget::{self, ExceededLimit};
use valvehouse_dialect::call;
use valvehouse_dialect::value::{Bytes, Map as Live, Shape, error, json_of, live};
use valvehouse_json::{Json, Object};

/// A result of a host call that can be recorded.
pub(super) trait Recordable: Sized {
    /// Returns the JSON form; `None` if there is none.
    fn to_json(&self) -> Option<Json>;

    /// Reads the JSON form; `None` if [`Recordable::to_json`] did not write it.
    fn from_json(json: &Json) -> Option<Self>;
}

impl Recordable for Json {
    fn to_json(&self) -> Option<Json> {
        Some(self.deep_clone())
    }

    fn from_json(json: &Json) -> Option<Self> {
        Some(json.deep_clone())
    }
}

impl Recordable for Dynamic {
    fn to_json(&self) -> Option<Json> {
        if let Some(bytes) = Bytes::of(self) {
            return Some(marked("bytes", STANDARD.encode(&bytes.0).into()));
        }
        let json = json_of(self).ok()?.deep_clone();
        match self.read_lock::<Live>().map(|map| map.shape) {
            Some(Shape::Reply) => Some(marked("reply", json)),
            Some(Shape::Message) => Some(marked("message", json)),
            _ if json.get(MARK).is_some() => Some(marked("plain", json)),
            _ => Some(json),
        }
    }

    fn from_json(json: &Json) -> Option<Self> {
        let value = json.field("value");
        Some(match json.text(MARK).as_deref() {
            Some("bytes") => Dynamic::from(Bytes::from_json(&value)?),
            Some("reply") => live(&value.deep_clone(), Shape::Reply),
            Some("message") => live(&value.deep_clone(), Shape::Message),
            Some("plain") => live(&value.deep_clone(), Shape::Plain),
            _ => live(&json.deep_clone(), Shape::Plain),
        })
    }
}

/// The key that marks the type of a recorded value that is not plain JSON.
const MARK: &str = "$";

fn marked(what: &str, value: Json) -> Json {
    Json::from([(MARK, what.into()), ("value", value)])
}

impl Recordable for Option<Json> {
    fn to_json(&self) -> Option<Json> {
        Some(self.iter().map(Json::deep_clone).collect::<Vec<_>>().into())
    }

    fn from_json(json: &Json) -> Option<Self> {
        Some(json.at(0).map(|value| value.deep_clone()))
    }
}

impl Recordable for () {
    fn to_json(&self) -> Option<Json> {
        Some(Json::Null)
    }

    fn from_json(_: &Json) -> Option<Self> {
        Some(())
    }
}

impl Recordable for bool {
    fn to_json(&self) -> Option<Json> {
        Some((*self).into())
    }

    fn from_json(json: &Json) -> Option<Self> {
        json.as_bool()
    }
}

impl Recordable for i64 {
    fn to_json(&self) -> Option<Json> {
        Some((*self).into())
    }

    fn from_json(json: &Json) -> Option<Self> {
        json.as_i64()
    }
}

impl Recordable for f64 {
    fn to_json(&self) -> Option<Json> {
        self.is_finite().then(|| (*self).into())
    }

    fn from_json(json: &Json) -> Option<Self> {
        json.as_f64()
    }
}

impl Recordable for String {
    fn to_json(&self) -> Option<Json> {
        Some(self.as_str().into())
    }

    fn from_json(json: &Json) -> Option<Self> {
        json.as_str().map(str::to_owned)
    }
}

/// Bytes are recorded in base64.
impl Recordable for Bytes {
    fn to_json(&self) -> Option<Json> {
        Some(STANDARD.encode(&self.0).into())
    }

    fn from_json(json: &Json) -> Option<Self> {
        Self::new(STANDARD.decode(json.as_str()?).ok()?).ok()
    }
}

impl Recordable for Array {
    fn to_json(&self) -> Option<Json> {
        let items: Option<Vec<Json>> = self.iter().map(Recordable::to_json).collect();
        Some(items?.into())
    }

    fn from_json(json: &Json) -> Option<Self> {
        json.items().iter().map(Dynamic::from_json).collect()
    }
}

impl Recordable for Map {
    fn to_json(&self) -> Option<Json> {
        Dynamic::from(self.clone()).to_json()
    }

    fn from_json(json: &Json) -> Option<Self> {
        let entries = json.as_object().map(Object::entries)?.into_iter();
        Some(
            entries
                .map(|(key, value)| (key.as_str().into(), live(&value.deep_clone(), Shape::Plain)))
                .collect(),
        )
    }
}

/// Makes a call of the host. A step that runs again after a pause uses the recorded result.
///
/// # Errors
///
/// Returns an error that no script can catch if the step made another call at this point before it paused.
pub(super) fn once<T: Recordable>(
    name: &str,
    arguments: impl FnOnce() -> Json,
    work: impl FnOnce() -> RhaiResultOf<T>,
) -> RhaiResultOf<T> {
    let Some(call) = call::current_that_may_pause() else { return work() };
    let Some(pauses) = call.turn.pauses() else { return work() };
    let plugin = &*call.turn.recorded_by(&call.caller.plugin);
    match pauses.host_call(plugin, name, &arguments()) {
        HostCall::Known(HostResult::Value(value)) => match T::from_json(&value) {
            Some(value) => Ok(value),
            None => Err(budget::ended(ExceededLimit::Replay)),
        },
        HostCall::Known(HostResult::Failure(message)) => Err(error(message)),
        HostCall::Known(HostResult::Unknown) | HostCall::Unrecorded => work(),
        HostCall::Differs(before) => {
            tracing::warn!(
                plugin,
                "cannot use the recorded host calls: expected a call of `{before}`, got `{name}`"
            );
            Err(budget::ended(ExceededLimit::Replay))
        }
        HostCall::New(place) => {
            let result = work();
            let recorded = match &result {
                Ok(value) => Some(value.to_json().map_or(HostResult::Unknown, HostResult::Value)),
                Err(error) if matches!(**error, EvalAltResult::ErrorTerminated(..)) => None,
                Err(error) => Some(HostResult::Failure(summary_of_run(error))),
            };
            pauses.host_called(plugin, place, recorded);
            result
        }
    }
}

/// Makes a call that cannot fail, like [`once`]. If it differs from the recorded one, the script ends at its next
/// operation.
pub(super) fn value<T: Recordable>(name: &str, work: impl Fn() -> T) -> T {
    once(name, || Json::Null, || Ok(work())).unwrap_or_else(|_| {
        budget::doom(ExceededLimit::Replay);
        work()
    })
}
