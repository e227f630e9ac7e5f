//! How resources are fetched and written: one file with one table of columns for each kind.

use serde::Serialize;
use wardroom_api::{
    Page,
    action::Action,
    client::{self, Client, Query},
    found::Found,
    satellite::EffectProgress,
};

use crate::{
    exit::{Code, failure},
    kind::Kind,
    locate::{Among, locate},
    said::Said,
    suggest::Words,
    table::{Column, Level, Tones},
};

pub(crate) use crate::print::{
    Event, Gone, Made, Mode, Printer, Shape, made as print_made, one as print_one,
};

mod adapter;
mod attention;
pub(crate) mod cluster;
mod device;
mod enrollment;
mod fleet;
mod gpu_node;
mod group;
pub(crate) mod history;
mod incident;
mod node;
mod run;
mod satellite;
mod satellite_config;
mod satellite_group;
mod site;
mod token;
mod workflow;

/// A resource with columns.
pub(crate) trait View: Serialize + Sized + 'static {
    /// The columns, in the order they are written.
    const COLUMNS: &'static [Column<Self>];

    /// How wide columns usually are, for lists that start empty and are watched.
    const USUAL: &'static [usize] = &[];

    /// The kind in a document for `wardroom apply`; none for a kind that cannot be applied.
    const APPLIED: Option<Kind> = None;

    /// Whether it holds JSON as it was sent, which only JSON can write.
    const EXACT: bool = false;

    /// The tones of its states.
    const TONES: Tones = Tones::None;

    /// The columns that are shown under the name of a layer when one resource is described.
    const LAYERS: &'static [(&'static str, &'static [&'static str])] = &[];

    /// The columns that a description leaves out, because other parts of it say the same.
    const HIDDEN: &'static [&'static str] = &["AGE"];

    /// What `-o name` writes.
    fn name(&self) -> String;
}

/// The selectors that lists of a kind take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Selectable {
    /// Nothing.
    No,
    /// State.
    ByState,
    /// State and fields.
    ByFields,
    /// State, fields and labels.
    ByLabels,
}

/// A resource that commands get by its kind.
pub(crate) trait Resource: View {
    /// The kind.
    const KIND: Kind;

    /// The selectors that its lists take.
    const SELECTABLE: Selectable = Selectable::No;

    /// Whether the server explains its state.
    const EXPLAINED: bool = false;

    /// Whether it has conditions, which can be waited for.
    const CONDITIONED: bool = false;

    /// Whether the server lists and shows deleted ones.
    const LISTED_DELETED: bool = false;

    /// The next step for a kind that cannot be deleted.
    const KEPT: Option<&'static str> = None;

    /// What a successful deletion has done.
    const DELETED: &'static str = "deleted";

    /// The list of its users, as `wardroom get` takes it, up to the name of the resource.
    const USERS: Option<&'static str> = None;

    /// The name of its schema in the API's document: that of its type.
    fn schema() -> &'static str {
        let path = std::any::type_name::<Self>();
        path.rsplit("::").next().unwrap_or(path)
    }

    /// The words after `wardroom` of the command that carries out an action of the server on this kind.
    fn command(_action: &Action, _id: &str) -> Option<Words> {
        None
    }

    /// The id.
    fn id(&self) -> &str;

    /// Whether it is deleted.
    fn is_deleted(&self) -> bool {
        false
    }

    /// One page.
    async fn page(client: &Client, query: &Query) -> anyhow::Result<Page<Self>>;

    /// Returns one resource by its id.
    async fn find(client: &Client, id: &str) -> anyhow::Result<Self>;

    /// Returns the resources that a name, an id or the start of an id leads to.
    async fn named(client: &Client, typed: &str, among: Among) -> anyhow::Result<Vec<Found>> {
        Ok(client.find(Some(Self::KIND.as_str()), typed, among == Among::All).await?)
    }

    /// Deletes one resource by its id.
    async fn delete(_client: &Client, _id: &str) -> anyhow::Result<()> {
        Err(failure(Code::Usage, Self::KEPT.unwrap_or("it is kept")))
    }

    /// Removes one resource that is being deleted, by its id, without waiting for others.
    async fn force_delete(_client: &Client, _id: &str, _comment: &str) -> anyhow::Result<()> {
        Err(failure(Code::Usage, "only clusters and nodepools are deleted by force"))
    }

    /// Its state, where that is all it can be selected by.
    fn state(&self) -> Option<&str> {
        None
    }

    /// A field and its value that select this resource, and few others.
    fn selector(&self) -> Option<String> {
        None
    }

    /// What people call it.
    fn title(&self) -> &str {
        self.id()
    }

    /// Returns the run that is explained together with it.
    fn run(&self) -> Option<&str> {
        None
    }

    /// Writes one resource by itself.
    async fn print_one(_client: &Client, shape: &Shape, item: &Self) -> anyhow::Result<()> {
        print_one(shape, item)
    }

    /// Returns the effects of a resource on other systems, also of a deleted one; none for a kind without effects.
    async fn effects(_client: &Client, _id: &str) -> Result<Option<Vec<EffectProgress>>, client::Error> {
        Ok(None)
    }

    /// Writes details for which the columns have no room.
    async fn print_details(&self, _client: &Client, _said: &mut Said) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Returns the resource that is called so.
pub(crate) async fn find<T: Resource>(client: &Client, called: &str, among: Among) -> anyhow::Result<T> {
    T::find(client, &locate::<T>(client, called, among).await?.id).await
}

/// Returns whether a selection covers a resource. Only the server interprets selectors, so this asks it for the selection
/// narrowed to this resource.
pub(crate) async fn is_selected<T: Resource>(
    client: &Client,
    item: &T,
    query: &Query,
) -> anyhow::Result<bool> {
    if let (Some(state), Some(wanted)) = (item.state(), &query.state) {
        return Ok(state == wanted);
    }
    let Some(selector) = item.selector().filter(|_| *query != Query::default()) else { return Ok(true) };
    // The server uses the last of repeated fields: the one that the caller gave wins.
    let fields = match &query.field_selector {
        Some(fields) => format!("{selector},{fields}"),
        None => selector,
    };
    let page = T::page(client, &Query { field_selector: Some(fields), ..query.clone() }).await?;
    Ok(page.data.iter().any(|found| found.id() == item.id()))
}

/// The columns up to a level.
pub(crate) fn columns<T: View>(level: Level) -> impl Iterator<Item = &'static Column<T>> {
    T::COLUMNS.iter().filter(move |column| column.level <= level)
}

#[cfg(test)]
mod tests {
    use wardroom_core::{Named, gpu_node, node, run, satellite};

    use super::View;

    /// Columns of a watched list are wide enough for states that appear later.
    #[test]
    fn every_state_has_its_room_in_what_is_watched() {
        fn check<T: View, S: Named>() {
            let at = T::COLUMNS.iter().position(|column| column.head == "STATE").unwrap();
            let longest = S::ALL.iter().map(|state| state.as_str().len()).max();
            assert!(T::USUAL.get(at).copied() >= longest, "{longest:?}");
        }
        check::<wardroom_api::node::Node, node::State>();
        check::<wardroom_api::gpu_node::GpuNode, gpu_node::State>();
        check::<wardroom_api::run::Run, run::State>();
        check::<wardroom_api::satellite::Satellite, satellite::State>();
    }
}
