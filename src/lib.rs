//! Valvehouse: a live plugin host for the traffic of large language models.
//!
//! People drop scripts into `filters/` and `tools/`; the host loads them live, sandboxes them, and runs
//! them on every chat and every tool call, through every door. Read this file as the map: modules
//! stand in the order in which they build on each other, and each uses only those of earlier groups
//! (`tests/it/floors.rs` checks it).
//!
//! To follow one request: [`server`] (`openai/chat.rs`) takes a [`host`] snapshot and runs the
//! [`kernel`]'s turn, which folds the [`filter`] chain around a provider of [`llm`] and around each call of
//! a [`tool`]; scripts become filters and tools in [`script`]. Where the model has a memory, [`app`] has an
//! [`agent`] run that same turn, which keeps it in the [`store`] after each step.

// What only the workbench uses stays where it belongs, and is left out where nobody calls it.
#![cfg_attr(not(feature = "workbench"), allow(dead_code, unused_imports))]

// -- words: plain values, no input or output but what a crash leaves behind
pub mod memory;
pub mod json;
pub mod words;
pub mod fault;
pub mod crash;
pub mod chat;
pub mod anthropic;
pub mod limits;
pub mod valve;
pub mod breaker;
pub mod figures;
pub mod config;

// -- surroundings: what is random or sealed, who may come in, what is known of requests, what a turn carries,
// threads for what waits, the way out to other machines, the way into this one
pub mod seal;
pub mod access;
pub mod trace;
pub mod context;
pub mod callback;
pub mod lanes;
pub mod net;
pub mod machine;
#[cfg(feature = "otlp")]
pub mod otlp;

// -- parts: one contract each, and its native fulfilments
pub mod filter;
pub mod provider;
pub mod store;
pub mod tool;
pub mod llm;

// -- makers: the turn, which knows no scripts; scripts, which know no doors
pub mod kernel;
pub mod script;

// -- life: agents and what they remember; the one snapshot, and the one writer that swaps it; what operators
// change of it
pub mod agent;
pub mod host;
pub mod admin;

// -- assembly: opens everything, owns every task
pub mod app;

// -- doors: each reads its wire, runs the turn, writes its wire
pub mod server;

// -- command line: a file per command
pub mod cli;
