//! Restoring a backup into an empty database of either sort.
//!
//! What must stay true: nothing is written before the whole file has been checked, and then everything or
//! nothing. The feed starts a new epoch, so old cursors are refused.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use crate::backup::{CHECKPOINTS, FORMAT, HISTORY, Header, TABLES, Table, TableLine, Trailer};
use crate::error::{Error, Result};
use crate::hash::hex;
use crate::location::Location;
use crate::migrate;
use crate::session::Session;
use crate::value::{Value, params};

/// Rows in one statement.
const BATCH: usize = 200;

/// Restores a backup. The target is created and migrated as needed, and must be empty; no server may use it.
pub async fn restore(from: &Path, location: &Location) -> Result<()> {
    check(from)?;
    let session = Session::alone(location).await?;
    refuse_filled(&session).await?;
    let mut target = Target::new(&session).await?;
    let mut lines = Lines::open(from)?;
    while let Some(line) = lines.next()? {
        if line.starts_with('[') {
            target.row(parse(&line)?).await?;
        } else if let Ok(table) = parse::<TableLine>(&line) {
            target.start(&table).await?;
        }
    }
    target.flush().await?;
    for statement in session.dialect().after_restore {
        session.run(statement, params![]).await?;
    }
    session.commit().await
}

/// Reads the file once: is it whole, unaltered, and of a format and schema this program knows?
fn check(from: &Path) -> Result<()> {
    let damaged = |what: &str| Error::Damaged(what.to_owned());
    let mut lines = Lines::open(from)?;
    let first = lines.next()?.ok_or_else(|| damaged("it is empty"))?;
    let header: Header = parse(&first).map_err(|_| damaged("it is not a backup"))?;
    if header.format != FORMAT {
        return Err(damaged("it has another format"));
    }
    migrate::refuse_newer(header.schema)?;
    let (mut hash, mut last) = (Sha256::new(), first);
    while let Some(line) = lines.next()? {
        hash.update(&last);
        last = line;
    }
    let trailer: Trailer = parse(&last).map_err(|_| damaged("its end is missing"))?;
    if trailer.sha256 != hex(&hash.finalize()) {
        return Err(damaged("its checksum is wrong"));
    }
    Ok(())
}

async fn refuse_filled(session: &Session) -> Result<()> {
    for table in &TABLES {
        let any = format!("SELECT 'a row' FROM {} LIMIT 1", table.name);
        if !session.run(&any, params![]).await?.is_empty() {
            return Err(Error::NotEmpty);
        }
    }
    Ok(())
}

struct Target<'a> {
    session: &'a Session,
    table: Option<&'static Table>,
    columns: Vec<String>,
    batch: Vec<Value>,
    batched: usize,
    xid: i64,
    history: i64,
}

impl<'a> Target<'a> {
    async fn new(session: &'a Session) -> Result<Self> {
        let xid = crate::store::one(session.run(session.dialect().current_xid, params![]).await?)?.int()?;
        Ok(Self { session, table: None, columns: vec![], batch: vec![], batched: 0, xid, history: 0 })
    }

    /// Only names this program knows become part of a statement.
    async fn start(&mut self, line: &TableLine) -> Result<()> {
        self.flush().await?;
        let unknown = |name: &str| Error::Damaged(format!("{name:?} is unknown"));
        let table =
            TABLES.iter().find(|table| table.name == line.table).ok_or_else(|| unknown(&line.table))?;
        if let Some(column) = line.columns.iter().find(|column| !table.columns.contains(&&***column)) {
            return Err(unknown(column));
        }
        self.columns.clone_from(&line.columns);
        let places: &[&str] = match table.name {
            HISTORY => &["position"],
            CHECKPOINTS => &["xid", "position"],
            _ => &[],
        };
        self.columns.extend(places.iter().map(|place| (*place).to_owned()));
        self.table = Some(table);
        Ok(())
    }

    /// Rows of the feed are renumbered, so the position of a checkpoint is the number of rows it covers.
    async fn row(&mut self, row: Vec<serde_json::Value>) -> Result<()> {
        let table = self.table.ok_or_else(|| Error::Damaged("a row belongs to no table".to_owned()))?;
        let mut values = row.into_iter().map(from_json).collect::<Result<Vec<_>>>()?;
        match table.name {
            HISTORY => {
                self.history += 1;
                values.push(self.history.into());
            }
            CHECKPOINTS => {
                let covered = self.columns.iter().zip(&values).find(|(column, _)| *column == "row_count");
                let covered = covered.map_or(Value::Null, |(_, value)| value.clone());
                values.extend([self.xid.into(), covered]);
            }
            _ => {}
        }
        if values.len() != self.columns.len() {
            return Err(Error::Damaged("a row has another number of columns".to_owned()));
        }
        self.batch.extend(values);
        self.batched += 1;
        if self.batched == BATCH { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<()> {
        let (Some(table), true) = (self.table, self.batched > 0) else { return Ok(()) };
        let sql = insert(table.name, &self.columns, self.batched);
        self.batched = 0;
        self.session.run(&sql, std::mem::take(&mut self.batch)).await.map(drop)
    }
}

fn insert(table: &str, columns: &[String], rows: usize) -> String {
    let row = |row: usize| {
        let places = (1..=columns.len()).map(|column| format!("${}", row * columns.len() + column));
        format!("({})", places.collect::<Vec<_>>().join(", "))
    };
    let rows = (0..rows).map(row).collect::<Vec<_>>().join(", ");
    format!("INSERT INTO {table} ({}) VALUES {rows}", columns.join(", "))
}

/// Lines with their ends, as the checksum covers them.
struct Lines<'a> {
    file: BufReader<File>,
    path: &'a Path,
}

impl<'a> Lines<'a> {
    fn open(path: &'a Path) -> Result<Self> {
        Ok(Self { file: BufReader::new(File::open(path).map_err(Error::file(path))?), path })
    }

    fn next(&mut self) -> Result<Option<String>> {
        let mut line = String::new();
        let read = self.file.read_line(&mut line).map_err(Error::file(self.path))?;
        Ok((read > 0).then_some(line))
    }
}

fn parse<T: DeserializeOwned>(line: &str) -> Result<T> {
    serde_json::from_str(line).map_err(|error| Error::Damaged(error.to_string()))
}

fn from_json(value: serde_json::Value) -> Result<Value> {
    match value {
        serde_json::Value::Null => Ok(Value::Null),
        serde_json::Value::Number(number) if number.is_i64() => Ok(number.as_i64().into()),
        serde_json::Value::String(text) => Ok(Value::Text(text)),
        serde_json::Value::Number(_)
        | serde_json::Value::Bool(_)
        | serde_json::Value::Array(_)
        | serde_json::Value::Object(_) => Err(Error::Damaged("a column has an unknown type".to_owned())),
    }
}
