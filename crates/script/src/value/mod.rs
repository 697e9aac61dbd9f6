//! Values of the host's JSON that scripts hold: live handles, not copies.
//!
//! [`List`] and [`Map`] are shared containers with Rhai's array and map methods on top. The few
//! methods that the host implements itself are in `list`, `map` and `message`; every other array or map
//! function of Rhai is lent to them by `delegate`. A [`Shape`] is how a container was reached, and
//! decides which extra words it answers to: a message has `text`, messages have `last(role)`.

mod bytes;
mod convert;
mod delegate;
mod handle;
mod kind;
mod list;
mod map;
mod message;

pub(crate) use bytes::register as register_bytes;
pub(crate) use convert::{dynamic_of, error, json_of, json_within, live};
pub(crate) use delegate::{functions, lend_functions_missing_beside, lend_missing_functions, names_of};
pub(crate) use handle::{Bytes, KernelHandle, List, Map, Shape};
pub use kind::Type;
pub(crate) use map::property_accessors;
pub(crate) use message::{BODY, PROPERTIES};
