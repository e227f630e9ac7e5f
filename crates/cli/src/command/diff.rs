//! `wardroom diff`.

use clap::Args;
use serde_json::Value;
use similar::TextDiff;

use crate::{
    command::apply::plan::Plan,
    connection::Connection,
    document,
    exit::{self, Code, failure},
    manifest::subjects,
    output, text,
};

/// Shows what `wardroom apply` would change, line by line, and changes nothing.
///
/// Each resource is shown as YAML, without what only the server sets. Exit code 0: the server has all of it already; 1: something
/// differs; above 1: an error.
#[derive(Args)]
pub(crate) struct Diff {
    /// A file, - for standard input, or a folder: its files that end in .yaml, .yml or .json; several may be given.
    #[arg(short, long = "file", value_name = "FILE", required = true)]
    files: Vec<String>,
    #[command(flatten)]
    connection: Connection,
}

impl Diff {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let (differ, all) = self.show().await.map_err(above_one)?;
        if differ == 0 {
            return Ok(());
        }
        Err(failure(Code::Failed, format!("{differ} of {} would change", text::count(all, "resource"))))
    }

    /// Writes the differences; returns how many resources differ, and how many there are.
    async fn show(&self) -> anyhow::Result<(i64, i64)> {
        let documents = subjects(document::read_all(&self.files)?)?;
        let client = self.connection.client()?;
        let (mut differ, mut all) = (0, 0);
        for (subject, document) in documents {
            all += 1;
            let Plan { before, after } = Plan::of(&client, &subject, document).await?;
            if before.as_ref() != Some(&after) {
                differ += 1;
                output::print(&lines(&subject.to_string(), before.as_ref(), &after)?)?;
            }
        }
        Ok((differ, all))
    }
}

/// The differences of a resource, in the form that `patch` reads.
fn lines(name: &str, before: Option<&Value>, after: &Value) -> anyhow::Result<String> {
    let written = |value: &Value| -> anyhow::Result<String> { Ok(serde_saphyr::to_string(value)?) };
    let (before, after) = (before.map(written).transpose()?.unwrap_or_default(), written(after)?);
    let name = text::clean(name);
    let differences = TextDiff::from_lines(&before, &after);
    let shown =
        differences.unified_diff().header(&format!("server/{name}"), &format!("file/{name}")).to_string();
    Ok(shown.lines().map(|line| text::clean(line) + "\n").collect())
}

/// An error must not look like a difference.
fn above_one(error: anyhow::Error) -> anyhow::Error {
    match exit::code(&error) {
        Code::Failed => failure(Code::Usage, exit::said(&error)),
        Code::Usage
        | Code::NotFound
        | Code::Conflict
        | Code::Denied
        | Code::Timeout
        | Code::Unreachable
        | Code::Partial
        | Code::Interrupted => error,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::lines;

    #[test]
    fn differences_are_lines_of_yaml() {
        let (before, after) = (json!({"kernel": "a", "name": "w"}), json!({"kernel": "b", "name": "w"}));
        let shown = lines("workflow/w", Some(&before), &after).unwrap();
        assert_eq!(
            shown,
            "--- server/workflow/w\n+++ file/workflow/w\n@@ -1,2 +1,2 @@\n-kernel: a\n+kernel: b\n name: w\n"
        );
        let created = lines("workflow/w", None, &after).unwrap();
        assert!(created.contains("+kernel: b\n+name: w"), "{created}");
    }
}
