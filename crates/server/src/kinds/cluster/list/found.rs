//! Searches that no index answers: candidates are read page by page and compared one by one.

use std::collections::HashMap;

use serde_json::Value as Json;
use wardroom_core::cluster::{
    Condition,
    search::{Column, Detail, Field, Search, Value},
};
use wardroom_store::{List, Resource};

use super::{Pages, conditions_of};
use crate::{
    kinds::cluster::{
        Sort,
        document::{CONDITION, Document},
    },
    platform::{app::App, http::error::Error},
};

/// Candidates that are read at once.
const AT_ONCE: usize = 500;

/// One page of the resources that a search finds among those of a list, and how many it finds in all.
pub(super) async fn by(
    app: &App,
    sort: &Sort,
    list: List,
    search: &Search,
    pages: &Pages,
    newest_first: bool,
) -> Result<(Vec<Resource>, usize), Error> {
    let mut ids = Vec::new();
    let mut list = List { limit: AT_ONCE, ..list };
    let needs_conditions = search.looks_at(|field| matches!(field, Field::Detail(..)));
    loop {
        let page = app.store.list(&list).await?;
        let conditions = match needs_conditions {
            true => conditions_of(app, sort, &page.items).await?,
            false => HashMap::new(),
        };
        for resource in page.items {
            let conditions = conditions.get(&resource.content.id).map(Vec::as_slice);
            if Candidate::of(&resource, conditions.unwrap_or_default(), search)?.fits(search) {
                ids.push(resource.content.id);
            }
        }
        match page.next {
            Some(next) => list.after = Some(next),
            None => break,
        }
    }
    let total = ids.len();
    if newest_first {
        ids.reverse();
    }
    let ids: Vec<_> = ids.into_iter().skip(pages.skipped()).take(pages.size).collect();
    let mut found = app.store.get_all(sort.kind, &ids).await?;
    // One may have changed or gone since; the order is that of the ids.
    found.retain(|resource| !resource.content.deleted);
    found.sort_by(|a, b| a.content.id.cmp(&b.content.id));
    if newest_first {
        found.reverse();
    }
    Ok((found, total))
}

/// A resource that a search may find.
struct Candidate<'a> {
    resource: &'a Resource,
    document: Document,
    /// Read only for a search that looks at it.
    spec: Option<Json>,
    conditions: &'a [Condition],
}

impl<'a> Candidate<'a> {
    fn of(resource: &'a Resource, conditions: &'a [Condition], search: &Search) -> Result<Self, Error> {
        let document = Document::of(resource)?;
        let needs_spec = search.looks_at(|field| matches!(field, Field::Spec(_)));
        let spec = if needs_spec { document.spec.value().ok() } else { None };
        Ok(Self { resource, document, spec, conditions })
    }

    fn fits(&self, search: &Search) -> bool {
        search.holds(&|field| self.value(field))
    }

    fn value(&self, field: &Field) -> Option<Value> {
        let content = &self.resource.content;
        let text = |text: &String| Some(Value::Text(text.clone()));
        match field {
            Field::Label(key) => content.labels.get(key).and_then(text),
            Field::Condition(type_) => content.fields.get(&format!("{CONDITION}{type_}")).and_then(text),
            Field::Spec(path) => self.in_spec(path),
            Field::Detail(type_, detail) => {
                let condition = self.conditions.iter().find(|condition| condition.type_ == *type_)?;
                Some(match detail {
                    Detail::ObservedGeneration => number(condition.observed_generation),
                    Detail::LastUpdatedTime => Value::Time(condition.last_updated_time),
                    Detail::LastTransitionTime => Value::Time(condition.last_transition_time),
                })
            }
            Field::Column(column) => match column {
                Column::Id => text(&content.id),
                Column::Name => text(&content.name),
                Column::Generation => Some(number(self.document.generation)),
                Column::CreatedTime => Some(Value::Time(self.resource.created_at)),
                Column::UpdatedTime => Some(Value::Time(self.document.updated_time)),
                Column::DeletedTime => self.document.deleted_time.map(Value::Time),
                Column::CreatedBy => text(&self.document.created_by),
                Column::UpdatedBy => text(&self.document.updated_by),
            },
        }
    }

    fn in_spec(&self, path: &[String]) -> Option<Value> {
        let found = path.iter().try_fold(self.spec.as_ref()?, |json, part| json.get(part))?;
        match found {
            Json::String(text) => Some(Value::Text(text.clone())),
            Json::Number(number) => number.as_f64().map(Value::Number),
            Json::Bool(flag) => Some(Value::Flag(*flag)),
            Json::Null | Json::Array(_) | Json::Object(_) => None,
        }
    }
}

/// Generations are far below what a double loses.
#[expect(clippy::cast_precision_loss, reason = "a generation counts changes by people")]
fn number(number: i64) -> Value {
    Value::Number(number as f64)
}
