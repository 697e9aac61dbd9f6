//! The error of a plugin's request.

use super::pattern::{Pattern, Site};
use crate::explain::place;
use std::net::IpAddr;
use url::Url;

/// The reason why a plugin's request failed. The text contains no credentials; of the URL, it contains
/// only the host.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct WebError {
    message: String,
    grant: Option<String>,
}

/// The error of invalid host patterns in grants and declarations.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .problems.iter().map(|(_, what)| what.as_str()).collect::<Vec<_>>().join("; "))]
pub struct HostPatternError {
    /// Each invalid pattern and its description; at least one.
    pub problems: Vec<(String, String)>,
}

impl WebError {
    /// Creates an error with a message that scripts may read.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), grant: None }
    }

    /// Returns the grant that would allow the request, as the value of `http=`.
    pub fn grant(&self) -> Option<&str> {
        self.grant.as_deref()
    }

    /// Converts the error of a redirect. No grant is suggested, because the plugin did not choose the
    /// address.
    pub(super) fn after_redirect(self, first: &str) -> Self {
        Self { message: format!("{first} redirects to another address: {}", self.message), grant: None }
    }

    pub(super) fn unlisted(url: &Url, host: String, known: &[Pattern]) -> Self {
        const SHOWN: usize = 8;
        let mut names: Vec<String> = known.iter().take(SHOWN).map(|name| format!("{name}")).collect();
        if known.len() > SHOWN {
            names.push("…".to_owned());
        }
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let why = format!("the host `{host}` is not one of the hosts that this plugin may reach ({names})");
        Self { message: format!("cannot request {}: {why}", place(url)), grant: Some(host) }
    }

    /// Creates the error for a private address in a URL.
    pub(super) fn private(url: &Url, host: String, what: &str) -> Self {
        let why = format!("`{host}` is {what}, which needs a grant that names it");
        Self { message: format!("cannot request {}: {why}", place(url)), grant: Some(host) }
    }

    /// Creates the error for a name that resolves to a private address.
    pub(super) fn leads_inside(url: &Url, inside: &Inside) -> Self {
        let Inside { site, address, what } = inside;
        let why = format!("the name `{site}` resolves to {what}, which needs a grant that names the address");
        Self { message: format!("cannot request {}: {why}", place(url)), grant: Some(address.to_string()) }
    }
}

/// The error of a name that resolves to a private address.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the name `{site}` resolves to {what}")]
pub(super) struct Inside {
    pub(super) site: Site,
    pub(super) address: IpAddr,
    pub(super) what: &'static str,
}
