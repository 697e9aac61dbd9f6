//! The table of known services: their hosts, their kinds, and what they expect beyond OpenAI's chat API.

use super::kind::{Protocol, ServiceKind, ServiceKind::*};

/// A service that is known by its host or by its name in the configuration.
#[derive(Debug, PartialEq, Eq)]
pub struct KnownService {
    names: &'static [&'static str],
    /// The ends of the hosts of its addresses.
    hosts: &'static [&'static str],
    kind: ServiceKind,
    /// The field with its value, as JSON, that switches thinking off instead of `reasoning_effort: "none"`.
    pub(crate) no_thinking: Option<(&'static str, &'static str)>,
    /// Set if the service expects its thinking or signatures back with calls. Its answers are always parsed.
    pub expects_extras: bool,
}

const fn service(
    names: &'static [&'static str],
    hosts: &'static [&'static str],
    kind: ServiceKind,
) -> KnownService {
    KnownService { names, hosts, kind, no_thinking: None, expects_extras: false }
}

impl KnownService {
    const fn extras(mut self) -> Self {
        self.expects_extras = true;
        self
    }

    const fn no_thinking(mut self, field: &'static str, value: &'static str) -> Self {
        self.no_thinking = Some((field, value));
        self
    }
}

const THINKING: (&str, &str) = ("thinking", r#"{"type":"disabled"}"#);

/// The first matching row applies. Sources: "Thought signatures" of Gemini's documentation; "Thinking mode" of
/// DeepSeek's, Moonshot's and Zhipu's; "Deep thinking" of Volcengine's, DashScope's and SiliconFlow's; "Reasoning
/// outputs" of vLLM's.
static SERVICES: [KnownService; 18] = [
    service(&["openai"], &[".api.openai.com"], OpenAi),
    service(&["azure"], &[".azure.com"], Azure),
    service(&["gemini"], &[".googleapis.com"], Gemini).extras(),
    service(&["mistral"], &[".mistral.ai"], Mistral),
    service(&["deepseek"], &[".deepseek.com"], DeepSeek).no_thinking(THINKING.0, THINKING.1).extras(),
    service(&["moonshot"], &[".moonshot.ai", ".moonshot.cn"], Moonshot)
        .no_thinking(THINKING.0, THINKING.1)
        .extras(),
    service(&["groq"], &[".groq.com"], Groq),
    service(&["openrouter"], &[".openrouter.ai"], OpenRouter).extras(),
    service(&["cerebras"], &[".cerebras.ai"], Cerebras),
    service(&["xai"], &[".x.ai"], Xai),
    service(&["zhipu", "zai"], &[".bigmodel.cn", ".z.ai"], Zhipu)
        .no_thinking(THINKING.0, THINKING.1)
        .extras(),
    service(&["minimax"], &[".minimax.io", ".minimaxi.com"], Compatible).extras(),
    service(&["volcengine"], &[".volces.com"], Compatible).no_thinking(THINKING.0, THINKING.1),
    service(&["dashscope", "siliconflow"], &[".aliyuncs.com", ".siliconflow.cn"], Compatible)
        .no_thinking("enable_thinking", "false"),
    service(&["vllm"], &[], Vllm).no_thinking("chat_template_kwargs", r#"{"enable_thinking":false}"#),
    service(&["sglang"], &[], Sglang),
    service(&["llamacpp"], &[], LlamaCpp),
    service(&["lmstudio"], &[], LmStudio),
];

/// A service that the table does not have.
static OTHER: KnownService = service(&[], &[], Compatible);

impl KnownService {
    /// Returns the service with OpenAI's chat API at a host, or else of a name in the configuration.
    pub fn of(host: &str, name: &str) -> &'static Self {
        let at_host = SERVICES.iter().find(|row| row.hosts.iter().any(|end| is_at(host, end)));
        let of_name = || SERVICES.iter().find(|row| row.names.contains(&name));
        at_host.or_else(of_name).unwrap_or(&OTHER)
    }
}

impl KnownService {
    /// Returns `true` if the service reads thoughts in the items of its Responses API. OpenAI's refuses those that it did
    /// not encrypt: `Invalid 'input[1].content': array too long` (querymt/querymt#976).
    pub(crate) fn takes_thoughts(&self) -> bool {
        !matches!(self.kind, OpenAi | Azure)
    }
}

impl ServiceKind {
    /// Returns the kind of a service from its protocol, its host and its name in the configuration. The host of a
    /// known service takes precedence over the name.
    pub fn of(protocol: Protocol, host: &str, name: &str) -> Self {
        match protocol {
            Protocol::Responses => Responses,
            Protocol::Ollama => Ollama,
            Protocol::Messages if is_at(host, ".amazonaws.com") => Bedrock,
            Protocol::Messages => Anthropic,
            Protocol::Chat => KnownService::of(host, name).kind,
        }
    }
}

/// Returns `true` for a host, or one below it if the end starts with a dot.
fn is_at(host: &str, end: &str) -> bool {
    host == end.trim_start_matches('.') || (end.starts_with('.') && host.ends_with(end))
}
