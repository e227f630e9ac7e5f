//! Makes the SPIRE entries and agent of a satellite match its record.
//!
//! What must stay true: an agent is banned only if it joined with the satellite's own token, because other
//! agents may serve others too. The identity of such an agent contains the token, so it is derived when
//! needed, and neither stored nor shown. Before a new token is created, agents with earlier tokens are shut
//! out, and the record says so: their certificates are refused.

use jiff::Timestamp;
use wardroom_core::satellite::State;
use wardroom_store::{ClaimedEffect, Resource};
use wardroom_upstream::{
    Failure, Secret,
    spire::{Agent, Entry, Id, NewEntry, Selector, Spire},
};

use super::{EffectError, Worker, agents, claim::Permit};
use crate::kinds::satellite::settings::Settings;
use crate::{
    kinds::satellite::{
        document::{Document, Flow, KIND, SpireRecord, basis, state},
        secret,
        spiffe::FIRST,
    },
    platform::{
        app::{App, Decided, by_system},
        http::error::Error,
    },
};

/// The path prefix of agents that joined with a token.
const BY_TOKEN: &str = "/spire/agent/join_token/";

/// How many deleted satellites of a name are checked, newest first.
const PREDECESSORS: i64 = 100;

/// Makes entries, agent and join token of a satellite match its record.
pub(super) async fn fit(worker: &Worker, spire: &Spire, effect: &ClaimedEffect) -> Result<(), EffectError> {
    let (app, id) = (&worker.app, &*effect.resource_id);
    let found = app.store.get(KIND, id).await.map_err(Error::from)?;
    let Some(satellite) = found else { return Ok(()) };
    let document = Document::of(&satellite)?;
    let (Flow::Spiffe, Some(identity)) = (document.flow, document.spiffe_id.as_deref()) else {
        return Ok(());
    };
    let identity = parse(identity)?;
    let (permit, domain) = (&Permit::of(worker, effect, &satellite, basis)?, &*identity.trust_domain);
    let node = Node { app, spire, permit, satellite: &satellite, document: &document, domain };
    if satellite.content.deleted {
        node.withdraw(&identity).await?;
        return node.forget_agents(None).await;
    }
    match state(&satellite)? {
        State::Revoked => {
            node.withdraw(&identity).await?;
            node.ban().await?;
            node.record(|_, known| known.entry_ids.clear()).await
        }
        State::Pending | State::Online | State::Stale => node.admit(&identity).await,
    }
}

/// A satellite and the node it is on.
struct Node<'a> {
    app: &'a App,
    /// For reads only; writes need the claim first.
    spire: &'a Spire,
    permit: &'a Permit<'a>,
    satellite: &'a Resource,
    document: &'a Document,
    domain: &'a str,
}

