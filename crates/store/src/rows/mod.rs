//! Rows and columns that more than the store's methods read or write.

pub(crate) mod generation;
pub(crate) mod json;
pub(crate) mod kv;
pub(crate) mod sealed_value;
