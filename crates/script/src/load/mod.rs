//! The way from a file to a script: found, read, linked with its modules and compiled.

pub(crate) mod compile;
pub(crate) mod embed;
pub(crate) mod imports;
pub(crate) mod link;
pub(crate) mod loader;
pub(crate) mod source;
pub(crate) mod sources;
pub(crate) mod watch;
