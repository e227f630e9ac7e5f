//! Liveness, rule by rule: seconds go in through one door per rule, boundaries included.

use std::{collections::BTreeMap, num::NonZeroU32};

use jiff::{SignedDuration, Timestamp};
use wardroom_core::liveness::{
    Cause, Change, Deadline, Facts, Fleet, Guard, Heard, Interval, Limits, Listening, Period, Phase, Policy,
    Release, Silence, Standing, Zone, adopt, clock_jump, deadline, in_force, missed_beats, pause,
};

fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_800_000_000 + seconds)
}

fn seconds(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

fn every(seconds: u32) -> Option<Interval> {
    Interval::from_seconds(seconds)
}

fn listening(deaf: &[(Cause, i64, i64)]) -> Listening {
    let mut listening = Listening::default();
    for &(cause, from, to) in deaf {
        listening.record(Period { cause, from: at(from), to: at(to) });
    }
    listening
}

mod interval {
    use super::*;

    #[test]
    fn every_go_duration_of_whole_seconds_has_one_normal_form() {
        for (text, normal) in [
            ("@every 00h00m30s", "@every 00h00m30s"),
            ("@every 1m30s", "@every 00h01m30s"),
            ("@every 90s", "@every 00h01m30s"),
            ("@every 1s", "@every 00h00m01s"),
            ("@every 1.5h", "@every 01h30m00s"),
            ("@every .5m", "@every 00h00m30s"),
            ("@every 1000ms", "@every 00h00m01s"),
            ("@every 1000000µs", "@every 00h00m01s"),
            ("@every 1000000μs", "@every 00h00m01s"),
            ("@every 30s1m", "@every 00h01m30s"),
            ("@every 100h00m00s", "@every 100h00m00s"),
            ("@every 168h", "@every 168h00m00s"),
        ] {
            let interval = Interval::parse("state_report_interval", text).unwrap();
            assert_eq!(interval.to_string(), normal, "{text}");
            assert_eq!(Interval::parse("state_report_interval", normal), Ok(interval));
            let json = serde_json::to_string(&interval).unwrap();
            assert_eq!(serde_json::from_str::<Interval>(&json).unwrap(), interval);
        }
    }

    #[test]
    fn anything_else_names_the_field_and_the_form() {
        for text in [
            "",
            "30s",
            "@every",
            "@every ",
            "@every30s",
            "@every 30",
            "@every s",
            "@every .s",
            "@every 0s",
            "@every 999ms",
            "@every 1.5s",
            "@every 1s1ns",
            "@every -30s",
            "@every +30s",
            "@every 30 s",
            "@every 30S",
            "@every 1d",
            "@every 1.2.3s",
            "@every 168h1s",
            "@hourly",
            "*/5 * * * *",
            "@every 99999999999999999999h",
            "@every 999999999999999999h999999999999999999h",
            "@every ٣s",
        ] {
            let invalid = Interval::parse("state_report_interval", text).unwrap_err();
            assert_eq!(invalid.field, "state_report_interval");
            assert!(invalid.message.contains(&format!("{text:?}")), "{invalid}");
            assert!(invalid.message.contains("`@every 00h00m30s`"), "{invalid}");
        }
        let long = Interval::parse("interval", &"@every 1s".repeat(10_000)).unwrap_err();
        assert!(long.message.len() < 400, "{} bytes", long.message.len());
    }

    #[test]
    fn the_longer_of_said_and_given_is_in_force() {
        assert_eq!(in_force(every(30), every(60)), every(60));
        assert_eq!(in_force(every(60), every(30)), every(60));
        assert_eq!(in_force(None, every(30)), every(30));
        assert_eq!(in_force(every(30), None), every(30));
        assert_eq!(in_force(None, None), None);
    }

    #[test]
    fn a_shorter_interval_holds_once_the_member_keeps_it() {
        for (before, next, gap, then) in [
            (None, every(30), 300, every(30)),
            (every(30), every(300), 30, every(300)),
            (every(300), every(30), 300, every(300)),
            (every(300), every(30), 67, every(300)),
            (every(300), every(30), 66, every(30)),
            (every(300), None, 300, every(300)),
            (None, None, 300, None),
        ] {
            assert_eq!(adopt(before, next, seconds(gap)), then, "{before:?} {next:?} {gap}");
        }
    }
}

mod record {
    use super::*;

    fn check(deaf: &[(Cause, i64, i64)], from: i64, to: i64, expected: i64) {
        assert_eq!(listening(deaf).deaf_between(at(from), at(to)), seconds(expected), "{deaf:?}");
    }

    #[test]
    fn deaf_time_counts_once_and_only_between_the_instants() {
        use Cause::*;
        check(&[], 0, 100, 0);
        check(&[(Pause, 10, 20)], 0, 100, 10);
        check(&[(Pause, 10, 20)], 15, 100, 5);
        check(&[(Pause, 10, 20)], 0, 15, 5);
        check(&[(Pause, 10, 20)], 20, 100, 0);
        check(&[(Pause, 10, 20)], 100, 0, 0);
        check(&[(Pause, 20, 10)], 0, 100, 0);
        check(&[(Pause, 10, 20), (Database, 20, 30)], 0, 100, 20);
        check(&[(Pause, 10, 20), (Database, 15, 30), (Listener, 12, 13)], 0, 100, 20);
        check(&[(Database, 40, 50), (Pause, 10, 20), (StartUp, 5, 45)], 0, 100, 45);
        check(&[(Database, 40, 50), (Pause, 10, 20)], 15, 45, 10);
    }

    #[test]
    fn periods_that_touch_become_one_with_the_most_disturbing_cause() {
        let record = listening(&[(Cause::StartUp, 0, 10), (Cause::Pause, 10, 12), (Cause::Database, 14, 15)]);
        assert_eq!(
            record.periods(),
            [
                Period { cause: Cause::StartUp, from: at(0), to: at(12) },
                Period { cause: Cause::Database, from: at(14), to: at(15) }
            ]
        );
    }

    #[test]
    fn open_causes_overlap_and_the_server_listens_when_none_is_open() {
        let mut record = listening(&[(Cause::Pause, 5, 15)]);
        record.begin(Cause::Database, at(10));
        record.begin(Cause::Listener, at(12));
        record.begin(Cause::Database, at(13));
        assert_eq!(record.deaf_between(at(0), at(20)), seconds(15));
        record.end(Cause::Database, at(30));
        assert_eq!(record.deaf_now(), Some(Cause::Listener));
        assert_eq!(record.deaf_between(at(0), at(40)), seconds(35));
        record.end(Cause::Listener, at(40));
        record.end(Cause::Listener, at(99));
        assert_eq!(record.deaf_now(), None);
        assert_eq!(record.deaf_between(at(0), at(100)), seconds(35));
    }

    #[test]
    fn a_server_that_starts_has_been_deaf_since_it_last_listened_or_since_ever() {
        let mut known = Listening::starting(Some(at(0)));
        known.end(Cause::StartUp, at(60));
        assert_eq!(known.deaf_between(at(-100), at(100)), seconds(60));
        let mut unknown = Listening::starting(None);
        unknown.end(Cause::StartUp, at(60));
        assert_eq!(unknown.deaf_between(at(-100), at(100)), seconds(160));
    }

    #[test]
    fn a_full_record_merges_the_closest_neighbours() {
        let mut record = listening(&[(Cause::Pause, 0, 1), (Cause::Database, 3, 4)]);
        for n in 1..=63 {
            record.record(Period { cause: Cause::Pause, from: at(n * 100), to: at(n * 100 + 1) });
        }
        assert_eq!(record.periods().len(), 64);
        assert_eq!(record.periods()[0], Period { cause: Cause::Database, from: at(0), to: at(4) });
        assert_eq!(record.periods()[1], Period { cause: Cause::Pause, from: at(100), to: at(101) });
    }

    #[test]
    fn a_tick_that_comes_much_later_than_expected_reveals_a_pause() {
        let tick = |now| pause(at(0), at(now), seconds(1));
        assert_eq!(tick(1), None);
        assert_eq!(tick(3), None);
        assert_eq!(tick(4), Some(Period { cause: Cause::Pause, from: at(0), to: at(4) }));
        assert_eq!(tick(-3600), None);
    }

    #[test]
    fn wall_and_steady_time_may_drift_by_five_seconds() {
        for (wall, steady, jump) in [
            (1, 1, None),
            (6, 1, None),
            (7, 1, Some(6)),
            (-4, 1, None),
            (-5, 1, Some(-6)),
            (3601, 1, Some(3600)),
            (1, 3601, Some(-3600)),
        ] {
            assert_eq!(clock_jump(seconds(wall), seconds(steady)), jump.map(seconds), "{wall} {steady}");
        }
    }

    #[test]
    fn the_record_survives_storage() {
        let mut record = listening(&[(Cause::Pause, 10, 20)]);
        record.begin(Cause::Database, at(30));
        let json = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Listening>(&json).unwrap(), record);
    }
}

