//! `wardroom token`.

use clap::{Args, Subcommand, ValueEnum as _};
use jiff::{Span, SpanRelativeTo, Timestamp};
use wardroom_api::token::{Token as ApiToken, TokenCreate};
use wardroom_server::{maintenance, platform::clock::Clock, serve::StartError};

use super::get::list;
use crate::{
    connection::Connection,
    exit::{Code, failure},
    kind::Kind,
    locate::Target,
    outcome::Outcome,
    output::{self, Whole},
    place::{Place, hindered},
    secret::SecretFile,
    targets::all,
    view::{Printer, Shape},
};

/// Creates, lists and revokes API tokens.
#[derive(Subcommand)]
pub(crate) enum Token {
    /// Creates a token; its secret is written once, alone, to standard output or into a file.
    Create(Create),
    /// Lists tokens, without their secrets.
    List(List),
    /// Revokes tokens; they are refused from the next request on.
    Revoke(Revoke),
    /// Creates an admin token directly in the store, when none is left; an embedded store must not be in use.
    Recover(Recover),
}

#[derive(Args)]
pub(crate) struct Create {
    /// The name of its owner or purpose, shown in history.
    name: String,
    /// The role: viewer, operator, admin, installer, adapter or auditor.
    #[arg(long)]
    role: String,
    /// A kind it is limited to; default: all. Can be repeated.
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,
    /// The user group.
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// The one adapter that it reports as, with `--role adapter`; default: any.
    #[arg(long, value_name = "NAME")]
    adapter: Option<String>,
    /// When it expires: a time, or a length of time such as 30d or 12h; default: 90d.
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
    #[command(flatten)]
    secret: SecretFile,
    /// Write everything, secret included, as json or yaml.
    #[arg(short, long, value_enum, value_name = "FORMAT", conflicts_with = "secret_file")]
    output: Option<Whole>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args)]
pub(crate) struct Revoke {
    /// Their names, ids or the starts of ids.
    #[arg(required = true, value_name = "TOKEN")]
    tokens: Vec<String>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Args)]
pub(crate) struct Recover {
    /// The name of its purpose, shown in history.
    name: String,
    /// The key of the server; default: the one in the data folder.
    #[arg(long, value_name = "FILE")]
    key_file: Option<String>,
    #[command(flatten)]
    secret: SecretFile,
    #[command(flatten)]
    place: Place,
}

impl Token {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Create(create) => create.run().await,
            Self::List(List { shape, connection }) => {
                let tokens: Vec<ApiToken> =
                    list(&connection.client()?, &Default::default(), usize::MAX).await?;
                Printer::whole(&shape, &tokens)
            }
            Self::Revoke(revoke) => revoke.run().await,
            Self::Recover(recover) => recover.run().await,
        }
    }
}

impl Create {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let expires_at = self.expires.as_deref().map(|text| expiry(text, Clock.now())).transpose()?;
        let create = TokenCreate {
            name: self.name,
            role: self.role,
            kinds: self.kinds.into_iter().map(kind).collect(),
            group_id: self.group,
            adapter: self.adapter,
            expires_at,
        };
        let client = self.connection.client()?;
        let paper = self.secret.open()?;
        let made = client.create_token(&create).await?;
        match self.output {
            Some(whole) => whole.write(&made)?,
            None => paper.write(&made.secret)?,
        }
        let token = made.token;
        output::note(&format!("token/{} created; its secret is not shown again", token.name));
        Ok(())
    }
}

impl Revoke {
    async fn run(self) -> anyhow::Result<()> {
        let client = self.connection.client()?;
        let mut outcome = Outcome::default();
        for Target { id, name } in all::<ApiToken>(&client, &self.tokens).await? {
            let revoked = client.revoke_token(&id).await;
            outcome.add(&format!("token/{name}"), revoked.map(|token| token.state).map_err(Into::into))?;
        }
        outcome.finish()
    }
}

impl Recover {
    async fn run(self) -> anyhow::Result<()> {
        let config = self.place.resolve(self.key_file.as_deref())?;
        let paper = self.secret.open()?;
        let made = maintenance::admin_token(config.clone(), &self.name).await;
        let secret = made.map_err(|error| match error {
            StartError::Store(error) => hindered(&config, error),
            StartError::Setup(_) => error.into(),
        })?;
        paper.write(&secret)?;
        output::note("admin token created, valid for 90 days; its secret is not shown again");
        Ok(())
    }
}

/// Returns the API's name of a kind; an unknown one is passed on for the server to refuse.
fn kind(named: String) -> String {
    Kind::from_str(&named, false).map_or(named, |kind| kind.as_str().to_owned())
}

/// A time, or a length of time from now.
fn expiry(text: &str, now: Timestamp) -> anyhow::Result<Timestamp> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let wrong = || {
        let write = "write a time such as 2027-01-31T12:00:00Z, or a length of time such as 30d or 12h";
        failure(Code::Usage, format!("--expires {text:?}: {write}, before the year 9999"))
    };
    let span: Span = text.parse().map_err(|_| wrong())?;
    let length = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| wrong())?;
    now.checked_add(length).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::expiry;

    #[test]
    fn an_end_is_a_time_or_a_length_of_time() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(expiry("30d", now).unwrap(), now + SignedDuration::from_hours(720));
        assert_eq!(expiry("12h", now).unwrap(), now + SignedDuration::from_hours(12));
        assert_eq!(expiry("2026-02-01T00:00:00Z", now).unwrap().to_string(), "2026-02-01T00:00:00Z");
        for wrong in ["soon", "99999999d", "9999999999999999h", "1000000000h", "2026-13-01T00:00:00Z"] {
            let said = expiry(wrong, now).unwrap_err().to_string();
            assert!(said.contains("2027-01-31T12:00:00Z") && !said.contains("parse"), "{said}");
        }
    }
}
