//! Providers: the contract between the kernel and the services or scripts that serve models.
//!
//! Requests and answers have the format of the OpenAI chat API as [`Json`](valvehouse_json::Json); a provider
//! with another protocol translates them.

mod canned;
mod collector;
mod contract;
mod embedding;
mod fit;
mod model_trace;

pub use canned::{CannedProvider, Reply};
pub(crate) use collector::AnswerCollector;
pub use collector::{whole, whole_within};
pub use contract::{
    Answer, ForwardRequest, IntoProvider, PIPES, PassthroughAnswer, PassthroughBody, Provider, RESPONSES,
    RelayRequest, RelayResponse, Request, StreamChunk,
};
pub use embedding::{BUILTIN_EMBEDDING, builtin_embedding, dot_product};
pub use fit::{COUNT_TOKENS, ONLY_RESPONSES, fit};
pub use model_trace::TracedCall;