mod due {
    use super::*;

    /// A member last heard at second 0; when it is late and due, in seconds.
    fn check(interval: Option<Interval>, deaf: &[(Cause, i64, i64)], late: i64, due: i64) {
        let heard = Heard { last: at(0), interval };
        let Deadline { late: l, due: d, .. } =
            deadline(&heard, &Policy::default(), &listening(deaf), at(1_000_000));
        assert_eq!((l, d), (at(late), at(due)), "{interval:?} {deaf:?}");
    }

    #[test]
    fn three_beats_or_a_quarter_of_an_hour() {
        check(every(30), &[], 66, 90);
        check(every(300), &[], 660, 900);
        check(None, &[], 900, 900);
    }

    #[test]
    fn deaf_time_is_added_and_each_deaf_period_gives_a_grace() {
        use Cause::*;
        // 10 s of credit outweigh the grace, which ends at 20 + 66.
        check(every(30), &[(Pause, 10, 20)], 86, 100);
        // A second before the deadline: the grace of 66 s decides.
        check(every(30), &[(Pause, 88, 89)], 155, 155);
        // A single instant may have swallowed a beat.
        check(every(30), &[(Pause, 89, 89)], 155, 155);
        // An outage of 200 s: members back off for as long as that.
        check(every(30), &[(Listener, 10, 210)], 410, 410);
        // An outage of an hour: five minutes are enough.
        check(every(30), &[(Database, 0, 3600)], 3900, 3900);
        // A start, however short, and a clock jump give five minutes.
        check(every(30), &[(StartUp, 10, 11)], 311, 311);
        check(every(30), &[(ClockJump, 10, 11)], 311, 311);
        // A start gives a slow member what it needs.
        check(every(300), &[(StartUp, 0, 3600)], 3600 + 660, 3600 + 900);
        check(None, &[(StartUp, 0, 3600)], 3600 + 900, 3600 + 900);
        // The later of two graces counts, not the last period's.
        check(every(30), &[(StartUp, 10, 20), (Pause, 30, 40)], 320, 320);
    }

