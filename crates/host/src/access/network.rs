//! The network of a client's address.

use std::net::{IpAddr, Ipv6Addr};

/// Returns the address that stands for a client: an IPv4 address itself, or the /64 network of an IPv6 address, in
/// which one client has as many addresses as it likes.
pub(super) fn of_one(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}
