//! The kinds of services.

/// The protocol by which a service is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// OpenAI's chat completions.
    Chat,
    /// OpenAI's Responses API.
    Responses,
    /// Anthropic's Messages API.
    Messages,
    /// Ollama's own API.
    Ollama,
}

impl Protocol {
    /// Returns the name of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::Ollama => "ollama",
        }
    }
}

/// A kind of service, whose rules are rows of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ServiceKind {
    /// OpenAI's chat completions.
    OpenAi,
    /// The Responses API of any service.
    Responses,
    /// Chat completions of Azure.
    Azure,
    /// Anthropic's Messages API.
    Anthropic,
    /// The Messages API of Bedrock.
    Bedrock,
    /// OpenAI's form of Gemini.
    Gemini,
    /// The API of Mistral.
    Mistral,
    /// The API of DeepSeek.
    DeepSeek,
    /// Moonshot (Kimi).
    Moonshot,
    /// The API of Groq.
    Groq,
    /// The API of OpenRouter.
    OpenRouter,
    /// xAI (Grok).
    Xai,
    /// Zhipu and Z.ai (GLM).
    Zhipu,
    /// Ollama's own API.
    Ollama,
    /// A server of vLLM.
    Vllm,
    /// A server of SGLang.
    Sglang,
    /// The server of llama.cpp.
    LlamaCpp,
    /// LM Studio.
    LmStudio,
    /// The API of Cerebras.
    Cerebras,
    /// Another service with OpenAI's chat completions.
    Compatible,
}

use ServiceKind::*;

impl ServiceKind {
    /// Every kind, by its name, in order.
    pub const ALL: [(&'static str, Self); 20] = [
        ("openai", OpenAi),
        ("responses", Responses),
        ("azure", Azure),
        ("anthropic", Anthropic),
        ("bedrock", Bedrock),
        ("gemini", Gemini),
        ("mistral", Mistral),
        ("deepseek", DeepSeek),
        ("moonshot", Moonshot),
        ("groq", Groq),
        ("openrouter", OpenRouter),
        ("xai", Xai),
        ("zhipu", Zhipu),
        ("ollama", Ollama),
        ("vllm", Vllm),
        ("sglang", Sglang),
        ("llamacpp", LlamaCpp),
        ("lmstudio", LmStudio),
        ("cerebras", Cerebras),
        ("compatible", Compatible),
    ];

    /// Returns the kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(own, _)| *own == name).map(|(_, kind)| *kind)
    }

    /// Returns the name of the kind.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("compatible", |(name, _)| name)
    }

    /// Returns `true` if the service is called by the Messages API.
    pub(super) fn is_messages(self) -> bool {
        matches!(self, Anthropic | Bedrock)
    }
}