    /// A server that crashes again and again excuses no member for ever: the rule once more, and twice 10 s.
    #[test]
    fn other_servers_are_an_excuse_with_a_bound() {
        use Cause::*;
        // One that is gone is an excuse like any other, wherever it falls.
        check(every(30), &[(Replica, 10, 20)], 86, 100);
        check(every(30), &[(Replica, 85, 95)], 161, 161);
        check(every(30), &[(Replica, 80, 280)], 480, 480);
        check(None, &[(Replica, 895, 905)], 1805, 1805);
        // Two are two excuses.
        check(every(30), &[(Replica, 10, 20), (Replica, 60, 70)], 136, 136);
        let crashes = |every: i64| (0..500).map(move |n| (Replica, n * every, n * every + 10));
        for pace in [5, 10, 11, 30, 60] {
            check(every(30), &crashes(pace).collect::<Vec<_>>(), 200, 200);
            check(None, &crashes(pace).collect::<Vec<_>>(), 1820, 1820);
        }
        // Whatever kept this server itself from hearing comes on top.
        let mut deaf: Vec<_> = crashes(10).collect();
        deaf.push((Pause, 20, 40));
        check(every(30), &deaf, 220, 220);
        deaf.push((StartUp, 20, 40));
        check(every(30), &deaf, 340 + 110, 340 + 110);
    }

