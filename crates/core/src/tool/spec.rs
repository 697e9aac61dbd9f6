//! The specification of a tool, and its schema in a service's words.

use super::parameters::Parameters;
use std::time::Duration;
use valvehouse_json::Json;

/// The description of a tool for models, and the rules by which the host runs it.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// The name for models.
    pub name: String,
    /// The description for models, with the cases in which to use it.
    pub description: String,
    /// Its arguments.
    pub parameters: Parameters,
    /// Groups it belongs to.
    pub tags: Vec<String>,
    /// The time that one try may take.
    pub timeout: Duration,
    /// Further tries after a failure, and the pause before each.
    pub retry: Retry,
    /// Set if a second run has no further effect; the tool may then run again after a crash.
    pub idempotent: bool,
    /// Anything else its author says of it.
    pub metadata: Json,
    /// The script it comes from, which may bring several.
    pub module: Option<String>,
}

/// Further tries after a failure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retry {
    /// The most further tries.
    pub max: u32,
    /// The pause before each.
    pub delay: Duration,
}

/// The dialect in which a tool's schema is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaDialect {
    /// `{type: "function", function: {name, description, parameters}}`
    OpenAi,
    /// `{name, description, input_schema}`
    Anthropic,
}

impl ToolSpec {
    /// A tool that says nothing of its arguments, without tags and retries, with 30 seconds of time.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            parameters: Parameters::default(),
            tags: Vec::new(),
            timeout: Duration::from_secs(30),
            retry: Retry::default(),
            idempotent: false,
            metadata: Json::object(),
            module: None,
        }
    }

    /// Returns `true` if a word of a list of tools means this one: its name, its script's, `tag:x`, or `*`.
    pub fn is_meant_by(&self, word: &str) -> bool {
        match word.strip_prefix("tag:") {
            Some(tag) => self.tags.iter().any(|own| own == tag),
            None => word == "*" || word == self.name || self.module.as_deref() == Some(word),
        }
    }

    /// The schema in a service's words.
    pub fn to_tool_schema(&self, dialect: SchemaDialect) -> Json {
        let function = Json::object();
        function.put("name", self.name.as_str());
        function.put("description", self.description.as_str());
        let parameters = self.parameters.schema().copy();
        match dialect {
            SchemaDialect::OpenAi => {
                function.put("parameters", parameters);
                let schema = Json::object();
                schema.put("type", "function");
                schema.put("function", function);
                schema
            }
            SchemaDialect::Anthropic => {
                function.put("input_schema", parameters);
                function
            }
        }
    }

    /// The description that filters see.
    pub fn describe(&self) -> Json {
        let tool = Json::object();
        tool.put("name", self.name.as_str());
        tool.put("description", self.description.as_str());
        tool.put("parameters", self.parameters.schema().copy());
        let tags: Vec<Json> = self.tags.iter().map(|tag| tag.as_str().into()).collect();
        tool.put("tags", tags);
        tool.put("metadata", self.metadata.copy());
        tool
    }
}
