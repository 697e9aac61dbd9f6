//! A JSON value shared by the host and scripts.
//!
//! Arrays and objects are *shared*: a clone is another handle of the same container, so a change by one filter
//! is visible to all, as in Python. Key order and the spelling of numbers are preserved.
//! [`Json::deep_clone`] creates an independent value.
//!
//! ```
//! use valvehouse_json::Json;
//! let body = Json::parse(br#"{"z":1e2,"messages":[{"role":"user"}]}"#).unwrap();
//! let message = body.get("messages").unwrap().at(0).unwrap();
//! message.set("content", "hi").unwrap();
//! assert_eq!(body.to_string(), r#"{"z":1e2,"messages":[{"role":"user","content":"hi"}]}"#);
//! ```

mod container;
pub mod diff;
mod entries;
mod fields;
mod number;
mod parse;
mod path;
mod scan;
mod serde;
mod lazy_object;
mod string;
mod surrogates;
mod text;
mod value;
mod walk;
mod write;

pub use entries::KeyFilter;
pub use fields::UnreadTexts;
pub use lazy_object::{raw_value, scan_object, scan_object_and_list};
pub use number::Number;
pub use parse::ParseError;
pub use surrogates::without_lone_surrogates;
pub use text::Text;
pub use value::{Array, Json, MAX_DEPTH, MisplacedValue, Object};
pub use walk::Repeats;
pub use write::{REPEATED, Unwritable};

/// The crate that the macro `json!` uses.
#[doc(hidden)]
pub use serde_json as __serde_json;
