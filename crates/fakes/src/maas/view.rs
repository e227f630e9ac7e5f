//! Answers of MAAS, in the shapes of the recording.

use serde_json::{Map, Value, json};
use wardroom_core::gpu_node::maas::Status;

use super::{
    machine::{Disk, Interface, Machine},
    rules::label,
    world::{Subnet, World},
};

const API: &str = "/MAAS/api/2.0";

/// A machine in full.
pub(super) fn machine(world: &World, id: &str, machine: &Machine) -> Value {
    let mut shown = Map::new();
    for part in [identity(id, machine), state(world, machine), hardware(machine), constant()] {
        if let Value::Object(part) = part {
            shown.extend(part);
        }
    }
    let interfaces: Vec<_> =
        machine.interfaces.iter().map(|interface| self::interface(world, id, interface)).collect();
    let disks: Vec<_> = machine.disks.iter().map(|disk| self::disk(id, machine, disk)).collect();
    let boot = machine.boot_disk.and_then(|boot| machine.disks.iter().position(|disk| disk.id == boot));
    let boot_disk = disks.get(boot.unwrap_or_default()).cloned().unwrap_or_default();
    let linked = machine.interfaces.iter().flat_map(|interface| &interface.links).next();
    let gateway = linked.and_then(|link| world.subnets.iter().find(|subnet| subnet.id == link.subnet));
    let gateway = gateway.map(|subnet| format!("{}.0.1", subnet.prefix));
    shown.extend([
        ("boot_interface".to_owned(), interfaces.first().cloned().unwrap_or_default()),
        ("interface_set".to_owned(), json!(interfaces)),
        ("boot_disk".to_owned(), boot_disk),
        ("blockdevice_set".to_owned(), json!(disks)),
        ("physicalblockdevice_set".to_owned(), json!(disks)),
        (
            "default_gateways".to_owned(),
            json!({
                "ipv4": {"gateway_ip": gateway, "link_id": null},
                "ipv6": {"gateway_ip": null, "link_id": null},
            }),
        ),
    ]);
    Value::Object(shown)
}

fn identity(id: &str, machine: &Machine) -> Value {
    json!({
        "system_id": id,
        "hostname": machine.hostname,
        "fqdn": format!("{}.maas", machine.hostname),
        "description": machine.description,
        "architecture": machine.architecture,
        "power_type": machine.power_type,
        "tag_names": machine.tags,
        "owner": machine.owner,
        "owner_data": machine.owner_data,
        "workload_annotations": machine.owner_data,
        "resource_uri": format!("{API}/machines/{id}/"),
        "pool": {
            "id": 0,
            "name": machine.pool,
            "description": "Default pool",
            "resource_uri": format!("{API}/resourcepool/0/"),
        },
        "zone": zone(&machine.zone),
        "domain": {
            "authoritative": true, "ttl": null, "name": "maas", "resource_record_count": 0, "id": 0,
            "is_default": true, "resource_uri": format!("{API}/domains/0/"),
        },
    })
}

fn state(world: &World, machine: &Machine) -> Value {
    let (commissioning, commissioning_name) = machine.commissioning.shown();
    let (message, action) = machine.events.message();
    let interval = machine.hw_sync.then_some(world.config.sync_interval.as_secs());
    let written = |time: jiff::Timestamp| time.strftime("%Y-%m-%dT%H:%M:%S%.3f").to_string();
    let next = machine.last_sync.and_then(|last| last.checked_add(world.config.sync_interval).ok());
    json!({
        "status": machine.status.code(),
        "status_name": label(machine.status),
        "status_message": message,
        "status_action": action,
        "power_state": machine.power.as_str(),
        "locked": machine.locked,
        "error_description": machine.error_description,
        "osystem": if machine.series.is_some() { "ubuntu" } else { "" },
        "distro_series": machine.series.as_deref().unwrap_or_default(),
        "hwe_kernel": machine.series.as_ref().map(|_| "ga-22.04"),
        "enable_hw_sync": machine.hw_sync,
        "sync_interval": interval,
        "last_sync": machine.last_sync.map(written),
        "next_sync": next.map(written),
        "commissioning_status": commissioning,
        "commissioning_status_name": commissioning_name,
        "current_commissioning_result_id": machine.commissioning_set,
        "current_installation_result_id": machine.installation_set,
        "current_testing_result_id": null,
        "netboot": machine.status != Status::Deployed || world.config.pace.deploying.is_none(),
    })
}

fn hardware(machine: &Machine) -> Value {
    let bytes: u64 = machine.disks.iter().map(|disk| disk.hardware.size).sum();
    #[expect(clippy::cast_precision_loss, reason = "MAAS shows megabytes as a float")]
    let megabytes = bytes as f64 / 1_000_000.0;
    json!({
        "storage": megabytes,
        "hardware_uuid": null,
        "cpu_count": 0,
        "cpu_speed": 0,
        "memory": 0,
        "numanode_set": [{"index": 0, "memory": 0, "cores": [], "hugepages_set": []}],
        "hardware_info": {
            "system_vendor": "Unknown", "system_product": "Unknown", "system_family": "Unknown",
            "system_version": "Unknown", "system_sku": "Unknown", "system_serial": "Unknown",
            "cpu_model": "Unknown", "mainboard_vendor": "Unknown", "mainboard_product": "Unknown",
            "mainboard_serial": "Unknown", "mainboard_version": "Unknown",
            "mainboard_firmware_vendor": "Unknown", "mainboard_firmware_date": "Unknown",
            "mainboard_firmware_version": "Unknown", "chassis_vendor": "Unknown",
            "chassis_type": "Unknown", "chassis_serial": "Unknown", "chassis_version": "Unknown",
        },
    })
}

