//! The middleware as Rust types, with the default of each option.

use super::definition::NeedsApproval;
use crate::summary::{NAME as SUMMARIZATION, Summarization};
use std::sync::Arc;
use std::time::Duration;
use valvehouse_core::provider::IntoProvider;
use valvehouse_json::Json;
use valvehouse_providers::Choice;

/// A middleware as [`AgentBuilder::middleware`](crate::AgentBuilder::middleware) takes it. The types of this module
/// convert to it, and so does a name with options: `("call_limit", options)`.
#[derive(Clone)]
pub struct MiddlewareSettings {
    pub(crate) name: String,
    pub(crate) options: Json,
    pub(crate) needs_approval: Option<NeedsApproval>,
    pub(crate) models: Vec<(String, Choice)>,
    pub(crate) summary_model: Option<Choice>,
}

impl MiddlewareSettings {
    /// Creates settings from the name of a middleware and its options, an object or null.
    pub fn new(name: impl Into<String>, options: Json) -> Self {
        Self { name: name.into(), options, needs_approval: None, models: Vec::new(), summary_model: None }
    }
}

impl From<(&str, Json)> for MiddlewareSettings {
    fn from((name, options): (&str, Json)) -> Self {
        Self::new(name, options)
    }
}

/// Requests a person's approval of tool calls. The run pauses, unless the client can answer at once.
///
/// ```
/// use std::time::Duration;
/// use valvehouse_agent::middleware::HumanApproval;
/// let all = HumanApproval::all().timeout(Duration::from_secs(300));
/// let large = HumanApproval::tools(["refund"]).arguments("pay", "amount", "^[0-9]{4,}$");
/// ```
#[derive(Clone)]
pub struct HumanApproval {
    options: Json,
    needs_approval: Option<NeedsApproval>,
}

impl HumanApproval {
    /// The name in settings.
    pub const NAME: &'static str = "human_approval";

    /// Requests approval of all calls.
    pub fn all() -> Self {
        Self::mode("all", None)
    }

    /// Requests approval of calls of these tools: names, in which `*` stands for any text, and `tag:x`.
    pub fn tools<T: Into<String>>(tools: impl IntoIterator<Item = T>) -> Self {
        let own = Self::mode("selective", None);
        own.options.edit("tools", texts(tools));
        own
    }

    /// Requests approval of calls for which a function of the tool's description and the arguments returns `true`.
    pub fn when(needs: impl Fn(&Json, &Json) -> bool + Send + Sync + 'static) -> Self {
        Self::mode("custom", Some(Arc::new(needs)))
    }

    /// Requests approval of calls of a tool only if the argument at a path matches a regular expression. Use it
    /// with [`HumanApproval::tools`], whose list may be empty.
    #[must_use]
    pub fn arguments(self, tool: &str, path: &str, pattern: &str) -> Self {
        let conditions = self.options.get("arguments").unwrap_or_else(Json::object);
        let paths = conditions.get(tool).unwrap_or_else(Json::object);
        paths.edit(path, pattern);
        conditions.edit(tool, paths);
        self.options.edit("arguments", conditions);
        self
    }

    /// Sets the time that a client has to answer; the default is a minute.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.options.edit("timeout_ms", milliseconds(timeout));
        self
    }

    /// Ends the turn if nobody answers in time. By default, the call is rejected and the turn continues.
    #[must_use]
    pub fn halt_on_timeout(self) -> Self {
        self.options.edit("timeout_action", "halt");
        self
    }

    fn mode(mode: &str, needs_approval: Option<NeedsApproval>) -> Self {
        Self { options: Json::from([("mode", mode.into())]), needs_approval }
    }
}

impl From<HumanApproval> for MiddlewareSettings {
    fn from(approval: HumanApproval) -> Self {
        Self { needs_approval: approval.needs_approval, ..Self::new(HumanApproval::NAME, approval.options) }
    }
}

/// The reaction to an exceeded limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLimit {
    /// The turn ends with an error.
    Halt,
    /// A warning is logged.
    Warn,
}

