//! Registration by an X.509-SVID, which the listener has verified.

use axum::{Extension, Json, extract::State};
use wardroom_api::satellite::Registration;

use super::{proof::Svid, ztr};
use crate::platform::{
    app::App,
    http::{error::Error, problems::Problems},
    identity::auth::Caller,
};

/// Hands a satellite its credentials for its X.509-SVID; only on the listener of [spiffe].
#[utoipa::path(
    get, path = "/satellites/spiffe-ztr", operation_id = "register_by_svid", security(()),
    responses((status = 200, body = Registration), Problems)
)]
pub(crate) async fn register(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Registration>, Error> {
    let Svid(svid) = caller.member().ok_or(Error::Internal)?;
    ztr::by_svid(&app, &caller, svid).await.map(Json)
}
