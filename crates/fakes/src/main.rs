//! `wardroom-fakes NAME --listen ADDRESS`: one fake as a program. The first line it prints is its URL.

use clap::{Parser, Subcommand};

/// A stateful fake of a system that Wardroom drives. The first line it prints is its URL.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    fake: Fake,
}

#[derive(Subcommand)]
enum Fake {
    /// Harbor, API v2.0.
    #[cfg(feature = "harbor")]
    Harbor(wardroom_fakes::harbor::program::Arguments),
    /// The API server of Kubernetes, 1.36.
    #[cfg(feature = "kubernetes")]
    Kubernetes(wardroom_fakes::kubernetes::program::Arguments),
    /// MAAS, API 2.0.
    #[cfg(feature = "maas")]
    Maas(wardroom_fakes::maas::Options),
    /// A BMC that speaks Redfish.
    #[cfg(feature = "redfish")]
    Redfish(wardroom_fakes::redfish::Options),
    /// A SPIRE server.
    #[cfg(feature = "spire")]
    Spire(wardroom_fakes::spire::program::Arguments),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Arguments::parse().fake {
        #[cfg(feature = "harbor")]
        Fake::Harbor(options) => options.run().await?,
        #[cfg(feature = "kubernetes")]
        Fake::Kubernetes(options) => options.run().await?,
        #[cfg(feature = "maas")]
        Fake::Maas(options) => options.run().await?,
        #[cfg(feature = "redfish")]
        Fake::Redfish(options) => options.run().await?,
        #[cfg(feature = "spire")]
        Fake::Spire(options) => options.run().await?,
    }
    Ok(())
}
