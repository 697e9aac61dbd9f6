//! OpenAI's chat API, in whose format a chat is inside the host: unknown fields pass unchanged in both directions.

pub mod answer;
mod correct;
pub mod request;
pub mod stream;
