//! `wardroom create enrollment-token`.

use clap::Args;
use wardroom_api::device::EnrollmentTokenCreate;

use crate::{
    connection::Connection,
    output::{self, Whole},
    secret::SecretFile,
    text::pair,
};

/// Creates a token with which devices ask to be enrolled; its secret is written once, alone, to standard output or into a
/// file.
#[derive(Args)]
pub(crate) struct EnrollmentToken {
    /// The name.
    name: String,
    /// How many devices may use it; default: 1.
    #[arg(long, value_name = "N")]
    uses: Option<u32>,
    /// How long it works; default: 1440.
    #[arg(long, value_name = "N")]
    minutes: Option<u32>,
    /// A label of every device that enrols with it, such as site=berlin. Can be repeated.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
    /// Approve its devices without a person.
    #[arg(long)]
    auto_approve: bool,
    #[command(flatten)]
    secret: SecretFile,
    /// Write everything, secret included, as json or yaml.
    #[arg(short, long, value_enum, value_name = "FORMAT", conflicts_with = "secret_file")]
    output: Option<Whole>,
    #[command(flatten)]
    connection: Connection,
}

impl EnrollmentToken {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let create = EnrollmentTokenCreate {
            name: self.name,
            uses: self.uses,
            minutes: self.minutes,
            labels: self.labels.into_iter().collect(),
            auto_approve: self.auto_approve,
        };
        let client = self.connection.client()?;
        let paper = self.secret.open()?;
        let made = client.create_enrollment_token(&create).await?;
        match self.output {
            Some(whole) => whole.write(&made)?,
            None => paper.write(&made.token)?,
        }
        output::note(&format!("enrollmenttoken/{} created; its secret is not shown again", made.data.name));
        Ok(())
    }
}
