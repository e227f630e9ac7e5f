//! Addresses that lead back to the machine that asks, or to its link, and to no host of a network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Says how an address is local to the machine that asks; nothing for an address of a network.
pub(crate) fn local(address: IpAddr) -> Option<&'static str> {
    let (is_loopback, is_link_local, is_unspecified) = match address.to_canonical() {
        IpAddr::V4(address) => (
            address.is_loopback(),
            address.is_link_local(),
            address.octets()[0] == Ipv4Addr::UNSPECIFIED.octets()[0],
        ),
        IpAddr::V6(address) => {
            (address.is_loopback(), address.is_unicast_link_local(), address == Ipv6Addr::UNSPECIFIED)
        }
    };
    match (is_loopback, is_link_local, is_unspecified) {
        (true, _, _) => Some("a loopback address"),
        (_, true, _) => Some("a link-local address"),
        (_, _, true) => Some("the address of no host"),
        (false, false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::local;

    #[test]
    fn local_addresses_are_told_from_those_of_networks() {
        for (address, expected) in [
            ("127.0.0.1", Some("a loopback address")),
            ("127.255.1.2", Some("a loopback address")),
            ("::1", Some("a loopback address")),
            ("::ffff:127.0.0.1", Some("a loopback address")),
            ("169.254.169.254", Some("a link-local address")),
            ("fe80::1", Some("a link-local address")),
            ("::ffff:169.254.0.1", Some("a link-local address")),
            ("0.0.0.0", Some("the address of no host")),
            ("::", Some("the address of no host")),
            ("10.0.0.7", None),
            ("192.0.2.1", None),
            ("fd00::7", None),
        ] {
            assert_eq!(local(address.parse().unwrap()), expected, "{address}");
        }
    }
}
