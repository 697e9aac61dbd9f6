//! The format of answers: schemas, and the instructions that services expect with a format.

use super::draft::{Draft, Slot};
use super::kind::ServiceKind;
use super::schema::inner;
use valvehouse_core::chat::effort::claude;
use valvehouse_core::chat::message::{self, role_of};
use valvehouse_json::{Json, Object};

const FIELD: &str = "response_format";

/// The words of schemas that Anthropic refuses in a format.
const REFUSED: [&str; 9] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "maxItems",
    "uniqueItems",
];

/// Removes a format for JSON beside tools, except for models of Gemini that take both.
pub(super) fn drop_beside_tools(draft: &mut Draft) {
    let takes_both = draft.model().rsplit('/').next().is_some_and(|name| name.starts_with("gemini-3"));
    let is_json = draft.given(FIELD).is_some_and(|format| type_of(&format).starts_with("json"));
    if is_json && !takes_both && !draft.list("tools").is_empty() {
        draft.remove(FIELD);
    }
}

/// Returns the schema of a format.
fn schema_of(format: &Json) -> Option<Object> {
    let schema = format.field("json_schema").given("schema").or_else(|| format.given("schema"))?;
    schema.as_object().cloned()
}

fn type_of(format: &Json) -> String {
    format.string("type")
}

fn is_object(schema: &Object) -> bool {
    schema.with("type", |kind| match kind {
        Some(Json::Array(kinds)) => {
            kinds.with(|kinds| kinds.iter().any(|kind| kind.as_str() == Some("object")))
        }
        kind => kind.is_some_and(|kind| kind.as_str() == Some("object")),
    }) || schema.contains("properties")
}

fn is_closed(schema: &Object) -> bool {
    schema.with("additionalProperties", |own| own.is_some_and(|own| own.as_bool() == Some(false)))
}

fn has_many_items(schema: &Object) -> bool {
    schema.with("minItems", |least| least.and_then(|least| least.as_i64()).is_some_and(|least| least > 1))
}

/// Returns `true` if Anthropic accepts a schema as a format.
pub(super) fn is_accepted(schema: &Object) -> bool {
    (!is_object(schema) || is_closed(schema))
        && !REFUSED.iter().any(|word| schema.contains(word))
        && !has_many_items(schema)
        && inner(schema).iter().all(is_accepted)
}

/// Closes the objects of a schema, and removes the limits of its values.
pub(super) fn close_schema(draft: &mut Draft) {
    let Some(format) = draft.given(FIELD) else { return };
    if schema_of(&format).is_none_or(|schema| is_accepted(&schema)) {
        return;
    }
    let format = format.deep_clone();
    schema_of(&format).iter().for_each(close);
    draft.set(FIELD, format, FIELD);
}

fn close(schema: &Object) {
    inner(schema).iter().for_each(close);
    REFUSED.iter().for_each(|word| drop(schema.remove(word)));
    if has_many_items(schema) {
        schema.remove("minItems");
    }
    if is_object(schema) {
        schema.put("additionalProperties", false.into());
    }
}

/// Returns `true` if each object of a schema is closed and requires all its properties.
pub(super) fn is_strict(schema: &Object) -> bool {
    let requires_all = || {
        let required = schema.field("required").items();
        schema
            .field("properties")
            .keys()
            .iter()
            .all(|name| required.iter().any(|own| own.as_str() == Some(name)))
    };
    (!is_object(schema) || (is_closed(schema) && requires_all())) && inner(schema).iter().all(is_strict)
}

/// Removes the wish for a strict format if its schema cannot be one.
pub(super) fn loosen(draft: &mut Draft) {
    let Some(format) = draft.given(FIELD) else { return };
    if !format.field("json_schema").is_true("strict")
        || schema_of(&format).is_none_or(|schema| is_strict(&schema))
    {
        return;
    }
    let format = format.deep_clone();
    format.field("json_schema").put("strict", false);
    draft.set(FIELD, format, FIELD);
}

/// Removes the wish for strict calls of the tools whose schemas cannot be strict.
pub(super) fn loosen_tools(draft: &mut Draft, kind: ServiceKind) {
    let fits = if kind.is_messages() { is_accepted } else { is_strict };
    let is_wrong = |tool: &Json| {
        let function = tool.field("function");
        function.is_true("strict") && function.field("parameters").as_object().is_some_and(|own| !fits(own))
    };
    draft.edit_tools(is_wrong, |tool| drop(tool.field("function").remove("strict")), "tools.strict");
}

/// Replaces a schema by an instruction with it for older models of Anthropic.
pub(super) fn describe_schema_to_claude(draft: &mut Draft) {
    if claude(&draft.model()).is_some_and(|(_, version)| version < (4, 1)) {
        describe_schema(draft);
    }
}

/// Replaces a schema by an instruction with it.
pub(super) fn describe_schema(draft: &mut Draft) {
    let Some(format) = draft.given(FIELD) else { return };
    if type_of(&format) != "json_schema" {
        return;
    }
    draft.set(FIELD, Json::from([("type", "json_object".into())]), FIELD);
    let schema = schema_of(&format).map_or(Json::Null, Json::Object);
    instruct(draft, format!("Answer with JSON only, which matches this JSON schema: {schema}"));
}

/// Returns `true` if a text of the conversation has the word `json`.
pub(super) fn names_json<'a>(mut messages: impl Iterator<Item = &'a Json>) -> bool {
    messages.any(|own| message::text_of(own).to_ascii_lowercase().contains("json"))
}

/// Adds an instruction to a request for JSON whose conversation does not name it.
pub(super) fn name_json(draft: &mut Draft) {
    let wants_json = draft.given(FIELD).is_some_and(|format| type_of(&format) == "json_object");
    if wants_json && !names_json(draft.messages()) {
        instruct(draft, "Answer with JSON.".into());
    }
}

/// Adds a system message after those at the start.
fn instruct(draft: &mut Draft, text: String) {
    let is_instruction = |own: &Json| matches!(&*role_of(own), "system" | "developer");
    let place = draft.messages().take_while(|own| is_instruction(own)).count();
    let mut slots: Vec<Slot> = (0..draft.len()).map(Slot::Old).collect();
    slots.insert(place, Slot::New(message::system(text)));
    draft.arrange(slots, FIELD);
}
