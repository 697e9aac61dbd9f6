//! The services models live at, and the kinds we know.

use super::SecretSource;
use std::time::Duration;

/// Whose wire a service speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// OpenAI's; `base_url` is what stands before `/chat/completions`.
    OpenAi,
    /// Anthropic's; `base_url` is what stands before `/v1/messages`.
    Anthropic,
    /// Ollama's own; `base_url` is what stands before `/api/chat`.
    Ollama,
    /// None: the offline demo.
    Demo,
}

/// A kind of service: its wire, and where it usually is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProviderKind {
    /// What the configuration calls it.
    pub name: &'static str,
    /// Its wire.
    pub wire: Wire,
    /// Where it is when the configuration does not say.
    pub base_url: &'static str,
}

const fn kind(name: &'static str, wire: Wire, base_url: &'static str) -> ProviderKind {
    ProviderKind { name, wire, base_url }
}

/// The kinds we know.
pub const KINDS: [ProviderKind; 12] = [
    kind("openai", Wire::OpenAi, "https://api.openai.com/v1"),
    kind("anthropic", Wire::Anthropic, "https://api.anthropic.com"),
    kind("ollama", Wire::Ollama, "http://127.0.0.1:11434"),
    kind("demo", Wire::Demo, ""),
    kind("deepseek", Wire::OpenAi, "https://api.deepseek.com/v1"),
    kind("zhipu", Wire::OpenAi, "https://open.bigmodel.cn/api/paas/v4"),
    kind("dashscope", Wire::OpenAi, "https://dashscope.aliyuncs.com/compatible-mode/v1"),
    kind("openrouter", Wire::OpenAi, "https://openrouter.ai/api/v1"),
    kind("groq", Wire::OpenAi, "https://api.groq.com/openai/v1"),
    kind("mistral", Wire::OpenAi, "https://api.mistral.ai/v1"),
    kind("vllm", Wire::OpenAi, "http://127.0.0.1:8000/v1"),
    kind("llamacpp", Wire::OpenAi, "http://127.0.0.1:8080/v1"),
];

impl ProviderKind {
    /// The kind of this name.
    pub fn named(name: &str) -> Option<Self> {
        KINDS.into_iter().find(|kind| kind.name == name)
    }
}

/// One service that serves models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderSettings {
    /// What models and logs call it.
    pub name: String,
    /// What kind it is.
    pub kind: ProviderKind,
    /// Where it is, without a slash at the end; empty for the demo.
    pub base_url: String,
    /// What it is paid with.
    pub api_key: Option<SecretSource>,
    /// Which of its models may be asked for by their own names.
    pub models: Offered,
    /// How long we wait for it.
    pub timeouts: Timeouts,
}

/// Which of a service's models may be asked for by their own names, beside the `[[models]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offered {
    /// `"*"`: whatever it has.
    All,
    /// These.
    Listed(Vec<String>),
}

/// How long we wait for a service. There is no limit to a whole answer: a stream may go on for an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For the connection.
    pub connect: Duration,
    /// For the first byte of an answer.
    pub answer: Duration,
    /// Between two pieces of a streamed answer.
    pub idle: Duration,
}

impl Default for Timeouts {
    /// Ten seconds, five minutes, two minutes.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            answer: Duration::from_secs(300),
            idle: Duration::from_secs(120),
        }
    }
}
