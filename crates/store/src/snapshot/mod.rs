//! Operation of a shared store during an outage of its database: the latest generation that its host applied,
//! sealed in a file, and the journal of kv changes that are not in the database yet.

#[cfg(feature = "postgres")]
mod availability;
mod content;
#[cfg(feature = "postgres")]
mod file;
#[cfg(feature = "postgres")]
mod journal;
#[cfg(feature = "postgres")]
mod json;
#[cfg(feature = "postgres")]
mod local;

#[cfg(feature = "postgres")]
pub(crate) use availability::Availability;
pub(crate) use content::Content;
#[cfg(feature = "postgres")]
pub(crate) use local::Local;
