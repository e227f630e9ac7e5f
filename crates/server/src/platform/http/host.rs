//! Checks the `Host` header on listeners that only this machine reaches.
//!
//! What must stay true: a web page that is open on this machine cannot reach the server under a domain name
//! that points here (DNS rebinding). Other listeners answer to any name: their callers need credentials, and
//! the network decides which machines connect.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use axum::{
    extract::Request,
    http::{Uri, Version, header, uri::Authority},
};

use crate::platform::http::error::Error;

/// The names of a listener that only this machine reaches; a part of every request that comes over it.
#[derive(Debug, Clone)]
pub(crate) struct Loopback {
    address: IpAddr,
    /// The hosts of the URLs under which the server is reached by its settings.
    own: Arc<[String]>,
}

impl Loopback {
    /// Returns the names of a listener, if it is one that only this machine reaches.
    pub(crate) fn of(listener: SocketAddr, urls: &[&str]) -> Option<Self> {
        let address = Some(listener.ip().to_canonical()).filter(IpAddr::is_loopback)?;
        let urls = urls.iter().filter_map(|url| url.parse::<Uri>().ok()).filter(|url| url.scheme().is_some());
        let hosts = urls.filter_map(|url| Some(url.host()?.to_owned()));
        Some(Self { address, own: hosts.collect() })
    }
}

/// Refuses a request without a host, which HTTP/1.1 asks for (RFC 9112, section 3.2), and on a loopback listener one
/// that calls the server by a name that is not its own.
pub(crate) fn check(request: &Request) -> Result<(), Error> {
    let given = request.headers().get(header::HOST);
    if given.is_none() && request.version() >= Version::HTTP_11 {
        return Err(Error::invalid("Host", "is missing, which HTTP/1.1 asks for"));
    }
    let Some(listener) = request.extensions().get::<Loopback>() else { return Ok(()) };
    let header = given.map(|host| host.to_str().unwrap_or_default());
    let named = [request.uri().authority().map(Authority::as_str), header];
    match named.into_iter().flatten().find(|name| !is_own(name, listener.address, &listener.own)) {
        None => Ok(()),
        Some(other) => {
            let other: String = other.chars().take(100).collect();
            let message = format!(
                "{other:?} is not a name of this server, whose listener is on a loopback address: call it localhost or \
                 127.0.0.1, or set server.public_url to the URL under which it is reached"
            );
            Err(Error::invalid("Host", message))
        }
    }
}

/// Whether a host, with a port or without, is a name of this machine for itself or of a configured URL.
fn is_own(name: &str, listener: IpAddr, own: &[String]) -> bool {
    let Ok(authority) = name.parse::<Authority>() else { return false };
    let host = authority.host();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let is_local = match address {
        Ok(address) => address.to_canonical().is_loopback() || address == listener,
        Err(_) => {
            let name = host.trim_end_matches('.').to_ascii_lowercase();
            name == "localhost" || name.ends_with(".localhost")
        }
    };
    // A name with a user in front of it is no host.
    !name.contains('@') && (is_local || own.iter().any(|own| own.eq_ignore_ascii_case(host)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_names_are_answered_to() {
        let own = ["wardroom.example".to_owned(), "10.0.0.7".to_owned()];
        let is_own = |name: &str| is_own(name, [127, 0, 0, 1].into(), &own);
        for name in [
            "localhost",
            "LOCALHOST:8080",
            "localhost.",
            "wardroom.localhost:1",
            "127.0.0.1",
            "127.8.9.1:80",
            "[::1]:8080",
            "[::ffff:127.0.0.1]",
            "Wardroom.example:443",
            "10.0.0.7:8080",
        ] {
            assert!(is_own(name), "{name}");
        }
        for name in [
            "",
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "notlocalhost",
            "wardroom.example.evil.example",
            "10.0.0.8",
            "[::2]",
            "localhost@evil.example",
            "evil.example@localhost",
            "127.0.0.1.evil.example",
            "2130706433",
            "a b",
        ] {
            assert!(!is_own(name), "{name}");
        }
        let of = |listener: &str| {
            Loopback::of(listener.parse().unwrap(), &["https://wardroom.example/x", "nonsense"])
        };
        assert!(of("0.0.0.0:1").is_none() && of("[::]:1").is_none() && of("10.0.0.7:1").is_none());
        assert_eq!(*of("[::ffff:127.0.0.1]:1").unwrap().own, ["wardroom.example".to_owned()]);
    }
}
