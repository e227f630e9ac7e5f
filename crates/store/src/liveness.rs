//! The last beats of members: one narrow row each, rewritten again and again.
//!
//! Callers pass and get ages instead of times, and the database's clock converts them, so that clocks of
//! servers are never compared. Lost rows only lose the last beats, so this is not part of a backup.

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

/// The row of a member's last beat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The member.
    pub id: Box<str>,
    /// The age of the beat; negative if the database's clock was set back since.
    pub age: SignedDuration,
    /// Its interval in seconds; 0 when it never had one.
    pub every: u32,
    /// When it was heard, by the database's clock; a change may require that this is still the last beat.
    pub at: BeatAt,
    /// The version of the member's record.
    pub version: i64,
}

/// When a beat was heard, by the database's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BeatAt(pub(crate) i64);

/// The members found by a query, and the database's clock at that time.
#[derive(Clone, Debug)]
pub struct Beats {
    /// The clock that ages are counted from.
    pub moment: Moment,
    /// The rows.
    pub rows: Vec<Beat>,
}

/// A query for members in these states by the age of their last beats.
#[derive(Clone, Copy, Debug)]
pub struct Ages<'a> {
    /// The kind.
    pub kind: &'static str,
    /// The states.
    pub states: &'a [&'static str],
    /// The age for each second of a member's interval.
    pub per_second: Duration,
    /// The least age of a member that has an interval.
    pub least: Duration,
    /// The age of a member that never had an interval.
    pub fallback: Duration,
}

/// A moment by the database's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment(i64);

impl Moment {
    /// The time since an earlier moment, by that clock.
    #[must_use]
    pub fn since(self, earlier: Self) -> SignedDuration {
        SignedDuration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// A replica, present or earlier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Its name.
    pub name: Box<str>,
    /// Every beat that it heard before this is in the table.
    pub watermark: Moment,
    /// The time at the reading.
    pub now: Moment,
    /// When it refused beats last.
    pub refused: Option<Refused>,
}

/// A time in which a server refused beats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// When it ended.
    pub until: Moment,
    /// Its length in seconds.
    pub seconds: u32,
}

/// The kind of the rows of watermarks.
const SERVER: &str = "server";

/// The kind of the rows that say when servers refused beats.
const REFUSED: &str = "refused";

impl Store {
    /// Stores the last beats of members of a kind; newer stored ones stay.
    ///
    /// One transaction, so callers pass many members in batches, in order of their ids.
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

    /// When members of a kind were heard.
    pub async fn seen(&self, kind: &'static str) -> Result<Vec<Seen>> {
        match &*self.database {
            Database::Sqlite(sqlite) => sqlite.seen(kind).await,
            Database::Postgres(postgres) => {
                let rows = postgres.run(crate::postgres::dialect::SEEN, &params![kind]).await?;
                rows.into_iter().map(from_row).collect()
            }
        }
    }

    /// The last beats of some members of a kind. None on an embedded database, whose server has them in
    /// memory.
    pub async fn seen_of(&self, kind: &'static str, ids: &[String]) -> Result<Vec<Seen>> {
        match &*self.database {
            Database::Sqlite(_) => Ok(Vec::new()),
            Database::Postgres(postgres) => {
                let params = [Value::from(kind), Value::Texts(ids.to_vec())];
                let rows = postgres.read(crate::postgres::dialect::SEEN_OF, &params).await?;
                rows.into_iter().map(from_row).collect()
            }
        }
    }

    /// Members whose last beat is older than this, or in the future because the database's clock was set
    /// back. None on an embedded database, whose server has them in memory.
    pub async fn overdue(&self, than: Ages<'_>) -> Result<Option<Beats>> {
        match &*self.database {
            Database::Sqlite(_) => Ok(None),
            Database::Postgres(postgres) => {
                beats(postgres.run(crate::postgres::dialect::OVERDUE, &than.params()).await?).map(Some)
            }
        }
    }

