//! `wardroom console`.

use clap::Args;
use serde_json::json;

use crate::{
    connection::Connection,
    output::{self, Whole},
    text,
};

/// Prints a link that logs you in to the console as your token: it works once, and for ten minutes. For example:
/// wardroom console
#[derive(Args)]
pub(crate) struct Console {
    /// Print the link with its end, as JSON or YAML.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Whole>,
    #[command(flatten)]
    connection: Connection,
}

impl Console {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let link = self.connection.client()?.create_login_link().await?;
        let url = format!("{}{}", self.connection.url()?.trim_end_matches('/'), link.path);
        match self.output {
            Some(format) => format.write(&json!({"url": url, "expires_at": link.expires_at})),
            None => output::line(&text::clean(&url)),
        }
    }
}
