//! The feed: every change of every resource, in one order, without gaps.
//!
//! History is the feed. What must stay true: no row ever appears before a position that a reader has passed.
//! On SQLite the single writer ensures that; on PostgreSQL rows are ordered by their transaction first, and
//! only those of ended transactions are read, because positions are assigned before the commit. A transaction
//! left open anywhere on that server delays the feed until it ends; it never loses a row.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::cursor;
use crate::error::{Error, Result};
use crate::history::HistoryRow;
use crate::postgres;
use crate::store::{Database, Store};
use crate::value::{Row, Value, params};

/// How soon a commit of another server is noticed.
const POLL: Duration = Duration::from_millis(250);

/// A position in the feed. As text it is opaque to clients. Positions are ordered like the changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    epoch: Arc<str>,
    xid: i64,
    position: i64,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = format!("{:x}.{:x}", self.xid, self.position);
        write!(f, "{}.{}", self.epoch, cursor::at(&self.epoch, &place))
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let number = |part: &str| i64::from_str_radix(part, 16).ok().filter(|number| *number >= 0);
        let parse = || {
            let (epoch, cursor) = text.split_once('.')?;
            let (xid, position) = cursor::place(epoch, cursor)?.split_once('.')?;
            Some(Self { epoch: epoch.into(), xid: number(xid)?, position: number(position)? })
        };
        parse().ok_or(Error::ForeignCursor)
    }
}

/// One change and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedItem {
    /// Where to go on after this one.
    pub cursor: Cursor,
    /// The change.
    pub row: HistoryRow,
}

/// Changes that the feed does not show yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBack {
    /// How long the oldest of them has been waiting.
    pub since: Duration,
    /// The session or transaction that has been open for the longest.
    pub by: String,
}

impl Store {
    /// Returns the open transaction that delays the feed, if any; PostgreSQL only. A short delay is normal.
    pub async fn feed_held_back(&self) -> Result<Option<HeldBack>> {
        let Database::Postgres(postgres) = &*self.database else { return Ok(None) };
        let rows = postgres.read::<Value>(postgres::dialect::HELD_BACK, &[]).await?;
        let held = |mut row: Row| {
            let since = Duration::from_millis(u64::try_from(row.int()?).unwrap_or(0));
            Ok(HeldBack { since, by: row.text()? })
        };
        rows.into_iter().next().map(held).transpose()
    }

    /// The place before the first change.
    #[must_use]
    pub fn feed_start(&self) -> Cursor {
        self.cursor(0, 0)
    }

    /// The place after the newest change that [`Store::feed_after`] returns now.
    pub async fn feed_tail(&self) -> Result<Cursor> {
        let tail = self.database.read_one(self.database.dialect().feed_tail, params![]).await?;
        tail.map_or_else(|| Ok(self.feed_start()), |mut row| Ok(self.cursor(row.int()?, row.int()?)))
    }

    /// Parses a cursor of this feed.
    pub fn feed_at(&self, text: &str) -> Result<Cursor> {
        let cursor = text.parse()?;
        self.own(&cursor)?;
        Ok(cursor)
    }

    /// The changes after a place, oldest first.
    pub async fn feed_after(&self, after: &Cursor, limit: usize) -> Result<Vec<FeedItem>> {
        self.own(after)?;
        self.feed_page(self.database.dialect().feed_after, after, limit).await
    }

    /// The changes of some kinds after a position, oldest first, and where to continue. Changes of other
    /// kinds cost the reader almost nothing.
    pub async fn feed_of(
        &self,
        kinds: &[&str],
        after: &Cursor,
        limit: usize,
    ) -> Result<(Vec<FeedItem>, Cursor)> {
        self.own(after)?;
        let tail = self.feed_tail().await?;
        if (tail.xid, tail.position) <= (after.xid, after.position) {
            return Ok((Vec::new(), after.clone()));
        }
        let (most, kinds) = (i64::try_from(limit).unwrap_or(i64::MAX), format!(",{},", kinds.join(",")));
        let params = params![after.xid, after.position, tail.xid, tail.position, most, kinds];
        let rows = self.database.read(self.database.dialect().feed_of, params).await?;
        let items = self.feed_items(rows)?;
        let next = items.last().filter(|_| items.len() >= limit).map_or(tail, |last| last.cursor.clone());
        Ok((items, next))
    }

    /// The changes before a place, or the newest ones, newest first.
    pub async fn history_before(&self, before: Option<&Cursor>, limit: usize) -> Result<Vec<FeedItem>> {
        let end = self.cursor(i64::MAX, i64::MAX);
        let before = before.unwrap_or(&end);
        self.own(before)?;
        self.feed_page(self.database.dialect().history_before, before, limit).await
    }

    /// Changes whenever the feed may have news. Only a hint: read the feed.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.hint.subscribe()
    }

    fn cursor(&self, xid: i64, position: i64) -> Cursor {
        Cursor { epoch: Arc::clone(&self.epoch), xid, position }
    }

    fn own(&self, cursor: &Cursor) -> Result<()> {
        if cursor.epoch == self.epoch { Ok(()) } else { Err(Error::ForeignCursor) }
    }

    async fn feed_page(&self, sql: &'static str, from: &Cursor, limit: usize) -> Result<Vec<FeedItem>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = self.database.read(sql, params![from.xid, from.position, limit]).await?;
        self.feed_items(rows)
    }

    fn feed_items(&self, rows: Vec<Row>) -> Result<Vec<FeedItem>> {
        let item = |mut row: Row| {
            let cursor = self.cursor(row.int()?, row.int()?);
            Ok(FeedItem { cursor, row: HistoryRow::from_row(&mut row)? })
        };
        rows.into_iter().map(item).collect()
    }

    /// Polls PostgreSQL for commits of other servers, and for own ones that become visible later. Ends with
    /// the last handle of the store.
    pub(crate) fn spawn_poller(&self) {
        let Database::Postgres(postgres) = &*self.database else { return };
        let tail = self.database.dialect().feed_tail;
        let (postgres, store, hint) = (postgres.clone(), Arc::downgrade(&self.database), self.hint.clone());
        tokio::spawn(async move {
            let mut seen = None;
            while store.strong_count() > 0 {
                // During an outage, wait for the next poll.
                if let Ok(mut rows) = postgres.read::<Value>(tail, &[]).await {
                    let newest = rows.pop().map(Row::rest);
                    if newest != seen {
                        seen = newest;
                        hint.send_modify(|count| *count += 1);
                    }
                }
                tokio::time::sleep(POLL).await;
            }
        });
    }
}
