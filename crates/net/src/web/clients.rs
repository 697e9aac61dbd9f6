//! The connections of one plugin: a pool for each set of addresses a request may go to, so that none
//! ever uses what was checked for another.

use super::address::Way;
use super::lookup::{Checked, Lookup};
use crate::client;
use parking_lot::Mutex;
use std::collections::HashMap;
use valvehouse_config::Timeouts;
use valvehouse_core::fault::Fault;

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

    pub(super) async fn on(&self, way: Way) -> Result<reqwest::Client, Fault> {
        let made = self.made.lock().get(&way).cloned();
        if let Some(client) = made {
            return Ok(client);
        }
        // Two at once build two, and one is kept.
        let client = self.build(way.clone()).await?;
        Ok(self.made.lock().entry(way).or_insert(client).clone())
    }

    /// Aside: reading certificates takes longer than a script may run.
    async fn build(&self, way: Way) -> Result<reqwest::Client, Fault> {
        let checked = Checked { lookup: self.lookup.clone(), way };
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
