//! The hosts that a plugin may reach, and its connections.
//!
//! Names are resolved to allowed addresses only. Each set of allowed private addresses has a separate
//! connection pool, so that no request uses a connection checked for another one.

use super::address::Way;
use super::ask::{Ask, WebResponse};
use super::error::{HostPatternError, Inside, WebError};
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
use valvehouse_core::error::Error;
use valvehouse_grants::{Grant, Timeouts};

/// The web access of a plugin; by default, it reaches nothing. Clones share the connections.
#[derive(Debug, Clone, Default)]
pub struct Web {
    rules: Arc<Rules>,
    pub(super) clients: Arc<Clients>,
    pub(super) canned: Option<CannedWeb>,
}

/// A function that answers requests instead of the network.
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
    /// `true` if every public host is granted.
    everything: bool,
    granted: Vec<Pattern>,
    declared: Vec<Pattern>,
}

impl Web {
    /// Creates access to the hosts that an operator granted, and to public hosts that the plugin declared.
    ///
    /// A pattern is a host, or `*.` and a domain for its subdomains, with an optional port. A private address
    /// is reachable only if a grant names the address itself (`localhost` stands for the two loopback
    /// addresses). A granted name never leads to a private address, because the owner of the name decides
    /// what it resolves to.
    ///
    /// # Errors
    /// Returns a description of each invalid pattern.
    pub fn new(granted: &Grant, declared: &[String]) -> Result<Self, HostPatternError> {
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
                let granted =
                    granted.map(|(pattern, wrong)| (pattern, format!("in the grant of `http`, {wrong}")));
                let problems = granted.chain(declared.err().into_iter().flatten()).collect();
                return Err(HostPatternError { problems });
            }
        };
        Ok(Self { rules: Arc::new(rules), ..Self::default() })
    }

    /// Replaces the name resolution. The resolved addresses are checked as usual.
    #[must_use]
    pub fn looking_up(self, lookup: Lookup) -> Self {
        Self { clients: Arc::new(Clients::new(lookup)), ..self }
    }

    /// Answers requests to the same hosts with `canned`: no name is resolved, and nothing is sent. A private
    /// address among the hosts is treated as a name.
    #[must_use]
    pub fn answered_by(
        self,
        canned: impl Fn(&Ask) -> Result<WebResponse, WebError> + Send + Sync + 'static,
    ) -> Self {
        Self { canned: Some(CannedWeb(Arc::new(canned))), ..self }
    }

    /// Checks that the host of a request is allowed, without resolving its name.
    ///
    /// # Errors
    ///
    /// Returns the error that the request would fail with.
    pub fn check(&self, ask: &Ask) -> Result<(), WebError> {
        self.listed(&ask.url).map(drop)
    }

    /// Returns the private addresses allowed for a URL if its host is allowed. An address in the URL is
    /// checked here, a name when it is resolved.
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

    /// Returns the host of a URL if it is allowed.
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

/// Returns a host in the form of a grant.
fn named(url: &Url, site: &Site) -> String {
    match url.port() {
        Some(port) => format!("{site}:{port}"),
        None => site.to_string(),
    }
}

fn read(patterns: &[String]) -> Result<Vec<Pattern>, Vec<(String, String)>> {
    let parsed = |pattern: &String| Pattern::parse(pattern).map_err(|wrong| (pattern.clone(), wrong));
    let (good, bad): (Vec<_>, Vec<_>) = patterns.iter().map(parsed).partition(Result::is_ok);
    if bad.is_empty() {
        return Ok(good.into_iter().filter_map(Result::ok).collect());
    }
    Err(bad.into_iter().filter_map(Result::err).collect())
}

/// A function that resolves a name to addresses.
#[derive(Clone)]
pub struct Lookup(Arc<Find>);

type Find = dyn Fn(String) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> + Send + Sync;

impl Lookup {
    /// Creates a resolver from a function.
    pub fn new<F>(find: impl Fn(String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = std::io::Result<Vec<IpAddr>>> + Send + 'static,
    {
        Self(Arc::new(move |name| Box::pin(find(name))))
    }

    /// Resolves a name, and returns its addresses if all of them are allowed. A name with both public and
    /// private addresses is suspicious and rejected.
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
    /// Resolves names with the operating system.
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

/// A resolver for the HTTP client that returns only checked addresses.
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

/// The maximum number of idle connections per host.
const IDLE: usize = 32;
/// The maximum size of a response's headers in bytes.
const MAX_HEADERS: u32 = 64 * 1024;

/// The HTTP clients, created on first use, because most plugins send no requests.
#[derive(Debug, Default)]
pub(super) struct Clients {
    lookup: Lookup,
    /// The clients by their allowed private addresses; grants differ in few ways.
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
        // Concurrent calls may build two clients, of which one is stored.
        let client = self.build(way.clone()).await?;
        Ok(self.made.lock().entry(way).or_insert(client).clone())
    }

    /// Builds a client on a separate thread, because reading certificates takes longer than a script may run.
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
