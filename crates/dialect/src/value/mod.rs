//! Values of the host's JSON in scripts: live handles, not copies.
//!
//! [`List`] and [`Map`] are shared containers with Rhai's array and map methods. The methods that the host
//! implements itself are in `list`, `map` and `message`; `delegate` provides all other array and map functions of
//! Rhai. A [`Shape`] is the role of a container and determines its additional properties and methods: a message has
//! `text`, messages have `last(role)`.

mod alike;
mod bytes;
mod convert;
mod delegate;
mod handle;
mod kind;
pub mod limits;
mod list;
mod map;
mod message;
mod order;

pub use alike::UNJUDGED;
pub(crate) use alike::{
    may_read_like, may_read_like_others, reads_alike, report_container_element, report_containers,
    report_element, report_pair, report_subject,
};
pub(crate) use bytes::register as register_bytes;
pub(crate) use convert::json_text_of;
pub use convert::{dynamic_of, error, is_empty, json_of, json_within, live};
pub(crate) use delegate::{functions, lend_missing_functions};
pub use delegate::{lend_functions_missing_beside, names_of, numbers_of};
pub(crate) use handle::is_container;
pub use handle::{Bytes, KernelHandle, List, Map, Shape};
pub use kind::Type;
pub(crate) use list::{after, places};
pub use map::{Misspelt, property_accessors};
pub use message::{BODY, PROPERTIES};
pub use order::{KeyOrders, PAIR};
pub(crate) use order::{in_order_of, set as set_order};
