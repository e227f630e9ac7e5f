//! Why an adapter is as it is: what waits for it, what it said last, and what it is silent about.

use wardroom_api::adapter::{Adapter, Concern};
use wardroom_core::{
    cluster::adapter::{self, NEW_TOKEN, Standing},
    why::{Blocker, Next, Why},
};

use super::list::find;
use crate::platform::{app::App, http::error::Error, identity::token};

/// Explains a required adapter.
pub(in crate::kinds::cluster) async fn adapter(app: &App, name: &str) -> Result<Vec<Why>, Error> {
    let found = find(app, name).await?;
    let mut why = explained(&found);
    if why.state == Standing::Silent.as_str()
        && let Some(blocker) = without_token(app, name).await?
    {
        why.next = blocker.fix.clone().map_or(why.next, Next::Call);
        why.blockers.push(blocker);
    }
    Ok(vec![why])
}

/// A blocker for an adapter whose own tokens are all revoked or expired. One without a token of its own uses another's.
async fn without_token(app: &App, name: &str) -> Result<Option<Blocker>, Error> {
    let own = token::of_adapter(app, name).await?;
    let Some(last) = own.last().filter(|_| own.iter().all(|token| token.state != "active")) else {
        return Ok(None);
    };
    let taken = |new: &String| own.iter().any(|token| token.name == *new);
    let new = (2..).map(|number| format!("{name}-{number}")).find(|new| !taken(new)).unwrap_or_default();
    let what = format!("no valid token is bound to it: {} is {}", last.name, last.state);
    Ok(Some(Blocker { what: what.into(), fix: Some(NEW_TOKEN.of(&new).with("adapter", name.to_owned())) }))
}

fn explained(adapter: &Adapter) -> Why {
    let standing = adapter.state.parse().unwrap_or(Standing::Idle);
    if standing == Standing::Silent {
        let mut why = adapter::why(&adapter.name, standing, silent(adapter));
        why.since = adapter.silent.examples.iter().filter_map(|one| one.since).min();
        return why;
    }
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

/// What it is silent about, in one sentence: all of it has one cause.
fn silent(adapter: &Adapter) -> String {
    let Concern { count, or_more, examples } = &adapter.silent;
    let named = examples.iter().map(|one| format!("{} {}", one.kind, one.name)).collect::<Vec<_>>();
    let more = if *or_more || u64::try_from(named.len()).unwrap_or(u64::MAX) < *count { ", …" } else { "" };
    let what = if *count == 1 { "resource" } else { "resources" };
    let at_least = if *or_more { " or more" } else { "" };
    format!("silent about {count}{at_least} {what}: {}{more}; {}", named.join(", "), heard(adapter))
}

fn heard(adapter: &Adapter) -> String {
    let heard = adapter.last_heard.map_or("never heard".to_owned(), |at| format!("last heard {at}"));
    let listens = match adapter.listening {
        0 => "no request of it waits for events on this server",
        _ => "it waits for events on this server",
    };
    format!("{heard}; {listens}")
}

/// What is known of it in one sentence.
fn said(adapter: &Adapter) -> String {
    let count =
        |concern: &Concern| format!("{}{}", concern.count, if concern.or_more { " or more" } else { "" });
    format!(
        "{} wait for it, {} fail, it is silent about {}; {}",
        count(&adapter.waiting),
        count(&adapter.failing),
        count(&adapter.silent),
        heard(adapter)
    )
}
