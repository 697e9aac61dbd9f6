//! From a name to the addresses a connection may go to.

use super::address::Way;
use super::error::Inside;
use super::pattern::Site;
use futures::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

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
            return Err(std::io::Error::other("lookup found no address").into());
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
pub(super) struct Checked {
    pub(super) lookup: Lookup,
    pub(super) way: Way,
}

impl Resolve for Checked {
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
