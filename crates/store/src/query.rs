//! Lists of living resources, page by page in the order of their ids.
//!
//! What must stay true: a page starts where its cursor says by walking an index, so the last page costs what
//! the first one does; and a cursor is the last id that was seen, so it never expires.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::resource::{Resource, field_term, label_term};
use crate::sql::resource_columns;
use crate::value::{Value, params};

mod window;

pub use window::{Window, Windowed};

/// Filters of one list at most; each costs a probe for every row.
const MOST_FILTERS: usize = 32;

/// A query for a page of resources of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// The kind.
    pub kind: String,
    /// Only in this state.
    pub state: Option<String>,
    /// Only in states for which all of these hold.
    pub states: Vec<Requirement>,
    /// Only with these values of filterable fields.
    pub fields: BTreeMap<String, String>,
    /// Only with filterable fields for which all of these hold.
    pub field_requirements: Vec<Selector>,
    /// Only where all of these hold.
    pub labels: Vec<Selector>,
    /// Only those whose ids begin with this.
    pub prefix: Option<String>,
    /// The cursor of the page before.
    pub after: Option<String>,
    /// How many at most.
    pub limit: usize,
    /// The deleted instead of the living; those are found by their kind and state only.
    pub deleted: bool,
}

/// One requirement on one label, or on one filterable field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// The label or field.
    pub key: String,
    /// What must hold for it.
    pub requirement: Requirement,
}

/// What a label, a field or a state must be. `=` and `!=` are `In` and `NotIn` with one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// One of these values.
    In(Vec<String>),
    /// None of these values, or no such label.
    NotIn(Vec<String>),
    /// Any value.
    Exists,
    /// No such label.
    Missing,
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The resources, in the order of their ids.
    pub items: Vec<Resource>,
    /// The cursor of the next page, unless this is the last one.
    pub next: Option<String>,
}

/// A statement built from constant parts.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) sql: String,
    pub(crate) params: Vec<Value>,
}

impl Statement {
    /// Adds the parameter and says how the text calls it.
    fn bind(&mut self, value: impl Into<Value>) -> String {
        self.params.push(value.into());
        format!("${}", self.params.len())
    }

    fn bind_all(&mut self, values: &[String]) -> String {
        let names = values.iter().map(|value| self.bind(value)).collect::<Vec<_>>();
        names.join(", ")
    }
}

impl List {
    /// The statement asks for one row more than the page has, to know whether another page follows.
    pub(crate) fn statement(&self) -> Result<Statement> {
        let (mut statement, order) = self.select(COLUMNS)?;
        let limit = statement.bind(i64::try_from(self.limit + 1).unwrap_or(i64::MAX));
        statement.sql += &format!(" ORDER BY {order} LIMIT {limit}");
        Ok(statement)
    }

    /// Selects columns of the resources `r` after the cursor, in no order; says which column has their ids in the index.
    fn select(&self, columns: &str) -> Result<(Statement, &'static str)> {
        self.check()?;
        let (driver, others) = self.driver();
        let mut statement = Statement { sql: String::new(), params: params![&self.kind] };
        let after = statement.bind(self.after.as_deref().unwrap_or(""));
        let order = match driver {
            Some((term, value)) => {
                let (term, value) = (statement.bind(term), statement.bind(value));
                // The cross join pins the order in which SQLite visits the tables.
                statement.sql = format!(
                    "SELECT {columns} FROM terms t CROSS JOIN resources r \
                     WHERE t.kind = $1 AND t.term = {term} AND t.value = {value} \
                     AND t.resource_id > {after} AND r.kind = t.kind AND r.id = t.resource_id"
                );
                "t.resource_id"
            }
            None => {
                let deleted = i32::from(self.deleted);
                statement.sql = format!(
                    "SELECT {columns} FROM resources r \
                     WHERE r.kind = $1 AND r.deleted = {deleted} AND r.id > {after}"
                );
                "r.id"
            }
        };
        if let Some(state) = &self.state {
            let state = statement.bind(state);
            statement.sql += &format!(" AND r.state = {state}");
        }
        for requirement in &self.states {
            statement.require_state(requirement);
        }
        if let Some(prefix) = &self.prefix {
            let (start, end) = (statement.bind(prefix), statement.bind(format!("{prefix}{}", char::MAX)));
            statement.sql += &format!(" AND {order} >= {start} AND {order} < {end}");
        }
        for selector in others {
            statement.require(&selector);
        }
        Ok((statement, order))
    }

