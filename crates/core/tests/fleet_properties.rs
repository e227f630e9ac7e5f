//! What holds for every rollout, whatever its devices do: batches in order, within their limits, within the budget; and
//! every rollout whose devices do what they should ends.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use proptest::{collection::vec, option::of, prelude::*};
use wardroom_core::device::fleet::{
    Batch, Budget, Course, Decision, Limit, Member, Outcome, Policy, Standing, State, decide,
};

#[derive(Debug, Clone)]
struct Device {
    name: String,
    labels: BTreeMap<String, String>,
    standing: Standing,
    is_heard: bool,
    is_busy: bool,
}

impl Device {
    fn new(number: usize, group: u8) -> Self {
        let labels = BTreeMap::from([("g".to_owned(), group.to_string())]);
        let name = format!("d{number:03}");
        Self { name, labels, standing: Standing::Waiting, is_heard: true, is_busy: false }
    }

    fn member(&self) -> Member<'_> {
        let Self { name, labels, standing, is_heard, is_busy } = self;
        let (standing, is_heard, is_busy) = (*standing, *is_heard, *is_busy);
        Member { name, labels, standing, is_heard, is_busy, has_spec: false, said: None }
    }

    fn ends(&mut self, with: Outcome) {
        if let Standing::Given { outcome, .. } = &mut self.standing
            && *outcome == Outcome::Working
            && self.is_heard
        {
            (*outcome, self.is_busy) = (with, false);
        }
    }
}

/// What happens between two decisions.
#[derive(Debug, Clone)]
enum Step {
    Succeeds(prop::sample::Index),
    Fails(prop::sample::Index),
    Lost(prop::sample::Index),
    Heard(prop::sample::Index),
    Regrouped(prop::sample::Index, u8),
    Joins(u8),
    Leaves(prop::sample::Index),
    Minutes(i64),
    Pause,
    Resume,
    Template,
    Nothing,
}

fn step() -> impl Strategy<Value = Step> {
    let any = any::<prop::sample::Index>;
    prop_oneof![
        6 => any().prop_map(Step::Succeeds),
        2 => any().prop_map(Step::Fails),
        1 => any().prop_map(Step::Lost),
        2 => any().prop_map(Step::Heard),
        1 => (any(), 0..3_u8).prop_map(|(at, group)| Step::Regrouped(at, group)),
        1 => (0..3_u8).prop_map(Step::Joins),
        1 => any().prop_map(Step::Leaves),
        1 => (1..90_i64).prop_map(Step::Minutes),
        1 => Just(Step::Pause),
        2 => Just(Step::Resume),
        1 => Just(Step::Template),
        2 => Just(Step::Nothing),
    ]
}

fn policy() -> impl Strategy<Value = Policy> {
    let limit = prop_oneof![(1..5_usize).prop_map(Limit::Count), (1..=100_u8).prop_map(Limit::Percent)];
    let batch =
        (of(limit), of(0..=100_u8)).prop_map(|(limit, threshold)| Batch { selector: None, limit, threshold });
    let budget = (any::<bool>(), of(0..3_usize), of(1..4_usize)).prop_map(|(grouped, min, max)| Budget {
        group_by: if grouped { vec!["g".to_owned()] } else { Vec::new() },
        min_available: min,
        max_unavailable: max,
    });
    (vec(batch, 0..4), 0..=100_u8, of(budget)).prop_map(|(batches, threshold, budget)| Policy {
        batches,
        threshold,
        timeout: SignedDuration::from_hours(1),
        budget,
    })
}

/// Groups by the labels of the budget.
fn groups<'a>(budget: &Budget, devices: &'a [Device]) -> BTreeMap<Vec<Option<&'a String>>, Vec<&'a Device>> {
    let mut groups = BTreeMap::<_, Vec<_>>::new();
    for device in devices {
        let key = budget.group_by.iter().map(|label| device.labels.get(label)).collect();
        groups.entry(key).or_default().push(device);
    }
    groups
}

fn is_late(policy: &Policy, device: &Device, now: Timestamp) -> bool {
    matches!(device.standing, Standing::Given { at, outcome: Outcome::Working, .. } if at + policy.timeout <= now)
}

