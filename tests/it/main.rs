//! Valvehouse from outside: one test program for all behavior that a user, an operator or an embedder can
//! observe. It uses real hosts on real sockets, real files and a real store; only the model is canned.

// A helper that fails is a failed test, and no name here is public.
#![allow(clippy::unwrap_used, unreachable_pub)]

/// The same allocator as in the binary; without it, the memory of scripts would be unlimited.
#[global_allocator]
static ALLOCATOR: valvehouse::memory::CountingAllocator = valvehouse::memory::CountingAllocator::new();

mod memory;
mod memory_limits;
mod actions;
mod additional_tools;
mod after_answers;
mod agent_state;
mod agents_api;
mod agents_cli;
mod anthropic;
mod anthropic_lossless;
mod as_clients_expect;
mod any_stream;
mod authoring;
mod bad_input;
mod breaker;
mod broken;
mod broken_upstreams;
mod browser;
mod callbacks;
mod choices;
mod cli;
mod client_gone;
mod collection;
mod context_and_loop;
mod contract;
mod conversations;
mod cut_short;
mod deployments;
mod dev;
mod openai_endpoint;
mod doors;
mod editors;
mod endings;
mod even_ground;
mod event_text;
mod filter_chain;
mod first_hour;
mod forms;
mod functions;
mod generator;
mod guard_coverage;
mod guide;
mod history;
mod javascript;
mod kernel;
mod lanes;
mod language_server;
mod library;
mod long_talk;
mod mcp;
mod metrics;
mod modules;
mod one_request;
mod open_responses;
mod page;
mod passthrough;
mod pauses;
mod pipelines;
mod pipes;
mod processes;
mod prompt_cache;
mod providers;
mod python;
mod readme;
mod recordings;
mod records;
mod reload;
mod repairs;
mod response_format;
mod responses;
mod responses_background;
mod responses_socket;
mod responses_upstream;
mod safety;
mod scheduled;
mod service_rules;
mod same_either_way;
mod same_everywhere;
mod sdk;
mod service_errors;
mod shared_budget;
mod shipped;
mod shipped_tools;
mod slow_machines;
mod streaming;
mod testing;
mod tool_calls;
mod tool_definitions;
mod tool_results;
mod tools;
mod traces;
mod turn_extras;
mod usage;
mod waiting;
mod windows;

use valvehouse_testkit::{host, upstream, well_formed};
