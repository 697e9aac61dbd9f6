//! The web access of plugins: the hosts that an operator granted and the public hosts that the plugin
//! declared, without a way into private networks.
//!
//! Every address is checked where it is used: the URL before each request, including redirects, and the
//! resolved addresses before a connection. The notation of an address and a changed resolution therefore make
//! no difference. Proxies of the environment are not used, because they would resolve names themselves.

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
pub use error::{HostPatternError, WebError};
