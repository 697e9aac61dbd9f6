//! Models under names of their own, and the settings of single plugins.

use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use valvehouse_grants::usual;
use valvehouse_json::Json;

/// A model under a name of our own.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct ModelSettings {
    /// The name for clients.
    #[schemars(length(min = 1), extend("examples" = ["assistant"]))]
    pub name: String,
    /// The model's provider, or `pipes` for a model that a script provides.
    #[schemars(extend("x-default" = "*the only provider*", "examples" = ["openai"]))]
    pub provider: String,
    /// The provider's name for the model.
    #[schemars(extend("x-default" = "*its name*", "examples" = ["gpt-5"]))]
    pub model: String,
    /// The models that answer if it cannot, in order: other models, or `provider/model`.
    #[schemars(extend("x-form" = "list of models", "default" = [], "examples" = [["small", "other/large"]]))]
    pub fallbacks: Vec<String>,
    /// The system prompt of each conversation; never stored.
    #[schemars(extend("examples" = ["Be brief."]))]
    pub system_prompt: Option<String>,
    /// The filters with `global: false` that run in addition to the global ones. Guards among them also run for
    /// requests that use the provider's own name for the model.
    #[schemars(extend("x-form" = "list of ids", "default" = [], "examples" = [["turn_limit"]]))]
    pub filters: Vec<String>,
    /// The global filters that do not run for this model. Guards always run.
    #[schemars(extend("x-form" = "list of ids", "default" = [], "examples" = [["answer_stats"]]))]
    pub without: Vec<String>,
    /// The tools that the model is offered: names, `tag:NAME`, or `*`.
    #[schemars(extend("x-form" = "list of names", "default" = [], "examples" = [["tag:weather", "todo_add"]]))]
    pub tools: Vec<String>,
    /// The actions with `global: false` that its answers have in addition to the global ones.
    #[schemars(extend("x-form" = "list of ids", "default" = [], "examples" = [["table_to_csv"]]))]
    pub actions: Vec<String>,
    /// Offer `find_tools`, `run_script` and the tools found in the turn instead of all tools
    /// ([MCP](mcp.md#many-tools-in-few-tokens)).
    #[schemars(extend("default" = false, "examples" = [true]))]
    pub tool_search: bool,
    /// The maximum number of model calls in one turn.
    #[schemars(range(min = 1, max = 1000), extend("default" = 10, "examples" = [5]))]
    pub max_tool_iterations: usize,
    /// Context variables of its turns, which requests cannot change; `variables` of a key's `user` override them.
    #[schemars(with = "BTreeMap<String, serde_json::Value>", extend("default" = {}, "examples" = [{"permissions": ["chat"]}]))]
    pub variables: Json,
    /// Store conversations with a chat id, so that their runs can be resumed.
    #[schemars(extend("default" = false, "examples" = [true]))]
    pub memory: bool,
    /// Check complete answers against the `response_format` of their requests and request a mismatch again, up to
    /// two times ([providers](providers.md)).
    #[schemars(extend("x-default" = "*that of `memory`*", "examples" = [true]))]
    pub check_response_format: bool,
    /// The description, for scripts and people.
    #[schemars(extend("examples" = ["Answers questions about orders."]))]
    pub description: Option<String>,
    /// The abilities of the model, in your own words, for scripts that choose a model.
    #[schemars(extend("x-form" = "list of words", "default" = [], "examples" = [["vision", "tools"]]))]
    pub abilities: Vec<String>,
    /// The maximum number of tokens of a request with its answer.
    #[schemars(range(min = 1, max = 1_000_000_000), extend("examples" = [128_000]))]
    pub context_length: Option<u64>,
    /// The price of a million tokens by their kind, for the usage, the limits of keys and scripts: `input`, `output` and
    /// `cached`, the prompt tokens that the service read from its cache, which otherwise cost as much as others.
    #[schemars(with = "BTreeMap<String, f64>")]
    #[schemars(extend("x-form" = "table of numbers", "default" = {}, "examples" = [{"input": 0.5, "output": 1.5}]))]
    #[schemars(extend("additionalProperties" = {"type": "number", "minimum": 0}))]
    pub price: Json,
    /// A predefined set of middleware.
    #[schemars(extend("x-form" = "name", "examples" = ["production"]))]
    pub preset: Option<String>,
    /// Middleware by name, with its options.
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    #[schemars(extend("x-form" = "table of tables", "default" = {}, "examples" = [{"call_limit": {"max_model_calls": 5}}]))]
    pub middleware: Json,
}

/// The settings of one plugin.
#[derive(Clone, Deserialize, JsonSchema)]
pub struct PluginSettings {
    /// Values of its valves, of the types that the script declares: an invalid one is reported, and the value below
    /// is used. A guard (`security: true`) with an invalid or unknown one, or whose environment variable is not
    /// set, does not load. They override the script's defaults; stored values override them. A secret valve can be
    /// `"env:NAME"`. Texts of environment variables are converted: `no` to false, `5` to a number.
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    #[schemars(extend("format" = "valves", "default" = {}, "examples" = [{"max_turns": 8}]))]
    pub valves: Json,
    /// Run the plugin, unless an operator has switched it.
    #[schemars(extend("default" = true, "examples" = [false]))]
    pub enabled: bool,
    /// For a filter: apply its verdicts and changes, or only count and trace them (`audit`), whatever its script
    /// declares, unless an operator has switched it. A guard that was live before goes into audit mode once an operator
    /// confirms it.
    #[schemars(extend("x-default" = "*as its script declares*", "examples" = ["audit"]))]
    pub mode: Option<FilterMode>,
    /// Limits other than the usual ones.
    #[schemars(extend("default" = {}))]
    pub budget: BudgetSettings,
    /// The names of the values that are text of the environment or the command line, which has no types.
    #[serde(skip)]
    pub untyped_valves: BTreeSet<String>,
}

impl Default for PluginSettings {
    fn default() -> Self {
        usual()
    }
}

impl fmt::Debug for PluginSettings {
    /// Only the valves' names: values may be secrets, which only the script declares.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluginSettings")
            .field("enabled", &self.enabled)
            .field("valves", &self.valves.keys())
            .field("budget", &self.budget)
            .finish()
    }
}

/// The effect of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FilterMode {
    /// Its verdicts and changes apply.
    Enforce,
    /// It runs on copies; its verdicts and changes are counted and traced.
    Audit,
}

/// Limits of a plugin's calls, where they are not the usual ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct BudgetSettings {
    /// The CPU time of a call of a filter; the elapsed time of a call of a tool or an action, including waits.
    #[schemars(range(min = 1, max = 86_400_000), extend("x-default" = "*filters: 4 µs per operation (4000), 200 for `stream`; others: their own timeout*", "examples" = [60_000]))]
    pub ms: Option<u64>,
    /// The interpreter operations of a call.
    #[schemars(range(min = 1, max = 1_000_000_000_000_u64), extend("x-default" = "*filters: 1 000 000 (50 000 for `stream`); others: 10 000 000*", "examples" = [5_000_000]))]
    pub operations: Option<u64>,
    /// The memory of a call, in megabytes.
    #[schemars(range(min = 1, max = 1_048_576), extend("x-default" = "*64*", "examples" = [128]))]
    pub memory_mb: Option<u64>,
}
