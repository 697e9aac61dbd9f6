//! The hosts one plugin may reach.
//!
//! From a name to the addresses a connection may go to.
//!
//! The connections of one plugin: a pool for each set of addresses a request may go to, so that none
//! ever uses what was checked for another.

use super::address::Way;
use super::ask::{Ask, WebResponse};
use super::error::{Inside, WebError};
use super::pattern::{Pattern, Site};
use crate::client;
use crate::explain::place;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use url::Url;
use valvehouse_config::{Grant, Timeouts};
use valvehouse_core::error::Error;

/// The web as one plugin may reach it; the default reaches nothing. A clone shares the connections.
#[derive(Debug, Clone, Default)]
pub struct Web {
    rules: Arc<Rules>,
    pub(super) clients: Arc<Clients>,
    pub(super) canned: Option<CannedWeb>,
}

/// The answers in place of the web's.
#[derive(Clone)]
pub(super) struct CannedWeb(pub(super) Arc<Answering>);

type Answering = dyn Fn(&Ask) -> Result<WebResponse, WebError> + Send + Sync;

impl fmt::Debug for CannedWeb {
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
        canned: impl Fn(&Ask) -> Result<WebResponse, WebError> + Send + Sync + 'static,
    ) -> Self {
        Self { canned: Some(CannedWeb(Arc::new(canned))), ..self }
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
        let refused = |why: &str| WebError::new(format!("cannot request {}: {why}", place(url)));
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refused("only http:// and https:// URLs are supported"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused(
                "the URL contains a user name or password; send it in the header `authorization`",
            ));
        }
        let (Some(site), Some(port)) = (Site::of(url), url.port_or_known_default()) else {
            return Err(refused(
                "the host contains characters that are not valid in a host name; check the URL",
            ));
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

/// Finds the addresses of a name.
#[derive(Clone)]
pub struct Lookup(Arc<Find>);

type Find = dyn Fn(String) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> + Send + Sync;

impl Lookup {
    /// Finds them in a way of one's own.
    pub fn new<F>(find: impl Fn(String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = std::io::Result<Vec<IpAddr>>> + Send + 'static,
    {
        Self(Arc::new(move |name| Box::pin(find(name))))
    }

    /// Those of them that may be connected to on a way: all, or none where one of them may not be.
    /// A name with an answer of both kinds is not an honest one.
    async fn checked(&self, name: String, way: &Way) -> Result<Vec<SocketAddr>, BoxError> {
        let found = (self.0)(name.clone()).await?;
        if found.is_empty() {
            return Err(std::io::Error::other("the lookup returned no address").into());
        }
        for address in &found {
            let inside = |what| Inside { site: Site::Name(name.clone()), address: *address, what };
            way.allows(*address).map_err(inside)?;
        }
        Ok(found.into_iter().map(|address| SocketAddr::new(address, 0)).collect())
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Default for Lookup {
    /// As this machine finds them.
    fn default() -> Self {
        Self::new(|name| async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

impl std::fmt::Debug for Lookup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lookup")
    }
}

/// The addresses that a client connects to: exactly those that were checked.
#[derive(Debug, Clone)]
pub(super) struct CheckedRoute {
    pub(super) lookup: Lookup,
    pub(super) way: Way,
}

impl Resolve for CheckedRoute {
    fn resolve(&self, name: Name) -> Resolving {
        let Self { lookup, way } = self.clone();
        let name = name.as_str().to_owned();
        Box::pin(async move {
            let addresses = lookup.checked(name, &way).await?;
            let addresses: Addrs = Box::new(addresses.into_iter());
            Ok(addresses)
        })
    }
}

/// Connections a host may keep open for the next request.
const IDLE: usize = 32;
/// Bytes of an answer's headers.
const MAX_HEADERS: u32 = 64 * 1024;

/// The clients, made when they are first needed: most plugins never ask anybody.
#[derive(Debug, Default)]
pub(super) struct Clients {
    lookup: Lookup,
    /// As many as the grants make different: a few.
    made: Mutex<HashMap<Way, reqwest::Client>>,
}

impl Clients {
    pub(super) fn new(lookup: Lookup) -> Self {
        Self { lookup, ..Self::default() }
    }

    pub(super) async fn on(&self, way: Way) -> Result<reqwest::Client, Error> {
        let made = self.made.lock().get(&way).cloned();
        if let Some(client) = made {
            return Ok(client);
        }
        // Two at once build two, and one is kept.
        let client = self.build(way.clone()).await?;
        Ok(self.made.lock().entry(way).or_insert(client).clone())
    }

    /// Aside: reading certificates takes longer than a script may run.
    async fn build(&self, way: Way) -> Result<reqwest::Client, Error> {
        let checked = CheckedRoute { lookup: self.lookup.clone(), way };
        client::install_crypto();
        client::aside(move || {
            client::settings(Timeouts::default())
                .no_proxy()
                .dns_resolver(checked.clone())
                .pool_max_idle_per_host(IDLE)
                .http2_max_header_list_size(MAX_HEADERS)
        })
        .await
    }
}
