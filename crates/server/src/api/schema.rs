//! JSON Schemas of types.

use parking_lot::Mutex;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema, json_schema};
use serde_json::Value;
use std::any::TypeId;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The schemas by type and direction. There is one for each type of a handler, so their number is bounded.
static KNOWN: LazyLock<Mutex<HashMap<(TypeId, Direction), &'static Value>>> = LazyLock::new(Mutex::default);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Direction {
    Request,
    Answer,
}

/// Returns the schema of a type without references. It is never freed, because errors refer to its names.
pub(super) fn of<T: JsonSchema + 'static>(direction: Direction) -> &'static Value {
    let key = (TypeId::of::<T>(), direction);
    if let Some(known) = KNOWN.lock().get(&key) {
        return known;
    }
    let schema: &'static Value = Box::leak(Box::new(inlined::<T>(direction == Direction::Request)));
    KNOWN.lock().entry(key).or_insert(schema)
}

/// Generates the schema of a type without references.
fn inlined<T: JsonSchema>(is_request: bool) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let settings = if is_request { settings.for_deserialize() } else { settings.for_serialize() };
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("title");
    }
    schema
}

/// Returns the generator of the schemas that all responses of a document share.
pub(crate) fn shared_schemas() -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    settings.for_serialize().into_generator()
}

/// The schema of an object with any fields.
pub(crate) struct AnyObject;

impl JsonSchema for AnyObject {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AnyObject".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object"})
    }
}
