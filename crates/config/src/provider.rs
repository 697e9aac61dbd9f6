//! The services models live at, and the kinds we know.

use crate::schema;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::time::Duration;
use valvehouse_core::breaker::BreakerSettings;
use valvehouse_core::text::did_you_mean;
use valvehouse_grants::{Millis, ROUTES, RetrySettings, SecretSource, Timeouts};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String", extend("format" = "kind"))]
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

impl ProviderKind {
    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        KINDS.into_iter().find(|kind| kind.name == name)
    }

    /// The names of all, for a message.
    pub(crate) fn known() -> String {
        format!("known kinds: {}", KINDS.map(|kind| kind.name).join(", "))
    }
}

impl TryFrom<String> for ProviderKind {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        Self::from_name(&name).ok_or_else(|| {
            let near = did_you_mean(&name, KINDS.map(|kind| kind.name));
            format!("names the unknown kind {name:?}{near}; {}", Self::known())
        })
    }
}

impl<'de> Deserialize<'de> for ProviderKind {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.try_into().map_err(D::Error::custom)
    }
}

/// The API by which a service with OpenAI's wire is called for chats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// Chat completions.
    #[default]
    Chat,
    /// The Responses API.
    Responses,
}

/// One service that serves models.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct ProviderSettings {
    /// The provider's name in models and logs.
    #[schemars(length(min = 1), extend("examples" = ["openai"]))]
    pub name: String,
    /// `openai`, `anthropic`, `ollama`, `demo`, or a service with a known address ([Providers](providers.md)).
    #[schemars(extend("x-form" = "kind", "x-default" = "*its name*", "examples" = ["openrouter"]))]
    pub kind: ProviderKind,
    /// The address of its API.
    #[serde(deserialize_with = "without_slash")]
    #[schemars(extend("format" = "base-url", "x-form" = "URL", "x-default" = "*its kind's*", "examples" = ["https://api.example.com/v1"]))]
    pub base_url: String,
    /// The API used for chats with an OpenAI-compatible service: chat completions, or Responses.
    #[schemars(extend("default" = "chat", "examples" = ["responses"]))]
    pub api: Api,
    /// The service's key: `env:NAME`, `file:PATH`, or the key itself. A file is read again when it changes.
    /// `client`: each client's own key from the request.
    #[schemars(extend("x-word" = "client", "x-default" = "*the usual variable of its kind*", "examples" = ["env:OPENAI_API_KEY"]))]
    pub api_key: Option<SecretSource>,
    /// Further keys of the service. Requests take turns with all keys; one that the service refuses or limits (401, 403,
    /// 429) rests for the announced time, or 30 seconds. A key is a text, or a table with its weight.
    #[schemars(extend("x-form" = "list of secrets", "default" = [], "examples" = [["env:SECOND_KEY", {"key": "file:keys/third", "weight": 3}]]))]
    pub api_keys: Vec<ProviderKey>,
    /// The addresses of a service that has several, such as regions of Azure or servers with the same models. They share
    /// the requests; one that fails rests for `breaker.cool_down_ms` or the announced time, and the request continues with
    /// the next one, unless an answer has begun ([providers](providers.md)). They replace
    /// `base_url`.
    #[schemars(extend("x-form" = "list of tables", "examples" = [[{"name": "east", "base_url": "https://east.example.com/v1", "weight": 3}, {"name": "west", "base_url": "https://west.example.com/v1"}]]))]
    pub deployments: Vec<DeploymentSettings>,
    /// Set if each caller's own key is passed on; the provider then has no key.
    #[serde(skip)]
    pub is_paid_by_callers: bool,
    /// The models that clients can request by the service's names, as `provider/model`, or without the provider if
    /// unique.
    #[schemars(extend("x-form" = "`\"*\"` or list of names", "default" = [], "examples" = ["*"]))]
    pub models: ExposedModels,
    /// `refuse`: with `models = "*"`, only the models of `[[models]]` can be requested by the service's names, and
    /// requests of other routes must name one. Recommended if one of them has guards of its own.
    #[serde(rename = "unlisted", deserialize_with = "refuses")]
    #[schemars(with = "String", extend("enum" = ["pass", "refuse"], "default" = "pass", "examples" = ["refuse"]))]
    pub refuses_unlisted: bool,
    /// Its routes other than chats, by first path segment: `embeddings`, `completions`, `moderations`, `audio`,
    /// `images`, `files`, `batches`, `rerank`, `messages`.
    #[schemars(extend("items" = {"type": "string", "enum": ROUTES}, "x-default" = "*all that its kind may have*", "examples" = [["embeddings", "files"]]))]
    pub routes: Option<Vec<String>>,
    /// The time limits of calls.
    pub timeouts: Timeouts,
    /// The rules for retries.
    pub retry: RetrySettings,
    /// The rules by which it is left alone.
    #[serde(with = "Breaker")]
    pub breaker: BreakerSettings,
}

