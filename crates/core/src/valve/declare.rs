//! Conversion of a script's valve declarations to a schema, or to a list of all their problems.

use super::field::{Field, ValveSchema};
use super::redact::{MIN_SECRET, is_too_short};
use crate::error::DeclarationError;
use crate::limits::unknown_keys;
use crate::schema::{Place, Reader, ValueKind, ValueShape, Vocabulary};
use valvehouse_json::Json;

const EXAMPLE: &str = "#{ value: (), type: \"string\" }";

const WORDS: Vocabulary = Vocabulary {
    noun: "valve",
    default: "value",
    keys: &[
        "value",
        "type",
        "title",
        "description",
        "minimum",
        "maximum",
        "enum",
        "pattern",
        "items",
        "secret",
        "multiline",
    ],
    item_keys: &["type", "minimum", "maximum", "enum", "pattern"],
    types: ValveSchema::TYPES,
    example: EXAMPLE,
    max_patterns: 32,
};

impl ValveSchema {
    /// Reads the literal map of a script.
    ///
    /// # Errors
    /// Returns every problem with the map.
    pub fn declare(literal: &Json) -> Result<Self, DeclarationError> {
        let Some(object) = literal.as_object() else {
            return Err(DeclarationError::from(format!(
                "valves must be a map of names and defaults, such as #{{ max_turns: 4 }}, not {}",
                literal.kind()
            )));
        };
        let mut reader = Reader::new(&WORDS);
        let entries = object.entries().into_iter();
        let fields = entries.filter_map(|(name, literal)| field(&mut reader, &name, &literal)).collect();
        Ok(Self { fields: reader.end(fields)? })
    }
}

fn field(reader: &mut Reader, name: &str, literal: &Json) -> Option<Field> {
    let declared = match literal {
        Json::Object(_) => literal.clone(),
        bare => Json::from([("value", bare.deep_clone())]),
    };
    let problem = match declared.get("value") {
        None => {
            unknown_keys(&declared, WORDS.keys).into_iter().for_each(|problem| reader.problem(name, problem));
            let known = WORDS.keys.join(", ");
            format!("has no `value`: give its default, or write {EXAMPLE}; known keys: {known}")
        }
        Some(Json::Object(_)) => "has a map as its value: write a list of maps, such as `[#{ model: \"m\", price: 2.5 }]`, or declare a valve for each \
                                  of its keys"
            .to_owned(),
        Some(default) => return with_default(reader, name, &declared, &default),
    };
    reader.problem(name, problem);
    None
}

fn with_default(reader: &mut Reader, name: &str, declared: &Json, default: &Json) -> Option<Field> {
    let place = Place::TOP.inside(name);
    let (secret, multiline) =
        (reader.truth(declared, "secret", &place), reader.truth(declared, "multiline", &place));
    let mut shape = reader.shape(declared, WORDS.keys, &place)?;
    if matches!(shape.kind, ValueKind::Array(None)) {
        shape.kind = ValueKind::Array(items_of(default));
    }
    if multiline && !matches!(shape.kind, ValueKind::String) {
        reader.problem(name, "is `multiline`, which is for text only: drop `multiline`".to_owned());
    }
    if secret && matches!(shape.kind, ValueKind::Boolean) {
        reader.problem(name, "is `secret`, which is for text, numbers and lists: drop `secret`".to_owned());
    } else if secret && shape.default.as_ref().is_some_and(is_too_short) {
        reader.problem(
            name,
            format!(
                "is a secret whose default is too short to be redacted: leave it empty, or give it at least \
                 {MIN_SECRET} characters"
            ),
        );
    }
    Some(Field { name: name.to_owned(), shape, secret, multiline })
}

/// Returns the common type of the items of a default list, if there is one.
fn items_of(default: &Json) -> Option<Box<ValueShape>> {
    let items = default.items();
    let kind = ValueKind::of(items.first()?)?;
    let is_uniform = items.iter().all(|item| ValueKind::of(item).is_some_and(|of| of.name() == kind.name()));
    let is_plain = !matches!(kind, ValueKind::Array(_) | ValueKind::Object(_));
    (is_uniform && is_plain).then(|| Box::new(ValueShape::new(kind)))
}
