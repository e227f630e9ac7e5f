//! The MAAS client against the fake: a life, and every class of failure with what may be done next.

#![expect(clippy::unwrap_used, reason = "a panic is how a test says no")]

mod contract;
mod support;

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use support::{client, impatient, onboarded, settings, start};
use wardroom_core::gpu_node::maas::{Observed, Power, Status};
use wardroom_fakes::maas::{Bmc, Change, Config, Fault, FaultKind, Outcome, OverLimit, Pace, Seed};
use wardroom_upstream::{
    Gate,
    maas::{
        Class, Commission, Effect, Erase, Filter, Key, Level, Maas, NewMachine, PowerDriver, Release, Repeat,
        Secret, Settings, StopMode,
    },
};

const NOTHING: Release<'static> = Release { erase: Erase::No, comment: "test" };

#[tokio::test]
async fn a_machine_lives_from_new_to_deleted() {
    let fake = start(Config { pace: Pace::all(Duration::ZERO), ..Config::default() }).await;
    let maas = client(&fake);
    let id = onboarded(&maas).await;
    let machine = maas.machine(&id).await.unwrap();
    assert_eq!(machine.observed(), Observed::Present { status: Status::Deployed, power: Power::On });
    assert_eq!((machine.osystem.as_str(), machine.distro_series.as_str()), ("ubuntu", "jammy"));
    assert_eq!(machine.status_message.as_deref(), Some("Deployed"));
    assert_eq!(machine.owner.as_deref(), Some("admin"));
    assert_eq!(machine.owner_data["run"], "7");
    assert!(machine.has_tag("ours") && machine.last_sync.is_some() && machine.enable_hw_sync);
    assert_eq!(machine.boot_disk.unwrap().model, "DELLBOSS VD");
    assert_eq!(machine.boot_interface.unwrap().mac_address, "52:54:00:00:00:01");

    maas.lock(&id, "in use").await.unwrap();
    let refused = maas.release(&id, &NOTHING).await.unwrap_err();
    assert!(matches!(refused.class, Class::Forbidden(_)), "{refused}");
    assert_eq!(refused.repeat(), Repeat::Never);
    maas.unlock(&id, "leaving").await.unwrap();
    maas.release(&id, &Release { erase: Erase::SecureOrQuick, comment: "leaving" }).await.unwrap();
    // The commissioning passed, so the release ends in `Ready`.
    assert_eq!(maas.machine(&id).await.unwrap().status, Status::Ready);
    maas.power_off(&id, StopMode::Hard, "leaving").await.unwrap();
    assert_eq!(maas.query_power(&id).await.unwrap(), Power::Off);
    let events = maas.events(&id, Level::Debug, 100, None).await.unwrap();
    assert!(events.iter().any(|event| event.description == "(admin) - leaving"), "{events:?}");
    let after = Some(events[0].id);
    assert_eq!(maas.events(&id, Level::Debug, 100, after).await.unwrap(), []);
    maas.delete(&id).await.unwrap();
    let gone = maas.delete(&id).await.unwrap_err();
    assert_eq!((gone.class.clone(), gone.repeat()), (Class::Gone, Repeat::Never));
    assert_eq!(maas.machines(&[&id]).await.unwrap(), [], "a list does not know it, and is not an error");
    assert_eq!(fake.effects()[&id]["deploy"], 1);
}

/// The key goes nowhere but through the gate, and a name that leads elsewhere is not asked for again.
#[tokio::test]
async fn a_key_goes_through_the_gate_or_stays() {
    let fake = start(Config::default()).await;
    let closed = || Gate::new(|address| Err(format!("{address} is elsewhere")));
    let named = fake.url().replace("127.0.0.1", "localhost");
    let maas = Maas::new(Settings { url: named.clone(), gate: closed(), ..settings(&fake) }).unwrap();
    let error = maas.whoami().await.unwrap_err();
    assert!(matches!(&error.class, Class::Elsewhere(why) if why.contains("localhost")), "{error:?}");
    assert_eq!((error.repeat(), error.did_nothing()), (Repeat::Never, true));
    let maas = Maas::new(Settings { url: named, ..settings(&fake) }).unwrap();
    maas.whoami().await.expect("the same name through an open gate");
}

