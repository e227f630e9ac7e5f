"""Ten calls by a client that was generated from the OpenAPI document: generated/calls.py URL TOKEN, beside the package."""

import sys

from client import AuthenticatedClient
from client.api.node import create_node, get_node, list_node, transition, transitions
from client.api.satellite import create_satellite, get_satellite
from client.api.server import list_history, summary, why
from client.api.workflow import create_workflow
from client.models import (
    EnvelopeNode,
    Explained,
    NextCall,
    NextWait,
    NodeCreate,
    Problem,
    SatelliteCreate,
    StateTransition,
    StateTransitionState,
    WorkflowSpec,
)

url, token = sys.argv[1:]
client = AuthenticatedClient(base_url=url, token=token, raise_on_unexpected_status=True)

made = create_workflow.sync(client=client, body=WorkflowSpec(name="debian", kernel="http://boot.example/vmlinuz"))
assert made.data.name == "debian", made
mac = "52:54:00:00:00:01"
node = create_node.sync(client=client, body=NodeCreate(mac_address=mac, workflow_id="debian"))
assert isinstance(node, EnvelopeNode) and node.data.state == "discovered", node
again = create_node.sync(client=client, body=NodeCreate(mac_address=mac))
assert isinstance(again, Problem) and again.code == "mac_taken", again

explained = why.sync("node", node.data.id, client=client)
assert isinstance(explained, Explained), explained
assert isinstance(explained.data[0].next_, NextCall) and explained.data[0].next_.path.endswith("/state"), explained
approved = transition.sync(node.data.id, client=client, body=StateTransition(state=StateTransitionState.PENDING))
assert approved.data.state == "pending", approved
explained = why.sync("node", node.data.id, client=client)
assert isinstance(explained.data[0].next_, NextWait), explained

assert get_node.sync(node.data.id, client=client).data.boot_scripts == 0
page = list_node.sync(client=client, limit="1")
assert [one.id for one in page.data] == [node.data.id], page
moves = transitions.sync(node.data.id, client=client)
assert (moves.total, moves.data[0].to_state) == (1, "pending"), moves
rows = list_history.sync(client=client, limit="1")
assert isinstance(rows.continue_, str) and len(rows.data) == 1, rows
satellite = create_satellite.sync(client=client, body=SatelliteCreate(name="edge"))
assert satellite.token and satellite.data.status == "pending", satellite
assert get_satellite.sync("edge", client=client).data.name == "edge"
assert summary.sync(client=client).data.kinds["node"]["pending"] == 1
