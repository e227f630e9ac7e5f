//! Agents and join tokens.

use tonic::{Request, Response, Status, codegen::BoxStream};
use wardroom_spire_proto::{
    agent::{
        AttestAgentRequest, AttestAgentResponse, BanAgentRequest, CountAgentsRequest, CountAgentsResponse,
        CreateJoinTokenRequest, DeleteAgentRequest, GetAgentRequest, ListAgentsRequest, ListAgentsResponse,
        PostStatusRequest, PostStatusResponse, RenewAgentRequest, RenewAgentResponse, agent_server,
        list_agents_request::Filter,
    },
    types,
};

use super::{
    Service, Shared, beyond, page,
    state::{Agent, Entry, Selector, State, text},
};
use crate::fault::{lock, random};

/// The path below which the real identities of agents are.
const AGENTS: &str = "/spire/agent/";

#[tonic::async_trait]
impl agent_server::Agent for Service {
    async fn create_join_token(
        &self,
        request: Request<CreateJoinTokenRequest>,
    ) -> Result<Response<types::JoinToken>, Status> {
        self.0.create_join_token(&request.into_inner()).map(Response::new)
    }

    async fn list_agents(
        &self,
        request: Request<ListAgentsRequest>,
    ) -> Result<Response<ListAgentsResponse>, Status> {
        let request = request.into_inner();
        let found = select(&lock(&self.0.state), &request.filter.unwrap_or_default())?;
        let (found, next_page_token) =
            page(&found, request.page_size, &request.page_token, self.0.options.page)?;
        let agents = found.iter().map(Agent::view).collect();
        Ok(Response::new(ListAgentsResponse { agents, next_page_token }))
    }

    async fn count_agents(
        &self,
        _request: Request<CountAgentsRequest>,
    ) -> Result<Response<CountAgentsResponse>, Status> {
        let count = i32::try_from(lock(&self.0.state).agents.len()).unwrap_or(i32::MAX);
        Ok(Response::new(CountAgentsResponse { count }))
    }

    async fn get_agent(&self, request: Request<GetAgentRequest>) -> Result<Response<types::Agent>, Status> {
        let id = self.0.agent_id(request.into_inner().id.as_ref())?;
        let state = lock(&self.0.state);
        state.agents.get(&id).map(|agent| Response::new(agent.view())).ok_or_else(missing)
    }

    async fn ban_agent(&self, request: Request<BanAgentRequest>) -> Result<Response<()>, Status> {
        let id = self.0.agent_id(request.into_inner().id.as_ref())?;
        self.0.change("agent.ban", |state| {
            state.agents.get_mut(&id).ok_or_else(missing)?.banned = true;
            Ok(Response::new(()))
        })
    }

    async fn delete_agent(&self, request: Request<DeleteAgentRequest>) -> Result<Response<()>, Status> {
        let id = self.0.agent_id(request.into_inner().id.as_ref())?;
        self.0.change("agent.delete", |state| {
            state.agents.remove(&id).map(|_| Response::new(())).ok_or_else(missing)
        })
    }

    type AttestAgentStream = BoxStream<AttestAgentResponse>;

    async fn attest_agent(
        &self,
        _request: Request<tonic::Streaming<AttestAgentRequest>>,
    ) -> Result<Response<Self::AttestAgentStream>, Status> {
        Err(beyond())
    }

    async fn renew_agent(
        &self,
        _request: Request<RenewAgentRequest>,
    ) -> Result<Response<RenewAgentResponse>, Status> {
        Err(beyond())
    }

    async fn post_status(
        &self,
        _request: Request<PostStatusRequest>,
    ) -> Result<Response<PostStatusResponse>, Status> {
        Err(beyond())
    }
}

impl Shared {
    fn create_join_token(&self, request: &CreateJoinTokenRequest) -> Result<types::JoinToken, Status> {
        if request.ttl < 1 {
            return Err(Status::invalid_argument("a token must live for a while"));
        }
        let alias =
            request.agent_id.as_ref().map(|id| text(Some(id), &self.options.trust_domain)).transpose()?;
        if alias.as_ref().is_some_and(|alias| alias.contains(AGENTS)) {
            return Err(Status::invalid_argument("an alias is not below the identities of agents"));
        }
        let now = self.clock.now().as_second();
        let value = if request.token.is_empty() { random(16) } else { request.token.clone() };
        let expires_at = now + i64::from(request.ttl);
        self.change("join_token.create", |state| {
            if state.join_tokens.contains_key(&value) {
                return Err(Status::already_exists("the token exists"));
            }
            state.join_tokens.insert(value.clone(), expires_at);
            Ok(())
        })?;
        if let Some(alias) = alias {
            let real = self.id(&format!("{AGENTS}join_token/{value}"));
            let entry = Entry {
                id: random(16),
                spiffe_id: alias,
                parent_id: real.clone(),
                selectors: vec![Selector("spiffe_id".to_owned(), real)],
                x509_svid_ttl: 0,
                created_at: now,
            };
            // The token is new, so no entry can be equal.
            let _ = self.insert(entry);
        }
        Ok(types::JoinToken { value, expires_at })
    }

    /// Returns the real identity of an agent; an alias is refused.
    pub(super) fn agent_id(&self, id: Option<&types::Spiffeid>) -> Result<String, Status> {
        let id = text(id, &self.options.trust_domain)?;
        let is_real = id.starts_with(&self.id(AGENTS));
        if is_real { Ok(id) } else { Err(Status::invalid_argument("this is no agent's real identity")) }
    }
}

fn missing() -> Status {
    Status::not_found("no such node")
}

fn select(state: &State, filter: &Filter) -> Result<Vec<Agent>, Status> {
    let superset = i32::from(types::selector_match::MatchBehavior::MatchSuperset);
    let known = filter.by_selector_match.as_ref();
    if known.is_some_and(|known| known.r#match != superset || known.selectors.is_empty())
        || filter.by_can_reattest.is_some()
        || !filter.by_expires_before.is_empty()
    {
        return Err(beyond());
    }
    let has = |agent: &Agent, wanted: &types::Selector| {
        agent.selectors.contains(&Selector(wanted.r#type.clone(), wanted.value.clone()))
    };
    let kind = filter.by_attestation_type.as_str();
    let is_meant = |agent: &&Agent| {
        (kind.is_empty() || kind == agent.attestation)
            && filter.by_banned.is_none_or(|banned| banned == agent.banned)
            && known.is_none_or(|known| known.selectors.iter().all(|wanted| has(agent, wanted)))
    };
    Ok(state.agents.values().filter(is_meant).cloned().collect())
}
