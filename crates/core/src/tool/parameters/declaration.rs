//! The declared parameters of a tool.

use super::check::{self, ArgumentError};
use super::shape::{Kind, Parameter, Shape};
use super::{declare, describe};
use std::sync::Arc;
use valvehouse_json::Json;

/// The parameters of a tool, in the order of declaration. Cheap to clone.
///
/// The default says nothing about the arguments: any object goes through whole. That is not the same
/// as an empty declaration, which takes nothing.
#[derive(Debug, Clone, Default)]
pub struct Parameters(Option<Arc<Declared>>);

#[derive(Debug)]
struct Declared {
    /// `None` where only the schema is known: whoever wrote it checks the arguments.
    parameters: Option<Vec<Parameter>>,
    schema: Json,
}

impl Parameters {
    /// Reads a map of names and declarations, or says everything that is wrong with it.
    ///
    /// A declaration is a map of `type` (string, integer, float, boolean, array, object), `description`,
    /// `required`, `default`, `enum`, `items`, `properties`, `minimum`, `maximum` and `pattern`, or
    /// just the name of a type. The type may be left out where `properties`, `items`, `enum` or
    /// `default` show it. A parameter with a default can always be left out, also a `required` one.
    pub fn declare(declared: &Json) -> Result<Self, Vec<String>> {
        let parameters = declare::parameters(declared)?;
        let schema = describe::object(Some(&parameters)).freeze();
        Ok(Self(Some(Arc::new(Declared { parameters: Some(parameters), schema }))))
    }

    /// Parameters of which only the JSON Schema is known. Any object goes through whole: the tool itself checks it.
    pub fn of_schema(schema: Json) -> Self {
        Self(Some(Arc::new(Declared { parameters: None, schema: schema.freeze() })))
    }

    /// JSON Schema 2020-12 of the arguments: an object. Read-only; copy it to change it.
    pub fn schema(&self) -> Json {
        match &self.0 {
            Some(declared) => declared.schema.clone(),
            None => describe::object(Some(&[])).freeze(),
        }
    }

    /// Returns the number of patterns in the declaration.
    pub fn patterns(&self) -> usize {
        fn of_all(parameters: &[Parameter]) -> usize {
            parameters.iter().map(|parameter| of(&parameter.shape)).sum()
        }
        fn of(shape: &Shape) -> usize {
            let inside = match &shape.kind {
                Kind::Array(Some(items)) => of(items),
                Kind::Object(Some(properties)) => of_all(properties),
                _ => 0,
            };
            inside + usize::from(shape.limits.pattern.is_some())
        }
        self.declared().map_or(0, of_all)
    }

    /// The arguments as the tool gets them, or everything that is wrong with them.
    ///
    /// Arguments that are not declared are dropped, missing ones get their default, null counts as missing, and
    /// values come in their declared type: `"3"` is 3 where a number is asked for (and 3.0 where a
    /// whole one is), 3 is `"3"` where text is, `"true"`, 1, `"false"` and 0 are truths, and a list or
    /// an object may be spelt as JSON in a string. The answer shares nothing with `args`.
    pub fn check(&self, args: &Json) -> Result<Json, ArgumentError> {
        check::arguments(self.declared(), args)
    }

    fn declared(&self) -> Option<&[Parameter]> {
        self.0.as_ref().and_then(|declared| declared.parameters.as_deref())
    }
}
