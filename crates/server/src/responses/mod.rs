//! The endpoint of OpenAI's Responses API: `/v1/responses`, for any model there is.
//!
//! A request becomes a chat request, so that filters, tools and limits are those of every other endpoint; the answer
//! becomes a response again, whole or as events.

pub(crate) mod endpoint;
mod failure;
mod id;
mod input;
mod object;
mod output;
mod request;
mod resource;
mod storage;
mod tools;
mod writer;
