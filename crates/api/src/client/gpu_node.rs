//! GPU nodes, and what their agents say.

use reqwest::Method;

use super::{Client, Error};
use crate::{
    Envelope, Page,
    gpu_node::{
        ActionRequest, ActionResult, DecommissionCreate, GpuNode, GpuNodeCreate, Lifecycle, NewGpuNode,
        OnboardingCreate,
        agent::{Beat, ClaimRequest, Claimed, Enroll, Enrolled, Heartbeat, Recorded, TaskResult},
    },
};

/// Which GPU nodes, and which page of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GpuNodeQuery {
    /// Only in this state.
    pub state: Option<String>,
    /// Labels, e.g. `rack in (a,b),!spare`.
    pub label_selector: Option<String>,
    /// Fields, e.g. `site=berlin,state=active`.
    pub field_selector: Option<String>,
    /// How many at most in the page.
    pub limit: Option<usize>,
    /// The cursor of the page before.
    pub cursor: Option<String>,
}

impl Client {
    /// One page of GPU nodes, oldest first.
    ///
    /// # Errors
    /// As for every call.
    pub async fn gpu_nodes(&self, query: &GpuNodeQuery) -> Result<Page<GpuNode>, Error> {
        let limit = query.limit.map(|limit| limit.to_string());
        let query = [
            ("state", query.state.as_deref()),
            ("labelSelector", query.label_selector.as_deref()),
            ("fieldSelector", query.field_selector.as_deref()),
            ("limit", limit.as_deref()),
            ("continue", query.cursor.as_deref()),
        ];
        self.get(&["gpu-nodes"], &query).await
    }

    /// One GPU node.
    ///
    /// # Errors
    /// As for every call.
    pub async fn gpu_node(&self, id: &str) -> Result<GpuNode, Error> {
        self.get::<Envelope<_>>(&["gpu-nodes", id], &[]).await.map(|answer| answer.data)
    }

    /// The work behind a node's state.
    ///
    /// # Errors
    /// As for every call.
    pub async fn gpu_node_lifecycle(&self, id: &str) -> Result<Lifecycle, Error> {
        self.get::<Envelope<_>>(&["gpu-nodes", id, "lifecycle"], &[]).await.map(|answer| answer.data)
    }

    /// Registers a GPU node.
    ///
    /// # Errors
    /// As for every call.
    pub async fn create_gpu_node(&self, create: &GpuNodeCreate) -> Result<NewGpuNode, Error> {
        self.send::<Envelope<_>>(Method::POST, &["gpu-nodes"], create).await.map(|answer| answer.data)
    }

    /// Starts an onboarding.
    ///
    /// # Errors
    /// As for every call.
    pub async fn onboard_gpu_node(&self, id: &str, wanted: &OnboardingCreate) -> Result<NewGpuNode, Error> {
        let path = ["gpu-nodes", id, "onboardings"];
        self.send::<Envelope<_>>(Method::POST, &path, wanted).await.map(|answer| answer.data)
    }

    /// Starts a decommission.
    ///
    /// # Errors
    /// As for every call.
    pub async fn decommission_gpu_node(
        &self,
        id: &str,
        wanted: &DecommissionCreate,
    ) -> Result<GpuNode, Error> {
        let path = ["gpu-nodes", id, "decommissions"];
        self.send::<Envelope<_>>(Method::POST, &path, wanted).await.map(|answer| answer.data)
    }

    /// Asks something of a node, such as `retire` or `resume`.
    ///
    /// # Errors
    /// As for every call.
    pub async fn act_on_gpu_node(
        &self,
        id: &str,
        action: &str,
        wanted: &ActionRequest,
    ) -> Result<ActionResult, Error> {
        self.send(Method::POST, &["gpu-nodes", id, "actions", action], wanted).await
    }

    /// Exchanges a bootstrap token for the credential of an agent.
    ///
    /// # Errors
    /// As for every call.
    pub async fn enroll_gpu_node(&self, enroll: &Enroll) -> Result<Enrolled, Error> {
        self.tell(&["gpu-nodes", "enroll"], enroll).await
    }

    /// Says that an agent is there.
    ///
    /// # Errors
    /// As for every call.
    pub async fn gpu_node_heartbeat(&self, id: &str, heartbeat: &Heartbeat) -> Result<Beat, Error> {
        self.tell(&["gpu-nodes", id, "heartbeat"], heartbeat).await
    }

    /// Asks for something to do.
    ///
    /// # Errors
    /// As for every call.
    pub async fn claim_gpu_node_task(&self, id: &str, holder: &str) -> Result<Claimed, Error> {
        let request = ClaimRequest { holder: holder.to_owned() };
        self.tell(&["gpu-nodes", id, "tasks", "claim"], &request).await
    }

    /// Reports how a task ended.
    ///
    /// # Errors
    /// As for every call.
    pub async fn report_gpu_node_task(
        &self,
        id: &str,
        task: &str,
        result: &TaskResult,
    ) -> Result<Recorded, Error> {
        self.tell(&["gpu-nodes", id, "tasks", task, "result"], result).await
    }
}