struct World {
    policy: Policy,
    devices: Vec<Device>,
    course: Course,
    now: Timestamp,
    made: usize,
}

impl World {
    fn new(policy: Policy, devices: &[u8]) -> Self {
        let devices: Vec<_> = devices.iter().enumerate().map(|(at, &group)| Device::new(at, group)).collect();
        let (made, course) = (devices.len(), Course::default());
        Self { policy, devices, course, now: Timestamp::UNIX_EPOCH, made }
    }

    fn happens(&mut self, step: &Step, last: Option<&Decision>) {
        let count = self.devices.len();
        let chosen = |at: &prop::sample::Index| if count == 0 { 0 } else { at.index(count) };
        let mut change = |at: &prop::sample::Index, change: &dyn Fn(&mut Device)| {
            self.devices.get_mut(chosen(at)).into_iter().for_each(change);
        };
        match step {
            Step::Succeeds(at) => change(at, &|device| device.ends(Outcome::Updated)),
            Step::Fails(at) => change(at, &|device| device.ends(Outcome::Failed)),
            Step::Lost(at) => change(at, &|device| device.is_heard = false),
            Step::Heard(at) => change(at, &|device| device.is_heard = true),
            Step::Regrouped(at, group) => {
                change(at, &|device| drop(device.labels.insert("g".to_owned(), group.to_string())));
            }
            Step::Joins(group) => {
                self.devices.push(Device::new(self.made, *group));
                self.made += 1;
            }
            Step::Leaves(at) => {
                if count > 0 {
                    self.devices.remove(chosen(at));
                }
            }
            Step::Minutes(minutes) => self.now += SignedDuration::from_mins(*minutes),
            Step::Pause => self.course.is_paused = true,
            Step::Resume if self.course.is_paused => self.course.is_paused = false,
            Step::Resume => {
                let suspended = last.filter(|last| last.state == State::Suspended);
                self.course.accepted = suspended.map_or(self.course.accepted, |last| last.failed);
            }
            Step::Template => {
                self.course = Course { is_paused: self.course.is_paused, ..Course::default() };
                self.devices.iter_mut().for_each(|device| device.standing = Standing::Waiting);
            }
            Step::Nothing => {}
        }
    }

    fn decide(&mut self) -> Decision {
        let members: Vec<_> = self.devices.iter().map(Device::member).collect();
        let decision = decide(&self.policy, self.course, &members, self.now);
        self.check(&decision);
        if decision.batch != self.course.batch {
            (self.course.batch, self.course.accepted) = (decision.batch, 0);
        }
        for at in &decision.gives {
            let device = &mut self.devices[*at];
            let (batch, at, outcome) = (decision.batch, self.now, Outcome::Working);
            (device.standing, device.is_busy) = (Standing::Given { batch, at, outcome }, true);
        }
        decision
    }

    fn check(&self, decision: &Decision) {
        let last = self.policy.batches.len();
        assert!(decision.batch >= self.course.batch && decision.batch <= last, "batches only go on");
        assert!(
            decision.gives.is_empty() || !matches!(decision.state, State::Paused | State::Suspended),
            "it stands"
        );
        let counts = decision.counts;
        let sum = counts.updated + counts.updating + counts.failed + counts.waiting;
        assert_eq!((sum, counts.devices), (self.devices.len(), self.devices.len()));
        if decision.gives.is_empty() {
            return;
        }
        for (at, device) in self.devices.iter().enumerate() {
            if decision.gives.contains(&at) {
                assert_eq!(device.standing, Standing::Waiting, "once");
                let may_be_away = decision.batch == last && self.policy.budget.is_none();
                assert!(device.is_heard || may_be_away, "{} is offline", device.name);
            }
            if let Standing::Given { batch, outcome: Outcome::Working, .. } = device.standing {
                let is_over = batch >= decision.batch || is_late(&self.policy, device, self.now);
                assert!(is_over, "batch {batch} is not over, and {} is given out", decision.batch);
            }
        }
        self.check_limit(decision);
        if let Some(budget) = &self.policy.budget {
            self.check_budget(decision, budget);
        }
    }

