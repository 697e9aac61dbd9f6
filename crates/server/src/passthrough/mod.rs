//! The routes of services beside chats: embeddings, completions, moderations, audio, images, files, batches, reranking,
//! and those of Anthropic's beside messages. Bytes go both ways as they are, with the keys, limits, metrics and traces
//! of every other endpoint; filters that ask for it see the texts that flow in.

mod azure;
mod body;
mod endpoint;
mod guard;
mod multipart;
mod routes;

pub(crate) use endpoint::through;
pub(crate) use routes::routes;
