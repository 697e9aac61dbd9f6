//! Buttons under messages: a person's press runs the function `action` of a script, as a turn with its own trace.
//!
//! The routes are those of Open WebUI, errors are `{"detail": text}`. A body with `"stream": true` is answered by
//! server-sent events, in which plugins can ask the person.

mod press;
mod routes;
mod stream;

pub(crate) use press::Press;
pub(crate) use routes::{DOOR, routes};
