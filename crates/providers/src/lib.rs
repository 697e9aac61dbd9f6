//! The providers of models: one contract for every service, and its implementations.
//!
//! Requests and answers have the format of OpenAI's chat API, as [`Json`](valvehouse_json::Json). A service
//! with another protocol is converted in its own module.

mod answer_stream;
mod anthropic;
mod custom_tools;
mod demo;
mod fallback;
mod formatted;
mod framing;
mod mask;
mod ollama;
mod openai;
mod origin;
mod relay;
mod responses;
mod service;
mod upstream;

pub use anthropic::Anthropic;
pub use custom_tools::CustomTools;
pub use demo::Demo;
pub use fallback::{Choice, Fallback};
pub use formatted::FormattedProvider;
pub use ollama::Ollama;
pub use openai::OpenAi;
pub use responses::OpenAiResponses;
pub use upstream::{Credentials, Extras, RetryingProvider, Upstream};
