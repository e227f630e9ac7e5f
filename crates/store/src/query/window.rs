//! Lists by the number of a page, with the number of all entries: for clients that know pages, not cursors.
//!
//! What must stay true: the last page costs what the first one does. Both count all entries; a page in the second half is
//! counted from the end.

use super::{COLUMNS, List, Statement};
use crate::error::Result;
use crate::resource::Resource;
use crate::store::{Store, one};

/// Which part of a list, in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// How many entries come before it.
    pub offset: i64,
    /// Whether the newest entries come first instead of the oldest.
    pub newest_first: bool,
}

/// Part of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Windowed {
    /// The resources.
    pub items: Vec<Resource>,
    /// How many the whole list has.
    pub total: i64,
}

impl Store {
    /// Reads the part of a list that begins after so many entries, and counts them all. The cursor does not matter.
    pub async fn window(&self, list: &List, window: Window) -> Result<Windowed> {
        let list = List { after: None, ..list.clone() };
        let count = list.count()?;
        let total = one(self.database.read_once(count.sql, count.params).await?)?.int()?;
        let limit = i64::try_from(list.limit).unwrap_or(i64::MAX);
        let size = limit.min(total - window.offset).max(0);
        if size == 0 {
            return Ok(Windowed { items: Vec::new(), total });
        }
        // Whichever end is nearer.
        let from_end = total - window.offset - size;
        let is_turned = from_end < window.offset;
        let offset = if is_turned { from_end } else { window.offset };
        let statement = list.window(window.newest_first != is_turned, offset, size)?;
        let rows = self.database.read_once(statement.sql, statement.params).await?;
        let items = rows.into_iter().map(|mut row| Resource::from_row(&mut row));
        let mut items = items.collect::<Result<Vec<_>>>()?;
        items.sort_by(|a, b| a.content.id.cmp(&b.content.id));
        if window.newest_first {
            items.reverse();
        }
        Ok(Windowed { items, total })
    }
}

impl List {
    fn count(&self) -> Result<Statement> {
        let (statement, _) = self.select("count(*)")?;
        Ok(statement)
    }

    /// The ids are found in the index alone, before the rows of the page are read.
    fn window(&self, newest_first: bool, offset: i64, size: i64) -> Result<Statement> {
        let (mut statement, order) = self.select("r.id AS id")?;
        let (offset, size) = (statement.bind(offset), statement.bind(size));
        let direction = if newest_first { "DESC" } else { "ASC" };
        let page = format!("{} ORDER BY {order} {direction} LIMIT {size} OFFSET {offset}", statement.sql);
        statement.sql = format!(
            "SELECT {COLUMNS} FROM ({page}) AS page CROSS JOIN resources r WHERE r.kind = $1 AND r.id = page.id"
        );
        Ok(statement)
    }
}
