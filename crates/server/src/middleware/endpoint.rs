//! The endpoint group of a request, determined from its path before routing. It selects the limits and the
//! error format.

use crate::messages::models::is_anthropic_client;
use crate::messages::rejection::AnthropicError;
use crate::ollama::rejection::OllamaError;
use crate::reply::{Detail, unlogged};
use axum::http::Method;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use valvehouse_core::error::Error;

/// A group of endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndpointGroup {
    /// Models, over OpenAI's API.
    OpenAi,
    /// Models, over Anthropic's API.
    Anthropic,
    /// Models, over Ollama's API.
    Ollama,
    /// Tools, over the Model Context Protocol.
    Mcp,
    /// The pipelines endpoint of Open WebUI.
    Pipelines,
    /// Action buttons under messages, as called by Open WebUI.
    Actions,
    /// The Functions API, for operators only.
    Functions,
    /// The other routes for operators, and unknown paths.
    Operators,
}

/// The routes that are passed through to a provider.
const PASSED: [&str; 9] = [
    "/embeddings",
    "/completions",
    "/moderations",
    "/rerank",
    "/audio",
    "/images",
    "/files",
    "/batches",
    "/realtime",
];

/// Returns `true` for the paths of Ollama's API, also unknown ones.
pub(crate) fn is_ollama(path: &str) -> bool {
    path.starts_with("/api/") && !path.starts_with("/api/v1/")
}

impl EndpointGroup {
    pub(super) fn of(parts: &Parts) -> Self {
        let path = parts.uri.path();
        let bare = path.strip_prefix("/v1").unwrap_or(path);
        let is_in = |endpoint: &str| {
            bare.strip_prefix(endpoint).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if path.starts_with("/api/v1/questions/") {
            Self::OpenAi
        } else if path == "/mcp" || path.starts_with("/.well-known/oauth-protected-resource") {
            Self::Mcp
        } else if path.starts_with("/api/v1/functions") {
            Self::Functions
        } else if bare.starts_with("/api/chat/actions/") {
            Self::Actions
        } else if path.starts_with("/api/v1/") {
            Self::Operators
        } else if is_ollama(path) {
            Self::Ollama
        } else if is_in("/messages") || is_in("/models") && is_anthropic_client(&parts.headers) {
            Self::Anthropic
        } else if PASSED.iter().any(|route| is_in(route)) {
            if is_anthropic_client(&parts.headers) { Self::Anthropic } else { Self::OpenAi }
        } else if path.starts_with("/openai/")
            || is_in("/models")
            || is_in("/chat/completions")
            || is_in("/responses")
        {
            Self::OpenAi
        } else if is_in("/pipelines") || bare.contains("/filter/") || bare.contains("/valves") {
            Self::Pipelines
        } else {
            Self::Operators
        }
    }

    /// Returns `true` if pages of other sites may be allowed to use the group.
    pub(super) fn may_be_shared(self) -> bool {
        matches!(self, Self::OpenAi | Self::Anthropic | Self::Ollama | Self::Mcp | Self::Actions)
    }

    /// Returns `true` if responses are for operators only.
    pub(super) fn is_operators(self) -> bool {
        matches!(self, Self::Functions | Self::Pipelines | Self::Operators)
    }

    /// Returns `true` if a request runs a model, a tool or a filter.
    pub(super) fn runs_turn(self, method: &Method) -> bool {
        *method == Method::POST
            && match self {
                Self::OpenAi | Self::Anthropic | Self::Ollama => true,
                Self::Pipelines | Self::Mcp | Self::Actions => true,
                Self::Functions | Self::Operators => false,
            }
    }

    /// Returns an error in the format of the group.
    pub(super) fn refused(self, error: Error) -> Response {
        match self {
            Self::Anthropic => AnthropicError(error).into_response(),
            Self::Ollama => OllamaError(error).into_response(),
            Self::OpenAi | Self::Operators | Self::Mcp => unlogged(&error),
            Self::Functions | Self::Pipelines | Self::Actions => Detail(error).into_response(),
        }
    }
}