    #[test]
    fn a_member_heard_since_has_no_excuse() {
        check(every(30), &[(Cause::StartUp, -100, 0)], 66, 90);
        check(every(30), &[(Cause::StartUp, -100, 1)], 301, 301);
    }

    #[test]
    fn no_member_is_due_while_the_server_is_deaf() {
        let mut record = Listening::default();
        record.begin(Cause::Database, at(10));
        let heard = Heard { last: at(0), interval: every(30) };
        for now in [10, 100, 1_000, 100_000] {
            let deadline = deadline(&heard, &Policy::default(), &record, at(now));
            assert_eq!(deadline.standing(at(now)), Standing::Heard, "{now}");
        }
    }

    #[test]
    fn the_deadline_itself_is_still_in_time() {
        let heard = Heard { last: at(0), interval: every(30) };
        let deadline = deadline(&heard, &Policy::default(), &Listening::default(), at(0));
        for (now, standing) in [
            (-10, Standing::Heard),
            (66, Standing::Heard),
            (67, Standing::Late),
            (90, Standing::Late),
            (91, Standing::Due),
        ] {
            assert_eq!(deadline.standing(at(now)), standing, "{now}");
        }
    }

    #[test]
    fn the_policy_sets_beats_and_least_allowance() {
        let heard = Heard { last: at(0), interval: every(30) };
        let due = |policy: Policy| deadline(&heard, &policy, &Listening::default(), at(0)).due;
        let policy = Policy::default();
        assert_eq!(due(Policy { beats: 5.try_into().unwrap(), ..policy }), at(150));
        assert_eq!(due(Policy { least: seconds(300), ..policy }), at(300));
        assert_eq!(due(Policy { least: seconds(60), ..policy }), at(90));
        assert_eq!(Policy { least: seconds(300), ..policy }.allowed_beats(every(30).unwrap()), 10);
    }

    #[test]
    fn missed_beats_are_counted_while_we_listen() {
        let record = listening(&[(Cause::Pause, 40, 70)]);
        let heard = |interval| Heard { last: at(0), interval };
        for (now, missed) in [(-5, 0), (0, 0), (29, 0), (30, 1), (70, 1), (90, 2), (120, 3), (3030, 100)] {
            assert_eq!(missed_beats(&heard(every(30)), &record, at(now)), Some(missed), "{now}");
        }
        assert_eq!(missed_beats(&heard(None), &record, at(90)), None);
    }

    #[test]
    fn the_ends_of_time_do_not_overflow() {
        let policy = Policy { beats: u32::MAX.try_into().unwrap(), ..Policy::default() };
        let record = Listening::starting(None);
        for last in [Timestamp::MIN, at(0), Timestamp::MAX] {
            for now in [Timestamp::MIN, at(0), Timestamp::MAX] {
                let heard = Heard { last, interval: Some(Interval::LONGEST) };
                assert_eq!(deadline(&heard, &policy, &record, now).due, Timestamp::MAX);
                assert!(missed_beats(&heard, &record, now).is_some());
            }
        }
    }
}

mod one_guard {
    use super::*;

    /// Members watched, silent and due, the oldest of them due since `oldest`; the window is 30 s.
    fn facts(watched: u32, silent: u32, due: u32, oldest: i64) -> Facts {
        let oldest = (due > 0).then_some(at(oldest));
        Facts { watched, silent, due, oldest, longest: seconds(30) }
    }

    /// Sweeps, each with what it finds and the phase and release that follow; what may go, goes.
    fn check(sweeps: &[(i64, Facts, Phase, Release)]) {
        let limits = Limits { rate: NonZeroU32::MIN.saturating_add(1), ..Limits::default() };
        let mut guard = Guard::default();
        for &(now, facts, phase, release) in sweeps {
            let ruled = guard.rule(facts, &limits, at(now));
            assert_eq!((guard.phase(), ruled), (phase, release), "second {now}");
            guard.released(ruled.of(facts.due), &limits, at(now));
        }
    }

