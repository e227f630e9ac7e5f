//! Backups: everything in one file of JSON lines, taken from one snapshot while servers run.
//!
//! The file is a header, then for each table a line with its columns and a line per row, then a trailer with
//! the SHA-256 of all lines before it. It names columns and no places in the feed, so that it can be restored
//! into the other database and into a newer schema.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::hash::hex;
use crate::location::Location;
use crate::migrate;
use crate::session::{Session, Stream};
use crate::value::{Value, json_text, params};

pub(crate) const FORMAT: &str = "wardroom backup 1";

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) format: String,
    pub(crate) schema: i64,
}

/// The line before the rows of a table.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TableLine {
    pub(crate) table: String,
    pub(crate) columns: Vec<String>,
}

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Trailer {
    rows: u64,
    pub(crate) sha256: String,
}

/// A table in a backup: its columns, and the order of its rows.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    order: Order,
    pub(crate) columns: &'static [&'static str],
}

enum Order {
    /// By the position in the feed, which is read before the columns and not written to the file.
    Feed,
    /// By the first column, a positive number.
    Number,
    /// By this many leading columns of text.
    Texts(usize),
}

pub(crate) const HISTORY: &str = "history";
pub(crate) const CHECKPOINTS: &str = "checkpoints";

#[rustfmt::skip]
pub(crate) const TABLES: [Table; 9] = [
    Table { name: "resources", order: Order::Texts(2), columns: &[
        "kind", "id", "name", "version", "head", "state", "document", "labels", "fields", "keys", "deleted",
        "created_at", "updated_at", "state_changed_at", "due_at",
    ] },
    Table { name: "terms", order: Order::Texts(4), columns: &["kind", "term", "value", "resource_id"] },
    Table { name: "resource_keys", order: Order::Texts(2), columns: &["kind", "key", "resource_id"] },
    Table { name: HISTORY, order: Order::Feed, columns: &[
        "kind", "resource_id", "sequence", "type", "from_state", "to_state", "triggered_by", "user_id", "comment",
        "metadata", "request_id", "created_at", "hash",
    ] },
    Table { name: "effects", order: Order::Number, columns: &[
        "id", "kind", "resource_id", "sequence", "type", "payload", "created_at", "done_at", "attempts",
        "next_attempt_at", "last_error",
    ] },
    Table { name: CHECKPOINTS, order: Order::Number, columns: &[
        "number", "row_count", "seal", "created_at", "signature",
    ] },
    Table { name: "idempotency", order: Order::Texts(2), columns: &[
        "scope", "key", "request_hash", "status", "answer", "marker", "expires_at",
    ] },
    Table { name: "observations", order: Order::Texts(3), columns: &[
        "kind", "resource_id", "source", "version", "document", "observed_at", "received_at",
    ] },
    Table { name: "leases", order: Order::Texts(1), columns: &["name", "holder", "epoch", "expires_at"] },
];

impl Table {
    fn start(&self) -> Vec<Value> {
        match self.order {
            Order::Feed => params![0, 0],
            Order::Number => params![0],
            Order::Texts(columns) => vec![Value::from(""); columns],
        }
    }

    /// All rows by keyset.
    fn statement(&self, session: &Session) -> String {
        let width = match self.order {
            Order::Feed => return session.dialect().history_after.to_owned(),
            Order::Number => 1,
            Order::Texts(columns) => columns,
        };
        let (name, columns, key) = (self.name, self.columns.join(", "), self.columns[..width].join(", "));
        let places = (1..=width).map(|place| format!("${place}")).collect::<Vec<_>>().join(", ");
        let limit = width + 1;
        format!("SELECT {columns} FROM {name} WHERE ({key}) > ({places}) ORDER BY {key} LIMIT ${limit}")
    }

    pub(crate) fn rows(&self, session: &Session) -> Stream<Vec<Value>> {
        let start = self.start();
        let width = start.len();
        let key = move |row: &Vec<Value>| row[..width].to_vec();
        Stream::new(self.statement(session), start, key, |row| Ok(row.rest()))
    }
}

/// Writes everything to a new file that only its owner can read, while servers run.
pub async fn backup(location: &Location, to: &Path) -> Result<()> {
    let session = Session::snapshot(location).await?;
    let mut file = Writer::create(to)?;
    file.line(&Header { format: FORMAT.to_owned(), schema: migrate::known() })?;
    for table in &TABLES {
        let columns = table.columns.iter().map(|column| (*column).to_owned()).collect();
        file.line(&TableLine { table: table.name.to_owned(), columns })?;
        let mut rows = table.rows(&session);
        while let Some(row) = rows.next(&session).await? {
            let places = row.len() - table.columns.len();
            file.row(&row[places..])?;
        }
    }
    file.finish()
}

/// Writes beside the target and moves it there when it is complete.
struct Writer {
    out: BufWriter<File>,
    hash: Sha256,
    rows: u64,
    to: PathBuf,
    partial: Partial,
}

/// A file that only this backup writes to; dropping it removes the file.
struct Partial(PathBuf);

impl Partial {
    fn create(to: &Path) -> Result<(Self, File)> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        loop {
            let mut path = to.as_os_str().to_owned();
            path.push(format!(".{}-{}.partial", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
            let path = PathBuf::from(path);
            match options.open(&path) {
                Ok(file) => return Ok((Self(path), file)),
                // Left behind by a killed process with the same pid.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::file(&path)(error)),
            }
        }
    }

    /// Moves the file to its name, unless that exists.
    fn become_whole(&self, to: &Path) -> Result<()> {
        match std::fs::hard_link(&self.0, to) {
            // Not every file system has links.
            Err(error) if error.kind() != ErrorKind::AlreadyExists && !to.exists() => {
                std::fs::rename(&self.0, to).map_err(Error::file(to))
            }
            linked => linked.map_err(Error::file(to)),
        }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // It may have its final name already, and a failed removal has no remedy here.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Writer {
    fn create(to: &Path) -> Result<Self> {
        if to.exists() {
            return Err(Error::file(to)(ErrorKind::AlreadyExists.into()));
        }
        let (partial, file) = Partial::create(to)?;
        Ok(Self { out: BufWriter::new(file), hash: Sha256::new(), rows: 0, to: to.to_owned(), partial })
    }

    fn line(&mut self, line: &impl Serialize) -> Result<()> {
        let mut text = json_text(line)?;
        text.push('\n');
        self.hash.update(&text);
        self.out.write_all(text.as_bytes()).map_err(Error::file(&self.partial.0))
    }

    fn row(&mut self, row: &[Value]) -> Result<()> {
        self.rows += 1;
        self.line(&row.iter().map(to_json).collect::<Result<Vec<_>>>()?)
    }

    fn finish(mut self) -> Result<()> {
        let sha256 = hex(&self.hash.clone().finalize());
        let rows = self.rows;
        self.line(&Trailer { rows, sha256 })?;
        let file = self.out.into_inner().map_err(|error| Error::file(&self.partial.0)(error.into_error()))?;
        file.sync_all().map_err(Error::file(&self.partial.0))?;
        self.partial.become_whole(&self.to)?;
        drop(self.partial);
        let folder =
            self.to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Sync the folder too, so that the name is durable.
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(Error::file(folder))
    }
}

fn to_json(value: &Value) -> Result<serde_json::Value> {
    match value {
        Value::Null => Ok(serde_json::Value::Null),
        Value::Int(value) => Ok((*value).into()),
        Value::Text(text) => Ok(text.as_str().into()),
        Value::Texts(_) => Err(Error::Bug("a column is an array".to_owned())),
    }
}
