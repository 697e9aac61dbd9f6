//! Ollama's API, for clients that cannot change their paths: `/api/chat`, `/api/generate`, `/api/tags`.

mod answer;
mod endpoint;
pub(crate) mod rejection;
mod request;

pub(crate) use endpoint::routes;
