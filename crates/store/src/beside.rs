//! Observations that are committed together with changes, in turns.
//!
//! What must stay true: of two writers that read the same observations of a resource, one wins and the other reads again.
//! So what is computed from several observations, and kept as one of them, always fits all of them.

use crate::change::refuse_nul;
use crate::error::Result;
use crate::observation::Observation;
use crate::value::{Value, params, to_micros};

/// What a commit keeps beside one resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// The observation by which writers take turns: its version is one above the one that was read, or 1 for the first.
    pub turn: Observation,
    /// Other observations of the resource. Each replaces the one of its source, whatever its version.
    pub others: Vec<Observation>,
    /// Whether the resource goes: then all its observations are forgotten, these too.
    pub ends: bool,
}

/// The same, down to its parameters.
#[derive(Debug)]
pub(crate) struct PreparedBeside {
    /// The resource and all columns of the turn.
    pub(crate) turn: Vec<Value>,
    pub(crate) is_first: bool,
    /// All columns of each.
    pub(crate) others: Vec<Vec<Value>>,
    pub(crate) ends: bool,
}

impl Beside {
    pub(crate) fn prepare(self) -> Result<PreparedBeside> {
        let Self { turn, others, ends } = self;
        let is_first = turn.version == 1;
        let others = others.into_iter().map(columns).collect::<Result<_>>()?;
        Ok(PreparedBeside { turn: columns(turn)?, is_first, others, ends })
    }
}

fn columns(seen: Observation) -> Result<Vec<Value>> {
    for (field, text) in [("kind", &seen.kind), ("id", &seen.resource_id), ("source", &seen.source)] {
        refuse_nul(field, text)?;
    }
    Ok(params![
        seen.kind,
        seen.resource_id,
        seen.source,
        seen.version,
        seen.document.as_str(),
        to_micros(seen.observed_at),
        to_micros(seen.received_at),
    ])
}

impl PreparedBeside {
    /// The resource.
    pub(crate) fn resource(&self) -> &[Value] {
        &self.turn[..2]
    }

    /// One column of the others.
    pub(crate) fn column(&self, number: usize) -> Value {
        let texts = self.others.iter().map(|columns| match &columns[number] {
            Value::Text(text) => text.clone(),
            Value::Null | Value::Int(_) | Value::Texts(_) => String::new(),
        });
        Value::Texts(texts.collect())
    }
}
