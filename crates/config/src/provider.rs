//! The services models live at, and the kinds we know.

use crate::secret::SecretSource;
use std::time::Duration;
use valvehouse_core::breaker::BreakerSettings;

/// The wire that a service speaks.
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

/// A kind of service: its wire, where it usually is, and where its key usually is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProviderKind {
    /// The name in the configuration.
    pub name: &'static str,
    /// Its wire.
    pub wire: Wire,
    /// The address unless the configuration names one; empty where everybody has another one.
    pub base_url: &'static str,
    /// The environment variable people keep its key in; empty for those that want none.
    pub key: &'static str,
}

const fn kind(name: &'static str, wire: Wire, base_url: &'static str, key: &'static str) -> ProviderKind {
    ProviderKind { name, wire, base_url, key }
}

/// A service that speaks OpenAI's wire.
const fn like_openai(name: &'static str, base_url: &'static str, key: &'static str) -> ProviderKind {
    kind(name, Wire::OpenAi, base_url, key)
}

/// The kinds we know.
pub const KINDS: [ProviderKind; 33] = [
    like_openai("openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    kind("anthropic", Wire::Anthropic, "https://api.anthropic.com", "ANTHROPIC_API_KEY"),
    // On this machine it wants no key; in the cloud it has another address.
    kind("ollama", Wire::Ollama, "http://127.0.0.1:11434", ""),
    kind("demo", Wire::Demo, "", ""),
    // Azure: a name of one's own for each customer, the model's name is that of the deployment.
    like_openai("azure", "", "AZURE_OPENAI_API_KEY"),
    like_openai("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    like_openai("cohere", "https://api.cohere.ai/compatibility/v1", "COHERE_API_KEY"),
    like_openai("dashscope", "https://dashscope.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"),
    like_openai("deepinfra", "https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY"),
    like_openai("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    like_openai("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    like_openai("gemini", "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    like_openai("github", "https://models.github.ai/inference", "GITHUB_TOKEN"),
    like_openai("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    like_openai("huggingface", "https://router.huggingface.co/v1", "HF_TOKEN"),
    like_openai("minimax", "https://api.minimax.io/v1", "MINIMAX_API_KEY"),
    like_openai("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    like_openai("moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    like_openai("nebius", "https://api.tokenfactory.nebius.com/v1", "NEBIUS_API_KEY"),
    like_openai("nvidia", "https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY"),
    like_openai("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    // Without `/v1`, and without a list of its models.
    like_openai("perplexity", "https://api.perplexity.ai", "PERPLEXITY_API_KEY"),
    like_openai("sambanova", "https://api.sambanova.ai/v1", "SAMBANOVA_API_KEY"),
    like_openai("siliconflow", "https://api.siliconflow.cn/v1", "SILICONFLOW_API_KEY"),
    like_openai("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    like_openai("volcengine", "https://ark.cn-beijing.volces.com/api/v3", "ARK_API_KEY"),
    like_openai("xai", "https://api.x.ai/v1", "XAI_API_KEY"),
    like_openai("zai", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY"),
    like_openai("zhipu", "https://open.bigmodel.cn/api/paas/v4", "ZHIPUAI_API_KEY"),
    // On this machine, without keys.
    like_openai("llamacpp", "http://127.0.0.1:8080/v1", ""),
    like_openai("lmstudio", "http://127.0.0.1:1234/v1", ""),
    like_openai("sglang", "http://127.0.0.1:30000/v1", ""),
    like_openai("vllm", "http://127.0.0.1:8000/v1", ""),
];

/// The first steps of the routes beside chats.
pub const ROUTES: [&str; 9] =
    ["embeddings", "completions", "moderations", "audio", "images", "files", "batches", "rerank", "messages"];

impl ProviderKind {
    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        KINDS.into_iter().find(|kind| kind.name == name)
    }
}

/// The API by which a service with OpenAI's wire is called for chats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Api {
    /// Chat completions.
    #[default]
    Chat,
    /// The Responses API.
    Responses,
}

impl Api {
    /// Every one, by its name in the configuration.
    pub const ALL: [(&'static str, Self); 2] = [("chat", Self::Chat), ("responses", Self::Responses)];

    /// The name in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
        }
    }
}

/// One service that serves models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderSettings {
    /// The name for models and logs.
    pub name: String,
    /// The kind of service.
    pub kind: ProviderKind,
    /// The address, without a slash at the end; empty for the demo.
    pub base_url: String,
    /// The API by which it is called.
    pub api: Api,
    /// The key that pays for it; without it see [`ProviderSettings::usual_key`].
    pub api_key: Option<SecretSource>,
    /// Set if each caller's own key is passed on; the provider then has no key.
    pub is_paid_by_callers: bool,
    /// The models that may be requested by their own names.
    pub models: ExposedModels,
    /// Set if names are refused that neither `[[models]]` nor a list in `models` has.
    pub refuses_unlisted: bool,
    /// The first steps of its routes beside chats; `None` for all that its kind may have.
    pub routes: Option<Vec<String>>,
    /// The time limits of calls.
    pub timeouts: Timeouts,
    /// The rules for retries.
    pub retry: RetrySettings,
    /// The rules by which it is left alone.
    pub breaker: BreakerSettings,
}

impl ProviderSettings {
    /// The variable its key usually is in, as long as it is where its kind usually is: a key is sent to
    /// nobody else.
    pub fn usual_key(&self) -> Option<&'static str> {
        let is_usual = match self.kind.base_url {
            "" => is_azure(&self.base_url),
            usual => self.base_url == usual,
        };
        Some(self.kind.key).filter(|key| is_usual && !key.is_empty())
    }

    /// The advice about a missing key.
    pub fn key_help(&self) -> String {
        let own = format!("api_key = \"env:NAME\" for provider {}", self.name);
        match self.usual_key() {
            Some(key) => format!("set the environment variable {key} and restart, or set {own}"),
            None => format!("set {own}"),
        }
    }
}

/// The one kind that is somewhere else for everybody.
fn is_azure(base_url: &str) -> bool {
    let Ok(url) = url::Url::parse(base_url) else { return false };
    url.scheme() == "https" && url.host_str().is_some_and(|host| host.ends_with(".azure.com"))
}

/// The models of a service that may be requested by their own names, beside the `[[models]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExposedModels {
    /// `"*"`: whatever it has.
    All,
    /// The models of this list.
    Listed(Vec<String>),
}

/// The time limits of calls to a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For the connection.
    pub connect: Duration,
    /// For the first byte of an answer.
    pub answer: Duration,
    /// Between two pieces of a streamed answer.
    pub idle: Duration,
    /// For a whole answer, asking again included. Usually none: a stream may go on for an hour.
    pub total: Option<Duration>,
}

impl Default for Timeouts {
    /// Ten seconds, five minutes, two minutes.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            answer: Duration::from_secs(300),
            idle: Duration::from_secs(120),
            total: None,
        }
    }
}

/// The rules for retries of a service that failed before anything of its answer was passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetrySettings {
    /// The most retries of one request.
    pub max_retries: u32,
    /// The longest wait before the first of them; it doubles each time, and chance shortens it.
    pub initial_delay: Duration,
    /// No wait is longer. A request to a service that demands a longer one is not retried.
    pub max_delay: Duration,
    /// Also when the connection was lost after the request was sent: the work may be done, and paid for, twice.
    pub after_send: bool,
}

impl Default for RetrySettings {
    /// Twice, after half a second and one second at most.
    fn default() -> Self {
        Self {
            max_retries: 2,
            initial_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(10),
            after_send: false,
        }
    }
}
