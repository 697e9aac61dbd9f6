//! The declared parameters of a tool, with a JSON Schema that OpenAI and Anthropic accept.

use crate::error::DeclarationError;
use crate::limits::clipped;
use crate::schema::{
    CheckError, Coercion, Place, Property, Reader, ValueKind, Violation, Vocabulary, check_properties,
    put_properties,
};
use std::sync::Arc;
use valvehouse_json::Json;

const EXAMPLE: &str = "#{ city: #{ type: \"string\", required: true } }";

const WORDS: Vocabulary = Vocabulary {
    noun: "parameter",
    default: "default",
    keys: &[
        "type",
        "description",
        "required",
        "default",
        "enum",
        "items",
        "properties",
        "minimum",
        "maximum",
        "pattern",
    ],
    item_keys: &["type", "description", "enum", "items", "properties", "minimum", "maximum", "pattern"],
    types: &ValueKind::NAMES,
    example: EXAMPLE,
    max_patterns: 256,
};

/// The parameters of a tool, in the order of declaration. Cheap to clone.
///
/// The default value accepts any arguments object unchanged. An empty declaration, in contrast, drops all
/// arguments.
#[derive(Debug, Clone, Default)]
pub struct Parameters(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    /// `None` if only the schema is known; the tool then checks its arguments itself.
    parameters: Option<Vec<Property>>,
    schema: Json,
    patterns: usize,
}

impl Parameters {
    /// Reads a map of parameter names and declarations.
    ///
    /// A declaration is a map of `type` (string, integer, number, boolean, array, object), `description`,
    /// `required`, `default`, `enum`, `items`, `properties`, `minimum`, `maximum` and `pattern`, or only the
    /// name of a type. The type may be omitted if `properties`, `items`, `default` or `enum` implies it. A
    /// parameter with a default may always be omitted from a call, even a `required` one.
    ///
    /// # Errors
    /// Returns every problem with the declaration.
    pub fn declare(declared: &Json) -> Result<Self, DeclarationError> {
        if declared.as_object().is_none() {
            return Err(DeclarationError::from(format!(
                "parameters must be a map of names and declarations, such as {EXAMPLE}, not {}",
                clipped(declared)
            )));
        }
        if declared.text("type").as_deref() == Some("object") && declared.get("properties").is_some() {
            return Err(DeclarationError::from(format!(
                "parameters are a JSON Schema: give only its `properties`, and write \
                 `required` with each, such as {EXAMPLE}"
            )));
        }
        let mut reader = Reader::new(&WORDS);
        let parameters = reader.members(declared, &Place::TOP);
        let patterns = reader.patterns;
        let parameters = reader.end(parameters)?;
        let schema = object(&parameters).freeze();
        Ok(Self(Some(Arc::new(Inner { parameters: Some(parameters), schema, patterns }))))
    }

    /// Creates parameters from a JSON Schema. Any object is accepted unchanged: the tool itself checks it.
    pub fn of_schema(schema: Json) -> Self {
        Self(Some(Arc::new(Inner { parameters: None, schema: schema.freeze(), patterns: 0 })))
    }

    /// Returns the JSON Schema 2020-12 of the arguments object, read-only; copy it to change it.
    pub fn schema(&self) -> Json {
        match &self.0 {
            Some(declared) => declared.schema.clone(),
            None => object(&[]).freeze(),
        }
    }

    /// Returns the number of patterns in the declaration.
    pub fn patterns(&self) -> usize {
        self.0.as_ref().map_or(0, |declared| declared.patterns)
    }

    /// Returns the arguments in their declared types; they share nothing with `args`.
    ///
    /// Undeclared arguments are dropped, missing ones get their default, and null counts as missing. Values are
    /// converted: `"3"` to 3 for a number, 3.0 to 3 for an integer, 3 to `"3"` for a string, `"true"`, 1,
    /// `"false"` and 0 to booleans, and JSON in a string to a list or an object.
    ///
    /// # Errors
    /// Returns every problem with the arguments.
    pub fn check(&self, args: &Json) -> Result<Json, CheckError> {
        let declared = self.0.as_ref().and_then(|declared| declared.parameters.as_deref());
        match (args, declared) {
            (Json::Object(given), Some(parameters)) => check_properties(parameters, given, Coercion::Model),
            (Json::Object(_), None) => Ok(args.deep_clone()),
            _ => {
                let requirement = "the arguments must be an object of names and values".to_owned();
                let given = Some(args.kind().to_owned());
                let problem = Violation { path: String::new(), rule: "type", requirement, given };
                Err(CheckError { problems: vec![problem], more: 0 })
            }
        }
    }
}

/// Returns the schema of an object with these parameters.
fn object(parameters: &[Property]) -> Json {
    let schema = Json::from([("type", "object".into())]);
    put_properties(&schema, parameters);
    schema
}
