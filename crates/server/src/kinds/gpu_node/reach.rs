//! Limits where credentials may be sent: for BMCs only the credentials and networks that their site names; no
//! credentials to addresses local to this server, unless its configuration allows that.
//!
//! What must stay true: operators choose the address and the credential of a BMC, administrators which are
//! allowed. This is checked when a node is written, and at each use, by the current settings, on the address
//! of the connection itself.

use std::net::IpAddr;

use ipnet::IpNet;
use wardroom_api::gpu_node::Bmc;
use wardroom_upstream::Gate;

use super::{settings, site::Settings};
use crate::platform::{
    config::Config,
    http::error::Error,
    identity::reference::{self, Use},
    network,
};

/// The longest list of networks or credentials of a site.
const MOST: usize = 256;

/// The BMC networks and credentials that a site allows its nodes.
#[derive(Debug, Clone)]
pub(crate) struct Reach {
    site: String,
    networks: Vec<IpNet>,
    credentials: Vec<String>,
    local: Local,
}

/// Whether credentials may be sent to local addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Local {
    Allowed,
    Refused,
}

impl Local {
    /// The setting of this server's configuration.
    pub(crate) fn of(config: &Config) -> Self {
        if settings::Settings::of(config).allow_local_addresses { Self::Allowed } else { Self::Refused }
    }

    /// The gate for a MAAS: an administrator chose its address.
    pub(crate) fn gate(self) -> Gate {
        Gate::new(move |address| self.check(address))
    }

    fn check(self, address: IpAddr) -> Result<(), String> {
        match network::local(address) {
            Some(what) if self == Self::Refused => Err(format!(
                "{address} is {what}, to which no credentials are sent; gpu_nodes.allow_local_addresses in the server's \
                 configuration allows it"
            )),
            Some(_) | None => Ok(()),
        }
    }
}

impl Reach {
    /// What a site allows now.
    pub(crate) fn of(site: &str, settings: &Settings, config: &Config) -> Self {
        Self {
            site: site.to_owned(),
            // They were checked when the site was written.
            networks: settings.bmc_networks.iter().filter_map(|text| network_of(text)).collect(),
            credentials: settings.bmc_credentials.clone(),
            local: Local::of(config),
        }
    }

    /// The gate for the BMCs of the site.
    pub(crate) fn gate(&self) -> Gate {
        let reach = self.clone();
        Gate::new(move |address| reach.address(address))
    }

    /// Refuses an address or a credential that the nodes of the site may not use.
    pub(crate) fn check(&self, bmc: &Bmc) -> Result<(), Error> {
        let address = self.gate().check(&bmc.address).map_err(|why| Error::invalid("bmc.address", why.0));
        let credential = self.credential(&bmc.credential);
        Error::all([address, credential.map_err(|why| Error::invalid("bmc.credential", why))])
    }

    /// Says why an address is outside of the networks of the site.
    fn address(&self, address: IpAddr) -> Result<(), String> {
        self.local.check(address)?;
        let site = &self.site;
        if self.networks.iter().any(|network| network.contains(&address)) {
            return Ok(());
        }
        if self.networks.is_empty() {
            return Err(format!(
                "the site {site:?} names no network of BMCs: an administrator sets its bmc_networks, such as [\"10.0.0.0/24\"]"
            ));
        }
        let networks = self.networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        Err(format!(
            "{address} is in none of the networks that the site {site:?} names for BMCs: {networks}; correct the address, or \
             have an administrator add its network to bmc_networks"
        ))
    }

    /// Says why the nodes of the site may not use a credential.
    ///
    /// # Errors
    /// The reason, with the credentials that they may use.
    pub(crate) fn credential(&self, reference: &str) -> Result<(), String> {
        let site = &self.site;
        if self.credentials.iter().any(|allowed| covers(allowed, reference)) {
            return Ok(());
        }
        if self.credentials.is_empty() {
            return Err(format!(
                "the site {site:?} allows its nodes no credential: an administrator sets its \
                 bmc_credentials, such as [\"file:bmc/rack-1\"]"
            ));
        }
        Err(format!(
            "{reference} is none of the credentials that nodes of the site {site:?} may use: {}; use one of them, or have \
             an administrator add it to bmc_credentials",
            self.credentials.join(", ")
        ))
    }
}

