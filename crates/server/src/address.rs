//! The addresses of a request: that of its client, and the requested host.

use axum::http::header::{self, HeaderValue};
use axum::http::request::Parts;
use compact_str::{CompactString, ToCompactString as _};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use valvehouse_config::is_loopback;
use valvehouse_core::error::{Error, RequestErrorKind};

/// The address of the client as reported by a trusted proxy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client(pub(crate) IpAddr);

/// The remote address of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    address: SocketAddr,
    /// The address and its port, written once for all requests of the connection.
    text: CompactString,
}

impl Peer {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, text: address.to_compact_string() }
    }
}

/// Returns the address of the client as text, with its port unless a trusted proxy reported it.
pub(crate) fn client_text(parts: &Parts) -> Option<CompactString> {
    match parts.extensions.get::<Client>() {
        Some(client) => Some(client.0.to_compact_string()),
        None => parts.extensions.get::<Peer>().map(|peer| peer.text.clone()),
    }
}

/// Returns the address of the client, as reported by a trusted proxy or from the socket; `None` without a
/// socket.
pub(crate) fn client(parts: &Parts) -> Option<IpAddr> {
    parts.extensions.get::<Client>().map(|client| client.0).or_else(|| peer(parts))
}

/// Returns the remote address of a request's socket.
pub(crate) fn peer(parts: &Parts) -> Option<IpAddr> {
    parts.extensions.get::<Peer>().map(|peer| peer.address.ip().to_canonical())
}

/// Rejects a request from another machine, even through a proxy on this one, and a request of another site's
/// page.
pub(crate) fn at_this_machine(parts: &Parts) -> Result<(), Error> {
    let headers = &parts.headers;
    let is_near = peer(parts).is_none_or(|client| client.is_loopback());
    let is_passed_on =
        ["forwarded", "x-forwarded-for", "x-real-ip"].iter().any(|name| headers.contains_key(*name));
    let host = host_of(parts);
    let is_here = host.is_none_or(|host| host.is_empty() || name_of(host).is_some_and(is_loopback));
    let is_of = |origin: &HeaderValue| origin.to_str().is_ok_and(|origin| is_own(origin, host.unwrap_or("")));
    if is_near && !is_passed_on && is_here && headers.get(header::ORIGIN).is_none_or(is_of) {
        return Ok(());
    }
    Err(Error::Request {
        message: "this route is for operators: send the request from this machine, or set [admin] key".into(),
        param: None,
        code: Some("admin_key_needed"),
        kind: RequestErrorKind::Forbidden,
    })
}

/// Returns the requested host with its port.
pub(crate) fn host_of(parts: &Parts) -> Option<&str> {
    let host = parts.headers.get(header::HOST).map(|host| host.to_str().unwrap_or("?"));
    host.or_else(|| parts.uri.authority().map(|authority| authority.as_str()))
}

/// Returns the name of a host without port and brackets; `None` unless it is a name or an address, with or
/// without a port.
pub(crate) fn name_of(host: &str) -> Option<&str> {
    let (name, rest) = match host.strip_prefix('[') {
        Some(rest) => {
            let (name, rest) = rest.split_once(']')?;
            (name.parse::<Ipv6Addr>().is_ok().then_some(name)?, rest)
        }
        None => {
            let end = host.find(':').unwrap_or(host.len());
            let (name, rest) = host.split_at(end);
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
            (name.bytes().all(is_plain).then_some(name)?, rest)
        }
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port)).then_some(name)
}

/// Returns `true` if a page of this origin was loaded from this host.
pub(crate) fn is_own(origin: &str, host: &str) -> bool {
    origin.split_once("://").is_some_and(|(_, from)| from.eq_ignore_ascii_case(host))
}
