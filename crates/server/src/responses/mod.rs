//! The endpoint of OpenAI's Responses API, `/v1/responses`, for all models.
//!
//! A request is converted to a chat request, so the same filters, tools and limits apply as at every other
//! endpoint. The answer is converted back to a response, complete or as events.

mod background;
mod compact;
mod conversations;
mod counted_io;
mod endpoint;
mod handlers;
mod pages;
pub(crate) mod routes;
pub(crate) mod socket;
mod storage;
