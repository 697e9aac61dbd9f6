//! Generated proofs about all chat protocols: what is written is read back, a chat loses only what the table of left-out
//! fields names, and every body has the form that the official clients describe.

#![allow(clippy::unwrap_used)]

mod answers;
mod fields;
mod protocol;
mod requests;
mod schemas;

use valvehouse_json::Json;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// `tests/run --long` tries more.
fn cases() -> u32 {
    valvehouse_testkit::cases(300)
}
