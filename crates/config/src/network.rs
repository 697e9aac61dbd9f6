//! Networks of addresses: `10.0.0.0/8`, `fd00::/8`, `192.0.2.7`.

use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// All addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", extend("format" = "network"))]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Returns `true` if the address lies in this network.
    pub fn contains(&self, address: IpAddr) -> bool {
        let same = |own: u128, other: u128, width: u32| {
            let rest = width - u32::from(self.bits);
            own.checked_shr(rest).unwrap_or(0) == other.checked_shr(rest).unwrap_or(0)
        };
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => same(own.to_bits().into(), other.to_bits().into(), 32),
            (IpAddr::V6(own), IpAddr::V6(other)) => same(own.to_bits(), other.to_bits(), 128),
            _ => false,
        }
    }
}

/// An address or, with `/` and a number of bits, a network.
impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("must be an IP address or a network, such as \"10.0.0.0/8\", not {text:?}");
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.trim().parse().map_err(|_| wrong())?;
        let address = address.to_canonical();
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(width), |bits| bits.trim().parse().map_err(|_| wrong()))?;
        if bits > width { Err(wrong()) } else { Ok(Self { address, bits }) }
    }
}

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_the_addresses_with_its_prefix() {
        let contains = |network: &str, address: &str| {
            network.parse::<Network>().unwrap().contains(address.parse().unwrap())
        };
        assert!(contains("10.0.0.0/8", "10.255.0.1") && !contains("10.0.0.0/8", "11.0.0.1"));
        assert!(contains("0.0.0.0/0", "203.0.113.9") && !contains("0.0.0.0/0", "::1"));
        assert!(contains("192.0.2.7", "192.0.2.7") && !contains("192.0.2.7", "192.0.2.8"));
        assert!(contains("192.0.2.7", "::ffff:192.0.2.7"));
        assert!(contains("fd00::/8", "fd12::1") && !contains("fd00::/8", "fe00::1"));
        assert!(contains("::/0", "2001:db8::1"));
        for wrong in ["", "10.0.0.0/33", "fd00::/129", "10.0.0/8", "proxy", "10.0.0.0/-1", "10.0.0.0/"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}