    use Phase::*;
    use Release::*;

    #[test]
    fn more_than_half_of_at_least_ten_are_held() {
        check(&[(0, facts(10, 5, 5, 0), Watching, All)]);
        check(&[(0, facts(10, 6, 1, 0), Holding, AtMost(0))]);
        check(&[(0, facts(9, 9, 9, 0), Watching, All)]);
        check(&[(0, facts(100, 51, 1, 0), Holding, AtMost(0))]);
        check(&[(0, facts(100, 100, 0, 0), Watching, All)]);
    }

    #[test]
    fn those_that_went_stale_within_the_window_count() {
        let first = (0, facts(12, 3, 3, 0), Watching, All);
        check(&[first, (30, facts(9, 4, 4, 30), Holding, AtMost(0))]);
        check(&[first, (30, facts(9, 3, 3, 30), Watching, All)]);
        check(&[first, (31, facts(9, 4, 4, 31), Watching, All)]);
    }

    #[test]
    fn those_that_came_back_within_the_window_do_not() {
        // Five of eleven go stale, return and fall due again: never more than five of eleven.
        let five = |second| (second, facts(11, 5, 5, second), Watching, All);
        check(&[five(0), five(10), five(20)]);
        // A zone of six stays a zone of six.
        let six = |second| (second, facts(6, 6, 6, second), Watching, All);
        check(&[six(0), six(10), six(20)]);
    }

    #[test]
    fn an_episode_does_not_outlive_those_that_were_silent() {
        let hour = |facts| Facts { longest: seconds(3_600), ..facts };
        check(&[
            (0, hour(facts(12, 5, 5, 0)), Watching, All),
            (10, hour(facts(7, 7, 7, 10)), Holding, AtMost(0)),
            (610, hour(facts(7, 7, 7, 10)), Releasing, AtMost(0)),
            (614, hour(facts(7, 7, 7, 10)), Releasing, AtMost(8)),
            (615, hour(facts(0, 0, 0, 0)), Watching, All),
        ]);
    }

    #[test]
    fn a_hold_is_lifted_when_half_are_back() {
        check(&[
            (0, facts(10, 10, 1, 0), Holding, AtMost(0)),
            (9, facts(10, 6, 6, 0), Holding, AtMost(0)),
            (10, facts(10, 5, 5, 0), Watching, All),
            (11, facts(5, 0, 0, 0), Watching, All),
        ]);
    }

    #[test]
    fn after_the_bound_they_go_at_the_rate_until_none_is_silent() {
        check(&[
            (0, facts(10, 10, 4, 0), Holding, AtMost(0)),
            (599, facts(10, 10, 4, 0), Holding, AtMost(0)),
            (600, facts(10, 10, 4, 0), Releasing, AtMost(0)),
            (601, facts(10, 10, 4, 0), Releasing, AtMost(2)),
            (602, facts(8, 8, 2, 0), Releasing, AtMost(2)),
            // No member is due, but most are silent: the episode goes on.
            (603, facts(6, 6, 0, 0), Releasing, AtMost(2)),
            (604, facts(6, 6, 6, 604), Releasing, AtMost(4)),
            (605, facts(2, 2, 2, 604), Releasing, AtMost(2)),
            (606, facts(0, 0, 0, 0), Watching, All),
        ]);
    }

    #[test]
    fn a_late_sweep_makes_up_for_ten_seconds() {
        check(&[
            (0, facts(100, 100, 100, 0), Holding, AtMost(0)),
            (600, facts(100, 100, 100, 0), Releasing, AtMost(0)),
            (900, facts(100, 100, 100, 0), Releasing, AtMost(20)),
        ]);
    }

    #[test]
    fn a_second_wave_is_a_second_episode() {
        check(&[
            (0, facts(10, 10, 10, 0), Holding, AtMost(0)),
            (600, facts(10, 10, 10, 0), Releasing, AtMost(0)),
            (605, facts(10, 10, 10, 0), Releasing, AtMost(10)),
            (606, facts(0, 0, 0, 0), Watching, All),
            (900, facts(10, 10, 1, 900), Holding, AtMost(0)),
        ]);
    }

