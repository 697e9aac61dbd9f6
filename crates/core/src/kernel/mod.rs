//! The kernel: immutable filters, tools and the provider of one model, and the turn that runs through them.
//!
//! The steps of a turn are: inlet chain → [ pre_chat chain → model → stream chain → post_chat chain → for each
//! tool call: pre_invocation chain → tool → post_invocation chain ] until the model calls no tool → outlet
//! chain. Every endpoint runs the same turn, [`Kernel::run`]. A kernel never changes; to change one, build
//! another and replace it.
//!
//! ```no_run
//! # async fn example(provider: std::sync::Arc<dyn valvehouse_core::provider::Provider>) -> Result<(), valvehouse_core::error::Error> {
//! use valvehouse_core::filter::{self, Verdict::Continue};
//! use valvehouse_core::kernel::{ChatOptions, Kernel};
//! let kernel = Kernel::builder()
//!     .filter(filter::pre_chat("log", |_| Ok(Continue)))
//!     .provider(provider)
//!     .build();
//! let messages = vec![valvehouse_core::chat::message::user("hello")];
//! let chat = kernel.chat_with_tools(messages, ChatOptions::default()).await?;
//! println!("{}", chat.text());
//! # Ok(()) }
//! ```

mod answer;
mod assembly;
mod call_output;
mod chat;
mod form;
mod invocation;
mod options;
mod outgoing;
mod progress;
mod recorded_answer;
mod round;
mod service_error;
mod stream;
mod tool_search;
mod turn;
mod turn_stream;

pub use answer::answer_of;
pub use assembly::{Kernel, KernelBuilder, MAX_TOOL_ITERATIONS, ModelDefaults, Route, Routes, TakesPlugins};
pub use chat::{ChatOptions, InvokeOutput};
pub use invocation::CHANGED_BY_PERSON;
pub use options::RunOptions;
pub use outgoing::hold_answer;
pub use progress::{Journal, Next, Progress, open_calls};
pub use round::is_ours;
pub use tool_search::find_tools;
pub use turn_stream::{ChatChunks, TurnAnswer, TurnEnd, TurnEvent, TurnStream};
