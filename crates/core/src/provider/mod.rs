//! Providers: the contract between the kernel and whatever serves a model.
//!
//! A request and an answer have the shape of OpenAI's chat API as [`Json`](valvehouse_json::Json); a provider of another
//! protocol translates in its own file.

mod canned;
mod contract;
mod fit;
mod traced;

pub use canned::{CannedProvider, Reply};
pub use contract::{
    Answer, ForwardRequest, PIPES, PassthroughAnswer, PassthroughBody, Piece, Provider, RESPONSES,
    RelayRequest, RelayResponse, Request, whole,
};
pub use fit::{COUNT_TOKENS, ONLY_RESPONSES, fit};
pub use traced::TracedCall;
