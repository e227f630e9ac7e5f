//! Maps gRPC results to classes of failure.

use std::error::Error as _;

use tonic::{Code, ConnectError, Status};
use wardroom_spire_proto::types;

use crate::{Failure, failure::fit};

/// The class of a failed call.
pub(super) fn of(status: &Status) -> Failure {
    if let Some(cause) = connecting(status) {
        return Failure::Unreachable(cause);
    }
    // The client's own library reports a lost connection as a status with a cause; a server's status has none.
    if status.source().is_some() {
        return Failure::Ambiguous(fit(status.message(), &[]));
    }
    class(status.code(), status.message())
}

/// The class of one part of a call for several things; `fine` are the codes that are as good as success.
pub(super) fn item(status: Option<&types::Status>, fine: &[Code]) -> Result<(), Failure> {
    let status = status.ok_or_else(|| Failure::Unexpected("a part without a status".to_owned()))?;
    let code = Code::from_i32(status.code);
    if code == Code::Ok || fine.contains(&code) { Ok(()) } else { Err(class(code, &status.message)) }
}

/// An answer about another number of things than were asked for.
pub(super) fn count(what: &str, asked: usize, answered: usize) -> Failure {
    Failure::Unexpected(format!("{answered} {what} for {asked}"))
}

fn class(code: Code, message: &str) -> Failure {
    let detail = || fit(message, &[]);
    let refused = |status, detail| Failure::Refused { status, detail };
    match code {
        Code::NotFound => Failure::NotFound,
        Code::AlreadyExists | Code::Aborted => Failure::Conflict(detail()),
        Code::ResourceExhausted => Failure::Busy { after: None },
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => refused(400, detail()),
        // A server's text about credentials may quote them.
        Code::Unauthenticated => refused(401, "the credentials are not accepted".to_owned()),
        Code::PermissionDenied => refused(403, detail()),
        Code::Unimplemented => refused(501, detail()),
        Code::Internal | Code::Unknown | Code::DataLoss => Failure::Failed { status: 500, detail: detail() },
        Code::Unavailable => Failure::Failed { status: 503, detail: detail() },
        Code::Cancelled | Code::DeadlineExceeded => Failure::Ambiguous(detail()),
        Code::Ok => Failure::Unexpected("a failure with the status OK".to_owned()),
    }
}

/// Returns the reason if no connection was made.
fn connecting(status: &Status) -> Option<String> {
    let mut cause = status.source();
    let mut is_connecting = false;
    let mut innermost = None;
    while let Some(error) = cause {
        is_connecting |= error.is::<ConnectError>();
        innermost = Some(error);
        cause = error.source();
    }
    innermost.filter(|_| is_connecting).map(|error| fit(&error.to_string(), &[]))
}
