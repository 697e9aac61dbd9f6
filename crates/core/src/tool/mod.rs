//! Tools: what a model may call, and the box they are kept in.

mod callable;
mod declare;
mod entry;
mod module;
mod parameters;
mod ranking;
mod result;
mod spawned;
mod spec;
mod toolbox;
#[cfg(feature = "typed")]
mod typed;

pub use callable::{Handler, Tool};
pub use declare::{Declared, is_name, tags, timeout};
pub use entry::{FIND_TOOLS, RUN_SCRIPT, is_entry_tool};
pub use module::{ToolInfo, ToolModule, tools_of};
pub use parameters::{ArgumentError, Parameters};
pub(crate) use ranking::ranked;
pub use result::{ToolError, ToolResult};
pub(crate) use spawned::blocking;
pub use spec::{Retry, SchemaDialect, ToolSpec};
pub use toolbox::Toolbox;
#[cfg(feature = "typed")]
pub use typed::json_schema_of;