/// Fields that are the same for every machine.
fn constant() -> Value {
    let mut shown = json!({
        "min_hwe_kernel": "", "disable_ipv4": false, "bios_boot_method": null, "node_type": 0,
        "node_type_name": "Machine", "virtualmachine_id": null, "virtualblockdevice_set": [],
        "address_ttl": null, "pod": null, "ephemeral_deploy": false, "special_filesystems": [],
        "parent": null, "swap_size": null, "bcaches": [], "raids": [], "volume_groups": [],
        "cache_sets": [],
    });
    for test in
        ["testing", "cpu_test", "memory_test", "network_test", "storage_test", "interface_test", "other_test"]
    {
        shown[format!("{test}_status")] = json!(-1);
        shown[format!("{test}_status_name")] = json!("Unknown");
    }
    shown
}

pub(super) fn zone(name: &str) -> Value {
    json!({"id": 1, "name": name, "description": "", "resource_uri": format!("{API}/zones/{name}/")})
}

pub(super) fn interface(world: &World, id: &str, interface: &Interface) -> Value {
    let subnet = |id| world.subnets.iter().find(|subnet| subnet.id == id);
    let links: Vec<_> = interface
        .links
        .iter()
        .map(|link| {
            let mut shown =
                json!({"id": link.id, "mode": link.mode, "subnet": subnet(link.subnet).map(self::subnet)});
            if let Some(address) = &link.address {
                shown["ip_address"] = json!(address);
            }
            shown
        })
        .collect();
    let params = interface.mtu.map_or_else(|| json!({}), |mtu| json!({"mtu": mtu}));
    json!({
        "id": interface.id,
        "name": interface.name,
        "mac_address": interface.mac,
        "type": "physical",
        "system_id": id,
        "links": links,
        "vlan": interface.vlan.and_then(subnet).map(vlan),
        "effective_mtu": interface.mtu.or_else(|| interface.vlan.and_then(subnet).map(|s| s.mtu)).unwrap_or(1500),
        "params": params,
        "tags": [], "discovered": null, "parents": [], "children": [], "enabled": true,
        "link_connected": true, "link_speed": 0, "interface_speed": 0, "sriov_max_vf": 0, "numa_node": 0,
        "vendor": null, "product": null, "firmware_version": null,
        "resource_uri": format!("{API}/nodes/{id}/interfaces/{}/", interface.id),
    })
}

pub(super) fn subnet(subnet: &Subnet) -> Value {
    json!({
        "id": subnet.id,
        "name": subnet.name,
        "description": "",
        "vlan": vlan(subnet),
        "cidr": format!("{}.0.0/16", subnet.prefix),
        "gateway_ip": format!("{}.0.1", subnet.prefix),
        "dns_servers": [], "rdns_mode": 2, "allow_dns": true, "allow_proxy": true,
        "active_discovery": false, "managed": true, "disabled_boot_architectures": [],
        "space": "space-1",
        "resource_uri": format!("{API}/subnets/{}/", subnet.id),
    })
}

fn vlan(subnet: &Subnet) -> Value {
    json!({
        "id": subnet.id, "vid": 0, "mtu": subnet.mtu, "name": "untagged", "fabric": subnet.fabric,
        "fabric_id": subnet.id, "space": "space-1", "dhcp_on": false, "external_dhcp": null,
        "relay_vlan": null, "primary_rack": null, "secondary_rack": null,
        "resource_uri": format!("{API}/vlans/{}/", subnet.id),
    })
}

pub(super) fn disk(id: &str, machine: &Machine, disk: &Disk) -> Value {
    const BLOCK: u64 = 4 << 20;
    const RESERVED: u64 = 6 << 20;
    let free = disk.hardware.size.saturating_sub(RESERVED) / BLOCK * BLOCK;
    let name = &disk.hardware.name;
    let uri = format!("{API}/nodes/{id}/blockdevices/{}/", disk.id);
    // While a release is under way, the file system of the deployment is gone and the planned one is not back.
    let formatted = machine.status != Status::Releasing;
    let partition = disk.partition.map(|number| {
        json!({
            "id": number,
            "uuid": uuid(number, 1),
            "size": free,
            "bootable": false,
            "tags": [],
            "device_id": disk.id,
            "filesystem": formatted.then(|| json!({
                "fstype": "ext4", "label": "root", "uuid": uuid(number, 2),
                "mount_point": "/", "mount_options": null,
            })),
            "used_for": if formatted { "ext4 formatted filesystem mounted at /" } else { "Unused" },
            "path": format!("/dev/disk/by-dname/{name}-part2"),
            "system_id": id,
            "type": "partition",
            "resource_uri": format!("{uri}partition/{number}"),
        })
    });
    let used = partition.is_some();
    json!({
        "id": disk.id,
        "name": name,
        "model": disk.hardware.model,
        "serial": disk.hardware.serial,
        "size": disk.hardware.size,
        "block_size": disk.block_size,
        "used_size": if used { free + RESERVED } else { 0 },
        "available_size": if used { 0 } else { free },
        "used_for": if used { "GPT partitioned with 1 partition" } else { "Unused" },
        "partition_table_type": used.then_some("GPT"),
        "partitions": partition.into_iter().collect::<Vec<_>>(),
        "path": format!("/dev/disk/by-dname/{name}"),
        "system_id": id,
        "type": "physical",
        "id_path": "", "tags": [], "filesystem": null, "storage_pool": null, "numa_node": 0, "uuid": null,
        "firmware_version": null,
        "resource_uri": uri,
    })
}

fn uuid(number: u64, kind: u8) -> String {
    format!("00000000-0000-4000-8{kind:03}-{number:012}")
}
