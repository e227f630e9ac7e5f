"""Calls of the published client of Flight Control; any answer that it cannot read raises an error."""

import sys

from flightctl import api as apis, models
from flightctl.api_client import ApiClient
from flightctl.configuration import Configuration
from flightctl.rest import ApiException

root, token, viewer, heard, silent, asking = sys.argv[1:]


def api(secret):
    client = ApiClient(Configuration(host=root))
    client.set_default_header("Authorization", f"Bearer {secret}")
    return client


def refused(status, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except ApiException as error:
        assert error.status == status, error
        assert error.data is None or error.data.code == status, error
        return
    raise AssertionError(f"{call} was not refused")


def names(page):
    return sorted(item.metadata.name for item in page.items)


client = api(token)
devices = apis.DeviceApi(client)
requests = apis.EnrollmentrequestApi(client)
fleets = apis.FleetApi(client)
apis.VersionApi(client).get_version()

# Lists, and what finds what.
assert names(devices.list_devices()) == sorted([heard, silent])
found = devices.list_devices(limit=1)
rest = devices.list_devices(limit=1, var_continue=found.metadata.var_continue)
assert sorted(names(found) + names(rest)) == sorted([heard, silent])
for selector, expected in [
    ("status.summary.status=Unknown", [silent]),
    ("status.summary.status!=Unknown", [heard]),
    ("status.summary.status in (Unknown, Degraded)", [heard, silent]),
    ("status.summary.status in (Online,PoweredOff)", []),
    ("status.updated.status==Unknown", [silent]),
    ("status.applicationsSummary.status notin (Healthy)", [heard, silent]),
    ("status.lifecycle.status=Enrolled,status.summary.status!=Degraded", [silent]),
    ("!metadata.owner", [heard, silent]),
]:
    assert names(devices.list_devices(field_selector=selector)) == sorted(expected), selector
for selector, expected in [
    ("site=berlin", [heard]),
    ("site!=berlin", [silent]),
    ("site in (berlin,paris)", [heard, silent]),
]:
    assert names(devices.list_devices(label_selector=selector)) == sorted(expected), selector
refused(400, devices.list_devices, field_selector="status.summary.status=Offline")

# One device.
device = devices.get_device(heard)
assert device.status.summary.status.value == "Degraded", device.status.summary
assert device.status.resources.memory.value == "Warning"
assert device.status.resources.disk.value == "Unknown"
assert [app.status.value for app in device.status.applications] == ["Running", "Unknown"]
assert [condition.type.value for condition in device.status.conditions] == ["Updating"]
assert devices.get_device_status(silent).status.summary.status.value == "Unknown"
assert devices.get_device_last_seen(heard).last_seen is not None
assert devices.get_device_last_seen_with_http_info(silent).status_code == 204
device.spec = models.DeviceSpec.from_dict({
    "os": {"image": "registry.example/edge:1"},
    "config": [{"name": "motd", "inline": [{"path": "/etc/motd", "content": "hello", "mode": 420}]}],
    "resources": [{"monitorType": "CPU", "samplingInterval": "30s", "alertRules": [
        {"severity": "Warning", "percentage": 80, "duration": "90m", "description": ""}]}],
    "updatePolicy": {"updateSchedule": {"at": "0 2 * * *", "startGraceDuration": "1h"}},
    "applications": [
        {"name": "web", "appType": "container", "image": "web:1", "ports": ["8080:80"],
         "catalogItemRef": {"catalog": "", "item": "", "version": ""}},
        {"name": "stack", "appType": "compose", "image": "", "inline": [{"path": "compose.yaml", "content": "{}"}],
         "catalogItemRef": {"catalog": "", "item": "", "version": ""}},
    ],
})
changed = devices.replace_device(heard, device)
assert changed.metadata.generation == 2, changed.metadata
assert changed.metadata.annotations["device-controller/renderedVersion"] == "1"
again = devices.replace_device(heard, changed)
assert again.metadata.generation == 2, "it came back as it was"
refused(409, devices.replace_device, heard, device)
patch = models.PatchRequestInner(op="replace", path="/spec/os/image", value="registry.example/edge:2")
assert devices.patch_device(heard, [patch]).spec.os.image == "registry.example/edge:2"
refused(403, apis.DeviceApi(api(viewer)).patch_device, heard, [patch])
refused(404, devices.get_device, "nothing")

# Enrolment.
assert names(requests.list_enrollment_requests(field_selector="!status.approval.approved")) == [asking]
assert names(requests.list_enrollment_requests(field_selector="status.approval.approved=true")) == sorted([heard, silent])
assert requests.get_enrollment_request(asking).spec.device_status.resources.memory.value == "Warning"
approval = models.EnrollmentRequestApproval(approved=True, labels={"tier": "gold"})
decided = requests.approve_enrollment_request(asking, approval)
assert decided.approved and decided.approved_by and decided.approved_at
assert "CERTIFICATE" in requests.get_enrollment_request(asking).status.certificate
assert devices.get_device(asking).metadata.labels == {"rack": "r1", "site": "rome", "tier": "gold"}

# Fleets.
fleet = models.Fleet.from_dict({
    "apiVersion": "flightctl.io/v1beta1", "kind": "Fleet", "metadata": {"name": "web"},
    "spec": {
        "selector": {"matchLabels": {"fleet": "web"}},
        "template": {"spec": {"os": {"image": "registry.example/edge:3"}}},
        "rolloutPolicy": {
            "deviceSelection": {"strategy": "BatchSequence", "sequence": [{"limit": "50%", "successThreshold": "60%"}]},
            "successThreshold": "95%", "defaultUpdateTimeout": "30m",
            "disruptionBudget": {"groupBy": ["site"], "maxUnavailable": 1},
        },
    },
})
assert fleets.create_fleet(fleet).metadata.generation == 1
refused(409, fleets.create_fleet, fleet)
made = fleets.get_fleet("web")
assert made.spec.rollout_policy.success_threshold == "95%"
assert {condition.type.value for condition in made.status.conditions} == {"Valid", "RolloutInProgress"}
# Its rollout goes on meanwhile.
made.metadata.resource_version = None
assert fleets.replace_fleet("web", made).metadata.generation == 1, "it came back as it was"
made.spec.template.spec.os.image = "registry.example/edge:4"
assert fleets.replace_fleet("web", made).metadata.generation == 2
assert names(fleets.list_fleets()) == ["web"]
versions = fleets.list_template_versions("web")
assert [version.status.os.image[-1] for version in versions.items] == ["3", "4"]
assert fleets.delete_fleet("web").status == "Success"

# The end.
target = models.DeviceDecommission(target="Unenroll")
assert devices.decommission_device(silent, target).status.lifecycle.status.value == "Decommissioning"
gone = devices.delete_device(silent)
assert (gone.kind, gone.code, gone.status) == ("Status", 200, "Success"), gone
assert requests.delete_enrollment_request(asking).status == "Success"
