//! The web as one plugin may reach it: the hosts an operator granted and the public ones it declared,
//! and no way around them into private networks.
//!
//! Every address is checked where it is used: the URL before each hop of a request, redirects
//! included, and what a name resolves to before a connection is made. So it does not matter how an
//! address is written or what a name meant a moment ago. No proxy of the environment is used: it
//! would resolve elsewhere.

mod address;
mod ask;
mod error;
mod fetch;
mod pattern;
mod connections;
#[cfg(test)]
mod tests;

pub use ask::{
    Ask, LARGEST_ANSWER, MAX_ANSWER, MAX_ASKED, MAX_STREAM, MAX_WITHIN, OpenResponse, WebResponse,
};
pub use connections::{Lookup, Web};
pub use error::WebError;
