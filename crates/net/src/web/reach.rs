//! The hosts one plugin may reach.

use super::address::Way;
use super::ask::{Answer, Ask};
use super::clients::Clients;
use super::error::WebError;
use super::lookup::Lookup;
use super::pattern::{Pattern, Site};
use crate::explain::place;
use std::fmt;
use std::sync::Arc;
use url::Url;
use valvehouse_config::Grant;

/// The web as one plugin may reach it; the default reaches nothing. A clone shares the connections.
#[derive(Debug, Clone, Default)]
pub struct Web {
    rules: Arc<Rules>,
    pub(super) clients: Arc<Clients>,
    pub(super) canned: Option<Canned>,
}

/// The answers in place of the web's.
#[derive(Clone)]
pub(super) struct Canned(pub(super) Arc<Answering>);

type Answering = dyn Fn(&Ask) -> Result<Answer, WebError> + Send + Sync;

impl fmt::Debug for Canned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Canned")
    }
}

#[derive(Debug, Default)]
struct Rules {
    /// Every public host.
    everything: bool,
    granted: Vec<Pattern>,
    declared: Vec<Pattern>,
}

impl Web {
    /// Hosts that an operator granted, and public ones that the plugin declared. `Err` says which
    /// patterns are not hosts.
    ///
    /// A pattern is a host or `*.` and a domain, whose subdomains are meant; with a port it is that
    /// port only, without one it is any. A private address is only reached where a grant names the
    /// address itself (`localhost` stands for its two): no name leads there, whoever granted it, since
    /// whoever owns the name says where it leads.
    pub fn new(granted: &Grant, declared: &[String]) -> Result<Self, Vec<String>> {
        let names = match granted {
            Grant::Only(names) => names.as_slice(),
            Grant::Nothing | Grant::Everything => &[],
        };
        let rules = match (read(names), read(declared)) {
            (Ok(granted_names), Ok(declared)) => {
                Rules { everything: *granted == Grant::Everything, granted: granted_names, declared }
            }
            (granted, declared) => {
                let granted = granted.err().into_iter().flatten();
                let granted = granted.map(|wrong| format!("in the grant of `http`, {wrong}"));
                return Err(granted.chain(declared.err().into_iter().flatten()).collect());
            }
        };
        Ok(Self { rules: Arc::new(rules), ..Self::default() })
    }

    /// The same hosts, whose names are looked up in another way; what is found is checked all the same.
    #[must_use]
    pub fn looking_up(self, lookup: Lookup) -> Self {
        Self { clients: Arc::new(Clients::new(lookup)), ..self }
    }

    /// The same hosts, for which somebody answers who is at hand: nothing is looked up, nothing sent. A private
    /// address that is among the hosts is one more name here.
    #[must_use]
    pub fn answered_by(
        self,
        canned: impl Fn(&Ask) -> Result<Answer, WebError> + Send + Sync + 'static,
    ) -> Self {
        Self { canned: Some(Canned(Arc::new(canned))), ..self }
    }

    /// Checks that a request goes to a host that may be asked, as far as its URL shows.
    ///
    /// # Errors
    ///
    /// Returns the error that the request would end with.
    pub fn check(&self, ask: &Ask) -> Result<(), WebError> {
        self.listed(&ask.url).map(drop)
    }

    /// The way to a URL, if it may be asked. An address in it is checked here, a name when it is looked up.
    pub(super) fn way(&self, url: &Url) -> Result<Way, WebError> {
        let (site, port) = self.listed(url)?;
        let opening = self.rules.granted.iter().filter(|pattern| pattern.opens(url.scheme(), port));
        let way = Way(opening.flat_map(|pattern| pattern.addresses(&site)).collect());
        match site {
            Site::Name(_) => Ok(way),
            Site::Address(address) => match way.allows(address) {
                Ok(()) => Ok(way),
                Err(what) => Err(WebError::private(url, named(url, &site), what)),
            },
        }
    }

    /// The host of a URL, where it is among those that may be asked.
    pub(super) fn listed(&self, url: &Url) -> Result<(Site, u16), WebError> {
        let refused = |why: &str| WebError::new(format!("cannot ask {}: {why}", place(url)));
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refused("only http:// and https:// addresses can be asked"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused(
                "the URL holds a user name or password; put it into the header `authorization`",
            ));
        }
        let (Some(site), Some(port)) = (Site::of(url), url.port_or_known_default()) else {
            return Err(refused("the host holds characters that no host name has; check the URL"));
        };
        let matches = |pattern: &Pattern| pattern.matches(url.scheme(), &site, port);
        let Rules { everything, granted, declared } = &*self.rules;
        if !(*everything || granted.iter().chain(declared).any(matches)) {
            let known: Vec<Pattern> = granted.iter().chain(declared).cloned().collect();
            return Err(WebError::unlisted(url, named(url, &site), &known));
        }
        Ok((site, port))
    }
}

/// A host as a grant would name it.
fn named(url: &Url, site: &Site) -> String {
    match url.port() {
        Some(port) => format!("{site}:{port}"),
        None => site.to_string(),
    }
}

fn read(patterns: &[String]) -> Result<Vec<Pattern>, Vec<String>> {
    let (good, bad): (Vec<_>, Vec<_>) =
        patterns.iter().map(|pattern| Pattern::parse(pattern)).partition(Result::is_ok);
    if bad.is_empty() {
        return Ok(good.into_iter().filter_map(Result::ok).collect());
    }
    Err(bad.into_iter().filter_map(Result::err).collect())
}