/// Whether an allowed pattern covers a credential; a `*` at its end matches any rest.
fn covers(allowed: &str, reference: &str) -> bool {
    match allowed.strip_suffix('*') {
        Some(start) => reference.strip_prefix(start).is_some_and(|rest| !rest.is_empty()),
        None => allowed == reference,
    }
}

/// A network, or a single address.
fn network_of(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

/// Checks the part of a site's settings that says where credentials may be sent.
pub(crate) fn check_settings(settings: &Settings, config: &Config) -> Vec<Result<(), Error>> {
    let local = Local::of(config);
    let url = local.gate().check(&settings.url);
    let mut checks = vec![
        few("settings.bmc_networks", settings.bmc_networks.len()),
        few("settings.bmc_credentials", settings.bmc_credentials.len()),
        url.map_err(|why| Error::invalid("settings.url", why.0)),
    ];
    let networks = settings.bmc_networks.iter().take(MOST).enumerate();
    checks.extend(networks.map(|(index, text)| {
        let field = format!("settings.bmc_networks[{index}]");
        let network = network_of(text)
            .ok_or_else(|| Error::invalid(&field, "must be a network, such as 10.0.0.0/24, or an address"))?;
        // A network that contains local addresses is allowed: the addresses are refused one by one.
        let is_local =
            network::local(network.network()).is_some() && network::local(network.broadcast()).is_some();
        if is_local {
            local.check(network.network()).map_err(|why| Error::invalid(&field, why))
        } else {
            Ok(())
        }
    }));
    let credentials = settings.bmc_credentials.iter().take(MOST).enumerate();
    checks.extend(credentials.map(|(index, reference)| {
        let field = format!("settings.bmc_credentials[{index}]");
        // The pattern is checked as a name, with a letter for `*`.
        let named =
            reference.strip_suffix('*').map_or_else(|| reference.clone(), |start| format!("{start}x"));
        if named.contains('*') {
            return Err(Error::invalid(&field, "may have one *, at its end, such as file:bmc/berlin-*"));
        }
        reference::check(&field, &named, Use::Bmc, &config.secrets)
    }));
    checks
}

fn few(field: &str, count: usize) -> Result<(), Error> {
    if count > MOST { Err(Error::invalid(field, format!("has more than {MOST} entries"))) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::{Local, Reach, covers};

    fn reach(networks: &[&str], local: Local) -> Reach {
        let networks = networks.iter().map(|text| text.parse().unwrap()).collect();
        Reach { site: "lab".to_owned(), networks, credentials: Vec::new(), local }
    }

    #[test]
    fn credentials_go_only_into_the_networks_of_the_site() {
        let lab = reach(&["10.0.0.0/24", "fd00::/64", "127.0.0.0/8"], Local::Refused);
        for (address, allowed) in [
            ("10.0.0.7", true),
            ("::ffff:10.0.0.7", true),
            ("fd00::7", true),
            ("10.0.1.7", false),
            ("127.0.0.1", false),
            ("169.254.169.254", false),
        ] {
            let address: std::net::IpAddr = address.parse().unwrap();
            assert_eq!(lab.address(address.to_canonical()).is_ok(), allowed, "{address}");
        }
        let why = lab.address("10.0.1.7".parse().unwrap()).unwrap_err();
        assert!(why.contains("10.0.0.0/24, fd00::/64") && why.contains("\"lab\""), "{why}");
        assert!(reach(&["127.0.0.0/8"], Local::Allowed).address("127.0.0.1".parse().unwrap()).is_ok());
        let none = reach(&[], Local::Allowed).address("10.0.0.7".parse().unwrap()).unwrap_err();
        assert!(none.contains("bmc_networks"), "{none}");
    }

    #[test]
    fn a_credential_is_covered_by_itself_or_by_its_beginning() {
        for (allowed, reference, expected) in [
            ("file:bmc/lab", "file:bmc/lab", true),
            ("file:bmc/lab", "file:bmc/lab2", false),
            ("file:bmc/berlin-*", "file:bmc/berlin-1", true),
            ("file:bmc/berlin-*", "file:bmc/berlin-", false),
            ("file:bmc/berlin-*", "file:bmc/hamburg-1", false),
            ("file:bmc/*", "env:WARDROOM_SECRET_BMC_LAB", false),
        ] {
            assert_eq!(covers(allowed, reference), expected, "{allowed} {reference}");
        }
    }
}