#[tokio::test]
async fn work_that_fails_shows_why() {
    let fake = start(Config { pace: Pace::all(Duration::ZERO), ..Config::default() }).await;
    let maas = client(&fake);
    let id = fake.seed(&Seed { configured: true, ..Seed::default() });
    let fail = |why: &str| vec![Outcome::Fail(why.to_owned())];
    let outcomes = [
        ("commissioning".to_owned(), fail("script exited 1")),
        ("deploying".to_owned(), fail("Node operation 'Deploying' timed out after 30 minutes.")),
    ];
    fake.change(&id, &Change { outcomes: outcomes.into(), ..Change::default() });
    maas.commission(&id, &Commission::default()).await.unwrap();
    assert_eq!(maas.machine(&id).await.unwrap().status, Status::FailedCommissioning);
    let kept = Commission { keep_networking: true, keep_storage: true, ..Commission::default() };
    fake.change(&id, &Change { status: Some(Status::New), ..Change::default() });
    maas.commission(&id, &kept).await.unwrap();
    support::wire(&maas, &id).await;
    support::deploy(&maas, &id).await.unwrap();
    let machine = maas.machine(&id).await.unwrap();
    assert_eq!(machine.status, Status::FailedDeployment);
    assert!(machine.status_message.unwrap().contains("timed out"));
    let again = support::deploy(&maas, &id).await.unwrap_err();
    assert!(matches!(again.class, Class::WrongState(_)), "{again}");
    assert_eq!(again.repeat(), Repeat::Observe);
}

#[tokio::test]
async fn a_failure_says_what_may_be_done_next() {
    let fake = start(Config::default()).await;
    let maas = client(&fake);
    let id = fake.seed(&Seed::default());
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    // kind of fault, class, what to do after a commission, and after a read
    let cases: [(FaultKind, &str, Repeat, Repeat); 10] = [
        (FaultKind::Status(500), "Ambiguous", Repeat::Observe, Repeat::Blind(None)),
        (FaultKind::Status(504), "Ambiguous", Repeat::Observe, Repeat::Blind(None)),
        // Not in the words of MAAS.
        (FaultKind::Status(404), "Ambiguous", Repeat::Observe, Repeat::Blind(None)),
        (FaultKind::HangUp, "Ambiguous", Repeat::Observe, Repeat::Blind(None)),
        (FaultKind::Garbage, "Unreadable", Repeat::Observe, Repeat::Blind(None)),
        (FaultKind::Busy, "Busy", Repeat::Blind(seconds(5)), Repeat::Blind(seconds(5))),
        (FaultKind::Unavailable, "Unavailable", Repeat::Observe, Repeat::Blind(seconds(10))),
        (FaultKind::Conflict, "WrongState", Repeat::Observe, Repeat::Observe),
        (FaultKind::Unauthorized, "Credentials", Repeat::Never, Repeat::Never),
        (FaultKind::Status(418), "Malformed", Repeat::Never, Repeat::Never),
    ];
    for (kind, class, effect, read) in cases {
        fake.fault(Fault::of("commission", kind));
        fake.fault(Fault::of("read", kind));
        let error = maas.commission(&id, &Commission::default()).await.unwrap_err();
        assert!(format!("{:?}", error.class).starts_with(class), "{kind:?}: {error:?}");
        assert_eq!(error.repeat(), effect, "{kind:?}");
        let error = maas.machine(&id).await.unwrap_err();
        assert_eq!((error.repeat(), error.effect), (read, Effect::None), "{kind:?}");
    }
    assert!(fake.effects().is_empty(), "none of them was done: {:?}", fake.effects());
}

#[tokio::test]
async fn a_lost_reply_is_found_by_looking() {
    let fake = start(Config::default()).await;
    let maas = client(&fake);
    let new = NewMachine {
        hostname: "gpu-1",
        architecture: "amd64/generic",
        macs: &["52:54:00:00:00:01"],
        power: PowerDriver::Manual,
        description: "",
    };
    for kind in [FaultKind::HangUp, FaultKind::Status(504), FaultKind::Garbage] {
        fake.fault(Fault::of("create", kind).after());
        let lost = maas.create(&new).await.unwrap_err();
        assert_eq!(lost.repeat(), Repeat::Observe, "{lost}");
        let again = maas.create(&new).await.unwrap_err();
        assert!(again.is_taken(), "{again}");
        assert_eq!(again.repeat(), Repeat::Observe);
        let found = maas.find(&Filter { macs: new.macs, ..Filter::default() }).await.unwrap();
        assert_eq!(found.len(), 1, "made once");
        assert_eq!(fake.effects()[&found[0].system_id]["create"], 1);
        maas.delete(&found[0].system_id).await.unwrap();
    }
}

