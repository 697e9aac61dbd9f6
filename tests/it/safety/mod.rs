//! The permissions of callers: keys, sessions of the page, pages of other sites, limits.

mod adoption;
mod audit;
mod middleware;
mod origins;
mod wrong_arguments;
mod budget_of_hosts;
mod canary;
mod clients;
mod guards;
mod issued_keys;
mod mutations;
mod named_models;
mod rights;
mod shapes;
mod shared_secrets;
mod joined_texts;
mod keys;
mod known_routes;
mod one_reading;
mod proxy_sign_in;
mod sealed_values;
mod service_errors;
mod sessions;

use crate::host::{Answer, TestHost, chat_body};
use crate::upstream::MODEL;

/// Returns a chat as JSON text.
fn chat() -> String {
    chat_body(MODEL, "hi").to_string()
}

/// Sends a request with these headers.
async fn with(request: reqwest::RequestBuilder, headers: &[(&str, &str)]) -> Answer {
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    Answer::of(request).await
}

/// Sends a chat with these headers.
async fn chat_with(host: &TestHost, headers: &[(&str, &str)]) -> Answer {
    with(host.posting(chat()), headers).await
}
