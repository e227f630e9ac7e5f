//! The Redfish client against the fake: power, booting, passwords, certificates, and every class of failure.

#![expect(clippy::unwrap_used, reason = "a panic is how a test says no")]

mod sushy;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use wardroom_fakes::redfish::{Config, Fake, Fault};
use wardroom_upstream::{
    Gate,
    redfish::{Class, Password, PowerState, Redfish, Repeat, Reset, Settings, Trust},
};

async fn start(config: Config) -> Fake {
    Fake::start(config, "127.0.0.1:0".parse().unwrap()).await.unwrap()
}

fn settings(fake: &Fake) -> Settings {
    Settings {
        url: fake.url(),
        user: "root".to_owned(),
        password: Password("calvin".to_owned()),
        trust: Trust::Insecure,
        timeout: Duration::from_secs(20),
        gate: Gate::open(),
    }
}

fn client(fake: &Fake) -> Redfish {
    Redfish::new(settings(fake)).unwrap()
}

#[tokio::test]
async fn power_follows_a_reset() {
    let fake = start(Config { systems: 2, ..Config::default() }).await;
    let bmc = client(&fake);
    bmc.check_credentials().await.unwrap();
    let systems = bmc.systems().await.unwrap();
    assert_eq!(systems, ["/redfish/v1/Systems/1", "/redfish/v1/Systems/2"]);
    assert_eq!(bmc.power("1").await.unwrap(), PowerState::Off);
    bmc.boot_from_network_once("1").await.unwrap();
    let system = bmc.system(&systems[0]).await.unwrap();
    assert_eq!(system.boot.enabled.as_deref(), Some("Once"));
    assert_eq!(system.boot.target.as_deref(), Some("Pxe"));
    assert_eq!((system.id.as_str(), system.serial.as_deref()), ("1", Some("SN1")));
    for (reset, power) in [
        (Reset::On, PowerState::On),
        (Reset::GracefulShutdown, PowerState::Off),
        (Reset::ForceRestart, PowerState::On),
        (Reset::ForceOff, PowerState::Off),
    ] {
        bmc.reset("1", reset).await.unwrap();
        assert_eq!(bmc.power("1").await.unwrap(), power, "{reset:?}");
        assert_eq!(bmc.power("2").await.unwrap(), PowerState::Off, "and only this one");
    }
    let system = fake.system("1").unwrap();
    assert_eq!(system.booted_from.as_deref(), Some("Hdd"), "the network was for once");
    assert_eq!(system.resets.len(), 4);
    assert_eq!(bmc.power("9").await.unwrap_err().class, Class::Gone);
}

#[tokio::test]
async fn a_wrong_password_is_not_an_absent_bmc() {
    let fake = start(Config { lock_after: Some(2), ..Config::default() }).await;
    let wrong = Settings { password: Password("wrong".to_owned()), ..settings(&fake) };
    let wrong = Redfish::new(wrong).unwrap();
    let right = client(&fake);
    for _ in 0..2 {
        right.check_credentials().await.unwrap();
        let error = wrong.check_credentials().await.unwrap_err();
        assert_eq!((error.class.clone(), error.repeat()), (Class::Credentials, Repeat::Never));
    }
    wrong.check_credentials().await.unwrap_err();
    let locked = right.check_credentials().await.unwrap_err();
    assert_eq!(locked.class, Class::Credentials, "two in a row lock the account");
    assert!(!format!("{wrong:?} {right:?} {locked:?}").contains("calvin"));

    let address = fake.address();
    drop((fake, right));
    let absent = Settings {
        url: format!("http://{address}"),
        user: "root".to_owned(),
        password: Password("calvin".to_owned()),
        trust: Trust::Insecure,
        timeout: Duration::from_secs(5),
        gate: Gate::open(),
    };
    let absent = Redfish::new(absent).unwrap().check_credentials().await.unwrap_err();
    assert!(matches!(absent.class, Class::Unreachable(_)), "{absent}");
    assert_eq!(absent.repeat(), Repeat::Blind(None));
}

#[tokio::test]
async fn a_failure_says_what_may_be_done_next() {
    let fake = start(Config::default()).await;
    let bmc = Redfish::new(Settings { timeout: Duration::from_millis(300), ..settings(&fake) }).unwrap();
    let after = Some(Duration::from_secs(5));
    for (fault, class, repeat) in [
        (Fault::Status(500), "Ambiguous", Repeat::Blind(None)),
        (Fault::Status(503), "Busy", Repeat::Blind(after)),
        (Fault::Status(403), "Forbidden", Repeat::Never),
        (Fault::Status(400), "Refused", Repeat::Never),
        (Fault::Status(501), "Refused", Repeat::Never),
        (Fault::Silence, "Ambiguous", Repeat::Blind(None)),
        (Fault::LostReply, "Ambiguous", Repeat::Blind(None)),
    ] {
        fake.fault(fault);
        let error = bmc.power("1").await.unwrap_err();
        assert!(format!("{:?}", error.class).starts_with(class), "{fault:?}: {error:?}");
        assert_eq!(error.repeat(), repeat, "{fault:?}");
    }
    // The first request of a reset only looks; the second one acts, and is done although its reply is lost.
    fake.fault(Fault::Slow(1));
    fake.fault(Fault::LostReply);
    let error = bmc.reset("1", Reset::ForceRestart).await.unwrap_err();
    assert_eq!(error.repeat(), Repeat::Observe, "{error}");
    assert_eq!(fake.system("1").unwrap().resets["ForceRestart"], 1);
}

