//! The specification of a tool, and its schema for providers.

use super::parameters::Parameters;
use std::time::Duration;
use valvehouse_json::Json;

/// The description of a tool for models, and the settings with which the host runs it.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// The name for models.
    pub name: String,
    /// The description for models, including when to use the tool.
    pub description: String,
    /// The parameters.
    pub parameters: Parameters,
    /// The tags, which group tools.
    pub tags: Vec<String>,
    /// The timeout of one attempt.
    pub timeout: Duration,
    /// The retries after a failure.
    pub retry: Retry,
    /// Set if repeating a call has no further effect; the tool may then run again after a crash.
    pub idempotent: bool,
    /// Additional data from the author, an object.
    pub metadata: Json,
    /// The script that defines the tool; it may define several.
    pub module: Option<String>,
}

/// The retry policy of a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retry {
    /// The maximum number of retries.
    pub max: u32,
    /// The delay before each retry.
    pub delay: Duration,
}

/// The API for which a tool's schema is formatted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaDialect {
    /// The OpenAI format, `{type: "function", function: {name, description, parameters}}`.
    OpenAi,
    /// The Anthropic format, `{name, description, input_schema}`.
    Anthropic,
}

impl ToolSpec {
    /// Creates a specification with any arguments, no tags, no retries and a timeout of 30 seconds.
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

    /// Returns `true` if an entry of a list of tools matches this tool: its name, its script's name, `tag:x`,
    /// or `*`.
    pub fn is_meant_by(&self, word: &str) -> bool {
        match word.strip_prefix("tag:") {
            Some(tag) => self.tags.iter().any(|own| own == tag),
            None => word == "*" || word == self.name || self.module.as_deref() == Some(word),
        }
    }

    /// Returns the schema in the format of an API.
    pub fn to_tool_schema(&self, dialect: SchemaDialect) -> Json {
        let function = Json::object();
        function.put("name", self.name.as_str());
        function.put("description", self.description.as_str());
        let parameters = self.parameters.schema().deep_clone();
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

    /// Returns the description that filters receive.
    pub fn describe(&self) -> Json {
        let tool = Json::object();
        tool.put("name", self.name.as_str());
        tool.put("description", self.description.as_str());
        tool.put("parameters", self.parameters.schema().deep_clone());
        let tags: Vec<Json> = self.tags.iter().map(|tag| tag.as_str().into()).collect();
        tool.put("tags", tags);
        tool.put("metadata", self.metadata.deep_clone());
        tool
    }
}
