//! What tests of the MAAS client share.

use std::time::Duration;

use wardroom_fakes::maas::{Config, Fake};
use wardroom_upstream::{
    Gate,
    maas::{
        Commission, Deploy, Error, Layout, LayoutKind, LinkMode, Maas, Machine, NewLink, NewMachine,
        PowerDriver, Secret, Settings,
    },
};

pub(crate) async fn start(config: Config) -> Fake {
    Fake::start(config, "127.0.0.1:0".parse().unwrap()).await.unwrap()
}

pub(crate) fn settings(fake: &Fake) -> Settings {
    Settings {
        url: fake.url(),
        key: "consumer:token:secret".parse().unwrap(),
        ca: None,
        timeout: Duration::from_secs(30),
        gate: Gate::open(),
        clock: now,
    }
}

#[expect(clippy::disallowed_methods, reason = "MAAS checks the time of a request")]
fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

pub(crate) fn client(fake: &Fake) -> Maas {
    Maas::new(settings(fake)).unwrap()
}

/// A client that does not wait for long.
pub(crate) fn impatient(fake: &Fake) -> Maas {
    Maas::new(Settings { timeout: Duration::from_millis(300), ..settings(fake) }).unwrap()
}

pub(crate) async fn deploy(maas: &Maas, id: &str) -> Result<Machine, Error> {
    let user_data = Secret("I2Nsb3VkLWNvbmZpZwo=".to_owned());
    let what = Deploy {
        distro_series: "jammy",
        user_data: &user_data,
        enable_hw_sync: true,
        agent_name: "wardroom",
        comment: "run 7",
    };
    maas.deploy(id, &what).await
}

/// Links the boot interface to the first subnet.
pub(crate) async fn wire(maas: &Maas, id: &str) {
    let machine = maas.machine(id).await.unwrap();
    let boot = machine.boot_interface.unwrap();
    let subnet = maas.subnets().await.unwrap().remove(0);
    maas.update_interface(id, boot.id, subnet.vlan.map(|vlan| vlan.id), Some(1500)).await.unwrap();
    let link = NewLink { mode: LinkMode::Auto, subnet: subnet.id, ip_address: None };
    let linked = maas.link_subnet(id, boot.id, link).await.unwrap();
    assert_eq!(linked.links.len(), 1);
    assert_eq!(linked.links[0].mode, "auto");
}

/// A machine taken from nothing to deployed; the fake ends work at once.
pub(crate) async fn onboarded(maas: &Maas) -> String {
    let password = Secret("correct horse".to_owned());
    let new = NewMachine {
        hostname: "gpu-1",
        architecture: "amd64/generic",
        macs: &["52:54:00:00:00:01", "52:54:00:00:00:02"],
        power: PowerDriver::Redfish { address: "10.0.0.9", user: "root", password: &password, node_id: "1" },
        description: "serial 1",
    };
    let id = maas.create(&new).await.unwrap().system_id;
    maas.create_tag("ours", "by the control plane").await.unwrap();
    assert_eq!(maas.tag("ours", &[&id], &[]).await.unwrap().added, 1);
    maas.commission(&id, &Commission::default()).await.unwrap();
    let disks = maas.machine(&id).await.unwrap().block_devices;
    assert_eq!(maas.block_devices(&id).await.unwrap(), disks);
    let boss = disks.iter().find(|disk| disk.model == "DELLBOSS VD").unwrap().id;
    maas.set_boot_disk(&id, boss).await.unwrap();
    maas.set_storage_layout(&id, Layout { kind: LayoutKind::Flat, root_device: boss }).await.unwrap();
    wire(maas, &id).await;
    maas.allocate(&id, "wardroom", "run 7").await.unwrap();
    maas.set_owner_data(&id, &[("run", "7")]).await.unwrap();
    deploy(maas, &id).await.unwrap();
    id
}
