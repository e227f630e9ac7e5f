//! Observations of resources: kept beside them, one row for each source, without history.
//!
//! What must stay true: an observation never changes the version of its resource, so observers and deciders
//! never conflict.

use jiff::Timestamp;

use crate::change::refuse_nul;
use crate::document::Document;
use crate::error::Result;
use crate::sql;
use crate::store::{Database, Store};
use crate::value::{Row, Value, json_text, params, time_text, to_micros};

/// The latest observation of a resource by one source.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// The kind of the resource.
    pub kind: String,
    /// The id of the resource.
    pub resource_id: String,
    /// The source of the observation.
    pub source: String,
    /// Starts at 1 and grows by one with every observation of the source.
    pub version: i64,
    /// The observed document.
    pub document: Document,
    /// When it was observed, by the source's clock.
    pub observed_at: Timestamp,
    /// When it was received.
    pub received_at: Timestamp,
}

const OBSERVED: &str = concat!(
    "SELECT kind, resource_id, source, version, document, observed_at, received_at FROM observations ",
    "WHERE kind = $1 AND source = $2"
);

impl Observation {
    fn from_row(mut row: Row) -> Result<Self> {
        Ok(Self {
            kind: row.text()?,
            resource_id: row.text()?,
            source: row.text()?,
            version: row.int()?,
            document: Document::from_stored(row.text()?),
            observed_at: row.time()?,
            received_at: row.time()?,
        })
    }
}

impl Store {
    /// Keeps an observation whose version is one above the kept one, or 1 if there is none. Returns false if
    /// another writer was faster: read and decide again.
    pub async fn observe(&self, seen: &Observation) -> Result<bool> {
        crate::condition::check_write()?;
        for (field, text) in [("kind", &seen.kind), ("id", &seen.resource_id), ("source", &seen.source)] {
            refuse_nul(field, text)?;
        }
        let params = params![
            &seen.kind,
            &seen.resource_id,
            &seen.source,
            seen.version,
            seen.document.as_str(),
            to_micros(seen.observed_at),
            to_micros(seen.received_at),
        ];
        let sql = if seen.version == 1 { sql::OBSERVATION_INSERT } else { sql::OBSERVATION_UPDATE };
        Ok(!self.database.write(sql, params).await?.is_empty())
    }

    /// Keeps one source's observations of many living resources, each with its time; the newer of two stays.
    /// The deletion of a resource removes its observations afterwards, so a late write leaves none behind.
    pub async fn observe_all(
        &self,
        kind: &'static str,
        source: &'static str,
        seen: &[(String, Document, Timestamp)],
    ) -> Result<()> {
        crate::condition::check_write()?;
        let rows: Vec<_> = seen
            .iter()
            .filter(|(id, ..)| !id.contains('\0'))
            .map(|(id, document, at)| (id, document.as_str(), time_text(*at)))
            .collect();
        let params = params![kind, source, json_text(&rows)?];
        self.database.write(self.database.dialect().observe_all, params).await?;
        if let Database::Postgres(postgres) = &*self.database {
            // A resource may have been deleted during the statement.
            let ids = Value::Texts(rows.iter().map(|(id, ..)| id.to_string()).collect());
            let params = vec![Value::from(kind), Value::from(source), ids];
            postgres.run(crate::postgres::dialect::FORGET_GONE, &params).await?;
        }
        Ok(())
    }

    /// Returns all observations of a resource, by source.
    pub async fn observations(&self, kind: &str, id: &str) -> Result<Vec<Observation>> {
        if id.contains('\0') {
            return Ok(Vec::new());
        }
        let rows = self.database.read(sql::OBSERVATIONS, params![kind, id]).await?;
        rows.into_iter().map(Observation::from_row).collect()
    }

    /// Returns one source's observation of a resource.
    pub async fn observation(&self, kind: &str, id: &str, source: &str) -> Result<Option<Observation>> {
        if id.contains('\0') {
            return Ok(None);
        }
        let row = self.database.read_one(sql::OBSERVATION, params![kind, id, source]).await?;
        row.map(Observation::from_row).transpose()
    }

    /// Returns one source's observations of some resources.
    pub async fn observed(&self, kind: &str, source: &str, ids: &[&str]) -> Result<Vec<Observation>> {
        if ids.is_empty() || ids.iter().any(|id| id.contains('\0')) {
            return Ok(Vec::new());
        }
        let mut params = params![kind, source];
        params.extend(ids.iter().map(|id| Value::from(*id)));
        let places = (3..=params.len()).map(|place| format!("${place}")).collect::<Vec<_>>().join(", ");
        let rows =
            self.database.read_once(format!("{OBSERVED} AND resource_id IN ({places})"), params).await?;
        rows.into_iter().map(Observation::from_row).collect()
    }

    /// Deletes the observations of a resource; returns how many.
    pub async fn forget_observations(&self, kind: &str, id: &str) -> Result<usize> {
        crate::condition::check_write()?;
        Ok(self.database.write(sql::OBSERVATIONS_FORGET, params![kind, id]).await?.len())
    }
}