    #[test]
    fn no_member_is_held_for_longer_than_the_bound_past_its_deadline() {
        check(&[(0, facts(10, 10, 10, -600), Releasing, AtMost(0))]);
        check(&[
            (0, facts(10, 10, 10, -599), Holding, AtMost(0)),
            (1, facts(10, 10, 10, -599), Releasing, AtMost(0)),
        ]);
        // The oldest returns, another falls due: the bound of the hold is not extended.
        check(&[
            (0, facts(10, 10, 1, 0), Holding, AtMost(0)),
            (600, facts(10, 10, 1, 500), Releasing, AtMost(0)),
        ]);
    }

    #[test]
    fn one_long_interval_does_not_add_up_a_week() {
        let week =
            |watched, due, oldest| Facts { longest: seconds(604_800), ..facts(watched, due, due, oldest) };
        check(&[(0, week(12, 6, 0), Watching, All), (3_601, week(6, 1, 3_601), Watching, All)]);
        check(&[(0, week(12, 6, 0), Watching, All), (3_600, week(6, 1, 3_600), Holding, AtMost(0))]);
    }

    #[test]
    fn members_are_counted_by_their_standing() {
        let mut counted = Facts::default();
        let deadline = Deadline { late: at(10), due: at(20), credit: SignedDuration::ZERO, bound: None };
        for now in [10, 11, 20, 21] {
            counted.count(&deadline, seconds(30), at(now));
        }
        assert_eq!(counted, facts(4, 3, 1, 20));
    }
}

mod fleet {
    use super::*;

    fn dark(watched: u32, due: u32) -> Facts {
        Facts { watched, silent: due, due, oldest: (due > 0).then_some(at(0)), longest: seconds(30) }
    }

    fn zones(zones: &[(&str, Facts)]) -> BTreeMap<Zone, Facts> {
        zones.iter().map(|(name, facts)| ((!name.is_empty()).then(|| (*name).to_owned()), *facts)).collect()
    }

    /// One sweep: `zone:released` where something was, then the incidents, `+` raised and `-` closed.
    fn sweep(fleet: &mut Fleet, facts: &[(&str, Facts)], now: i64) -> String {
        let limits = Limits { rate: NonZeroU32::MIN.saturating_add(9), ..Limits::default() };
        let ruling = fleet.rule(&zones(facts), &limits, at(now));
        let name = |zone: &Zone| zone.clone().unwrap_or_default();
        let mut said: Vec<String> =
            ruling.release.iter().map(|(zone, count)| format!("{}:{count}", name(zone))).collect();
        said.extend(ruling.incidents.iter().map(|incident| match incident.change {
            Change::Raise => format!("+{}", name(&incident.zone)),
            Change::Close => format!("-{}", name(&incident.zone)),
        }));
        said.join(" ")
    }

    #[test]
    fn a_dark_zone_is_held_and_the_others_are_not() {
        let mut fleet = Fleet::default();
        let sites = [("paris", dark(20, 20)), ("rome", dark(50, 2)), ("", dark(5, 1))];
        assert_eq!(sweep(&mut fleet, &sites, 1), ":1 rome:2 +paris");
        let sites = [("paris", dark(20, 20)), ("rome", dark(48, 40)), ("", dark(4, 0))];
        assert_eq!(sweep(&mut fleet, &sites, 2), "+ -paris");
    }

    #[test]
    fn a_zone_that_is_most_of_the_fleet_is_the_incident() {
        let mut fleet = Fleet::default();
        let sites = [("paris", dark(20, 20)), ("", dark(5, 1))];
        assert_eq!(sweep(&mut fleet, &sites, 1), "+paris");
        assert_eq!(fleet.whole().phase(), Phase::Holding);
        // Paris returns in part, and the rest falls silent: now it is the whole.
        let sites = [("paris", dark(20, 9)), ("", dark(5, 5))];
        assert_eq!(sweep(&mut fleet, &sites, 2), "+ -paris");
    }

