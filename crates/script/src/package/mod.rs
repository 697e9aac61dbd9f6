//! The functions every script may call: a file per theme, each a module of plain functions whose
//! doc comments are the API reference.
//!
//! They leave their arguments alone, bound what they hand back (`output`), and say in an error what
//! to do instead. What belongs to the running call (`emit`, `ask`, `log`) is in `turn`.

// The macro that exports a theme exports what is `pub` in it.
#![allow(unreachable_pub)]

mod after;
mod argument;
mod base64;
mod chats;
mod csv;
mod documents;
mod env;
mod files;
mod hash;
mod html;
mod host_calls;
mod http;
mod json;
mod jwt;
mod kv;
mod llm;
mod markup;
mod memories;
mod multipart;
mod output;
pub(crate) mod padding;
mod pattern;
mod random;
pub(crate) mod reading;
mod records;
mod regex;
mod registry;
mod sequences;
mod shell;
mod simulation;
mod stream;
mod text;
mod time;
mod tokens;
mod tools;
pub(crate) mod turn;
mod uploads;
mod url;
mod values;
mod vectors;
mod waiting;

#[cfg(test)]
mod tests;

pub(crate) use after::register_after;
pub(crate) use argument::RhaiResultOf;
pub(crate) use memories::{MAX_MEMORIES, memory};
pub use output::set_max_text;
pub(crate) use output::{json as bounded_json, max_text};
pub(crate) use pattern::check as check_pattern;
pub(crate) use records::space_of_user;
pub(crate) use registry::{globals, modules};
pub(crate) use tools::{offered_tools, register_callable, tool_functions};
