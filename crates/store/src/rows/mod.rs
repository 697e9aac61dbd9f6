//! The rows of each table, with the same statements for all databases.

pub(crate) mod removed_plugin;
pub(crate) mod conversations;
pub(crate) mod generation;
pub(crate) mod grants;
pub(crate) mod guards;
pub(crate) mod history;
pub(crate) mod hosts;
pub(crate) mod json;
pub(crate) mod kv;
pub(crate) mod questions;
pub(crate) mod response_conversations;
pub(crate) mod responses;
pub(crate) mod script_sets;
pub(crate) mod sealed_value;
pub(crate) mod secrets;
pub(crate) mod sessions;
pub(crate) mod switches;
pub(crate) mod users;
pub(crate) mod valves;
pub(crate) mod vectors;
