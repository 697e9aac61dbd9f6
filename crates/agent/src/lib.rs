//! Agents: a kernel with a memory. An agent stores the complete conversation, sends the model the part that
//! fits, stores each step of a run, pauses for a person and resumes in another process.
//!
//! ```
//! use valvehouse_agent::middleware::HumanApproval;
//! use valvehouse_agent::{Agent, Decision};
//! use valvehouse_json::Json;
//! use valvehouse_core::provider::{CannedProvider, Reply};
//! use valvehouse_core::tool::Tool;
//! # tokio_test(async {
//! # let call = br#"{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{}"}}]}"#;
//! # let provider = std::sync::Arc::new(CannedProvider::new([Reply::message(Json::parse(call).unwrap()), Reply::text("It is warm.")]));
//! let mut agent = Agent::builder().id("helper")
//!     .provider(provider)
//!     .tool(Tool::from_json_fn("look", |_| Ok("22 degrees".into())))
//!     .middleware(HumanApproval::all())
//!     .build()?;
//! let paused = agent.run("is it warm?").await?;
//! assert_eq!(paused.pending_action.at_path("question.data.tool"), "look".into());
//!
//! // The run may resume much later in another process, through `export_state` and `import_state` or a storage.
//! let response = agent.resume(Decision::Approve { arguments: None }).await?;
//! assert_eq!(response.text(), "It is warm.");
//! assert_eq!(agent.state().messages.len(), 4);
//! # Ok::<(), valvehouse_core::error::Error>(()) });
//! # fn tokio_test(test: impl Future<Output = Result<(), valvehouse_core::error::Error>>) {
//! #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test).unwrap();
//! # }
//! ```

#![warn(clippy::missing_errors_doc)]

pub mod callbacks;
mod conversations;
mod journal;
mod library;
mod memory;
pub mod middleware;
mod pending;
mod run;
mod runs;
mod saved;
mod state;
mod status;
mod store_keeper;
pub mod summary;

#[cfg(feature = "typed")]
pub use conversations::{CheckpointFacts, ConversationFacts, ForkOrigin};
pub use conversations::{checkpoint_to_json, conversation_to_json};
pub use library::{Agent, AgentBuilder, AgentResponse, AgentStream};
pub use pending::{Decision, in_words};
pub use run::Setup;
pub use runs::{Begin, HistoryMatch, RunOutcome, Runs};
pub use saved::RunSnapshot;
pub use state::AgentState;
#[cfg(feature = "typed")]
pub use status::{GraphState, RunFacts, RunState};
pub use status::{INTERRUPTED, RunQuery, run_to_json, standing};
