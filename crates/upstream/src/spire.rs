//! The SPIRE server, over its gRPC API: join tokens, entries, agents and the trust bundle.
//!
//! It retries nothing. Creating twice finds the first, and deleting twice succeeds; only a join token is a
//! new one each time, so create it last.

use std::{fmt, future::Future, time::Duration};

use tonic::{Request, Response, Status, transport::Channel};
use wardroom_spire_proto::{
    agent::{self, agent_client::AgentClient},
    bundle::{GetBundleRequest, bundle_client::BundleClient},
    entry::{self, entry_client::EntryClient},
    types,
};

use crate::{Failure, Secret};

mod connect;
mod failure;
mod id;
mod join;

pub use connect::{Endpoint, Tls};
pub use id::{Id, NotAnId};

/// The default time limit for an answer.
const ANSWER: Duration = Duration::from_secs(15);

/// Entries or agents that one page is asked for.
const PAGE: i32 = 500;

/// How many entries or agents a list may have.
const MOST: usize = 100_000;

/// A client of one SPIRE server.
#[derive(Clone)]
pub struct Spire {
    channel: Channel,
    timeout: Duration,
}

impl fmt::Debug for Spire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spire").finish_non_exhaustive()
    }
}

/// A token with which a node joins once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinToken {
    /// The token.
    pub value: Secret,
    /// When it is void, in seconds since 1970.
    pub expires_at: i64,
}

impl JoinToken {
    /// The identity that the node gets which joins with it. It holds the token, which is void from then on.
    #[must_use]
    pub fn agent(&self, trust_domain: &str) -> Id {
        let path = format!("/spire/agent/join_token/{}", self.value.expose());
        Id { trust_domain: trust_domain.to_owned(), path }
    }
}

/// A kind of thing and a value, such as `unix` and `uid:0`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selector {
    /// The kind.
    pub kind: String,
    /// The value.
    pub value: String,
}

/// A workload that is to have an identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntry {
    /// The identity.
    pub id: Id,
    /// Of the agent that hands it out.
    pub parent: Id,
    /// How the agent recognises the workload; never empty.
    pub selectors: Vec<Selector>,
    /// How long a certificate lives, in seconds; the server's default when 0. A certificate cannot be called back.
    pub x509_ttl: u32,
}

/// An entry as the server has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The id to delete it by.
    pub entry_id: String,
    /// The identity.
    pub id: Id,
    /// Of the agent that hands it out.
    pub parent: Id,
    /// How the agent recognises the workload.
    pub selectors: Vec<Selector>,
    /// How long a certificate lives, in seconds; the server's default when 0.
    pub x509_ttl: u32,
}

/// A node that joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Its real identity, by which it is banned and deleted; an alias does not do.
    pub id: Id,
    /// How it joined, such as `join_token`.
    pub attestation: String,
    /// Its selectors.
    pub selectors: Vec<Selector>,
    /// When its certificate ends, in seconds since 1970.
    pub expires_at: i64,
    /// Whether it is locked out.
    pub is_banned: bool,
}

/// The roots for certificates of a trust domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// The trust domain.
    pub trust_domain: String,
    /// Its roots, as DER.
    pub roots: Vec<Vec<u8>>,
    /// Grows with every change.
    pub sequence: u64,
}

impl Spire {
    /// Makes a client; it connects when it is first asked for something, and again whenever the connection is lost.
    ///
    /// # Errors
    /// [`Failure::Setup`] when the endpoint cannot be used.
    pub fn new(endpoint: &Endpoint, timeout: Option<Duration>) -> Result<Self, Failure> {
        Ok(Self { channel: endpoint.channel()?, timeout: timeout.unwrap_or(ANSWER) })
    }

    /// Makes a join token. With `alias`, a node that joins with it also gets this identity, by an entry that is made along.
    ///
    /// # Errors
    /// See [`Failure`]. A token whose answer was lost cannot be found again and is void when its time is over.
    pub async fn create_join_token(&self, ttl: Duration, alias: Option<&Id>) -> Result<JoinToken, Failure> {
        let ttl = i32::try_from(ttl.as_secs().max(1))
            .map_err(|_| Failure::Setup("a join token cannot live for so long".to_owned()))?;
        let request =
            agent::CreateJoinTokenRequest { ttl, token: String::new(), agent_id: alias.map(Into::into) };
        let token = self.answer(self.agents().create_join_token(self.request(request))).await?;
        if token.value.is_empty() {
            return Err(Failure::Unexpected("the token is missing".to_owned()));
        }
        Ok(JoinToken { value: Secret::new(token.value), expires_at: token.expires_at })
    }

