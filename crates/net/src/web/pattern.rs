//! Host patterns of operators and scripts, and their comparison with URLs.

use super::address::plain;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use url::{Host, Url};

/// A host, or all subdomains of one: `api.example.com`, `*.example.com`, `10.0.0.7:8080`, `[::1]`,
/// `https://example.com`.
///
/// Without a port, all ports match; with a scheme, only that scheme and its port match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    scheme: Option<String>,
    host: Hosts,
    port: Option<u16>,
}

/// The hosts that a pattern matches.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    One(Site),
    /// The subdomains, but not the domain itself.
    Below(String),
}

/// A host in canonical form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Site {
    /// A name in lower case, in punycode and without a final dot.
    Name(String),
    Address(IpAddr),
}

impl Site {
    /// Returns the host of a URL.
    pub(super) fn of(url: &Url) -> Option<Self> {
        Self::from_host(url.host()?.to_owned())
    }

    fn from_host(host: Host) -> Option<Self> {
        match host {
            Host::Ipv4(address) => Some(Self::Address(address.into())),
            Host::Ipv6(address) => Some(Self::Address(plain(address.into()))),
            Host::Domain(name) => {
                let name = name.strip_suffix('.').unwrap_or(&name);
                is_name(name).then(|| Self::Name(name.to_owned()))
            }
        }
    }
}

impl std::fmt::Display for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// Returns `true` if a normalized name is a valid host name. Errors show it within a command to copy, so it
/// must not contain characters with a meaning in a shell.
fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    name.len() <= 253
        && name.split('.').all(|label| (1..=63).contains(&label.len()) && label.bytes().all(is_letter))
}

impl Pattern {
    /// Parses a pattern. The error describes the expected form.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("`{text}` {why}");
        let text = text.trim();
        if text == "*" {
            return Err(wrong(
                "would match every host; name the hosts that are needed, or grant `http = true`",
            ));
        }
        let (scheme, rest) = match text.split_once("://") {
            None => (None, text),
            Some((scheme, rest)) => match scheme.to_ascii_lowercase().as_str() {
                known @ ("http" | "https") => {
                    (Some(known.to_owned()), rest.strip_suffix('/').unwrap_or(rest))
                }
                _ => return Err(wrong("must begin with http:// or https://, or have no scheme")),
            },
        };
        if rest.contains(['/', '\\', '?', '#', '@']) {
            return Err(wrong("contains more than a host; write only the host, such as api.example.com"));
        }
        let (host, port) =
            split_port(rest).ok_or_else(|| wrong("must end with a port from 1 to 65535, or have no port"))?;
        let default = scheme.as_deref().map(|scheme| if scheme == "https" { 443 } else { 80 });
        let host = Hosts::parse(host).ok_or_else(|| {
            wrong("is not a host; write it as api.example.com, *.example.com or 10.0.0.7:8080")
        })?;
        Ok(Self { scheme, host, port: port.or(default) })
    }

    /// Returns `true` if a URL matches the pattern.
    pub(super) fn matches(&self, scheme: &str, site: &Site, port: u16) -> bool {
        self.opens(scheme, port)
            && match (&self.host, site) {
                (Hosts::One(own), site) => own == site,
                (Hosts::Below(domain), Site::Name(name)) => {
                    name.strip_suffix(domain.as_str()).is_some_and(|label| label.ends_with('.'))
                }
                (Hosts::Below(_), Site::Address(_)) => false,
            }
    }

    /// Returns `true` if the pattern allows this scheme and port.
    pub(super) fn opens(&self, scheme: &str, port: u16) -> bool {
        self.scheme.as_deref().is_none_or(|own| own == scheme) && self.port.is_none_or(|own| own == port)
    }

    /// Returns the addresses that the pattern names; the loopback addresses only for the name `localhost`.
    pub(super) fn addresses(&self, target: &Site) -> Vec<IpAddr> {
        match &self.host {
            Hosts::One(Site::Address(address)) => vec![*address],
            Hosts::One(site @ Site::Name(name)) if name == "localhost" && site == target => {
                vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
            }
            Hosts::One(_) | Hosts::Below(_) => Vec::new(),
        }
    }
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(scheme) = &self.scheme {
            write!(f, "{scheme}://")?;
        }
        match &self.host {
            Hosts::One(site) => write!(f, "{site}")?,
            Hosts::Below(domain) => write!(f, "*.{domain}")?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

impl Hosts {
    fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix("*.") {
            Some(domain) => match site(domain)? {
                Site::Name(domain) => Some(Self::Below(domain)),
                Site::Address(_) => None,
            },
            None => site(text).map(Self::One),
        }
    }
}

