//! The control endpoint of a fake: `/_fault`, `/_effects`, `/_state` and `/_clock`.

use std::sync::Arc;

use axum::{
    Json, Router,
    http::StatusCode,
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Clock, Faults, Order};

/// The parts of a fake that the control endpoint uses.
pub(crate) trait Controlled: Send + Sync + 'static {
    /// Its ordered faults and applied effects.
    fn faults(&self) -> &Faults;
    /// Its clock.
    fn clock(&self) -> &Clock;
    /// Its whole state, secrets included: it is a fake.
    fn state(&self) -> Value;
}

#[derive(Deserialize)]
struct Advance {
    advance: i64,
}

/// The routes, to be merged into those of the fake or served beside it.
pub(crate) fn routes(fake: &Arc<impl Controlled>) -> Router {
    let order = {
        let fake = Arc::clone(fake);
        async move |Json(order): Json<Order>| match fake.faults().order(order) {
            Ok(()) => (StatusCode::OK, Json(json!({}))),
            Err(error) => (StatusCode::BAD_REQUEST, Json(json!({"error": error}))),
        }
    };
    let clear = {
        let fake = Arc::clone(fake);
        async move || fake.faults().clear()
    };
    let effects = {
        let fake = Arc::clone(fake);
        async move || Json(json!(fake.faults().effects()))
    };
    let state = {
        let fake = Arc::clone(fake);
        async move || Json(fake.state())
    };
    let advance = {
        let fake = Arc::clone(fake);
        async move |Json(Advance { advance }): Json<Advance>| fake.clock().advance(advance)
    };
    Router::new()
        .route("/_fault", post(order).delete(clear))
        .route("/_effects", get(effects))
        .route("/_state", get(state))
        .route("/_clock", post(advance))
}
