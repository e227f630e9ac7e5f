//! `wardroom get`.

use std::collections::BTreeMap;

use clap::{Args, builder::NonEmptyStringValueParser};
use wardroom_api::client::{self, Client, Query};

use crate::{
    connection::Connection,
    exit::{Code, failure},
    follow::{self, Follower},
    kind::{Kind, with_type},
    locate::{Among, Target},
    output,
    select::Selection,
    view::{Gone, Mode, Printer, Resource, Shape, find, is_selected},
};

/// Most that one request asks for.
const PAGE: usize = 500;

/// Lists resources, or shows one.
#[derive(Args)]
pub(crate) struct Get {
    /// The kind; singular and short names work too (node, no, gpu, sat, …).
    #[arg(value_enum)]
    kind: Kind,
    /// Its name, its id or the start of its id; of a node also its MAC, of a run the name of its node.
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,
    #[command(flatten)]
    selection: Selection,
    /// Show at most this many; default: all.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// List deleted nodes, GPU nodes or satellites instead, for operators, auditors and administrators; with a name, also show
    /// the deleted one that had it last.
    #[arg(long, conflicts_with = "watch")]
    deleted: bool,
    /// Then show every change as it happens; in json and yaml a deleted resource is an id with "deleted": true, and one
    /// that is no longer selected an id with "left_selection": true.
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    connection: Connection,
}

impl Get {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let client = self.connection.client()?;
        with_type!(self.kind, T => self.show::<T>(&client).await)
    }

    async fn show<T: Resource>(&self, client: &Client) -> anyhow::Result<()> {
        self.selection.check::<T>()?;
        if !self.selection.is_empty() && self.name.is_some() {
            return Err(failure(Code::Usage, "give a name or selectors, not both"));
        }
        if self.deleted && !T::LISTED_DELETED {
            let message = "only nodes, gpu-nodes and satellites have a list of deleted ones; `wardroom history KIND NAME` \
                           shows what became of any other resource";
            return Err(failure(Code::Usage, message));
        }
        if self.watch {
            return self.watch::<T>(client).await;
        }
        match &self.name {
            Some(id) if self.deleted => {
                T::print_one(client, self.shape, &find::<T>(client, id, Among::All).await?).await
            }
            Some(id) => T::print_one(client, self.shape, &find::<T>(client, id, Among::Living).await?).await,
            None => Printer::start(self.shape, Mode::Whole, &self.list::<T>(client).await?).map(drop),
        }
    }

    async fn list<T: Resource>(&self, client: &Client) -> anyhow::Result<Vec<T>> {
        let most = self.limit.map_or(usize::MAX, |limit| limit as usize);
        let query = Query { deleted: self.deleted, ..self.selection.query() };
        list(client, &query, most).await
    }

    /// The cursor of the feed is fetched before the list: a change in between is shown twice, never missed.
    async fn watch<T: Resource>(&self, client: &Client) -> anyhow::Result<()> {
        let mut follower = Follower::start(client, None).await?;
        let items: Vec<T> = match &self.name {
            Some(name) => vec![find(client, name, Among::Living).await?],
            None => self.list(client).await?,
        };
        let mut printer = Printer::start(self.shape, Mode::Stream, &items)?;
        let only = self.name.as_ref().and(items.first()).map(|item| item.id().to_owned());
        let mut shown: Shown =
            items.iter().map(|item| (item.id().to_owned(), item.title().to_owned())).collect();
        loop {
            let row = output::while_read(follower.next()).await?;
            let is_wanted = only.as_ref().is_none_or(|id| *id == row.resource_id);
            if row.kind == T::KIND.as_str() && is_wanted {
                self.changed::<T>(client, &mut printer, &mut shown, &row.resource_id).await?;
            }
        }
    }

    /// Shows one resource as it is now, and retries while the server is away.
    async fn changed<T: Resource>(
        &self,
        client: &Client,
        printer: &mut Printer,
        shown: &mut Shown,
        id: &str,
    ) -> anyhow::Result<()> {
        loop {
            match self.selected::<T>(client, id).await {
                Ok(Now::Selected(item)) => {
                    shown.insert(id.to_owned(), item.title().to_owned());
                    return printer.add(&item);
                }
                Ok(Now::Left) => {
                    let Some(name) = shown.remove(id) else { return Ok(()) };
                    return printer.gone(T::KIND, &Target { id: id.to_owned(), name }, Gone::Left);
                }
                Ok(Now::Deleted) => return self.deleted::<T>(printer, shown, id),
                Err(error) => match error.downcast_ref::<client::Error>() {
                    Some(refused) if refused.is_not_found() => {
                        return self.deleted::<T>(printer, shown, id);
                    }
                    Some(refused) if follow::is_passing(refused) => {}
                    Some(_) | None => return Err(error),
                },
            }
            tokio::time::sleep(follow::SHORTEST).await;
        }
    }

    /// Shows a deletion; with a selection, only that of a selected resource.
    fn deleted<T: Resource>(&self, printer: &mut Printer, shown: &mut Shown, id: &str) -> anyhow::Result<()> {
        let name = shown.remove(id);
        if name.is_some() || self.selection.is_empty() {
            let name = name.unwrap_or_else(|| id.to_owned());
            return printer.gone(T::KIND, &Target { id: id.to_owned(), name }, Gone::Deleted);
        }
        Ok(())
    }

    async fn selected<T: Resource>(&self, client: &Client, id: &str) -> anyhow::Result<Now<T>> {
        let item = T::find(client, id).await?;
        if item.is_deleted() {
            return Ok(Now::Deleted);
        }
        let is_selected = is_selected(client, &item, &self.selection.query()).await?;
        Ok(if is_selected { Now::Selected(item) } else { Now::Left })
    }
}

/// The names of the resources that are shown, by their ids.
type Shown = BTreeMap<String, String>;

/// A resource of a watched list after a change.
enum Now<T> {
    Selected(T),
    Left,
    Deleted,
}

/// Returns the resources that a query selects, up to a limit.
pub(crate) async fn list<T: Resource>(client: &Client, query: &Query, most: usize) -> anyhow::Result<Vec<T>> {
    let mut query = query.clone();
    let mut items = Vec::new();
    loop {
        query.limit = Some(PAGE.min(most - items.len()));
        let page = T::page(client, &query).await?;
        items.extend(page.data);
        if page.next.is_none() || items.len() >= most {
            return Ok(items);
        }
        query.cursor = page.next;
    }
}