#[tokio::test]
async fn silence_and_absence_end_in_time() {
    let fake = start(Config::default()).await;
    let id = fake.seed(&Seed { status: Some(Status::Ready), ..Seed::default() });
    let maas = impatient(&fake);
    fake.fault(Fault::of("commission", FaultKind::Silence).after());
    let error = maas.commission(&id, &Commission::default()).await.unwrap_err();
    assert!(matches!(error.class, Class::Ambiguous(_)), "{error}");
    assert_eq!(fake.effects()[&id]["commission"], 1, "and it was done");
    drop(fake);
    let error = maas.commission(&id, &Commission::default()).await.unwrap_err();
    assert!(matches!(error.class, Class::Unreachable(_) | Class::Ambiguous(_)), "{error}");
    let error = maas.commission(&id, &Commission::default()).await.unwrap_err();
    assert!(matches!(error.class, Class::Unreachable(_)), "nothing was sent: {error}");
    assert_eq!(error.repeat(), Repeat::Blind(None));
}

#[tokio::test]
async fn no_secret_is_kept_in_an_error() {
    let fake = start(Config { key: "consumer:token:hunter2".to_owned(), ..Config::default() }).await;
    let settings = |key: &str| Settings { key: key.parse().unwrap(), ..support::settings(&fake) };
    // The fake's answer to a wrong secret contains the right one.
    let wrong = Maas::new(settings("consumer:token:wrong")).unwrap();
    let error = wrong.whoami().await.unwrap_err();
    assert_eq!(error.class, Class::Credentials);
    let right = Maas::new(settings("consumer:token:hunter2")).unwrap();
    assert_eq!(right.whoami().await.unwrap().username, "admin");
    let echo = Fault::of("create", FaultKind::Echo);
    fake.fault(echo);
    let password = Secret("correct horse".to_owned());
    let driver =
        PowerDriver::Redfish { address: "10.0.0.9", user: "root", password: &password, node_id: "1" };
    let new = NewMachine {
        hostname: "gpu-1",
        architecture: "amd64/generic",
        macs: &["52:54:00:00:00:01"],
        power: driver,
        description: "seen",
    };
    let echoed = right.create(&new).await.unwrap_err();
    let kept = format!("{error:?} {error} {echoed:?} {echoed} {right:?} {new:?}");
    assert!(kept.contains("seen"), "{kept}");
    assert!(!kept.contains("hunter2") && !kept.contains("correct horse"), "{kept}");
}

/// A sentence or the errors of fields are MAAS's; a page comes from something else at its address.
#[tokio::test]
async fn a_body_is_not_shown_unless_it_is_an_error_of_maas() {
    let fake = start(Config::default()).await;
    let page = "<html>the-internal-page</html>";
    for (status, kind, body, shown) in [
        (403, "text/html", page, None),
        (500, "text/html", page, None),
        (503, "application/json", r#"{"detail":"the-internal-page"}"#, None),
        (200, "application/json", r#""the-internal-page""#, None),
        (404, "text/plain", "the-internal-page", None),
        (409, "text/plain", "It is in the 'New' state.", Some("'New' state")),
        (400, "application/json", r#"{"pool":["No such pool."]}"#, Some("pool: No such pool.")),
    ] {
        let length = body.len();
        let head = format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n");
        let url = answering(format!("{head}connection: close\r\n\r\n{body}")).await;
        let maas = Maas::new(Settings { url, ..support::settings(&fake) }).unwrap();
        let error = maas.whoami().await.unwrap_err();
        let said = format!("{error} {error:?}");
        assert!(!said.contains("internal-page"), "{said}");
        assert!(shown.is_none_or(|shown| said.contains(shown)), "{said}");
    }
}

/// Answers every connection with the same bytes.
async fn answering(answer: String) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/MAAS", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let _ = socket.read(&mut [0; 4096]).await;
            let _ = socket.write_all(answer.as_bytes()).await;
        }
    });
    url
}

#[tokio::test]
async fn clocks_that_differ_are_a_matter_of_credentials() {
    let fake = start(Config::default()).await;
    let late = Settings { clock: || jiff::Timestamp::UNIX_EPOCH, ..support::settings(&fake) };
    let error = Maas::new(late).unwrap().whoami().await.unwrap_err();
    assert_eq!(error.class, Class::Credentials);
    assert!("a:b".parse::<Key>().is_err());
}

