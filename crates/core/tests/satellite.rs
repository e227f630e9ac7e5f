//! The reply to a heartbeat, by state.

use wardroom_core::{
    Named,
    satellite::{Credential, Presented, Reply, State, heartbeat_reply},
};

/// The document's table, plus the one case it leaves open: a pending satellite that never registered.
#[rustfmt::skip]
const REPLIES: &[(State, Credential, u16, Reply)] = &[
    (State::Online,  Credential::InForce,         200, Reply::Ok),
    (State::Online,  Credential::RefreshRequired, 200, Reply::Ok),
    (State::Stale,   Credential::InForce,         200, Reply::BackOnline),
    (State::Stale,   Credential::RefreshRequired, 200, Reply::BackOnline),
    (State::Revoked, Credential::InForce,         403, Reply::Forbidden),
    (State::Revoked, Credential::RefreshRequired, 403, Reply::Forbidden),
    (State::Pending, Credential::RefreshRequired, 200, Reply::Refresh),
    (State::Pending, Credential::InForce,         401, Reply::Unauthorized),
];

#[test]
fn every_state_has_its_reply() {
    for &state in State::ALL {
        for credential in [Credential::InForce, Credential::RefreshRequired] {
            let (.., status, reply) =
                REPLIES.iter().find(|row| row.0 == state && row.1 == credential).unwrap();
            let got = heartbeat_reply(Presented { state, deleted: false, credential });
            assert_eq!((got, got.status()), (*reply, *status), "{state} {credential:?}");
        }
    }
}

#[test]
fn a_deleted_satellite_is_unauthorized_whatever_its_state() {
    for &state in State::ALL {
        for credential in [Credential::InForce, Credential::RefreshRequired] {
            let got = heartbeat_reply(Presented { state, deleted: true, credential });
            assert_eq!(got.status(), 401, "{state} {credential:?}");
        }
    }
}
