//! The roots of the trust domain.

use tonic::{Request, Response, Status};
use wardroom_spire_proto::{
    bundle::{
        AppendBundleRequest, BatchCreateFederatedBundleRequest, BatchCreateFederatedBundleResponse,
        BatchDeleteFederatedBundleRequest, BatchDeleteFederatedBundleResponse,
        BatchSetFederatedBundleRequest, BatchSetFederatedBundleResponse, BatchUpdateFederatedBundleRequest,
        BatchUpdateFederatedBundleResponse, CountBundlesRequest, CountBundlesResponse, GetBundleRequest,
        GetFederatedBundleRequest, ListFederatedBundlesRequest, ListFederatedBundlesResponse,
        PublishJwtAuthorityRequest, PublishJwtAuthorityResponse, bundle_server,
    },
    types,
};

use super::{Service, beyond};

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl bundle_server::Bundle for Service {
    async fn get_bundle(&self, _request: Request<GetBundleRequest>) -> Answer<types::Bundle> {
        let options = &self.0.options;
        let root = |asn1: &Vec<u8>| types::X509Certificate { asn1: asn1.clone(), tainted: false };
        Ok(Response::new(types::Bundle {
            trust_domain: options.trust_domain.clone(),
            x509_authorities: options.roots.iter().map(root).collect(),
            sequence_number: 1,
            ..types::Bundle::default()
        }))
    }

    async fn count_bundles(&self, _request: Request<CountBundlesRequest>) -> Answer<CountBundlesResponse> {
        Ok(Response::new(CountBundlesResponse { count: 1 }))
    }

    async fn append_bundle(&self, _request: Request<AppendBundleRequest>) -> Answer<types::Bundle> {
        Err(beyond())
    }

    async fn publish_jwt_authority(
        &self,
        _request: Request<PublishJwtAuthorityRequest>,
    ) -> Answer<PublishJwtAuthorityResponse> {
        Err(beyond())
    }

    async fn list_federated_bundles(
        &self,
        _request: Request<ListFederatedBundlesRequest>,
    ) -> Answer<ListFederatedBundlesResponse> {
        Err(beyond())
    }

    async fn get_federated_bundle(
        &self,
        _request: Request<GetFederatedBundleRequest>,
    ) -> Answer<types::Bundle> {
        Err(beyond())
    }

    async fn batch_create_federated_bundle(
        &self,
        _request: Request<BatchCreateFederatedBundleRequest>,
    ) -> Answer<BatchCreateFederatedBundleResponse> {
        Err(beyond())
    }

    async fn batch_update_federated_bundle(
        &self,
        _request: Request<BatchUpdateFederatedBundleRequest>,
    ) -> Answer<BatchUpdateFederatedBundleResponse> {
        Err(beyond())
    }

    async fn batch_set_federated_bundle(
        &self,
        _request: Request<BatchSetFederatedBundleRequest>,
    ) -> Answer<BatchSetFederatedBundleResponse> {
        Err(beyond())
    }

    async fn batch_delete_federated_bundle(
        &self,
        _request: Request<BatchDeleteFederatedBundleRequest>,
    ) -> Answer<BatchDeleteFederatedBundleResponse> {
        Err(beyond())
    }
}