    /// The opposite: members whose last beat is no older than this.
    pub async fn heard_within(&self, these: Ages<'_>) -> Result<Option<Beats>> {
        match &*self.database {
            Database::Sqlite(_) => Ok(None),
            Database::Postgres(postgres) => {
                beats(postgres.run(crate::postgres::dialect::HEARD_WITHIN, &these.params()).await?).map(Some)
            }
        }
    }

    /// The database's present time; read before beats are collected.
    pub async fn moment(&self) -> Result<Moment> {
        match &*self.database {
            Database::Sqlite(_) => Ok(Moment(0)),
            Database::Postgres(postgres) => {
                let rows = postgres.run(crate::postgres::dialect::MOMENT, &params![]).await?;
                Ok(Moment(one(rows)?.int()?))
            }
        }
    }

    /// Stores a watermark: every beat that a server received before this moment is in the table. Does nothing
    /// on an embedded database.
    pub async fn note_watermark(&self, server: &str, Moment(before): Moment) -> Result<()> {
        match &*self.database {
            Database::Sqlite(_) => Ok(()),
            Database::Postgres(postgres) => {
                let params = params![SERVER, server, before];
                postgres.run(crate::postgres::dialect::NOTE_WATERMARK, &params).await.map(drop)
            }
        }
    }

    /// Stores that a server refused beats for the last `seconds`.
    pub async fn note_refused(&self, server: &str, seconds: u32) -> Result<()> {
        let seen = Seen { id: server.into(), age: Duration::ZERO, every: seconds };
        self.note_seen(REFUSED, vec![seen]).await
    }

    /// Every server that ever wrote a watermark.
    pub async fn replicas(&self) -> Result<Vec<Replica>> {
        match &*self.database {
            Database::Sqlite(_) => Ok(Vec::new()),
            Database::Postgres(postgres) => {
                let params = params![SERVER, REFUSED];
                let rows = postgres.run(crate::postgres::dialect::REPLICAS, &params).await?;
                rows.into_iter().map(replica).collect()
            }
        }
    }

    /// Deletes the rows of a replica that will not return.
    pub async fn forget_replica(&self, server: &str) -> Result<()> {
        self.forget_seen(REFUSED, server).await?;
        self.forget_seen(SERVER, server).await
    }

    /// Deletes leases with this prefix that expired a day ago.
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

    /// Deletes the row of a deleted member.
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

impl Ages<'_> {
    fn params(&self) -> Vec<Value> {
        let Self { kind, states, per_second, least, fallback } = *self;
        let states = Value::Texts(states.iter().map(|state| (*state).to_owned()).collect());
        let ages = [per_second, least, fallback].map(|age| Value::from(millis(age)));
        [Value::from(kind), states].into_iter().chain(ages).collect()
    }
}

/// Every row has the clock; a row without a member means that there are none.
fn beats(rows: Vec<Row>) -> Result<Beats> {
    let (mut moment, mut found) = (None, Vec::new());
    for mut row in rows {
        moment = Some(Moment(row.int()?));
        let Some(id) = row.opt_text()? else { continue };
        let (age, every) = (SignedDuration::from_millis(row.int()?), u32::try_from(row.int()?).unwrap_or(0));
        found.push(Beat { id: id.into(), age, every, at: BeatAt(row.int()?), version: row.int()? });
    }
    let moment = one(moment.into_iter().collect())?;
    Ok(Beats { moment, rows: found })
}

fn replica(mut row: Row) -> Result<Replica> {
    let name = row.text()?.into();
    let (now, watermark) = (Moment(row.int()?), Moment(row.int()?));
    let until = row.opt_int()?.map(Moment);
    let seconds = u32::try_from(row.int()?).unwrap_or(0);
    Ok(Replica { name, watermark, now, refused: until.map(|until| Refused { until, seconds }) })
}

/// Beats in the future, after the clock was set back, count as now.
pub(crate) fn millis(age: Duration) -> i64 {
    i64::try_from(age.as_millis()).unwrap_or(i64::MAX / 4)
}