#[tokio::test]
async fn a_bmc_that_fails_leaves_the_status_changed() {
    let fake = start(Config::default()).await;
    let maas = client(&fake);
    let id = fake.seed(&Seed::default());
    fake.change(&id, &Change { bmc: Some(Bmc::Fails), ..Change::default() });
    let error = maas.commission(&id, &Commission::default()).await.unwrap_err();
    assert_eq!(error.repeat(), Repeat::Observe, "{error}");
    assert_eq!(maas.machine(&id).await.unwrap().status, Status::Commissioning, "it was accepted");
    assert_eq!(maas.query_power(&id).await.unwrap(), Power::Error, "which is not off");
}

#[tokio::test]
async fn a_site_is_read_in_few_requests() {
    let fake = start(Config { machines: 250, record: true, ..Config::default() }).await;
    let maas = client(&fake);
    let ids = fake.machines();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    assert_eq!(maas.machines(&ids).await.unwrap().len(), 250);
    assert_eq!(fake.take_requests().len(), 3, "a hundred in a request");
    let all = maas.find(&Filter { pool: Some("default"), ..Filter::default() }).await.unwrap();
    assert_eq!((all.len(), fake.take_requests().len()), (250, 1));
    assert_eq!(maas.find(&Filter { tags: &["ours"], ..Filter::default() }).await.unwrap(), []);
}

#[tokio::test]
async fn more_than_the_limit_is_refused_or_waits() {
    for (over, class) in [(OverLimit::Refuse, "Unavailable"), (OverLimit::TooMany, "Throttled")] {
        let fake =
            start(Config { requests_per_second: Some(5), over_limit: over, ..Config::default() }).await;
        let maas = client(&fake);
        let mut refused = None;
        for _ in 0..50 {
            if let Err(error) = maas.version().await {
                refused = Some(error);
                break;
            }
        }
        let refused = refused.unwrap();
        assert!(format!("{:?}", refused.class).starts_with(class), "{refused:?}");
        assert_eq!(refused.repeat(), Repeat::Blind(Some(Duration::from_secs(1))));
    }
}

#[tokio::test]
async fn a_thousand_machines_are_held() {
    let fake = start(Config { machines: 1000, pace: Pace::all(Duration::ZERO), ..Config::default() }).await;
    let maas = client(&fake);
    let ids = fake.machines();
    for id in &ids {
        maas.commission(id, &Commission::default()).await.unwrap();
    }
    let ready = maas.find(&Filter::default()).await.unwrap();
    assert_eq!(ready.len(), 1000);
    assert!(ready.iter().all(|machine| machine.status == Status::Ready));
    assert!(fake.effects().values().all(|ops| ops["commission"] == 1));
}

#[tokio::test]
async fn hardware_reports_come_or_do_not() {
    let interval = Duration::from_millis(20);
    let config = Config { pace: Pace::all(Duration::ZERO), sync_interval: interval, ..Config::default() };
    let fake = start(config).await;
    let maas = client(&fake);
    let id = onboarded(&maas).await;
    assert_eq!(fake.user_data(&id), b"#cloud-config\n");
    let first = maas.machine(&id).await.unwrap().last_sync;
    let mut last = first;
    while last == first {
        tokio::time::sleep(interval).await;
        last = maas.machine(&id).await.unwrap().last_sync;
    }
    assert!(last > first);
    fake.change(&id, &Change { sync_works: Some(false), ..Change::default() });
    let last = maas.machine(&id).await.unwrap().last_sync;
    tokio::time::sleep(3 * interval).await;
    assert_eq!(maas.machine(&id).await.unwrap().last_sync, last, "a system that is silent stays silent");
}

/// A proxy may name the time to come again by a date, which is understood like seconds.
#[tokio::test]
async fn a_date_says_when_to_come_again() {
    let fake = start(Config::default()).await;
    let maas = client(&fake);
    // The rest of the five minutes depends on how long reading took.
    let year = 365 * 24 * 3600;
    for (named, least, most) in [(300, 200, 300), (year, 600, 600), (0, 0, 0), (-year, 0, 0)] {
        for status in [409, 429, 503] {
            fake.fault(Fault::of("whoami", FaultKind::LaterAt(status, named)));
            let error = maas.whoami().await.unwrap_err();
            let Repeat::Blind(Some(after)) = error.repeat() else { panic!("{status} {named}: {error:?}") };
            assert!((least..=most).contains(&after.as_secs()), "{status} {named}: {after:?}");
        }
    }
}