impl OnLimit {
    pub(super) const ALL: [(&'static str, Self); 2] =
        [("halt", Self::Halt), ("warn_and_continue", Self::Warn)];
}

/// Limits the calls of a turn.
#[derive(Debug, Clone, Copy)]
pub struct CallLimit {
    /// The maximum number of model calls, at least 1.
    pub max_model_calls: u64,
    /// The maximum number of tool calls.
    pub max_tool_calls: u64,
    /// The maximum number of tool calls in one answer.
    pub max_tool_calls_per_turn: u64,
    /// The reaction to an exceeded limit.
    pub on_limit: OnLimit,
}

impl CallLimit {
    /// The name in settings.
    pub const NAME: &'static str = "call_limit";
}

impl Default for CallLimit {
    fn default() -> Self {
        let (max_model_calls, max_tool_calls, max_tool_calls_per_turn) = (20, 50, 10);
        Self { max_model_calls, max_tool_calls, max_tool_calls_per_turn, on_limit: OnLimit::Halt }
    }
}

impl From<CallLimit> for MiddlewareSettings {
    fn from(limit: CallLimit) -> Self {
        let options = [
            ("max_model_calls", limit.max_model_calls.into()),
            ("max_tool_calls", limit.max_tool_calls.into()),
            ("max_tool_calls_per_turn", limit.max_tool_calls_per_turn.into()),
            ("on_limit", word(&OnLimit::ALL, limit.on_limit)),
        ];
        Self::new(CallLimit::NAME, Json::from(options))
    }
}

/// Retries idempotent tools after transient failures.
#[derive(Debug, Clone)]
pub struct ToolRetry {
    /// The maximum number of retries, at most 100.
    pub max_retries: u32,
    /// The delay before the first retry.
    pub initial_delay: Duration,
    /// The maximum delay.
    pub max_delay: Duration,
    /// The factor by which the delay grows, 1 to 100.
    pub factor: f64,
    /// Further tools that may run twice: names and `tag:x`.
    pub tools: Vec<String>,
}

impl ToolRetry {
    /// The name in settings.
    pub const NAME: &'static str = "tool_retry";
}

impl Default for ToolRetry {
    fn default() -> Self {
        Self {
            max_retries: 3,
            initial_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(30),
            factor: 2.0,
            tools: Vec::new(),
        }
    }
}

impl From<ToolRetry> for MiddlewareSettings {
    fn from(retry: ToolRetry) -> Self {
        let options = [
            ("max_retries", u64::from(retry.max_retries).into()),
            ("initial_delay_ms", milliseconds(retry.initial_delay)),
            ("max_delay_ms", milliseconds(retry.max_delay)),
            ("factor", retry.factor.into()),
            ("tools", texts(retry.tools)),
        ];
        Self::new(ToolRetry::NAME, Json::from(options))
    }
}

/// Retries model calls, with exponential backoff and jitter.
#[derive(Debug, Clone, Copy)]
pub struct ModelRetry {
    /// The maximum number of retries, at most 100.
    pub max_retries: u32,
    /// The delay before the first retry.
    pub initial_delay: Duration,
    /// The maximum delay.
    pub max_delay: Duration,
    /// Set if a request is also retried if the provider may have received it.
    pub after_send: bool,
}

impl ModelRetry {
    /// The name in settings.
    pub const NAME: &'static str = "model_retry";
}

impl Default for ModelRetry {
    fn default() -> Self {
        let (initial_delay, max_delay) = (Duration::from_secs(1), Duration::from_secs(30));
        Self { max_retries: 3, initial_delay, max_delay, after_send: false }
    }
}

impl From<ModelRetry> for MiddlewareSettings {
    fn from(retry: ModelRetry) -> Self {
        let options = [
            ("max_retries", u64::from(retry.max_retries).into()),
            ("initial_delay_ms", milliseconds(retry.initial_delay)),
            ("max_delay_ms", milliseconds(retry.max_delay)),
            ("after_send", retry.after_send.into()),
        ];
        Self::new(ModelRetry::NAME, Json::from(options))
    }
}

/// Sends the request to other models, in order, if the agent's model fails.
#[derive(Clone, Default)]
pub struct ModelFallback(Vec<(String, Choice)>);

impl ModelFallback {
    /// The name in settings.
    pub const NAME: &'static str = "model_fallback";

    /// Creates a fallback to a model of a provider.
    pub fn to(provider: impl IntoProvider, model: &str) -> Self {
        Self::default().then(provider, model)
    }

    /// Adds a model for the case that those before it fail as well.
    #[must_use]
    pub fn then(mut self, provider: impl IntoProvider, model: &str) -> Self {
        let name = format!("fallback {}: {model}", self.0.len() + 1);
        self.0.push((name, Choice { provider: provider.into_provider(), model: model.to_owned() }));
        self
    }
}

impl From<ModelFallback> for MiddlewareSettings {
    fn from(fallback: ModelFallback) -> Self {
        let names = texts(fallback.0.iter().map(|(name, _)| name.as_str()));
        Self { models: fallback.0, ..Self::new(ModelFallback::NAME, Json::from([("models", names)])) }
    }
}

/// The treatment of personal data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PiiStrategy {
    /// The data is passed on, and its kinds are logged.
    Warn,
    /// The call is rejected.
    Block,
    /// The data is replaced with its kind: `[email]`.
    Redact,
    /// All characters except the last four are replaced with `*`.
    Mask,
    /// The data is replaced with a keyed hash that cannot be guessed by trying all numbers:
    /// `[email:1a2b3c4d5e6f]`.
    Hash,
}

impl PiiStrategy {
    pub(super) const ALL: [(&'static str, Self); 5] = [
        ("warn", Self::Warn),
        ("block", Self::Block),
        ("redact", Self::Redact),
        ("mask", Self::Mask),
        ("hash", Self::Hash),
    ];
}

/// Removes personal data from the input of models and tools.
#[derive(Debug, Clone)]
pub struct Pii {
    /// The treatment of the data.
    pub strategy: PiiStrategy,
    /// The kinds that are searched: `email phone card id ip`; all by default.
    pub kinds: Option<Vec<String>>,
    /// The key of hashes; "" for a random key of this process.
    pub key: String,
}

impl Pii {
    /// The name in settings.
    pub const NAME: &'static str = "pii";
}

impl Default for Pii {
    fn default() -> Self {
        Self { strategy: PiiStrategy::Warn, kinds: None, key: String::new() }
    }
}

impl From<PiiStrategy> for Pii {
    fn from(strategy: PiiStrategy) -> Self {
        Self { strategy, ..Self::default() }
    }
}

impl From<Pii> for MiddlewareSettings {
    fn from(pii: Pii) -> Self {
        let options = [
            ("strategy", word(&PiiStrategy::ALL, pii.strategy)),
            ("kinds", pii.kinds.map(texts).into()),
            ("key", pii.key.into()),
        ];
        Self::new(Pii::NAME, Json::from(options))
    }
}

/// Replaces old tool results in the model's input with a placeholder.
#[derive(Debug, Clone)]
pub struct ContextEditing {
    /// The number of newest results that are preserved.
    pub keep_tool_results: usize,
    /// The number of messages from which on results are replaced.
    pub min_messages: usize,
    /// The number of tokens above which results are replaced.
    pub max_tokens: usize,
    /// The text that replaces a result.
    pub placeholder: String,
}

impl ContextEditing {
    /// The name in settings.
    pub const NAME: &'static str = "context_editing";
}

impl Default for ContextEditing {
    fn default() -> Self {
        Self {
            keep_tool_results: 3,
            min_messages: 10,
            max_tokens: 4_000,
            placeholder: "[an earlier result, left out here]".into(),
        }
    }
}

impl From<ContextEditing> for MiddlewareSettings {
    fn from(editing: ContextEditing) -> Self {
        let options = [
            ("keep_tool_results", (editing.keep_tool_results as u64).into()),
            ("min_messages", (editing.min_messages as u64).into()),
            ("max_tokens", (editing.max_tokens as u64).into()),
            ("placeholder", editing.placeholder.into()),
        ];
        Self::new(ContextEditing::NAME, Json::from(options))
    }
}

impl From<Summarization> for MiddlewareSettings {
    fn from(summary: Summarization) -> Self {
        let options = [
            ("window_size", (summary.window_size as u64).into()),
            ("max_tokens", (summary.max_tokens as u64).into()),
            ("summarize", summary.summarize.into()),
            ("compress_threshold", (summary.compress_threshold as u64).into()),
            ("token_threshold", (summary.token_threshold as u64).into()),
            ("preserve_system", summary.preserve_system.into()),
        ];
        Self { summary_model: summary.model, ..Self::new(SUMMARIZATION, Json::from(options)) }
    }
}

fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Json {
    texts.into_iter().map(|text| Json::from(text.into())).collect::<Vec<_>>().into()
}

fn milliseconds(time: Duration) -> Json {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).into()
}

fn word<T: PartialEq>(words: &[(&'static str, T)], meant: T) -> Json {
    words.iter().find(|(_, meaning)| *meaning == meant).map(|(word, _)| *word).into()
}
