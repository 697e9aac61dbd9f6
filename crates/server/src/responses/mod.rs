//! The endpoint of OpenAI's Responses API: `/v1/responses`, for any model there is.
//!
//! A request becomes a chat request, so that filters, tools and limits are those of every other endpoint; the answer
//! becomes a response again, whole or as events.

mod background;
mod compact;
mod conversations;
mod endpoint;
mod handlers;
mod input;
mod object;
mod output;
mod request;
mod resource;
pub(crate) mod routes;
pub(crate) mod socket;
mod storage;
mod tools;
mod writer;
