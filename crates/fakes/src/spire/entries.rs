//! Entries: which workloads get which identity.

use tonic::{Code, Request, Response, Status, codegen::BoxStream};
use wardroom_spire_proto::{
    entry::{
        BatchCreateEntryRequest, BatchCreateEntryResponse, BatchDeleteEntryRequest, BatchDeleteEntryResponse,
        BatchUpdateEntryRequest, BatchUpdateEntryResponse, CountEntriesRequest, CountEntriesResponse,
        GetAuthorizedEntriesRequest, GetAuthorizedEntriesResponse, GetEntryRequest, ListEntriesRequest,
        ListEntriesResponse, SyncAuthorizedEntriesRequest, SyncAuthorizedEntriesResponse,
        batch_create_entry_response, batch_delete_entry_response, entry_server, list_entries_request::Filter,
    },
    types,
};

use super::{
    Service, Shared, beyond, page,
    state::{Entry, Selector, State, text},
};
use crate::fault::{lock, random};

#[tonic::async_trait]
impl entry_server::Entry for Service {
    async fn batch_create_entry(
        &self,
        request: Request<BatchCreateEntryRequest>,
    ) -> Result<Response<BatchCreateEntryResponse>, Status> {
        let results = request.into_inner().entries.iter().map(|entry| self.0.create(entry)).collect();
        Ok(Response::new(BatchCreateEntryResponse { results }))
    }

    async fn batch_delete_entry(
        &self,
        request: Request<BatchDeleteEntryRequest>,
    ) -> Result<Response<BatchDeleteEntryResponse>, Status> {
        let delete = |id: String| {
            let gone = self.0.change("entry.delete", |state| state.entries.remove(&id).ok_or(()));
            let status = match gone {
                Ok(_) => item(Code::Ok, "OK"),
                Err(()) => item(Code::NotFound, "no such entry"),
            };
            batch_delete_entry_response::Result { status: Some(status), id }
        };
        let results = request.into_inner().ids.into_iter().map(delete).collect();
        Ok(Response::new(BatchDeleteEntryResponse { results }))
    }

    async fn list_entries(
        &self,
        request: Request<ListEntriesRequest>,
    ) -> Result<Response<ListEntriesResponse>, Status> {
        let request = request.into_inner();
        let domain = &self.0.options.trust_domain;
        let found = select(&lock(&self.0.state), request.filter.unwrap_or_default(), domain)?;
        let (found, next_page_token) =
            page(&found, request.page_size, &request.page_token, self.0.options.page)?;
        let entries = found.iter().map(Entry::view).collect();
        Ok(Response::new(ListEntriesResponse { entries, next_page_token }))
    }

    async fn get_entry(&self, request: Request<GetEntryRequest>) -> Result<Response<types::Entry>, Status> {
        let state = lock(&self.0.state);
        let entry = state.entries.get(&request.into_inner().id);
        entry.map(|entry| Response::new(entry.view())).ok_or_else(|| Status::not_found("no such entry"))
    }

    async fn count_entries(
        &self,
        _request: Request<CountEntriesRequest>,
    ) -> Result<Response<CountEntriesResponse>, Status> {
        let count = i32::try_from(lock(&self.0.state).entries.len()).unwrap_or(i32::MAX);
        Ok(Response::new(CountEntriesResponse { count }))
    }

    async fn batch_update_entry(
        &self,
        _request: Request<BatchUpdateEntryRequest>,
    ) -> Result<Response<BatchUpdateEntryResponse>, Status> {
        Err(beyond())
    }

    async fn get_authorized_entries(
        &self,
        _request: Request<GetAuthorizedEntriesRequest>,
    ) -> Result<Response<GetAuthorizedEntriesResponse>, Status> {
        Err(beyond())
    }

    type SyncAuthorizedEntriesStream = BoxStream<SyncAuthorizedEntriesResponse>;

    async fn sync_authorized_entries(
        &self,
        _request: Request<tonic::Streaming<SyncAuthorizedEntriesRequest>>,
    ) -> Result<Response<Self::SyncAuthorizedEntriesStream>, Status> {
        Err(beyond())
    }
}

impl Shared {
    /// Creates one entry of a batch; an existing one is returned with a status that says so.
    fn create(&self, wanted: &types::Entry) -> batch_create_entry_response::Result {
        let (status, entry) = match self.checked(wanted) {
            Err(status) => (item(status.code(), status.message()), None),
            Ok(new) => match self.insert(new) {
                Ok(created) => (item(Code::Ok, "OK"), Some(created.view())),
                Err(existing) => (item(Code::AlreadyExists, "there is one like it"), Some(existing.view())),
            },
        };
        batch_create_entry_response::Result { status: Some(status), entry }
    }

    fn checked(&self, wanted: &types::Entry) -> Result<Entry, Status> {
        let domain = &self.options.trust_domain;
        let selector = |selector: &types::Selector| match (selector.r#type.as_str(), selector.value.as_str())
        {
            ("", _) | (_, "") => Err(Status::invalid_argument("a selector needs a type and a value")),
            (kind, value) => Ok(Selector(kind.to_owned(), value.to_owned())),
        };
        let mut selectors: Vec<_> = wanted.selectors.iter().map(selector).collect::<Result<_, _>>()?;
        selectors.sort_unstable();
        if selectors.is_empty() {
            return Err(Status::invalid_argument("an entry needs a selector"));
        }
        if wanted.x509_svid_ttl < 0 {
            return Err(Status::invalid_argument("the time to live is negative"));
        }
        Ok(Entry {
            id: random(16),
            spiffe_id: text(wanted.spiffe_id.as_ref(), domain)?,
            parent_id: text(wanted.parent_id.as_ref(), domain)?,
            selectors,
            x509_svid_ttl: wanted.x509_svid_ttl,
            created_at: self.clock.now().as_second(),
        })
    }

    /// Adds an entry, or returns an equal one.
    pub(super) fn insert(&self, new: Entry) -> Result<Entry, Entry> {
        self.change("entry.create", |state| {
            let is_like = |entry: &&Entry| {
                (&entry.spiffe_id, &entry.parent_id, &entry.selectors)
                    == (&new.spiffe_id, &new.parent_id, &new.selectors)
            };
            if let Some(existing) = state.entries.values().find(is_like) {
                return Err(existing.clone());
            }
            state.entries.insert(new.id.clone(), new.clone());
            Ok(new)
        })
    }
}

fn select(state: &State, filter: Filter, trust_domain: &str) -> Result<Vec<Entry>, Status> {
    let Filter { by_spiffe_id, by_parent_id, by_selectors, by_federates_with, by_hint, by_downstream } =
        filter;
    if by_selectors.is_some() || by_federates_with.is_some() || by_hint.is_some() || by_downstream.is_some() {
        return Err(beyond());
    }
    let read = |id: Option<types::Spiffeid>| id.map(|id| text(Some(&id), trust_domain)).transpose();
    let (spiffe_id, parent_id) = (read(by_spiffe_id)?, read(by_parent_id)?);
    let is_meant = |entry: &&Entry| {
        spiffe_id.as_ref().is_none_or(|id| *id == entry.spiffe_id)
            && parent_id.as_ref().is_none_or(|id| *id == entry.parent_id)
    };
    Ok(state.entries.values().filter(is_meant).cloned().collect())
}

fn item(code: Code, message: &str) -> types::Status {
    types::Status { code: code as i32, message: message.to_owned() }
}