    fn check(&self) -> Result<()> {
        let filters =
            [self.labels.len(), self.fields.len(), self.field_requirements.len(), self.states.len()];
        if filters.iter().sum::<usize>() > MOST_FILTERS {
            return Err(Error::Invalid { field: "selector", reason: "has too many requirements" });
        }
        let selectors = || self.labels.iter().chain(&self.field_requirements);
        let requirements = selectors().map(|selector| &selector.requirement).chain(&self.states);
        let values = requirements.flat_map(|requirement| match requirement {
            Requirement::In(values) | Requirement::NotIn(values) => values.as_slice(),
            Requirement::Exists | Requirement::Missing => &[],
        });
        let keys = selectors().map(|selector| &selector.key);
        let fields = self.fields.iter().flat_map(|(field, value)| [field, value]);
        let texts =
            values.chain(keys).chain(fields).chain(&self.state).chain(&self.prefix).chain(&self.after);
        let mut texts = texts.chain([&self.kind]);
        texts.try_for_each(|text| crate::change::refuse_nul("selector", text))
    }

    /// The equality whose index is walked in the order of ids, and the requirements left to probe; terms have
    /// their prefix.
    fn driver(&self) -> (Option<(String, String)>, Vec<Selector>) {
        let fields = self.fields.iter().map(|(field, value)| Selector {
            key: field_term(field),
            requirement: Requirement::In(vec![value.clone()]),
        });
        let labels = self.labels.iter().map(|selector| Selector {
            key: label_term(&selector.key),
            requirement: selector.requirement.clone(),
        });
        let required = self.field_requirements.iter().map(|selector| Selector {
            key: field_term(&selector.key),
            requirement: selector.requirement.clone(),
        });
        let mut all: Vec<Selector> = fields.chain(required).chain(labels).collect();
        let equality = |selector: &Selector| match &selector.requirement {
            Requirement::In(values) if values.len() == 1 => Some((selector.key.clone(), values[0].clone())),
            Requirement::In(_) | Requirement::NotIn(_) | Requirement::Exists | Requirement::Missing => None,
        };
        let driver = all.iter().enumerate().find_map(|(at, selector)| Some((at, equality(selector)?)));
        let driver = driver.map(|(at, driver)| {
            all.remove(at);
            driver
        });
        (driver, all)
    }
}

const COLUMNS: &str = resource_columns!("r.");

impl Statement {
    /// Every resource has a state.
    fn require_state(&mut self, requirement: &Requirement) {
        let (not, values) = match requirement {
            Requirement::In(values) => ("", values.as_slice()),
            Requirement::NotIn(values) => ("NOT ", values.as_slice()),
            Requirement::Exists => return,
            Requirement::Missing => ("", &[][..]),
        };
        if values.is_empty() {
            self.sql += if not.is_empty() { " AND 1 = 0" } else { "" };
            return;
        }
        let values = self.bind_all(values);
        self.sql += &format!(" AND r.state {not}IN ({values})");
    }

    /// The offset keeps PostgreSQL from turning the probe of each row into a join.
    fn require(&mut self, selector: &Selector) {
        let (quantifier, values) = match &selector.requirement {
            Requirement::In(values) => ("EXISTS", Some(values)),
            Requirement::NotIn(values) => ("NOT EXISTS", Some(values)),
            Requirement::Exists => ("EXISTS", None),
            Requirement::Missing => ("NOT EXISTS", None),
        };
        let term = self.bind(&selector.key);
        let values = match values {
            Some(values) if values.is_empty() => " AND 1 = 0".to_owned(),
            Some(values) => format!(" AND x.value IN ({})", self.bind_all(values)),
            None => String::new(),
        };
        self.sql += &format!(
            " AND {quantifier} (SELECT 1 FROM terms x \
             WHERE x.kind = r.kind AND x.resource_id = r.id AND x.term = {term}{values} LIMIT 1 OFFSET 0)"
        );
    }
}
