//! `wardroom delete`.

use clap::{Args, builder::NonEmptyStringValueParser};

use crate::{
    connection::Connection,
    exit::{Code, failure},
    kind::{Kind, with_type},
    locate::Target,
    outcome::{Consent, Outcome},
    targets::all,
    view::Resource,
};

/// Deletes resources. A node must be retired first; of GPU nodes, only one that was registered by mistake is deleted; a
/// resource in use is refused. A cluster is removed when its adapters have finalized, or with --force. History stays.
#[derive(Args)]
pub(crate) struct Delete {
    /// The kind of the resources.
    #[arg(value_enum)]
    kind: Kind,
    /// Their names, ids or the starts of ids.
    #[arg(required = true, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    names: Vec<String>,
    /// Remove clusters or node pools that are being deleted without waiting for their adapters.
    #[arg(long, requires = "comment")]
    force: bool,
    /// Why they are removed by force, for history.
    #[arg(long, value_name = "TEXT", requires = "force")]
    comment: Option<String>,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    connection: Connection,
}

impl Delete {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        with_type!(self.kind, T => self.delete::<T>().await)
    }

    async fn delete<T: Resource>(&self) -> anyhow::Result<()> {
        if let Some(instead) = T::KEPT {
            return Err(failure(Code::Usage, instead));
        }
        let kind = T::KIND.as_str();
        self.consent.ask(&format!("delete {} {kind}s", self.names.len()), self.names.len())?;
        let client = self.connection.client()?;
        let mut outcome = Outcome::default();
        for Target { id, name } in all::<T>(&client, &self.names).await? {
            let deleted = match &self.comment {
                Some(comment) => T::force_delete(&client, &id, comment).await.map(|()| "deleted"),
                None => T::delete(&client, &id).await.map(|()| T::DELETED),
            };
            outcome.add(&format!("{kind}/{name}"), deleted.map(str::to_owned))?;
        }
        outcome.finish()
    }
}
