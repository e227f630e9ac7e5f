//! `wardroom get`.

use std::{collections::BTreeMap, marker::PhantomData};

use clap::{Args, builder::NonEmptyStringValueParser};
use wardroom_api::client::{self, Client, Query};

use crate::{
    connection::Connection,
    exit::{Code, failure},
    follow::{self, Follower},
    format::Path,
    kind::{Kind, with_type},
    locate::{Among, Target},
    output,
    select::Selection,
    sort,
    view::{Event, Gone, Mode, Printer, Resource, Shape, find, is_selected},
};

mod attention;

/// The most in the first page, which is shown soon, and in every other.
const FIRST: usize = 100;
const PAGE: usize = 500;

/// Lists resources, or shows one.
#[derive(Args)]
pub(crate) struct Get {
    /// The kind; singular and short names work too (node, no, gpu, sat, …).
    #[arg(value_enum, required_unless_present = "needs_attention")]
    kind: Option<Kind>,
    /// Its name, its id or the start of its id; of a node also its MAC, of a run the name of its node.
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,
    #[command(flatten)]
    selection: Selection,
    /// List what needs a person, the longest overdue first: one line for each cause, of KIND or of every kind.
    #[arg(long, conflicts_with_all = ["name", "labels", "fields", "state", "limit", "deleted", "watch", "sort_by"])]
    needs_attention: bool,
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
    /// With --watch, say what happened to each: ADDED, MODIFIED or DELETED.
    #[arg(long, requires = "watch")]
    output_watch_events: bool,
    /// Sort by a field, such as .state_changed_at; nothing is shown before all is there.
    #[arg(long, value_name = "PATH", conflicts_with = "watch", value_parser = Path::parse)]
    sort_by: Option<Path>,
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    connection: Connection,
}

impl Get {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let client = self.connection.client()?;
        match self.kind {
            Some(kind) if !self.needs_attention => with_type!(kind, T => self.show::<T>(&client).await),
            kind => attention::show(&client, kind, &self.shape).await,
        }
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
                T::print_one(client, &self.shape, &find::<T>(client, id, Among::All).await?).await
            }
            Some(id) => T::print_one(client, &self.shape, &find::<T>(client, id, Among::Living).await?).await,
            None => self.list::<T>(client).await,
        }
    }

    fn query(&self) -> Query {
        Query { deleted: self.deleted, ..self.selection.query() }
    }

    /// Writes a list page by page; a sorted one as a whole.
    async fn list<T: Resource>(&self, client: &Client) -> anyhow::Result<()> {
        let most = self.limit.map_or(usize::MAX, |limit| limit as usize);
        let mut printer = Printer::new(&self.shape, Mode::Whole);
        if let Some(path) = &self.sort_by {
            let mut items: Vec<T> = list(client, &self.query(), usize::MAX).await?;
            sort::by(path, &mut items)?;
            items.truncate(most);
            printer.page(&items)?;
        } else {
            let mut pages = Pages::<T>::of(client, self.query(), most);
            while let Some(page) = output::while_read(pages.next()).await? {
                printer.page(&page)?;
            }
        }
        printer.end()
    }

    /// The cursor of the feed is fetched before the list: a change in between is shown twice, never missed.
    async fn watch<T: Resource>(&self, client: &Client) -> anyhow::Result<()> {
        let mut follower = Follower::start(client, None).await?;
        let mut printer = Printer::new(&self.shape, Mode::Stream).with_events(self.output_watch_events);
        let (mut shown, mut only) = (Watched::new(), None);
        let mut show = |printer: &mut Printer, items: &[T]| {
            shown.extend(items.iter().map(|item| (item.id().to_owned(), item.title().to_owned())));
            printer.page(items)
        };
        if let Some(name) = &self.name {
            let item: T = find(client, name, Among::Living).await?;
            only = Some(item.id().to_owned());
            show(&mut printer, std::slice::from_ref(&item))?;
        } else {
            let most = self.limit.map_or(usize::MAX, |limit| limit as usize);
            let mut pages = Pages::<T>::of(client, self.query(), most);
            while let Some(page) = output::while_read(pages.next()).await? {
                show(&mut printer, &page)?;
            }
        }
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
        shown: &mut Watched,
        id: &str,
    ) -> anyhow::Result<()> {
        loop {
            match self.selected::<T>(client, id).await {
                Ok(Now::Selected(item)) => {
                    let known = shown.insert(id.to_owned(), item.title().to_owned());
                    let event = if known.is_some() { Event::Modified } else { Event::Added };
                    return printer.add(&item, event);
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
    fn deleted<T: Resource>(
        &self,
        printer: &mut Printer,
        shown: &mut Watched,
        id: &str,
    ) -> anyhow::Result<()> {
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
type Watched = BTreeMap<String, String>;

/// A resource of a watched list after a change.
enum Now<T> {
    Selected(T),
    Left,
    Deleted,
}

/// Returns the resources that a query selects, up to a limit.
pub(crate) async fn list<T: Resource>(client: &Client, query: &Query, most: usize) -> anyhow::Result<Vec<T>> {
    let mut pages = Pages::of(client, query.clone(), most);
    let mut items = Vec::new();
    while let Some(page) = pages.next().await? {
        items.extend(page);
    }
    Ok(items)
}

/// The pages of a list.
struct Pages<T> {
    client: Client,
    query: Option<Query>,
    left: usize,
    size: usize,
    of: PhantomData<T>,
}

impl<T: Resource> Pages<T> {
    fn of(client: &Client, query: Query, most: usize) -> Self {
        Self { client: client.clone(), query: Some(query), left: most, size: FIRST, of: PhantomData }
    }

    /// Returns the next page; an empty list has one.
    async fn next(&mut self) -> anyhow::Result<Option<Vec<T>>> {
        let Some(query) = self.query.take() else { return Ok(None) };
        let limit = Some(self.size.min(self.left));
        let page = T::page(&self.client, &Query { limit, ..query.clone() }).await?;
        self.left = self.left.saturating_sub(page.data.len());
        self.size = PAGE;
        self.query = page.next.filter(|_| self.left > 0).map(|next| Query { cursor: Some(next), ..query });
        Ok(Some(page.data))
    }
}
