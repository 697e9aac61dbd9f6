//! JSON Schemas of types.

use parking_lot::Mutex;
use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::Value;
use std::any::TypeId;
use std::collections::HashMap;
use std::sync::LazyLock;
use valvehouse_json_schema::TypeSchema;

/// The schemas by type. There is one for each type of a request, so their number is bounded.
static KNOWN: LazyLock<Mutex<HashMap<TypeId, &'static TypeSchema>>> = LazyLock::new(Mutex::default);

/// Returns the schema of a type without references. It is never freed, because errors refer to its names.
pub(super) fn of<T: JsonSchema + 'static>() -> &'static TypeSchema {
    let known = KNOWN.lock().get(&TypeId::of::<T>()).copied();
    known.unwrap_or_else(|| {
        let settings = SchemaSettings::draft2020_12().for_deserialize().with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        });
        let mut schema = settings.into_generator().into_root_schema_for::<T>();
        schema.remove("title");
        let schema = TypeSchema::new(schema.to_value());
        let schema = Box::leak(Box::new(schema.expect("our own schemas are valid: a test reads them")));
        KNOWN.lock().entry(TypeId::of::<T>()).or_insert(schema)
    })
}

/// Returns the generator of the schemas that all responses of a document share.
pub(crate) fn shared_schemas() -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    settings.for_serialize().into_generator()
}

/// An object with any fields.
pub(crate) type AnyObject = serde_json::Map<String, Value>;
