//! The hardware inventory that a deployed machine keeps in MAAS.

use jiff::SignedDuration;
use wardroom_core::gpu_node::maas::Status;

use super::{StageResult, Try, Workers, again, disagrees, done, is_left_out, unusable_system, wait_for};

/// After how many tenths of an interval a machine counts as silent, as in MAAS itself.
const LATE: i64 = 15;
/// Intervals within which the first report must come.
const PATIENCE: i32 = 3;

/// How long to wait for the first report of a machine with this interval.
pub(crate) fn first_report_patience(interval: SignedDuration) -> SignedDuration {
    interval.saturating_mul(PATIENCE)
}

impl Workers {
    /// Checks that the machine was deployed with hardware sync.
    pub(super) async fn ensure_sync(&self, attempt: &mut Try<'_>) -> StageResult {
        if is_left_out(attempt) {
            return done(attempt);
        }
        let (_, session) = self.site(attempt)?;
        let id = self.system_id(attempt).await?;
        let machine = self.observe(attempt, &session, &id).await?;
        if machine.status != Status::Deployed {
            return Err(disagrees(attempt.stage, &machine));
        }
        // The end of an adopted deployment was not observed, so the time that MAAS wrote itself is unknown.
        attempt.data.synced_at_deploy = attempt.data.synced_at_deploy.or(machine.last_sync);
        attempt.data.sync_seconds = machine.sync_interval.and_then(|seconds| u32::try_from(seconds).ok());
        if machine.enable_hw_sync && machine.sync_interval.is_some_and(|seconds| seconds > 0) {
            return done(attempt);
        }
        Err(unusable_system("the machine was deployed without hardware sync: MAAS shows it off"))
    }

    /// Waits for a report newer than the one that MAAS itself wrote at the end of the deployment.
    pub(super) async fn wait_for_sync(&self, attempt: &mut Try<'_>) -> StageResult {
        const WHAT: &str = "the machine has not reported its hardware since it was deployed";
        if is_left_out(attempt) {
            return done(attempt);
        }
        let (site, _) = self.site(attempt)?;
        let machine = self.sighted(attempt, WHAT).await?;
        if machine.status != Status::Deployed {
            return Err(disagrees(attempt.stage, &machine));
        }
        let interval = machine.sync_interval.and_then(|seconds| i64::try_from(seconds).ok()).unwrap_or(900);
        let interval = SignedDuration::from_secs(interval);
        let newer =
            machine.last_sync.filter(|last| attempt.data.synced_at_deploy.is_none_or(|first| *last > first));
        let fresh = newer.is_some_and(|last| {
            attempt.now.duration_since(last).as_millis() * 10 <= interval.as_millis() * i128::from(LATE)
        });
        if fresh {
            return done(attempt);
        }
        if attempt.now.duration_since(attempt.since) > first_report_patience(interval) {
            return Err(again(format!("{WHAT}: nothing within {PATIENCE} intervals")));
        }
        Ok(wait_for(attempt, &site, WHAT))
    }
}
