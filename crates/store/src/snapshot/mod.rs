//! A shared store without its database: the latest generation that its host served, sealed in a file, and the changes of
//! scripts' maps that the database has not got yet.

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