    fn check_limit(&self, decision: &Decision) {
        let Some(limit) = self.policy.batches.get(decision.batch).and_then(|batch| batch.limit) else {
            return;
        };
        let most = match limit {
            Limit::Count(count) => count,
            Limit::Percent(percent) => (self.devices.len() * usize::from(percent)).div_ceil(100),
        };
        let of = |device: &&Device| matches!(device.standing, Standing::Given { batch, .. } if batch == decision.batch);
        let given = self.devices.iter().filter(of).count();
        assert!(given + decision.gives.len() <= most, "more than {most} in a batch");
    }

    /// A group in which a device goes out of service is within the budget afterwards.
    fn check_budget(&self, decision: &Decision, budget: &Budget) {
        for (group, devices) in groups(budget, &self.devices) {
            let given = |device: &Device| {
                decision.gives.iter().any(|at| self.devices[*at].name == device.name) && !device.is_busy
            };
            if !devices.iter().any(|device| given(device)) {
                continue;
            }
            let updating = |device: &Device| {
                let works = device.is_busy && matches!(device.standing, Standing::Given { .. });
                given(device)
                    || (device.is_busy && device.is_heard)
                    || (works && !is_late(&self.policy, device, self.now))
            };
            let available = |device: &Device| device.is_heard && !device.is_busy && !given(device);
            let updating = devices.iter().filter(|device| updating(device)).count();
            let available = devices.iter().filter(|device| available(device)).count();
            assert!(
                budget.max_unavailable.is_none_or(|max| updating <= max),
                "{group:?}: {updating} are updating"
            );
            assert!(
                budget.min_available.is_none_or(|min| available >= min),
                "{group:?}: {available} are in service"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn batches_come_in_order_and_the_budget_is_kept(
        policy in policy(),
        devices in vec(0..3_u8, 0..16),
        steps in vec(step(), 1..120),
    ) {
        let mut world = World::new(policy, &devices);
        let mut last = None;
        for step in &steps {
            world.happens(step, last.as_ref());
            last = Some(world.decide());
        }
    }

    #[test]
    fn a_rollout_whose_devices_do_as_they_should_ends(policy in policy(), devices in vec(0..3_u8, 0..16)) {
        let possible = policy.budget.as_ref().is_none_or(|budget| {
            let made: Vec<_> = devices.iter().enumerate().map(|(at, &group)| Device::new(at, group)).collect();
            groups(budget, &made).values().all(|group| group.len() > budget.min_available.unwrap_or(0))
        });
        let mut world = World::new(policy, &devices);
        let mut state = State::Active;
        for _ in 0..(devices.len() + 1) * 6 {
            state = world.decide().state;
            world.devices.iter_mut().for_each(|device| device.ends(Outcome::Updated));
        }
        if possible {
            prop_assert_eq!(state, State::Inactive);
            let updated = |device: &Device| matches!(device.standing, Standing::Given { outcome: Outcome::Updated, .. });
            prop_assert!(world.devices.iter().all(updated));
        } else {
            prop_assert_eq!(state, State::Waiting);
        }
    }

    /// More failures than the threshold allows end the rollout, and the devices that wait stay as they are.
    #[test]
    fn a_template_that_breaks_every_device_reaches_only_the_first_batch(
        policy in policy(),
        devices in vec(0..3_u8, 1..16),
    ) {
        prop_assume!(policy.threshold > 0 && policy.batches.iter().all(|batch| batch.threshold != Some(0)));
        let first = policy.batches.first().map(|batch| batch.limit);
        let mut world = World::new(policy, &devices);
        let mut decision = world.decide();
        for _ in 0..devices.len() * 3 {
            world.devices.iter_mut().for_each(|device| device.ends(Outcome::Failed));
            decision = world.decide();
        }
        let given = world.devices.iter().filter(|device| device.standing != Standing::Waiting).count();
        let most = match first.flatten() {
            Some(Limit::Count(count)) => count,
            Some(Limit::Percent(percent)) => (devices.len() * usize::from(percent)).div_ceil(100),
            None => devices.len(),
        };
        prop_assert!(given <= most);
        prop_assert!(decision.batch == 0);
        // A batch that the budget holds back may still succeed.
        prop_assert!(decision.state == State::Suspended || !decision.held.is_empty());
    }
}
