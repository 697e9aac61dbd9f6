//! The classification of network addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The class of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Any plugin may send requests to it.
    Public,
    /// A grant has to name it; the text describes its network.
    Private(&'static str),
}

const KEYS: Kind = Kind::Private("where the cloud hands out keys");

/// Returns the class of an address. IPv4 addresses within IPv6 are classified as IPv4.
pub(super) fn kind(address: IpAddr) -> Kind {
    match plain(address) {
        IpAddr::V4(address) => kind_of_v4(address),
        IpAddr::V6(address) => kind_of_v6(address),
    }
}

/// Returns the canonical address: `127.0.0.1` for `::ffff:127.0.0.1`.
pub(super) fn plain(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// The addresses of cloud metadata services, which hand out keys: a common one, and those of Amazon, Alibaba,
/// Azure and Oracle.
const KEYS_V4: [Ipv4Addr; 6] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(169, 254, 170, 23),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
];

/// The IPv6 addresses of cloud metadata services: Amazon (two) and Google.
const KEYS_V6: [Ipv6Addr; 3] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

fn kind_of_v4(address: Ipv4Addr) -> Kind {
    if KEYS_V4.contains(&address) {
        return KEYS;
    }
    match address.octets() {
        [0, ..] => Kind::Private("an address of this machine"),
        [127, ..] => Kind::Private("a loopback address"),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Kind::Private("a private address"),
        [169, 254, ..] => Kind::Private("a link-local address"),
        [100, 64..=127, ..] => Kind::Private("an address of a carrier's network"),
        [192, 0, 0, _] | [192, 88, 99, _] => Kind::Private("an address of the protocol's own"),
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Kind::Private("an address of examples"),
        [198, 18..=19, ..] => Kind::Private("an address of measurements"),
        [224..=239, ..] => Kind::Private("a multicast address"),
        [240..=255, ..] => Kind::Private("a reserved address"),
        _ => Kind::Public,
    }
}

fn kind_of_v6(address: Ipv6Addr) -> Kind {
    if KEYS_V6.contains(&address) {
        return KEYS;
    }
    if let Some(within) = v4_within(address) {
        return kind_of_v4(within);
    }
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Kind::Private("an address of this machine"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Kind::Private("a loopback address"),
        [0xfc00..=0xfdff, ..] => Kind::Private("a private address"),
        [0xfe80..=0xfebf, ..] => Kind::Private("a link-local address"),
        [0xfec0..=0xfeff, ..] => Kind::Private("a private address"),
        [0xff00..=0xffff, ..] => Kind::Private("a multicast address"),
        [0x2001, 0x0db8, ..] | [0x3fff, 0..=0xfff, ..] => Kind::Private("an address of examples"),
        // Teredo, benchmarking, ORCHID and similar networks.
        [0x2001, 0..=0x1ff, ..] => Kind::Private("an address of the protocol's own"),
        [0x2000..=0x3fff, ..] => Kind::Public,
        _ => Kind::Private("a reserved address"),
    }
}

/// Returns the IPv4 address that NAT64, 6to4 or ISATAP gateways forward to.
fn v4_within(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let joined = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(joined(high, low)),
        [0x2002, high, low, ..] => Some(joined(high, low)),
        [0x2000..=0x3fff, _, _, _, 0 | 0x200, 0x5efe, high, low] => Some(joined(high, low)),
        _ => None,
    }
}

/// The private addresses that a request may be sent to, in addition to all public ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Way(pub(super) Vec<IpAddr>);

impl Way {
    /// Checks that a connection to an address is allowed; the error describes its network.
    pub(super) fn allows(&self, address: IpAddr) -> Result<(), &'static str> {
        match kind(address) {
            Kind::Public => Ok(()),
            Kind::Private(_) if self.0.contains(&plain(address)) => Ok(()),
            Kind::Private(what) => Err(what),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_public(text: &str) -> bool {
        kind(text.parse().unwrap()) == Kind::Public
    }

    #[test]
    fn the_public_internet_is_public() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2001:4860:4860::8888",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
            "2002:0101:0101::1",
        ] {
            assert!(is_public(address), "{address}");
        }
    }

    #[test]
    fn every_other_network_is_not() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.0.1",
            "169.254.169.254",
            "168.63.129.16",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.0",
            "192.168.255.255",
            "198.18.0.0",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1.1.1.1",
            "100::1",
            "2001::1",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "2002:c0a8:101::1",
            "2606:4700::5efe:10.0.0.1",
            "3fff::1",
            "4000::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(address), "{address}");
        }
    }

    #[test]
    fn cloud_metadata_addresses_are_recognized_in_every_notation() {
        for address in ["169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "fd00:ec2::254"] {
            assert_eq!(kind(address.parse().unwrap()), KEYS, "{address}");
        }
    }
}
