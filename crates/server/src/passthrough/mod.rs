//! Passthrough of other routes than chats: embeddings, completions, moderations, audio, images, files,
//! batches, reranking, and Anthropic's routes other than messages. Requests and responses pass unchanged,
//! with the keys, limits, metrics and traces of the other endpoints. Filters that list the endpoint can edit
//! the texts of requests.

pub(crate) mod azure;
mod body;
pub(crate) mod embeddings;
mod endpoint;
mod guard;
mod known;
mod multipart;
mod routes;

pub(crate) use endpoint::through;
pub(crate) use routes::routes;
