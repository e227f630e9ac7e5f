//! Orders beside the API: outcomes of controllers, watches that are cut, silent or expired, and the whole state.

use std::sync::Arc;

use axum::{
    Json, Router,
    http::StatusCode,
    routing::{post, put},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Shared, controllers::Order};
use crate::fault::{Clock, Faults, control::Controlled, lock};

/// What happens to the open watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Watches {
    /// Their connections are cut.
    Cut,
    /// They end with 410, as does every version known so far.
    Expire,
    /// They stay open and say nothing more, and neither do new ones.
    Silence,
    /// They speak again.
    Speak,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WatchOrder {
    order: Watches,
}

/// The routes of the controls.
pub(super) fn routes(shared: &Arc<Shared>) -> Router {
    let outcome = {
        let shared = Arc::clone(shared);
        async move |Json(order): Json<Order>| {
            shared.order(order);
            StatusCode::OK
        }
    };
    let watches = {
        let shared = Arc::clone(shared);
        async move |Json(WatchOrder { order }): Json<WatchOrder>| shared.order_watches(order)
    };
    Router::new().route("/_outcomes", post(outcome)).route("/_watches", put(watches))
}

impl Shared {
    pub(super) fn order(&self, order: Order) {
        let mut state = lock(&self.state);
        state.orders.push(order);
        state.settled = None;
    }

    pub(super) fn order_watches(&self, order: Watches) {
        let mut watches = lock(&self.watches);
        match order {
            Watches::Cut => watches.cuts += 1,
            Watches::Expire => {}
            Watches::Silence => watches.is_silent = true,
            Watches::Speak => watches.is_silent = false,
        }
        drop(watches);
        let mut state = lock(&self.state);
        if order == Watches::Expire {
            state.expire();
        }
        self.tell(&state);
    }
}

impl Controlled for Shared {
    fn faults(&self) -> &Faults {
        &self.faults
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn state(&self) -> Value {
        json!(*lock(&self.state))
    }
}
