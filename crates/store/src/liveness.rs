//! When members were last heard: one narrow row each, rewritten again and again.
//!
//! Ages go in and come out instead of times, and the database's own clock turns one into the other, so that
//! no server's clock is compared with another's. What is lost with the newest rows is only how recently
//! somebody was heard, so this is no part of a backup.

use std::time::Duration;

use jiff::SignedDuration;

use crate::error::Result;
use crate::store::{Database, Store, one};
use crate::value::{Row, Value, params};

/// When a member was last heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The member.
    pub id: Box<str>,
    /// How long ago.
    pub age: Duration,
    /// Its interval in seconds; 0 when it never had one.
    pub every: u32,
}

/// A point in the order in which beats are written down, whenever they were heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenMark(i64);

/// A moment by the database's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment(i64);

impl Moment {
    /// How much later it is than another one, by that clock.
    #[must_use]
    pub fn since(self, earlier: Self) -> SignedDuration {
        SignedDuration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Up to when a server has written down what it heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The server.
    pub server: Box<str>,
    /// How long ago the moment was before which everything is written down.
    pub age: Duration,
    /// How often there was something new in it.
    pub news: u32,
}

const NO_MARK: i64 = -1;

/// The kind of the rows that say up to when servers have written down what they heard.
const SERVER: &str = "server";

impl Store {
    /// Writes down when members of a kind were heard; what is there and newer stays.
    ///
    /// One transaction, so a caller with very many gives them in parts, in order of their ids.
    pub async fn note_seen(&self, kind: &'static str, seen: Vec<Seen>) -> Result<()> {
        match &*self.database {
            Database::Sqlite(sqlite) => sqlite.note_seen(kind, seen).await,
            Database::Postgres(postgres) => {
                let column = |value: fn(&Seen) -> String| Value::Texts(seen.iter().map(value).collect());
                let ids = column(|seen| seen.id.to_string());
                let ages = column(|seen| millis(seen.age).to_string());
                let every = column(|seen| seen.every.to_string());
                let params = vec![Value::from(kind), ids, ages, every];
                postgres.run(crate::postgres::dialect::NOTE_SEEN, &params).await.map(drop)
            }
        }
    }

    /// A mark before which everything that was ever written down can be seen.
    pub async fn seen_mark(&self) -> Result<SeenMark> {
        match &*self.database {
            Database::Sqlite(_) => Ok(SeenMark(NO_MARK)),
            Database::Postgres(postgres) => {
                let rows = postgres.run(crate::postgres::dialect::SEEN_MARK, &params![]).await?;
                Ok(SeenMark(one(rows)?.int()?))
            }
        }
    }

    /// When members of a kind were heard, as it was written down after a mark, or ever. What is written down about that
    /// time may come twice. An embedded database has one server, which knows what it wrote: there it is always all.
    pub async fn seen(&self, kind: &'static str, since: Option<SeenMark>) -> Result<Vec<Seen>> {
        let SeenMark(since) = since.unwrap_or(SeenMark(NO_MARK));
        match &*self.database {
            Database::Sqlite(sqlite) => sqlite.seen(kind).await,
            Database::Postgres(postgres) => {
                let rows = postgres.run(crate::postgres::dialect::SEEN, &params![kind, since]).await?;
                rows.into_iter().map(from_row).collect()
            }
        }
    }

    /// What time it is; asked before it is looked who was heard.
    pub async fn moment(&self) -> Result<Moment> {
        match &*self.database {
            Database::Sqlite(_) => Ok(Moment(0)),
            Database::Postgres(postgres) => {
                let rows = postgres.run(crate::postgres::dialect::MOMENT, &params![]).await?;
                Ok(Moment(one(rows)?.int()?))
            }
        }
    }

    /// Writes down that everything a server heard before a moment is written down, and how often something new was
    /// among it. An embedded database has one server.
    pub async fn note_told(&self, server: &str, Moment(before): Moment, news: u32) -> Result<()> {
        match &*self.database {
            Database::Sqlite(_) => Ok(()),
            Database::Postgres(postgres) => {
                let params = params![SERVER, server, before, i64::from(news)];
                postgres.run(crate::postgres::dialect::NOTE_TOLD, &params).await.map(drop)
            }
        }
    }

    /// What each server has told. What is read after this has it.
    pub async fn told(&self) -> Result<Vec<Told>> {
        match &*self.database {
            Database::Sqlite(_) => Ok(Vec::new()),
            Database::Postgres(_) => {
                let told = self.seen(SERVER, None).await?;
                Ok(told
                    .into_iter()
                    .map(|Seen { id, age, every }| Told { server: id, age, news: every })
                    .collect())
            }
        }
    }

    /// Forgets a server that is gone for good.
    pub async fn forget_told(&self, server: &str) -> Result<()> {
        self.forget_seen(SERVER, server).await
    }

    /// Forgets leases whose names begin like this and that lapsed a day ago: those of servers that are gone.
    pub async fn forget_lapsed_leases(&self, prefix: &'static str) -> Result<()> {
        match &*self.database {
            // An embedded database has one server.
            Database::Sqlite(_) => Ok(()),
            Database::Postgres(postgres) => {
                let sql = crate::postgres::dialect::FORGET_LAPSED_LEASES;
                postgres.run(sql, &params![prefix]).await.map(drop)
            }
        }
    }

    /// Forgets a member that is gone for good.
    pub async fn forget_seen(&self, kind: &'static str, id: &str) -> Result<()> {
        match &*self.database {
            Database::Sqlite(sqlite) => sqlite.forget_seen(kind, id).await,
            Database::Postgres(postgres) => {
                postgres.run(crate::postgres::dialect::FORGET_SEEN, &params![kind, id]).await.map(drop)
            }
        }
    }
}

fn from_row(mut row: Row) -> Result<Seen> {
    let id = row.text()?.into();
    let age = Duration::from_millis(u64::try_from(row.int()?).unwrap_or(0));
    Ok(Seen { id, age, every: u32::try_from(row.int()?).unwrap_or(0) })
}

/// A database that was turned back may hold what lies ahead of its clock; that is now.
pub(crate) fn millis(age: Duration) -> i64 {
    i64::try_from(age.as_millis()).unwrap_or(i64::MAX / 4)
}