#[tokio::test]
async fn only_the_expected_certificate_gets_the_password() {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let pem = made.cert.pem().into_bytes();
    let tls = Some((pem.clone(), made.signing_key.serialize_pem().into_bytes()));
    let fake = start(Config { tls, ..Config::default() }).await;
    let with = |trust| Redfish::new(Settings { trust, ..settings(&fake) }).unwrap();
    let pin = sushy::fingerprint(made.cert.der());
    for trust in [Trust::Fingerprint(pin), Trust::Authorities(pem), Trust::Insecure] {
        with(trust.clone()).check_credentials().await.unwrap_or_else(|error| panic!("{trust:?}: {error}"));
    }
    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let other = other.cert.pem().into_bytes();
    for trust in [Trust::Fingerprint([7; 32]), Trust::Authorities(other), Trust::System] {
        let error = with(trust.clone()).check_credentials().await.unwrap_err();
        assert!(matches!(error.class, Class::Untrusted(_)), "{trust:?}: {error}");
        assert_eq!(error.repeat(), Repeat::Never);
    }
    let plain = Settings { url: "http://127.0.0.1:1".to_owned(), trust: Trust::System, ..settings(&fake) };
    assert!(Redfish::new(plain).unwrap_err().contains("without TLS"));
}

#[tokio::test]
async fn a_bmc_cannot_send_the_password_elsewhere() {
    let fake = start(Config::default()).await;
    let bmc = client(&fake);
    for path in ["//elsewhere.example/redfish/v1/Systems/1", "/other/1", "/redfish/../other"] {
        let error = bmc.power(path).await.unwrap_err();
        assert!(matches!(error.class, Class::Unreadable(_)), "{path}: {error}");
    }
}

/// Answers every connection with the same bytes, and counts them.
async fn answering(answer: String) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (url, heard) = (format!("http://{}", listener.local_addr().unwrap()), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&heard);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            let _ = socket.read(&mut [0; 4096]).await;
            let _ = socket.write_all(answer.as_bytes()).await;
        }
    });
    (url, heard)
}

fn at(url: String, gate: Gate) -> Result<Redfish, String> {
    let (user, password) = ("root".to_owned(), Password("calvin".to_owned()));
    let timeout = Duration::from_secs(5);
    Redfish::new(Settings { url, user, password, trust: Trust::Insecure, timeout, gate })
}

/// What listens at the address of a BMC may be another program, whose answers concern nobody here.
#[tokio::test]
async fn a_body_is_not_shown_unless_it_is_an_error_of_redfish() {
    let page = "the-internal-page of another service";
    let told = r#"{"error":{"@Message.ExtendedInfo":[{"Message":"The account may not log in."}],"code":"Base.1.0.X"}}"#;
    for (status, body, shown) in [
        (403, page, false),
        (400, page, false),
        (500, page, false),
        (400, r#"{"message":"the-internal-page"}"#, false),
        (200, r#"{"Members":"the-internal-page"}"#, false),
        (403, told, true),
    ] {
        let length = body.len();
        let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
        let (url, _) = answering(format!("{head}{body}")).await;
        let error = at(url, Gate::open()).unwrap().systems().await.unwrap_err();
        let said = format!("{error} {error:?}");
        assert!(!said.contains("internal-page"), "{said}");
        assert_eq!(said.contains("may not log in"), shown, "{said}");
    }
}

/// The password goes nowhere but through the gate, on the address of the connection itself, and no redirect takes it along.
#[tokio::test]
async fn a_password_goes_through_the_gate_or_stays() {
    let (url, heard) = answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned()).await;
    let closed = || Gate::new(|address| Err(format!("{address} is elsewhere")));
    assert!(at(url.clone(), closed()).unwrap_err().contains("127.0.0.1 is elsewhere"));
    let named = url.replace("127.0.0.1", "localhost");
    let error = at(named.clone(), closed()).unwrap().check_credentials().await.unwrap_err();
    assert!(matches!(&error.class, Class::Elsewhere(why) if why.contains("localhost")), "{error:?}");
    assert_eq!((error.repeat(), heard.load(Ordering::Relaxed)), (Repeat::Never, 0));
    let _ = at(named, Gate::open()).unwrap().check_credentials().await;
    assert_eq!(heard.load(Ordering::Relaxed), 1, "the same name through an open gate");

    let (other, heard) = answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_owned()).await;
    let head = format!("HTTP/1.1 307 X\r\nlocation: {other}/redfish/v1/Systems\r\n");
    let (url, _) = answering(format!("{head}content-length: 0\r\nconnection: close\r\n\r\n")).await;
    at(url, Gate::open()).unwrap().systems().await.unwrap_err();
    assert_eq!(heard.load(Ordering::Relaxed), 0, "a redirect was followed");
}
