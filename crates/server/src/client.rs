//! The address of the client that sends a request.

use axum::extract::ConnectInfo;
use axum::http::request::Parts;
use std::net::{IpAddr, SocketAddr};

/// The address that a request comes from, where that is not its socket's: a trusted proxy says so.
#[derive(Debug, Clone, Copy)]
pub(super) struct Client(pub(super) IpAddr);

/// Returns where a request comes from, also through trusted proxies; none where it comes by no socket.
pub(super) fn client(parts: &Parts) -> Option<IpAddr> {
    parts.extensions.get::<Client>().map(|client| client.0).or_else(|| peer(parts))
}

/// Returns the other end of a request's socket.
pub(super) fn peer(parts: &Parts) -> Option<IpAddr> {
    parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|client| client.0.ip().to_canonical())
}
