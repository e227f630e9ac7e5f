//! Limits the addresses that a client connects to, checked on the resolved addresses of the connection
//! itself.
//!
//! What must stay true: a name is resolved here, once for each connection, so that the address cannot change
//! between the check and the connection.

use std::{
    error::Error as StdError,
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use reqwest::{
    Url,
    dns::{Addrs, Name, Resolve, Resolving},
};

/// Checks an address; returns the reason if it is not allowed.
type Decide = dyn Fn(IpAddr) -> Result<(), String> + Send + Sync;

/// Lets connections through to the addresses that it was made for. Clones share the decision.
#[derive(Clone)]
pub struct Gate(Arc<Decide>);

/// Nothing was sent, because no address of the host is let through.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gate")
    }
}

impl Gate {
    /// A gate that allows the addresses that `decide` accepts.
    pub fn new(decide: impl Fn(IpAddr) -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(decide))
    }

    /// A gate that lets everything through.
    #[must_use]
    pub fn open() -> Self {
        Self::new(|_| Ok(()))
    }

    /// Refuses a URL whose host is an address that is not allowed. Names are checked when they are resolved.
    ///
    /// # Errors
    /// The reason, with the address.
    pub fn check(&self, url: &str) -> Result<(), Refused> {
        let url = Url::parse(url).map_err(|error| Refused(error.to_string()))?;
        literal(&url).map_or(Ok(()), |address| self.decide(address).map_err(Refused))
    }

    /// Returns a URL with an allowed address in place of a name, for another system that would otherwise
    /// resolve the name itself.
    ///
    /// # Errors
    /// The reason, if the name has no such address.
    pub async fn pin(&self, url: &str) -> Result<String, Refused> {
        let mut parsed = Url::parse(url).map_err(|error| Refused(error.to_string()))?;
        self.check(url)?;
        let name = parsed.host_str().map(str::to_owned).filter(|_| literal(&parsed).is_none());
        let Some(name) = name else { return Ok(url.to_owned()) };
        let first = self.resolve(&name).await?.into_iter().next();
        let address = first.ok_or_else(|| Refused(format!("{name} has no address")))?.ip();
        parsed.set_ip_host(address).map_err(|()| Refused(format!("{url} takes no address")))?;
        Ok(parsed.to_string().trim_end_matches('/').to_owned())
    }

    fn decide(&self, address: IpAddr) -> Result<(), String> {
        // An IPv4 address in the clothes of IPv6 is the same host.
        (self.0)(address.to_canonical())
    }

    /// The addresses of a name that are let through.
    async fn resolve(&self, name: &str) -> Result<Vec<SocketAddr>, Refused> {
        let found = tokio::net::lookup_host((name, 0)).await;
        let found = found.map_err(|error| Refused(format!("{name} cannot be resolved: {error}")))?;
        self.pass(name, found.collect())
    }

    fn pass(&self, name: &str, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Refused> {
        let mut why = None;
        let pass = |address: &SocketAddr| match self.decide(address.ip()) {
            Ok(()) => true,
            Err(reason) => {
                why = Some(reason);
                false
            }
        };
        let passed: Vec<_> = found.into_iter().filter(pass).collect();
        match why {
            Some(why) if passed.is_empty() => Err(Refused(format!("{name} leads elsewhere: {why}"))),
            Some(_) | None => Ok(passed),
        }
    }
}

impl Resolve for Gate {
    fn resolve(&self, name: Name) -> Resolving {
        let gate = self.clone();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let passed = gate.pass(name.as_str(), found.collect())?;
            Ok(Box::new(passed.into_iter()) as Addrs)
        })
    }
}

/// Returns the reason why a gate refused a connection, if it did.
pub(crate) fn refused(error: &reqwest::Error) -> Option<String> {
    let mut cause = StdError::source(error);
    while let Some(found) = cause {
        if let Some(Refused(why)) = found.downcast_ref() {
            return Some(why.clone());
        }
        cause = found.source();
    }
    None
}

/// The host of a URL, if it is an address, however it is written: `http://2130706433` is `127.0.0.1`.
fn literal(url: &Url) -> Option<IpAddr> {
    url.host_str().and_then(|host| host.trim_matches(['[', ']']).parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate() -> Gate {
        Gate::new(|address| if address.is_loopback() { Err(format!("{address} is no")) } else { Ok(()) })
    }

    #[test]
    fn an_address_is_known_however_it_is_written() {
        for url in [
            "http://127.0.0.1",
            "https://127.1:8443/x",
            "http://2130706433",
            "http://0x7f.0.0.1",
            "http://[::1]",
            "http://[::ffff:127.0.0.1]:80",
        ] {
            assert!(gate().check(url).is_err(), "{url}");
        }
        for url in ["http://10.0.0.7", "https://[fd00::7]/redfish", "https://localhost"] {
            assert_eq!(gate().check(url), Ok(()), "{url}");
        }
    }

    #[test]
    fn only_the_addresses_that_are_let_through_are_left_of_a_name() {
        let found = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>();
        let passed = gate().pass("bmc", found(&["127.0.0.1:0", "10.0.0.7:0"]));
        assert_eq!(passed, Ok(found(&["10.0.0.7:0"])));
        let refused = gate().pass("bmc", found(&["127.0.0.1:0", "[::1]:0"])).unwrap_err();
        assert_eq!(refused.0, "bmc leads elsewhere: ::1 is no");
    }

    #[tokio::test]
    async fn a_name_is_pinned_to_an_address_that_is_let_through() {
        assert!(gate().pin("https://localhost:8443/x").await.unwrap_err().0.contains("leads elsewhere"));
        let pinned = Gate::open().pin("https://localhost:8443/x").await.unwrap();
        assert!(["https://127.0.0.1:8443/x", "https://[::1]:8443/x"].contains(&&*pinned), "{pinned}");
        assert_eq!(Gate::open().pin("HTTPS://10.0.0.7/").await.unwrap(), "HTTPS://10.0.0.7/");
    }
}
