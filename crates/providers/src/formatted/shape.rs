//! The form that a request asks for, and what of an answer does not fit it.

use valvehouse_core::fault::Fault;
use valvehouse_json::Json;
use valvehouse_schema::Schema;

/// The form that an answer must have.
pub(super) struct Shape {
    /// The `response_format` as it came.
    pub(super) format: Json,
    schema: Option<Schema>,
}

/// Returns `true` if a request asks for a form that can be checked.
pub(super) fn is_wanted(body: &Json) -> bool {
    let kind = body.get("response_format").and_then(|format| format.text("type"));
    matches!(kind.as_deref(), Some("json_object" | "json_schema"))
}

impl Shape {
    /// The form that a request asks for; None where it asks for none.
    pub(super) async fn of(body: &Json) -> Result<Option<Self>, Fault> {
        if !is_wanted(body) {
            return Ok(None);
        }
        let format = body.field("response_format");
        let schema = match format.text("type").as_deref() {
            Some("json_schema") => Some(format.at_path("json_schema.schema")),
            // Some services take a schema here too.
            _ => format.get("schema"),
        };
        let schema = match schema {
            Some(schema) => Some(Schema::compile(schema).await.map_err(|why| wrong(&why))?),
            None => None,
        };
        Ok(Some(Self { format, schema }))
    }

    /// The JSON of an answer as the model wrote it, or why it does not fit. A fault where that cannot be told.
    pub(super) async fn read(&self, said: &str) -> Result<Result<String, String>, Fault> {
        let (text, json) = match find_json(said) {
            Ok(found) => found,
            Err(why) => return Ok(Err(why)),
        };
        let misfit = match &self.schema {
            Some(schema) => schema.misfit(&json).await.map_err(|why| wrong(&why))?,
            None if json.as_object().is_some() => None,
            None => Some(format!("it is of type {}; it must be a JSON object", json.kind())),
        };
        Ok(misfit.map_or_else(|| Ok(text.to_owned()), Err))
    }

    /// The instruction for a model whose service does not know forms.
    pub(super) fn instruction(&self) -> String {
        let only = "Answer with JSON only: no other words around it, no code block.";
        match &self.schema {
            Some(schema) => format!("{only} The JSON must fit this JSON schema:\n{}", schema.text()),
            None => format!("{only} The JSON must be an object."),
        }
    }
}

/// A schema that is the client's mistake.
fn wrong(why: &str) -> Fault {
    let message = format!("the schema in response_format cannot be used: {why}");
    Fault::invalid(message, Some("response_format"))
}

/// The JSON that an answer is, or that stands in a code block in it.
fn find_json(said: &str) -> Result<(&str, Json), String> {
    let whole = said.trim();
    let error = match Json::parse(whole.as_bytes()) {
        Ok(json) => return Ok((whole, json)),
        Err(error) => error,
    };
    let in_a_block = blocks(whole).find_map(|block| Some((block, Json::parse(block.as_bytes()).ok()?)));
    in_a_block.ok_or_else(|| match whole {
        "" => "it is empty; it must be JSON".to_owned(),
        _ => format!("it is not JSON: {error}"),
    })
}

/// The texts between lines that begin with three backticks.
fn blocks(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once("```")?;
        // The fence's line may name a language.
        let (_, inside) = after.split_once('\n')?;
        let end = inside.match_indices("```").map(|(at, _)| at);
        let end = end.into_iter().find(|at| inside[..*at].trim_end_matches([' ', '\t']).ends_with('\n'))?;
        rest = &inside[end + 3..];
        Some(inside[..end].trim())
    })
}
