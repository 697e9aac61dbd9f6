//! Tools that models can call, their parameters, and the toolbox of a kernel.

mod callable;
mod content;
mod declare;
mod parameters;
mod ranking;
mod result;
mod task;
mod spec;
mod toolbox;
#[cfg(feature = "typed")]
mod typed_tool;

pub use callable::{Handler, Tool};
pub use content::ToolContent;
pub(crate) use content::failure;
pub use declare::{ToolDeclaration, is_name, tags, timeout};
pub use parameters::Parameters;
pub(crate) use ranking::ranked;
pub use result::{ToolError, ToolResult};
pub use spec::{Retry, SchemaDialect, ToolSpec};
pub(crate) use task::blocking;
pub use toolbox::{FIND_TOOLS, RUN_SCRIPT, ToolInfo, ToolModule, Toolbox, is_entry_tool, tools_of};
#[cfg(feature = "typed")]
pub use typed_tool::json_schema_of;
