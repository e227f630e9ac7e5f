//! Whether a connection is encrypted.
//!
//! What must stay true: connections to other machines are encrypted unless the URL says `sslmode=disable`,
//! and an encrypted connection verifies the server.

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{Error, Result};

pub(super) enum Transport {
    Plain,
    Tls(MakeRustlsConnect),
}

impl Transport {
    /// Chooses the transport, and sets it in the configuration.
    pub(super) fn choose(config: &mut Config) -> Result<Self> {
        if config.get_ssl_mode() == SslMode::Prefer {
            config.ssl_mode(if is_local(config) { SslMode::Disable } else { SslMode::Require });
        }
        if config.get_ssl_mode() == SslMode::Disable {
            return Ok(Self::Plain);
        }
        let tls = MakeRustlsConnect::with_native_certs();
        let no_roots =
            |_| Error::Unsafe("this machine has no root certificates to verify the database with".to_owned());
        tls.map(|(tls, _)| Self::Tls(tls)).map_err(no_roots)
    }
}

fn is_local(config: &Config) -> bool {
    let local_host = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
        }
    };
    config.get_hosts().iter().all(local_host)
        && config.get_hostaddrs().iter().all(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mode each URL ends up with.
    #[test]
    fn only_this_machine_is_reached_in_the_clear() {
        let cases = [
            ("postgres://ada@127.0.0.1/w", SslMode::Disable),
            ("postgres://ada@localhost/w", SslMode::Disable),
            ("postgres://ada@[::1]/w", SslMode::Disable),
            ("postgres:///w?host=/run/postgresql", SslMode::Disable),
            ("postgres://ada@127.0.0.1/w?sslmode=require", SslMode::Require),
            ("postgres://ada@db.example/w", SslMode::Require),
            ("postgres://ada@127.0.0.1,db.example/w", SslMode::Require),
            ("postgres://ada@192.0.2.1/w?sslmode=prefer", SslMode::Require),
            ("postgres://ada@db.example/w?sslmode=disable", SslMode::Disable),
        ];
        for (url, expected) in cases {
            let mut config: Config = url.parse().unwrap();
            // A machine without root certificates refuses, but has decided.
            let _ = Transport::choose(&mut config);
            assert_eq!(config.get_ssl_mode(), expected, "{url}");
        }
    }
}
