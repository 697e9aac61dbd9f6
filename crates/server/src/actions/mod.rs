//! Actions: buttons under messages. Pressing one runs the function `action` of a script, as a turn with its
//! own trace.
//!
//! The routes are those of Open WebUI, and errors have the form `{"detail": text}`. A body with `"stream":
//! true` is answered with server-sent events, in which plugins can ask the person.

mod press;
mod routes;
mod stream;

pub(crate) use press::Press;
pub(crate) use routes::{DOOR, routes};
