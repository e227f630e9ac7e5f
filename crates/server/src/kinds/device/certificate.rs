//! A new certificate for a device that shows one: the same key, another end.
//!
//! What must stay true: the certificate that is shown counts until it ends, because the answer may be lost; with it only
//! the newest counts.

use axum::{Extension, Json, extract::State};
use serde_json::json;
use wardroom_api::device::{CertificateRequest, DeviceCertificate};

use super::{
    call, csr,
    document::{Document, KIND},
    identity::Identities,
    proof, request,
};
use crate::platform::{
    app::App,
    http::{body::Reported, error::Error, path::Path, problems::Problems},
    identity::auth::Caller,
};

/// Renews the certificate of the device that asks.
#[utoipa::path(
    post, path = "/api/v1/devices/{name}/certificate", operation_id = "renew_device_certificate",
    request_body = CertificateRequest, params(("name" = String, Path)), security(()),
    responses((status = 200, body = DeviceCertificate), Problems)
)]
pub(crate) async fn renew(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Reported { value: asked, .. }: Reported<CertificateRequest>,
) -> Result<Json<DeviceCertificate>, Error> {
    let identity = proof::itself(&caller, &name)?;
    let key = csr::read("csr", &asked.csr)?;
    if key.name() != name {
        return Err(Error::invalid("csr", "is signed with another key: enrol a device of that key instead"));
    }
    call::heard(&app, &caller, identity).await?;
    let signed = request::sign(&app, &key)?;
    let changed = app.change(KIND, &name, |device| {
        let mut document = Document::of(device)?;
        document.check_in_service(&name)?;
        // One that was issued before may have got lost; it does not count any more.
        document.certificates.retain(|issued| *issued.serial == *identity.serial);
        document.certificates.push(request::issued(&signed));
        let entry = call::by_device(&app, &caller, "credential", json!({"until": signed.until}));
        call::commit(&app, document, device, entry)
    });
    changed.await?;
    Identities::of(&app).settle().await;
    Ok(Json(DeviceCertificate { certificate: signed.pem, expires_at: signed.until }))
}