fn site(text: &str) -> Option<Site> {
    match text.parse::<std::net::Ipv6Addr>() {
        // The address has no brackets.
        Ok(address) => Some(Site::Address(plain(address.into()))),
        Err(_) => Site::from_host(Host::parse(text).ok()?),
    }
}

/// Splits a host from its port; `None` for an invalid port.
fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match text.rsplit_once(':') {
        // The colons belong to an IPv6 address, with or without brackets.
        Some(_) if text.ends_with(']') || text.parse::<std::net::Ipv6Addr>().is_ok() => {
            return Some((text, None));
        }
        Some((host, port)) => (host, port),
        None => return Some((text, None)),
    };
    let port = port.parse::<u16>().ok().filter(|port| *port > 0)?;
    Some((host, Some(port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, url: &str) -> bool {
        let url = Url::parse(url).unwrap();
        let (site, port) = (Site::of(&url).unwrap(), url.port_or_known_default().unwrap());
        Pattern::parse(pattern).unwrap().matches(url.scheme(), &site, port)
    }

    #[test]
    fn a_pattern_matches_its_hosts() {
        for (pattern, url) in [
            ("example.com", "https://example.com/"),
            ("Example.COM.", "http://example.com:81/x"),
            ("example.com", "http://EXAMPLE.com./"),
            ("*.example.com", "http://a.b.example.com/"),
            ("example.com:80", "http://example.com/"),
            ("example.com:443", "https://example.com/"),
            ("https://example.com", "https://example.com/"),
            ("http://example.com:8080/", "http://example.com:8080/"),
            ("bücher.example", "http://xn--bcher-kva.example/"),
            ("xn--bcher-kva.example", "http://BÜCHER.example/"),
            ("127.0.0.1", "http://2130706433/"),
            ("127.0.0.1", "http://[::ffff:127.0.0.1]/"),
            ("::1", "http://[0:0::1]:9/"),
            ("[::1]:9", "http://[::1]:9/"),
            ("localhost:11434", "http://localhost:11434/"),
        ] {
            assert!(matches(pattern, url), "{pattern} {url}");
        }
    }

    #[test]
    fn a_pattern_matches_no_other_hosts() {
        for (pattern, url) in [
            ("example.com", "http://a.example.com/"),
            ("example.com", "http://example.com.evil.org/"),
            ("example.com", "http://badexample.com/"),
            ("*.example.com", "http://example.com/"),
            ("*.example.com", "http://badexample.com/"),
            ("*.example.com", "http://1.2.3.4/"),
            ("example.com:443", "http://example.com/"),
            ("https://example.com", "http://example.com/"),
            ("https://example.com", "https://example.com:444/"),
            ("localhost", "http://127.0.0.1/"),
        ] {
            assert!(!matches(pattern, url), "{pattern} {url}");
        }
    }

    #[test]
    fn patterns_that_are_not_hosts_are_rejected() {
        for (text, why) in [
            ("", "is not a host"),
            ("*", "grant `http = true`"),
            ("*.", "is not a host"),
            ("*.1.2.3.4", "is not a host"),
            ("a.*.com", "is not a host"),
            ("exa mple.com", "is not a host"),
            ("a..b", "is not a host"),
            ("$(reboot).com", "is not a host"),
            ("a;b", "is not a host"),
            ("[::1", "is not a host"),
            ("example.com:0", "a port from 1 to 65535"),
            ("example.com:99999", "a port from 1 to 65535"),
            ("example.com:", "a port from 1 to 65535"),
            ("ftp://example.com", "must begin with http:// or https://"),
            ("example.com/path", "contains more than a host"),
            ("ann:pw@example.com", "contains more than a host"),
        ] {
            let error = Pattern::parse(text).unwrap_err();
            assert!(error.contains(why) && error.starts_with(&format!("`{text}`")), "{text}: {error}");
        }
    }
}
