//! `wardroom get --needs-attention`.

use wardroom_api::client::Client;

use crate::{
    format::Shown,
    kind::Kind,
    output::{self, Format},
    print::{Printer, Shape},
    text,
};

/// Writes what needs a person, of one kind or of all.
pub(super) async fn show(client: &Client, kind: Option<Kind>, shape: &Shape) -> anyhow::Result<()> {
    let found = client.attention(kind.map(Kind::as_str)).await?;
    if found.needs.is_empty() && shape.is_table() {
        output::note("nothing needs attention");
    } else if matches!(shape.output, Shown::As(Format::Json)) {
        output::json(&found.needs)?;
    } else {
        Printer::whole(shape, &found.needs)?;
    }
    if shape.is_table() && !found.needs.is_empty() {
        let causes = text::count(i64::try_from(found.needs.len())?, "cause");
        output::note(&format!("{causes}. What to do: `wardroom why KIND NAME`"));
    }
    if found.left_out > 0 {
        let members = text::count(i64::try_from(found.left_out)?, "member");
        output::note(&format!(
            "{members} of crowded states were not looked at: list them with `wardroom get KIND --state STATE`"
        ));
    }
    Ok(())
}
