//! Buttons under a message: `fn action(body)` runs when a person presses one; `const actions` lists several.
//!
//! A press calls no model unless the script does. It is a turn with its own trace.

mod declaration;
mod function;
mod handler;

pub(super) use declaration::{misplaced, misplaced_functions, read};
pub(super) use function::ActionFunction;
pub use function::Button;
pub use handler::ScriptAction;
