//! `wardroom edit`.

use std::{
    io::{Read as _, Seek as _, Write as _},
    path::Path,
    process::Command,
};

use anyhow::Context as _;
use clap::{Args, builder::NonEmptyStringValueParser};
use serde_json::Value;
use tempfile::NamedTempFile;

use crate::{
    command::apply,
    connection::Connection,
    document::{self, without_kept},
    exit::{self, Code, failure},
    kind::{Kind, with_type},
    locate::Among,
    manifest::subjects,
    output,
    print::Written,
    view::find,
};

/// Opens one resource in an editor, and applies what was written.
///
/// The editor is $WARDROOM_EDITOR, $VISUAL, $EDITOR or vi. Nothing is sent when the text stays as it is or the editor fails. If the text
/// is refused, or somebody changed the resource meanwhile, the text is kept in a file that the message names. A field
/// that is taken out of the text stays as it is on the server.
#[derive(Args)]
pub(crate) struct Edit {
    /// The kind: workflows, groups, nodes, sites, satellite-groups or satellite-configs.
    #[arg(value_enum)]
    kind: Kind,
    /// Its name, its id or the start of its id.
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    name: String,
    #[command(flatten)]
    connection: Connection,
}

impl Edit {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let client = self.connection.client()?;
        let before = self.read(&client).await?;
        let written = serde_saphyr::to_string(&before)?;
        let mut file = tempfile::Builder::new().prefix("wardroom-").suffix(".yaml").tempfile()?;
        file.write_all(written.as_bytes())?;
        file.flush()?;
        open(file.path())?;
        let text = reread(&mut file)?;
        if text == written {
            output::note("nothing was changed");
            return Ok(());
        }
        match self.apply(&client, &before, file.path()).await {
            Ok(applied) => output::line(&applied),
            Err(error) => {
                let (_, path) = file.keep()?;
                let kept = format!("{}\nyour text is kept in {}", exit::said(&error), path.display());
                Err(failure(exit::code(&error), kept))
            }
        }
    }

    /// The resource as `wardroom get -o yaml` writes it.
    async fn read(&self, client: &wardroom_api::client::Client) -> anyhow::Result<Value> {
        with_type!(self.kind, T => {
            if <T as crate::view::View>::APPLIED.is_none() {
                let kind = self.kind.as_str();
                return Err(failure(Code::Usage, format!("a {kind} cannot be edited as a text; `wardroom {kind} --help` lists its commands")));
            }
            let found = find::<T>(client, &self.name, Among::Living).await?;
            Ok(serde_json::to_value(Written(&found))?)
        })
    }

    async fn apply(
        &self,
        client: &wardroom_api::client::Client,
        before: &Value,
        file: &Path,
    ) -> anyhow::Result<String> {
        let mut documents = subjects(document::read(&file.display().to_string())?)?;
        let only = if documents.len() == 1 { documents.pop() } else { None };
        let (subject, document) = only.context("the text must be one document")?;
        let same = subjects(vec![before.as_object().cloned().unwrap_or_default()])?;
        let is_same = same.first().is_some_and(|(same, _)| *same == subject);
        anyhow::ensure!(is_same, "the text describes {subject}: kind and name cannot be edited");
        let now = self.read(client).await?;
        if without_kept(now) != without_kept(before.clone()) {
            let message = format!("{subject} was changed meanwhile: compare with `wardroom diff -f FILE`");
            return Err(failure(Code::Conflict, message));
        }
        let applied = apply::one(client, &subject, document).await?;
        Ok(format!("{subject} {applied}"))
    }
}

/// Runs the editor on a file. The setting may have arguments, such as `code --wait`.
fn open(path: &Path) -> anyhow::Result<()> {
    let chosen = ["WARDROOM_EDITOR", "VISUAL", "EDITOR"].iter().find_map(|name| std::env::var(name).ok());
    let editor = chosen.filter(|editor| !editor.trim().is_empty()).unwrap_or_else(|| "vi".to_owned());
    let ended = Command::new("sh").arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(path).status();
    let ended = ended.with_context(|| format!("cannot start the editor {editor:?}"))?;
    anyhow::ensure!(
        ended.success(),
        "the editor {editor:?} failed ({ended}): nothing was changed; set WARDROOM_EDITOR to another one"
    );
    Ok(())
}

/// The text that was written. Many editors replace the file, so it is opened again.
fn reread(file: &mut NamedTempFile) -> anyhow::Result<String> {
    let mut text = String::new();
    let mut again = file.reopen().or_else(|_| std::fs::File::open(file.path()))?;
    again.rewind()?;
    again.read_to_string(&mut text)?;
    Ok(text)
}
