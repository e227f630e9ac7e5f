//! The client against a Redfish that is not ours: sushy-tools with its fake driver.

#![expect(clippy::print_stdout, reason = "a test says what it leaves out")]

use std::{
    fs,
    net::TcpListener,
    process::{Child, Command, Stdio},
    time::Duration,
};

use sha2::{Digest as _, Sha256};
use wardroom_upstream::{
    Gate,
    redfish::{Class, Password, PowerState, Redfish, Reset, Settings, Trust},
};

/// `root` with the password `calvin`.
const ACCOUNTS: &str = "root:$2b$04$oqyNwwS0pI5r2H3IL94U2uI2nK22fggbPjduSysJbXzA0xeHtKV2C\n";

struct Emulator {
    child: Child,
    _folder: tempfile::TempDir,
    url: String,
    certificate: Vec<u8>,
    pin: [u8; 32],
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn fingerprint(certificate: &[u8]) -> [u8; 32] {
    Sha256::digest(certificate).into()
}

/// Nothing when the program is not there.
fn start() -> Option<Emulator> {
    let Some(program) = std::env::var_os("WARDROOM_TEST_SUSHY") else {
        println!("sushy-emulator is not there: run ./dev test");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    fs::write(path("cert.pem"), made.cert.pem()).unwrap();
    fs::write(path("key.pem"), made.signing_key.serialize_pem()).unwrap();
    fs::write(path("accounts"), ACCOUNTS).unwrap();
    let config = format!(
        "SUSHY_EMULATOR_AUTH_FILE = {:?}\nSUSHY_EMULATOR_STATE_DIR = {:?}\n",
        path("accounts"),
        folder.path()
    );
    fs::write(path("config.py"), config).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let child = Command::new(program)
        .args(["--fake", "--interface", "127.0.0.1", "--port", &port.to_string(), "--config"])
        .arg(path("config.py"))
        .arg("--ssl-certificate")
        .arg(path("cert.pem"))
        .arg("--ssl-key")
        .arg(path("key.pem"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    Some(Emulator {
        child,
        url: format!("https://127.0.0.1:{port}"),
        certificate: made.cert.pem().into_bytes(),
        pin: fingerprint(made.cert.der()),
        _folder: folder,
    })
}

impl Emulator {
    fn client(&self, password: &str, trust: Trust) -> Redfish {
        let settings = Settings {
            url: self.url.clone(),
            user: "root".to_owned(),
            password: Password(password.to_owned()),
            trust,
            timeout: Duration::from_secs(20),
            gate: Gate::open(),
        };
        Redfish::new(settings).unwrap()
    }
}

#[tokio::test]
async fn a_real_emulator_is_understood() {
    let Some(emulator) = start() else { return };
    let bmc = emulator.client("calvin", Trust::Fingerprint(emulator.pin));
    for _ in 0..300 {
        match bmc.check_credentials().await.map_err(|error| error.class) {
            Err(Class::Unreachable(_)) => tokio::time::sleep(Duration::from_millis(100)).await,
            other => {
                other.unwrap();
                break;
            }
        }
    }
    let wrong = emulator.client("wrong", Trust::Authorities(emulator.certificate.clone()));
    assert_eq!(wrong.check_credentials().await.unwrap_err().class, Class::Credentials);
    let stranger = emulator.client("calvin", Trust::Fingerprint([7; 32]));
    let stranger = stranger.check_credentials().await.unwrap_err();
    assert!(matches!(stranger.class, Class::Untrusted(_)), "{stranger}");

    let systems = bmc.systems().await.unwrap();
    let system = bmc.system(&systems[0]).await.unwrap();
    assert_eq!((system.power, system.name.as_str()), (PowerState::Off, "fake"));
    bmc.boot_from_network_once(&systems[0]).await.unwrap();
    assert_eq!(bmc.system(&systems[0]).await.unwrap().boot.target.as_deref(), Some("Pxe"));
    for (reset, power) in [(Reset::On, PowerState::On), (Reset::ForceOff, PowerState::Off)] {
        bmc.reset(&systems[0], reset).await.unwrap();
        // It takes effect after a random time of up to eleven seconds.
        reached(&bmc, &systems[0], power).await;
    }
    let absent = bmc.power("00000000-0000-0000-0000-000000000000").await.unwrap_err();
    assert_eq!(absent.class, Class::Gone);
}

async fn reached(bmc: &Redfish, system: &str, power: PowerState) {
    for _ in 0..300 {
        if bmc.power(system).await.unwrap() == power {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the power never became {power:?}");
}