    #[test]
    fn members_held_by_a_zone_do_not_count_twice_in_the_whole() {
        let mut fleet = Fleet::default();
        for now in 1..100 {
            let said = sweep(&mut fleet, &[("paris", dark(20, 20)), ("rome", dark(50, 0))], now);
            assert_eq!(said, if now == 1 { "+paris" } else { "" });
        }
    }

    #[test]
    fn a_dark_fleet_is_one_incident() {
        let mut fleet = Fleet::default();
        let sites = [("paris", dark(20, 20)), ("rome", dark(20, 20)), ("oslo", dark(5, 5))];
        assert_eq!(sweep(&mut fleet, &sites, 1), "+");
        // The rest of the fleet returns: what remains is the incident of the zone that did not.
        let sites = [("paris", dark(20, 20)), ("rome", dark(20, 0)), ("oslo", dark(5, 1))];
        assert_eq!(sweep(&mut fleet, &sites, 2), "oslo:1 - +paris");
        assert_eq!(sweep(&mut fleet, &[("rome", dark(20, 0))], 3), "-paris");
        assert_eq!(fleet.zones().len(), 0, "a zone without members is forgotten");
    }

    #[test]
    fn the_zones_share_the_rate_of_the_whole_and_the_longest_due_goes_first() {
        let mut fleet = Fleet::default();
        let later = Facts { oldest: Some(at(1)), ..dark(20, 20) };
        let sites = [("oslo", later), ("paris", dark(20, 16)), ("", later)];
        assert_eq!(sweep(&mut fleet, &sites, 1), "+");
        assert_eq!(sweep(&mut fleet, &sites, 601), "");
        assert_eq!(sweep(&mut fleet, &sites, 602), "paris:10");
        let sites = [("oslo", later), ("paris", dark(10, 6)), ("", later)];
        assert_eq!(sweep(&mut fleet, &sites, 603), ":4 paris:6");
    }

    #[test]
    fn the_stricter_of_two_guards_is_the_one_to_name() {
        let mut fleet = Fleet::default();
        let paris = Some("paris".to_owned());
        let holder = |fleet: &Fleet, zone: &Zone| fleet.held(zone, &Limits::default()).map(|held| held.zone);
        sweep(&mut fleet, &[("paris", dark(20, 0)), ("rome", dark(30, 30))], 1);
        assert_eq!(holder(&fleet, &paris), Some(None), "the whole is held, paris is not");
        let late = Facts { oldest: Some(at(601)), ..dark(20, 20) };
        sweep(&mut fleet, &[("paris", late), ("rome", dark(30, 30))], 601);
        assert_eq!(fleet.whole().phase(), Phase::Releasing);
        assert_eq!(holder(&fleet, &paris), Some(paris), "the whole lets go, paris is held");
    }

    #[test]
    fn the_guards_survive_storage() {
        let mut fleet = Fleet::default();
        sweep(&mut fleet, &[("paris", dark(20, 20)), ("rome", dark(50, 2))], 1);
        let json = serde_json::to_string(&fleet).unwrap();
        assert_eq!(serde_json::from_str::<Fleet>(&json).unwrap(), fleet);
    }

