//! Ollama's API, for clients that cannot change their paths: `/api/chat`, `/api/generate`, `/api/embed`,
//! `/api/tags`, `/api/show`, `/api/ps`, `/api/version`.

mod embed;
mod endpoint;
mod models;
pub(crate) mod rejection;

pub(crate) use endpoint::routes;