    /// Creates an entry, or returns an equal one.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn create_entry(&self, new: &NewEntry) -> Result<Entry, Failure> {
        let ttl = i32::try_from(new.x509_ttl)
            .map_err(|_| Failure::Setup("a certificate cannot live for so long".to_owned()))?;
        let wanted = types::Entry {
            spiffe_id: Some((&new.id).into()),
            parent_id: Some((&new.parent).into()),
            selectors: new.selectors.iter().map(Into::into).collect(),
            x509_svid_ttl: ttl,
            ..types::Entry::default()
        };
        let request = entry::BatchCreateEntryRequest { entries: vec![wanted], output_mask: None };
        let reply = self.answer(self.entries().batch_create_entry(self.request(request))).await?;
        let [result] = <[_; 1]>::try_from(reply.results)
            .map_err(|results| failure::count("entries", 1, results.len()))?;
        failure::item(result.status.as_ref(), &[tonic::Code::AlreadyExists])?;
        let created = result.entry.ok_or_else(|| Failure::Unexpected("the entry is missing".to_owned()))?;
        Entry::try_from(created)
    }

    /// All entries with an identity.
    ///
    /// # Errors
    /// See [`Failure`]; nothing is changed.
    pub async fn entries_of(&self, id: &Id) -> Result<Vec<Entry>, Failure> {
        let filter = entry::list_entries_request::Filter {
            by_spiffe_id: Some(id.into()),
            ..entry::list_entries_request::Filter::default()
        };
        let (mut found, mut page_token) = (Vec::new(), String::new());
        loop {
            let request = entry::ListEntriesRequest {
                filter: Some(filter.clone()),
                output_mask: None,
                page_size: PAGE,
                page_token,
            };
            let page = self.answer(self.entries().list_entries(self.request(request))).await?;
            for entry in page.entries {
                found.push(Entry::try_from(entry)?);
            }
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Ok(found);
            }
            bounded(found.len())?;
        }
    }

    /// Deletes entries; missing ones count as success.
    ///
    /// # Errors
    /// See [`Failure`]; some may be deleted, and doing it again deletes the rest.
    pub async fn delete_entries(&self, entry_ids: &[String]) -> Result<(), Failure> {
        if entry_ids.is_empty() {
            return Ok(());
        }
        let request = entry::BatchDeleteEntryRequest { ids: entry_ids.to_vec() };
        let reply = self.answer(self.entries().batch_delete_entry(self.request(request))).await?;
        if reply.results.len() != entry_ids.len() {
            return Err(failure::count("entries", entry_ids.len(), reply.results.len()));
        }
        reply
            .results
            .iter()
            .try_for_each(|result| failure::item(result.status.as_ref(), &[tonic::Code::NotFound]))
    }

    /// The node that joined with an identity, if it did.
    ///
    /// # Errors
    /// See [`Failure`]; nothing is changed.
    pub async fn agent(&self, id: &Id) -> Result<Option<Agent>, Failure> {
        let request = agent::GetAgentRequest { id: Some(id.into()), output_mask: None };
        match self.answer(self.agents().get_agent(self.request(request))).await {
            Ok(agent) => Agent::try_from(agent).map(Some),
            Err(Failure::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The nodes that joined in one way, such as `x509pop`, and of which all of these are known.
    ///
    /// # Errors
    /// See [`Failure`]; nothing is changed.
    pub async fn agents_by(&self, attestation: &str, selectors: &[Selector]) -> Result<Vec<Agent>, Failure> {
        let known = types::SelectorMatch {
            selectors: selectors.iter().map(Into::into).collect(),
            r#match: types::selector_match::MatchBehavior::MatchSuperset.into(),
        };
        let filter = agent::list_agents_request::Filter {
            by_attestation_type: attestation.to_owned(),
            by_selector_match: (!selectors.is_empty()).then_some(known),
            ..agent::list_agents_request::Filter::default()
        };
        let (mut found, mut page_token) = (Vec::new(), String::new());
        loop {
            let request = agent::ListAgentsRequest {
                filter: Some(filter.clone()),
                output_mask: None,
                page_size: PAGE,
                page_token,
            };
            let page = self.answer(self.agents().list_agents(self.request(request))).await?;
            for agent in page.agents {
                found.push(Agent::try_from(agent)?);
            }
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Ok(found);
            }
            bounded(found.len())?;
        }
    }

    /// Locks a node out, by its real identity. Only [`delete_agent`](Self::delete_agent) lifts it.
    ///
    /// # Errors
    /// [`Failure::NotFound`] when no such node joined; else see [`Failure`].
    pub async fn ban_agent(&self, id: &Id) -> Result<(), Failure> {
        let request = agent::BanAgentRequest { id: Some(id.into()) };
        self.answer(self.agents().ban_agent(self.request(request))).await
    }

    /// Deletes an agent, and its ban; a missing one counts as success.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn delete_agent(&self, id: &Id) -> Result<(), Failure> {
        let request = agent::DeleteAgentRequest { id: Some(id.into()) };
        match self.answer(self.agents().delete_agent(self.request(request))).await {
            Err(Failure::NotFound) => Ok(()),
            other => other,
        }
    }

    /// The roots of the server's trust domain.
    ///
    /// # Errors
    /// See [`Failure`]; nothing is changed.
    pub async fn bundle(&self) -> Result<Bundle, Failure> {
        let request = self.request(GetBundleRequest { output_mask: None });
        let bundle = self.answer(BundleClient::new(self.channel.clone()).get_bundle(request)).await?;
        Ok(Bundle {
            trust_domain: bundle.trust_domain,
            roots: bundle.x509_authorities.into_iter().map(|root| root.asn1).collect(),
            sequence: bundle.sequence_number,
        })
    }

    fn agents(&self) -> AgentClient<Channel> {
        AgentClient::new(self.channel.clone())
    }

    fn entries(&self) -> EntryClient<Channel> {
        EntryClient::new(self.channel.clone())
    }

    /// A request with a deadline, after which the server may give up too.
    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(self.timeout);
        request
    }

    async fn answer<T>(&self, call: impl Future<Output = Result<Response<T>, Status>>) -> Result<T, Failure> {
        match tokio::time::timeout(self.timeout, call).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(failure::of(&status)),
            Err(_) => Err(Failure::Ambiguous("not in time".to_owned())),
        }
    }
}

