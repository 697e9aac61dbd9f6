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
mod list;
mod map;
mod message;
mod order;

pub(crate) use alike::{
    UNJUDGED, may_read_like, may_read_like_others, reads_alike, report_container_element, report_containers,
    report_element, report_pair, report_subject,
};
pub(crate) use bytes::register as register_bytes;
pub(crate) use convert::{dynamic_of, is_empty, json_text_of, json_within};
pub use convert::{error, json_of, live};
pub(crate) use delegate::{
    functions, lend_functions_missing_beside, lend_missing_functions, names_of, numbers_of,
};
pub use handle::{Bytes, Shape};
pub(crate) use handle::{KernelHandle, List, Map, is_container};
pub use kind::Type;
pub(crate) use list::{after, places};
pub(crate) use map::{Misspelt, property_accessors};
pub(crate) use message::{BODY, PROPERTIES};
pub(crate) use order::{KeyOrders, PAIR, in_order_of, set as set_order};
