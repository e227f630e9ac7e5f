//! `wardroom create site`.

use clap::Args;
use wardroom_api::site::{BootDisk, SiteSettings, SiteSpec};

use crate::{
    connection::Connection,
    document,
    kind::Kind,
    text::pair,
    view::{Made, print_made},
};

/// Creates a site, from options or from a file with all its settings.
#[derive(Args)]
pub(crate) struct Site {
    /// The name.
    #[arg(required_unless_present = "file")]
    name: Option<String>,
    /// A file as for `wardroom apply`; - for standard input.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["name", "url", "key", "subnet"])]
    file: Option<String>,
    /// The address of its MAAS, such as `https://maas.example/MAAS`.
    #[arg(long, value_name = "URL", required_unless_present = "file")]
    url: Option<String>,
    /// A reference to the API key: file:NAME in the server's folder of secrets, or env:WARDROOM_SECRET_NAME.
    #[arg(long, value_name = "REFERENCE", required_unless_present = "file")]
    key: Option<String>,
    /// The subnet that machines boot in, by its name or network.
    #[arg(long, value_name = "SUBNET", required_unless_present = "file")]
    subnet: Option<String>,
    /// A network that BMCs live in, such as 10.0.0.0/24: passwords are sent to no other address. Can be repeated.
    #[arg(long = "bmc-network", value_name = "NETWORK", conflicts_with = "file")]
    bmc_networks: Vec<String>,
    /// A credential that nodes may use for their BMCs, such as file:bmc/rack-1 or file:bmc/berlin-*. Can be repeated.
    #[arg(long = "bmc-credential", value_name = "REFERENCE", conflicts_with = "file")]
    bmc_credentials: Vec<String>,
    /// The disk that machines boot from, by a part of its model.
    #[arg(long, value_name = "TEXT", conflicts_with = "file")]
    boot_disk_model: Option<String>,
    /// The disk that machines boot from, by its serial number.
    #[arg(long, value_name = "TEXT", conflicts_with = "file")]
    boot_disk_serial: Option<String>,
    /// The release of the operating system; default: jammy.
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    series: Option<String>,
    /// The resource pool that machines are put into.
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    pool: Option<String>,
    /// The zone that machines are put into.
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    zone: Option<String>,
    /// The URL under which nodes reach this server.
    #[arg(long, value_name = "URL", conflicts_with = "file")]
    server_url: Option<String>,
    /// Any other setting, such as bmc_insecure=true or boot_disk.serial=B1; docs/site-settings.md lists them. Can be
    /// repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, conflicts_with = "file")]
    set: Vec<(String, String)>,
    #[command(flatten)]
    made: Made,
    #[command(flatten)]
    connection: Connection,
}

impl Site {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let (made, client) = (self.made, self.connection.client()?);
        let spec = match &self.file {
            Some(file) => document::spec(document::read_one(file, Kind::Site)?)?,
            None => self.spec()?,
        };
        print_made(&made, &client.create_site(&spec).await?)
    }

    fn spec(self) -> anyhow::Result<SiteSpec> {
        let set = self.set;
        let usual = SiteSettings::default();
        let settings = SiteSettings {
            url: self.url.unwrap_or_default(),
            key: self.key.unwrap_or_default(),
            provisioning_subnet: self.subnet.unwrap_or_default(),
            boot_disk: BootDisk { model: self.boot_disk_model, serial: self.boot_disk_serial },
            series: self.series.unwrap_or(usual.series),
            pool: self.pool,
            zone: self.zone,
            server_url: self.server_url,
            bmc_networks: self.bmc_networks,
            bmc_credentials: self.bmc_credentials,
            ..SiteSettings::default()
        };
        let spec = SiteSpec { name: self.name.unwrap_or_default(), settings };
        document::with_settings(spec, &set)
    }
}
