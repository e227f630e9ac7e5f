//! GPU nodes and their agents.

use reqwest::Method;

use super::{Client, Error, Query};
use crate::{
    Page,
    gpu_node::{
        ActionRequest, ActionResult, DecommissionCreate, GpuNode, GpuNodeCreate, GpuNodePatch, Lifecycle,
        NewGpuNode, OnboardingCreate,
        agent::{Beat, ClaimRequest, Claimed, Enroll, Enrolled, Heartbeat, Recorded, TaskResult},
    },
};

impl Client {
    /// One page of GPU nodes, oldest first.
    ///
    /// # Errors
    /// As for every call.
    pub async fn gpu_nodes(&self, query: &Query) -> Result<Page<GpuNode>, Error> {
        self.page(&["gpu-nodes"], query).await
    }

    /// One GPU node.
    ///
    /// # Errors
    /// As for every call.
    pub async fn gpu_node(&self, id: &str) -> Result<GpuNode, Error> {
        self.one(&["gpu-nodes", id]).await
    }

    /// The work behind a node's state.
    ///
    /// # Errors
    /// As for every call.
    pub async fn gpu_node_lifecycle(&self, id: &str) -> Result<Lifecycle, Error> {
        self.one(&["gpu-nodes", id, "lifecycle"]).await
    }

    /// Registers a GPU node.
    ///
    /// # Errors
    /// As for every call.
    pub async fn create_gpu_node(&self, create: &GpuNodeCreate) -> Result<NewGpuNode, Error> {
        self.change(Method::POST, &["gpu-nodes"], create).await
    }

    /// Corrects the data of a GPU node.
    ///
    /// # Errors
    /// As for every call.
    pub async fn patch_gpu_node(&self, id: &str, patch: &GpuNodePatch) -> Result<GpuNode, Error> {
        self.change(Method::PATCH, &["gpu-nodes", id], patch).await
    }

    /// Starts an onboarding.
    ///
    /// # Errors
    /// As for every call.
    pub async fn onboard_gpu_node(&self, id: &str, wanted: &OnboardingCreate) -> Result<NewGpuNode, Error> {
        let path = ["gpu-nodes", id, "onboardings"];
        self.change(Method::POST, &path, wanted).await
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
        self.change(Method::POST, &path, wanted).await
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
        self.change(Method::POST, &["gpu-nodes", id, "actions", action], wanted).await
    }

    /// Exchanges a bootstrap token for the credential of an agent.
    ///
    /// # Errors
    /// As for every call.
    pub async fn enroll_gpu_node(&self, enroll: &Enroll) -> Result<Enrolled, Error> {
        self.tell(&["gpu-nodes", "enroll"], enroll).await
    }

    /// Sends a heartbeat of an agent.
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

    /// Deletes a node that was registered by mistake.
    ///
    /// # Errors
    /// As for every call.
    pub async fn delete_gpu_node(&self, id: &str) -> Result<GpuNode, Error> {
        self.delete(&["gpu-nodes", id]).await
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
