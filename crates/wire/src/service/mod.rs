//! The table of what services accept: lengths, letters, least values, empty lists and texts, and fields that
//! depend on others.
//!
//! A service refuses a request that breaks one of its rules, usually the whole conversation from then on. Each
//! rule has one repair. [`adapt`] applies the rules of a service to a request, after all filters and right
//! before it is sent; [`Adaptation::names`] restores the client's tool names in the answer. A refusal that tells of
//! another rule is read by [`learn`], for this request and later ones.

mod kind;
mod known;
mod limit;
mod draft;
mod rule;
mod table;
mod functions;
mod history;
mod ids;
mod pairs;
mod results;
mod turns;
mod tools;
mod schema;
mod fields;
mod formats;
mod names;
mod names_in;
mod output_limit;
mod pictures;
mod adapt;
mod refusal;

pub use adapt::{Adaptation, adapt, expects_thoughts, may_apply};
pub use kind::{Protocol, ServiceKind};
pub use known::KnownService;
pub use names::Names;
pub(crate) use pictures::media_type;
pub use refusal::{Correction, correct, learn};
pub use table::{Row, markdown, rows};

#[cfg(test)]
mod tests;
