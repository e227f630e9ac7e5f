//! Why an adapter is as it is: what waits for it, what it said last, and what it is silent about.

use wardroom_api::adapter::{Adapter, Concern};
use wardroom_core::{
    cluster::adapter::{self, Standing},
    why::{Blocker, Why},
};

use super::list::find;
use crate::platform::{app::App, http::error::Error};

/// Explains a required adapter.
pub(in crate::kinds::cluster) async fn adapter(app: &App, name: &str) -> Result<Vec<Why>, Error> {
    Ok(vec![explained(&find(app, name).await?)])
}

fn explained(adapter: &Adapter) -> Why {
    let standing = adapter.state.parse().unwrap_or(Standing::Idle);
    let mut why = adapter::why(&adapter.name, standing, said(adapter));
    let concern = match standing {
        Standing::Silent => &adapter.silent,
        Standing::Failing => &adapter.failing,
        Standing::Working | Standing::Idle => &adapter.waiting,
    };
    why.since = concern.examples.iter().filter_map(|one| one.since).min();
    let of = |one: &wardroom_api::adapter::Concerned| Blocker {
        what: format!("{} {}: {}", one.kind, one.name, one.detail).into(),
        fix: None,
    };
    why.blockers.extend(concern.examples.iter().map(of));
    why
}

/// What is known of it in one sentence.
fn said(adapter: &Adapter) -> String {
    let heard = adapter.last_heard.map_or("never heard".to_owned(), |at| format!("last heard {at}"));
    let count =
        |concern: &Concern| format!("{}{}", concern.count, if concern.or_more { " or more" } else { "" });
    let listens = match adapter.listening {
        0 => "no request of it waits for events on this server",
        _ => "it waits for events on this server",
    };
    format!(
        "{heard}; {} wait for it, {} fail, it is silent about {}; {listens}",
        count(&adapter.waiting),
        count(&adapter.failing),
        count(&adapter.silent)
    )
}
