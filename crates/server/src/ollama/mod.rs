//! Ollama's own API, for clients that cannot change their path: `/api/chat`, `/api/generate`, `/api/tags`.

mod answer;
mod endpoint;
pub(crate) mod rejection;
mod request;

pub(crate) use endpoint::routes;