/// A key of a service that has several.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(transform = schema::or_key)]
pub struct ProviderKey {
    /// The key: `env:NAME`, `file:PATH`, or the key itself.
    #[schemars(extend("examples" = ["env:SECOND_KEY"]))]
    pub key: SecretSource,
    /// The share of requests, in proportion to the weights of the other keys. `api_key` has 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1000), extend("default" = 1, "examples" = [3]))]
    pub weight: u32,
}

fn one() -> u32 {
    1
}

/// One of several addresses of a service.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct DeploymentSettings {
    /// The name in logs, errors and metrics, and on the page.
    #[schemars(length(min = 1), extend("examples" = ["east"]))]
    pub name: String,
    /// The address of its API.
    #[serde(deserialize_with = "without_slash")]
    #[schemars(extend("format" = "base-url", "x-form" = "URL", "examples" = ["https://east.example.com/v1"]))]
    pub base_url: String,
    /// Its key.
    #[schemars(extend("x-default" = "*the keys of the provider*", "examples" = ["env:EAST_KEY"]))]
    pub api_key: Option<SecretSource>,
    /// Its further keys, which share its requests.
    #[schemars(extend("x-form" = "list of secrets", "default" = [], "examples" = [["env:SECOND_KEY"]]))]
    pub api_keys: Vec<ProviderKey>,
    /// The share of requests, in proportion to the weights of the other deployments.
    #[schemars(range(min = 1, max = 1000), extend("default" = 1, "examples" = [3]))]
    pub weight: u32,
}

fn without_slash<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let url = String::deserialize(from)?;
    Ok(url.trim().trim_end_matches('/').to_owned())
}

fn refuses<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    Ok(String::deserialize(from)? == "refuse")
}

impl DeploymentSettings {
    /// Returns `true` if it has keys of its own.
    pub(crate) fn has_keys(&self) -> bool {
        self.api_key.is_some() || !self.api_keys.is_empty()
    }
}

impl ProviderSettings {
    /// Returns the settings of each deployment: those of the provider with its address and, if it has some, its keys.
    pub fn of_deployments(&self) -> Vec<Self> {
        let of = |deployment: &DeploymentSettings| {
            let keys = match deployment.has_keys() {
                true => (deployment.api_key.clone(), deployment.api_keys.clone()),
                false => (self.api_key.clone(), self.api_keys.clone()),
            };
            let (base_url, (api_key, api_keys)) = (deployment.base_url.clone(), keys);
            Self { base_url, api_key, api_keys, deployments: vec![deployment.clone()], ..self.clone() }
        };
        if self.deployments.is_empty() {
            vec![self.clone()]
        } else {
            self.deployments.iter().map(of).collect()
        }
    }

    /// Returns the configured keys with their weights.
    pub fn keys(&self) -> impl Iterator<Item = (&SecretSource, u32)> {
        let further = self.api_keys.iter().map(|further| (&further.key, further.weight));
        self.api_key.iter().map(|key| (key, one())).chain(further)
    }

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
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(from = "ModelNames")]
#[schemars(with = "ModelNames")]
pub enum ExposedModels {
    /// `"*"`: whatever it has.
    All,
    /// The models of this list.
    Listed(Vec<String>),
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum ModelNames {
    All(#[schemars(extend("const" = "*"))] String),
    Listed(Vec<String>),
}

impl From<ModelNames> for ExposedModels {
    fn from(names: ModelNames) -> Self {
        let names = match names {
            ModelNames::All(word) => vec![word],
            ModelNames::Listed(names) => names,
        };
        if names.iter().any(|name| name.trim() == "*") { Self::All } else { Self::Listed(names) }
    }
}

/// The circuit breaker.
#[derive(Deserialize, JsonSchema)]
#[serde(remote = "BreakerSettings")]
pub(crate) struct Breaker {
    /// The number of failures that opens the breaker; 0 disables it.
    #[schemars(range(min = 0, max = 1000), extend("default" = 5, "examples" = [3]))]
    failure_threshold: usize,
    /// The time window in which failures are counted.
    #[serde(rename = "window_ms", with = "Millis")]
    #[schemars(extend("default" = 60_000, "examples" = [10_000]))]
    window: Duration,
    /// The time until one call is tried again.
    #[serde(rename = "cool_down_ms", with = "Millis")]
    #[schemars(extend("default" = 10_000, "examples" = [60_000]))]
    cool_down: Duration,
}
