//! The limits of open WebSockets: of each client, and of all together.

use super::rate::Asker;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// The open WebSockets of a host.
pub struct Sockets {
    max: usize,
    max_each: usize,
    open: Arc<Mutex<HashMap<Option<Asker>, usize>>>,
}

/// An open WebSocket, which counts until it is dropped.
#[derive(Debug)]
pub struct OpenSocket {
    asker: Option<Asker>,
    open: Arc<Mutex<HashMap<Option<Asker>, usize>>>,
}

/// An exceeded limit of open WebSockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketLimit {
    /// The limit of one client.
    Each(usize),
    /// The limit of all clients together.
    All(usize),
}

impl Sockets {
    pub(super) fn new(max: usize, max_each: usize) -> Self {
        Self { max, max_each, open: Arc::default() }
    }

    /// Counts another WebSocket of a client; clients whose address is unknown count as one.
    ///
    /// # Errors
    /// Returns the exceeded limit if the client or all clients have too many.
    pub fn open(&self, asker: Option<Asker>) -> Result<OpenSocket, SocketLimit> {
        let asker = asker.map(Asker::identified);
        let mut open = self.open.lock();
        if open.get(&asker).is_some_and(|own| *own >= self.max_each) {
            return Err(SocketLimit::Each(self.max_each));
        }
        if open.values().sum::<usize>() >= self.max {
            return Err(SocketLimit::All(self.max));
        }
        *open.entry(asker).or_default() += 1;
        drop(open);
        Ok(OpenSocket { asker, open: self.open.clone() })
    }
}

impl Drop for OpenSocket {
    fn drop(&mut self) {
        let mut open = self.open.lock();
        if let Some(count) = open.get_mut(&self.asker) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.asker);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn sockets_are_limited_for_each_client_and_in_all() {
        let sockets = Sockets::new(3, 2);
        let asker = |address: &str| Some(Asker::Address(address.parse::<IpAddr>().unwrap()));
        let first = sockets.open(asker("10.0.0.1")).unwrap();
        let _second = sockets.open(asker("10.0.0.1")).unwrap();
        assert_eq!(sockets.open(asker("10.0.0.1")).unwrap_err(), SocketLimit::Each(2));
        let _third = sockets.open(asker("10.0.0.2")).unwrap();
        assert_eq!(sockets.open(asker("10.0.0.3")).unwrap_err(), SocketLimit::All(3));
        drop(first);
        let _fourth = sockets.open(asker("10.0.0.1")).unwrap();
    }
}
