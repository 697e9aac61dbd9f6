//! The declaration of a native tool.

use valvehouse_core::tool::{Handler, Tool, ToolSpec};
use valvehouse_json::Json;

/// Creates a native tool. Its parameters are declared in the JSON form of scripts.
pub(super) fn native(
    name: &str,
    tag: &str,
    description: &str,
    parameters: &str,
    handler: impl Handler + 'static,
) -> Tool {
    let declared = Json::parse(parameters.as_bytes()).expect("parameters are written as JSON");
    let tool = Tool::new(ToolSpec::new(name), handler).description(description).tag(tag);
    tool.parameters(&declared).expect("parameters are declared as they may be")
}