impl Node<'_> {
    /// Whether the agent joins with our token, and so serves this satellite alone.
    fn joins(&self) -> bool {
        self.document.has_own_agent(&self.satellite.content.name)
    }

    /// The agent that the request named, if any.
    fn given_parent(&self) -> Option<&str> {
        let alias = self.alias().to_string();
        self.document.parent_agent_id.as_deref().filter(|parent| *parent != alias)
    }

    /// The alias of the agent, which does not change with its token.
    fn alias(&self) -> Id {
        self.id(format!("/agent/{}", self.satellite.content.name))
    }

    fn id(&self, path: String) -> Id {
        Id { trust_domain: self.domain.to_owned(), path }
    }

    fn token(&self, epoch: u64) -> Secret {
        Secret::new(secret::join_token(&self.app.key, &self.satellite.content.id, epoch))
    }

    /// The identity of the agent that joined with the token of an epoch.
    fn agent(&self, epoch: u64) -> Id {
        self.id(format!("{BY_TOKEN}{}", self.token(epoch).expose()))
    }

    /// Returns SPIRE for one write, after checking the claim.
    async fn to_write(&self) -> Result<&Spire, EffectError> {
        self.permit.to(self.spire).await
    }

    async fn delete_entries(&self, ids: &[String]) -> Result<(), EffectError> {
        if ids.is_empty() { Ok(()) } else { Ok(self.to_write().await?.delete_entries(ids).await?) }
    }

    fn known_epoch(&self) -> Option<u64> {
        self.document.spire.as_ref().and_then(|known| known.join_token_epoch)
    }

    /// Admits the satellite: its agent can join and issues its identity.
    async fn admit(&self, identity: &Id) -> Result<(), EffectError> {
        let joining = if self.joins() { Some(self.join().await?) } else { None };
        let (alias, epoch) = joining.unzip();
        let parent = match &alias {
            Some(alias) => alias.id.clone(),
            None => self.vouching_agent().await?,
        };
        let selectors = self.document.selectors.iter().filter_map(|text| selector(text)).collect();
        let x509_ttl = Settings::of(&self.app.config)
            .spire
            .as_ref()
            .map_or(0, |spire| spire.svid_ttl_seconds.unsigned_abs());
        let wanted = NewEntry { id: identity.clone(), parent, selectors, x509_ttl };
        let entry = self.entry(&wanted).await?;
        self.record(|_, known| {
            known.agent_id = Some(wanted.parent.to_string()).filter(|_| !self.joins());
            known.entry_ids = [Some(&entry), alias.as_ref()]
                .into_iter()
                .flatten()
                .map(|entry| entry.entry_id.clone())
                .collect();
            known.join_token_epoch = epoch;
        })
        .await
    }

    /// The token of the newest epoch, and the alias of the agent that joins with it.
    async fn join(&self) -> Result<(Entry, u64), EffectError> {
        let epoch = self.document.epoch;
        if self.known_epoch() != Some(epoch) {
            self.shut_out().await?;
            let ends = self.document.registration.as_ref().map(|registration| registration.expires_at);
            let left = ends.unwrap_or(Timestamp::UNIX_EPOCH).duration_since(self.app.now());
            let left = std::time::Duration::try_from(left).unwrap_or_default();
            // An expired token is useless but harmless.
            if !left.is_zero() && !self.has_joined(epoch).await? {
                self.to_write().await?.ensure_join_token(&self.token(epoch), left).await?;
            }
        }
        self.take_alias().await?;
        let agent = self.agent(epoch);
        let by_agent = Selector { kind: "spiffe_id".to_owned(), value: agent.to_string() };
        let alias = NewEntry { id: self.alias(), parent: agent, selectors: vec![by_agent], x509_ttl: 0 };
        Ok((self.entry(&alias).await?, epoch))
    }

    /// Shuts out agents with earlier tokens, and unused tokens; banned agents are removed too. Certificates
    /// that SPIRE issued to them until now become void. This is recorded once, before the new token is
    /// created, so that certificates of the new agent are later.
    async fn shut_out(&self) -> Result<(), EffectError> {
        let epoch = self.document.epoch;
        let is_done = |known: &SpireRecord| known.shut_out_before == Some(epoch);
        let was_reissued = self.document.svid_after.is_some();
        if !was_reissued || self.document.spire.as_ref().is_some_and(is_done) {
            return Ok(());
        }
        self.delete_entries(&self.own_aliases().await?).await?;
        self.forget_agents(Some(epoch)).await?;
        let now = self.app.now();
        self.record(|document, known| {
            if !is_done(known) {
                known.shut_out_before = Some(epoch);
                // A registered satellite has shown a valid certificate already.
                document.svid_after = document.svid_after.max(Some(now).filter(|_| self.waits()));
            }
        })
        .await
    }

    /// Whether the satellite has yet to register.
    fn waits(&self) -> bool {
        self.document.credential.is_none()
    }

    /// Removes the alias from the agents of deleted satellites with this name. Their deletion may reach SPIRE
    /// later, and until then they would get this satellite's identity. No other living satellite has the
    /// name. Entries made elsewhere stay; a person has to check them.
    async fn take_alias(&self) -> Result<(), EffectError> {
        let mut aliases = self.spire.entries_of(&self.alias()).await?;
        aliases.retain(|entry| !self.is_ours(entry));
        if aliases.is_empty() {
            return Ok(());
        }
        let (store, name) = (&self.app.store, &self.satellite.content.name);
        let gone = store.deleted(KIND, name, PREDECESSORS).await.map_err(Error::from)?;
        let mut left = Vec::new();
        for satellite in &store.get_all(KIND, &gone).await.map_err(Error::from)? {
            let document = &Document::of(satellite)?;
            let before = Node { satellite, document, ..*self };
            left.extend(aliases.extract_if(.., |entry| before.is_ours(entry)).map(|entry| entry.entry_id));
        }
        for entry in aliases {
            // Its parent may contain a token, so it is not logged.
            let entry = entry.entry_id;
            tracing::warn!(
                satellite = name,
                entry,
                "a SPIRE entry that Wardroom did not create has the alias of the satellite's agent; it is not changed: check it in SPIRE"
            );
        }
        self.delete_entries(&left).await
    }

    /// Returns the agent that the request named, or one whose certificate names the satellite, preferably the
    /// current one. A node with a new certificate joins as another agent.
    async fn vouching_agent(&self) -> Result<Id, EffectError> {
        if let Some(parent) = self.given_parent() {
            return parse(parent);
        }
        let agents =
            self.spire.agents_by(agents::METHOD, &[agents::named(&self.satellite.content.name)]).await?;
        let known = self.document.spire.as_ref().and_then(|known| known.agent_id.as_deref());
        agents::best(agents.iter(), known, self.app.now())
            .map(|agent| agent.id.clone())
            .ok_or(EffectError::Waiting("has no agent yet whose certificate names the satellite"))
    }

    /// Creates or corrects the entry for the identity, and removes our other ones. Entries made elsewhere
    /// stay.
    async fn entry(&self, wanted: &NewEntry) -> Result<Entry, EffectError> {
        let mut there = self.spire.entries_of(&wanted.id).await?;
        let is_so = |entry: &Entry| {
            let (mut left, mut right) = (entry.selectors.clone(), wanted.selectors.clone());
            left.sort();
            right.sort();
            let lives_as_long = entry.x509_ttl == wanted.x509_ttl || !self.is_ours(entry);
            entry.parent == wanted.parent && left == right && lives_as_long
        };
        let right = there.iter().position(is_so).map(|at| there.swap_remove(at));
        there.retain(|entry| self.is_ours(entry));
        let others: Vec<_> = there.into_iter().map(|entry| entry.entry_id).collect();
        self.delete_entries(&others).await?;
        match right {
            Some(entry) => Ok(entry),
            None => Ok(self.to_write().await?.create_entry(wanted).await?),
        }
    }

    /// Whether Wardroom created an entry: it is recorded, or its parent joined with our token.
    fn is_ours(&self, entry: &Entry) -> bool {
        let on_record =
            self.document.spire.as_ref().is_some_and(|known| known.entry_ids.contains(&entry.entry_id));
        on_record
            || (entry.id == self.alias()
                && (0..=self.document.epoch).any(|epoch| self.agent(epoch) == entry.parent))
    }

    /// Withdraws the identity from all agents. It was claimed for ever, so all its entries are removed; the
    /// alias stays if another satellite of this name has it now.
    async fn withdraw(&self, identity: &Id) -> Result<(), EffectError> {
        let entries = self.spire.entries_of(identity).await?;
        let mut ids: Vec<_> = entries.into_iter().map(|entry| entry.entry_id).collect();
        if self.joins() {
            ids.extend(self.own_aliases().await?);
        }
        self.delete_entries(&ids).await
    }

    /// Returns the aliases of agents that join with our tokens.
    async fn own_aliases(&self) -> Result<Vec<String>, EffectError> {
        let aliases = self.spire.entries_of(&self.alias()).await?;
        Ok(aliases.into_iter().filter(|entry| self.is_ours(entry)).map(|entry| entry.entry_id).collect())
    }

    /// Bans the agents that joined. An unused token is useless without entries.
    async fn ban(&self) -> Result<(), EffectError> {
        if !self.joins() {
            return Ok(());
        }
        for epoch in self.epochs() {
            if let Some(agent) = self.joined(epoch).await?.filter(|agent| !agent.is_banned) {
                self.to_write().await?.ban_agent(&agent.id).await?;
            }
        }
        Ok(())
    }

    /// The epochs whose token an agent may have joined with: from the recorded one to the newest, because a
    /// token may reach SPIRE before it is recorded.
    fn epochs(&self) -> std::ops::RangeInclusive<u64> {
        self.known_epoch().unwrap_or(FIRST)..=self.document.epoch
    }

    /// The agent that joined with the token of an epoch.
    async fn joined(&self, epoch: u64) -> Result<Option<Agent>, EffectError> {
        Ok(self.spire.agent(&self.agent(epoch)).await?)
    }

    /// Whether the token was used: SPIRE forgets used tokens, and one created again would work again.
    async fn has_joined(&self, epoch: u64) -> Result<bool, EffectError> {
        Ok(self.joined(epoch).await?.is_some())
    }

    /// Forgets the agents of all tokens but that of one epoch.
    async fn forget_agents(&self, but: Option<u64>) -> Result<(), EffectError> {
        if !self.joins() {
            return Ok(());
        }
        for epoch in self.epochs().filter(|epoch| Some(*epoch) != but) {
            self.to_write().await?.delete_agent(&self.agent(epoch)).await?;
        }
        Ok(())
    }

    /// Stores the state of SPIRE in the record. Changes for an earlier epoch have to be repeated.
    async fn record(&self, change: impl Fn(&mut Document, &mut SpireRecord)) -> Result<(), EffectError> {
        let recorded = self.app.change(KIND, &self.satellite.content.id, |satellite| {
            let mut document = Document::of(satellite)?;
            if document.epoch != self.document.epoch {
                return Ok(Decided::Nothing(false));
            }
            let before = document.clone();
            let mut known = document.spire.take().unwrap_or_default();
            change(&mut document, &mut known);
            let told = serde_json::json!({"type": "spire_entry", "entries": known.entry_ids.len()});
            document.spire = Some(known);
            if document == before {
                return Ok(Decided::Nothing(true));
            }
            let content = document.into_content_of(satellite, state(satellite)?)?;
            Ok(Decided::Commit(Box::new((content, by_system(self.app, "effect", told))), true))
        });
        match recorded.await {
            Ok((_, false)) => Err(EffectError::Changed),
            // Deleted meanwhile; the deletion has its own effect.
            Ok((_, true)) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn parse(id: &str) -> Result<Id, EffectError> {
    id.parse().map_err(|_| Failure::Setup("the record holds no SPIFFE ID".to_owned()).into())
}

fn selector(text: &str) -> Option<Selector> {
    text.split_once(':').map(|(kind, value)| Selector { kind: kind.to_owned(), value: value.to_owned() })
}

/// Removes join tokens, which are part of agents' identities, from an error.
pub(super) fn scrub(text: &str) -> String {
    const MARK: &str = "join_token/";
    let Some((before, after)) = text.split_once(MARK) else { return text.to_owned() };
    let end = after.find(|c: char| !c.is_ascii_hexdigit() && c != '-').unwrap_or(after.len());
    format!("{before}{MARK}…{}", scrub(&after[end..]))
}