/// A list that never ends would be read forever.
fn bounded(count: usize) -> Result<(), Failure> {
    if count < MOST { Ok(()) } else { Err(Failure::Unexpected(format!("a list of more than {MOST}"))) }
}

impl From<&Selector> for types::Selector {
    fn from(selector: &Selector) -> Self {
        Self { r#type: selector.kind.clone(), value: selector.value.clone() }
    }
}

impl From<types::Selector> for Selector {
    fn from(selector: types::Selector) -> Self {
        Self { kind: selector.r#type, value: selector.value }
    }
}

impl TryFrom<types::Entry> for Entry {
    type Error = Failure;

    fn try_from(entry: types::Entry) -> Result<Self, Failure> {
        if entry.id.is_empty() {
            return Err(Failure::Unexpected("an entry without an id".to_owned()));
        }
        Ok(Self {
            entry_id: entry.id,
            id: entry.spiffe_id.try_into()?,
            parent: entry.parent_id.try_into()?,
            selectors: entry.selectors.into_iter().map(Into::into).collect(),
            x509_ttl: u32::try_from(entry.x509_svid_ttl).unwrap_or(0),
        })
    }
}

impl TryFrom<types::Agent> for Agent {
    type Error = Failure;

    fn try_from(agent: types::Agent) -> Result<Self, Failure> {
        Ok(Self {
            id: agent.id.try_into()?,
            attestation: agent.attestation_type,
            selectors: agent.selectors.into_iter().map(Into::into).collect(),
            expires_at: agent.x509svid_expires_at,
            is_banned: agent.banned,
        })
    }
}
