//! The functions that every script may call: one file per theme, each a module of plain functions whose doc
//! comments are the API reference.
//!
//! They do not change their arguments, limit the size of their results (`output`), and their errors say how to fix
//! the call. Functions of the running call (`emit`, `ask`, `log`) are in `turn`.

// The macro exports the `pub` functions of a theme.
#![allow(unreachable_pub)]

mod after;
mod argument;
mod base64;
mod chats;
mod csv;
#[cfg(feature = "documents")]
mod binary_documents;
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
mod page;
mod pattern;
mod python;
mod random;
pub mod reading;
mod records;
mod regex;
mod registry;
mod sequences;
mod shell;
mod simulation;
mod stream;
mod table;
mod text;
mod time;
mod tokens;
mod tools;
pub mod turn;
mod uploads;
mod url;
mod values;
mod vectors;
mod waiting;
mod xlsx;

#[cfg(test)]
mod tests;

pub(crate) use after::register_after;
pub use argument::RhaiResultOf;
pub use memories::store_memory;
pub use output::json as bounded_json;
pub use pattern::check as check_pattern;
pub(crate) use registry::globals;
pub use registry::modules;
pub(crate) use tools::register_callable;
pub use tools::{offered_tools, tool_functions};
