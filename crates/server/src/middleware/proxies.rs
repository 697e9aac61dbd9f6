//! The address of a client behind proxies, as reported by trusted proxies only.

use axum::http::{HeaderMap, HeaderName, header};
use std::net::{IpAddr, SocketAddr};
use valvehouse_config::Network;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Returns the address of the client. Each proxy appends the address of its own peer to `X-Forwarded-For` or
/// `Forwarded`, so the last address that is not a trusted proxy is the client. If both headers are present
/// and disagree, the client set one of them, and the address of the proxy is returned.
pub(super) fn client_of(peer: IpAddr, headers: &HeaderMap, trusted: &[Network]) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    if !is_trusted(peer) {
        return peer;
    }
    let last = |chain: Vec<Option<IpAddr>>| {
        let mut found = peer;
        for address in chain.into_iter().rev() {
            // Addresses before an unreadable one cannot be trusted.
            let Some(address) = address else { break };
            found = address;
            if !is_trusted(address) {
                break;
            }
        }
        found
    };
    match (headers.contains_key(FORWARDED_FOR), headers.contains_key(header::FORWARDED)) {
        (false, false) => peer,
        (true, false) => last(forwarded_for(headers)),
        (false, true) => last(forwarded(headers)),
        (true, true) => {
            let (one, other) = (last(forwarded_for(headers)), last(forwarded(headers)));
            if one == other { one } else { peer }
        }
    }
}

fn texts<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    headers.get_all(name).iter().flat_map(|value| value.to_str().unwrap_or("?").split(','))
}

fn forwarded_for(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    texts(headers, &FORWARDED_FOR).map(address).collect()
}

/// Parses `for=192.0.2.60;proto=http, for="[2001:db8::17]:4711"`.
fn forwarded(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    let of = |element: &str| {
        let mut parameters = element.split(';').filter_map(|parameter| parameter.split_once('='));
        let (_, node) = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
        address(node.trim().trim_matches('"'))
    };
    texts(headers, &header::FORWARDED).map(of).collect()
}

/// Parses an address with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let plain = bare.parse::<IpAddr>().ok();
    let address = plain.or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()));
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn client(peer: &str, headers: &[(&'static str, &'static str)]) -> String {
        let trusted = ["127.0.0.1", "10.0.0.0/8", "fd00::/8"].map(|network| network.parse().unwrap());
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        client_of(peer.parse().unwrap(), &map, &trusted).to_string()
    }

    #[test]
    fn the_last_untrusted_address_is_the_client() {
        for (headers, expected) in [
            (&[][..], "127.0.0.1"),
            (&[("x-forwarded-for", "203.0.113.5")], "203.0.113.5"),
            (&[("x-forwarded-for", "198.51.100.1, 203.0.113.5, 10.1.2.3")], "203.0.113.5"),
            (&[("x-forwarded-for", "198.51.100.1"), ("x-forwarded-for", "203.0.113.5")], "203.0.113.5"),
            (&[("x-forwarded-for", "203.0.113.5:4711")], "203.0.113.5"),
            (&[("x-forwarded-for", "10.0.0.2, 10.0.0.3")], "10.0.0.2"),
            (&[("x-forwarded-for", "198.51.100.1, unknown, 10.0.0.3")], "10.0.0.3"),
            (&[("forwarded", "for=198.51.100.1, for=203.0.113.5;proto=https;by=10.0.0.1")], "203.0.113.5"),
            (&[("forwarded", "proto=https;For=\"[2001:db8::17]:4711\"")], "2001:db8::17"),
            (&[("forwarded", "for=_hidden")], "127.0.0.1"),
            (&[("forwarded", "for=203.0.113.5"), ("x-forwarded-for", "203.0.113.5")], "203.0.113.5"),
            (&[("forwarded", "for=198.51.100.1"), ("x-forwarded-for", "203.0.113.5")], "127.0.0.1"),
        ] {
            assert_eq!(client("127.0.0.1", headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn forwarded_headers_of_untrusted_peers_are_ignored() {
        assert_eq!(client("203.0.113.9", &[("x-forwarded-for", "198.51.100.1")]), "203.0.113.9");
    }
}