    #[test]
    fn incidents_and_why_say_what_happens() {
        let mut fleet = Fleet::default();
        let limits = Limits::default();
        let sites = zones(&[("paris", dark(20, 12)), ("rome", dark(50, 2))]);
        let incident = fleet.rule(&sites, &limits, at(1)).incidents.remove(0);
        let held = "12 of 20 members of zone \"paris\" are silent together: suspected since \
                    2027-01-15T08:00:01Z, and held until they return or until 2027-01-15T08:10:00Z at the latest.";
        assert_eq!(incident.why, held);

        let why = |interval, zone: &str, deaf, now| {
            let heard = Heard { last: at(-91), interval };
            let held = fleet.held(&Some(zone.to_owned()), &limits);
            Silence::of(&heard, &Policy::default(), &listening(deaf), held, at(now)).to_string()
        };
        let known =
            "Last heard 2027-01-15T07:58:29Z; it has missed 3 beats (@every 00h00m30s), and 3 are too many";
        assert_eq!(
            why(every(30), "paris", &[], 1),
            format!("{known}; it has counted as silent since 2027-01-15T07:59:59Z. {held}")
        );
        assert_eq!(
            why(every(30), "rome", &[], 1),
            format!("{known}; it has counted as silent since 2027-01-15T07:59:59Z.")
        );
        assert_eq!(
            why(every(30), "paris", &[(Cause::Pause, -90, -80)], 10),
            format!(
                "{known}; it has counted as silent since 2027-01-15T08:00:09Z, with 10s added in which the server did not listen. {held}"
            )
        );
        assert_eq!(
            why(every(30), "paris", &[(Cause::Replica, -90, -80), (Cause::Replica, -8, 2)], 10),
            "Last heard 2027-01-15T07:58:29Z; it has missed 2 beats (@every 00h00m30s), and 3 are too many; it counts \
             as silent from 2027-01-15T08:01:08Z on, with 20s added in which a server did not listen. Another server \
             stopped with heartbeats that it may not have stored, or refused heartbeats: the member has until then to \
             reach another server, and until 2027-01-15T08:01:49Z at the latest, however often that happens."
        );
        assert_eq!(
            why(None, "paris", &[], 1),
            "Last heard 2027-01-15T07:58:29Z; it never reported its interval; it counts as silent from 2027-01-15T08:13:29Z on."
        );

        let incident = fleet.rule(&zones(&[("paris", dark(20, 3))]), &limits, at(2)).incidents.remove(0);
        assert_eq!(incident.why, "It is over: 3 of 20 members are silent, 3 of them due.");
    }

    /// The end of an incident says whether its members came back or went stale.
    #[test]
    fn the_end_of_an_incident_names_the_stale_members() {
        let check = |left: Facts, expected: &str| {
            let mut fleet = Fleet::default();
            let rule = |fleet: &mut Fleet, paris: Facts, now: i64| {
                let sites = zones(&[("paris", paris), ("rome", dark(50, 0))]);
                fleet.rule(&sites, &Limits::default(), at(now))
            };
            // Twice: what went stale in an incident before does not count.
            for start in [0, 10_000] {
                let due = |start: i64| Facts { oldest: Some(at(start)), ..dark(20, 12) };
                assert_eq!(rule(&mut fleet, due(start), start + 1).incidents.len(), 1);
                let ruling = rule(&mut fleet, due(start), start + 700);
                assert_eq!((ruling.release.values().sum::<u32>(), ruling.incidents.len()), (0, 0));
                let released = rule(&mut fleet, due(start), start + 710).release.values().sum::<u32>();
                assert_eq!(released, 12);
                let incident = rule(&mut fleet, left, start + 711).incidents.remove(0);
                assert_eq!((incident.change, incident.why.as_str()), (Change::Close, expected));
            }
        };
        check(
            dark(8, 0),
            "It is over: 12 members went stale; 0 of 8 other members are silent, 0 of them due.",
        );
        check(dark(0, 0), "It is over: 12 members went stale, and no other one is watched.");
    }
}

/// Whatever the number, an interval is spread by a tenth at most, and stays one.
#[test]
fn the_next_interval_is_spread_a_little() {
    let spread = |seconds: u32, percent: u32, random: u32| {
        Interval::from_seconds(seconds).unwrap().spread(percent, random).seconds()
    };
    assert_eq!([0, 10, 20].map(|random| spread(30, 10, random)), [27, 30, 33]);
    assert_eq!(spread(30, 0, u32::MAX), 30, "no jitter");
    assert_eq!(
        [0, 20].map(|random| spread(100, 90, random)),
        [90, 110],
        "a tenth is all that is allowed for"
    );
    assert_eq!([0, 20].map(|random| spread(1, 10, random)), [1, 1]);
    let longest = Interval::LONGEST.seconds();
    assert_eq!(spread(longest, 10, 20), longest);
    for random in 0..1000 {
        let next = SignedDuration::from_secs(spread(60, 10, random).into());
        assert!(next * 2 <= Interval::from_seconds(60).unwrap().healthy_gap());
    }
}
