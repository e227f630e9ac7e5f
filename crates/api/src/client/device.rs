//! Devices, their enrolment requests and the tokens for those.

use reqwest::Method;
use serde::{Serialize, de::DeserializeOwned};

use super::{Client, Error, Query};
use crate::{
    Envelope, Page,
    device::{
        Decommission, Device, DeviceAction, EnrollmentApproval, EnrollmentRequest, EnrollmentToken,
        EnrollmentTokenCreate, NewEnrollmentToken, ObjectList,
    },
};

impl Client {
    /// One page of devices, in the order of their names.
    ///
    /// # Errors
    /// As for every call.
    pub async fn devices(&self, query: &Query) -> Result<Page<Device>, Error> {
        self.objects(&["devices"], query).await
    }

    /// One device.
    ///
    /// # Errors
    /// As for every call.
    pub async fn device(&self, name: &str) -> Result<Device, Error> {
        self.get(&["devices", name], &[]).await
    }

    /// Replaces labels and spec of a device.
    ///
    /// # Errors
    /// As for every call.
    pub async fn replace_device(
        &self,
        name: &str,
        device: &(impl Serialize + Sync),
    ) -> Result<Device, Error> {
        self.send(Method::PUT, &["devices", name], device).await
    }

    /// Revokes the certificates of a device.
    ///
    /// # Errors
    /// As for every call.
    pub async fn revoke_device(&self, name: &str, action: &DeviceAction) -> Result<Device, Error> {
        self.send(Method::POST, &["devices", name, "revoke"], action).await
    }

    /// Asks the agent of a device to reboot it.
    ///
    /// # Errors
    /// As for every call.
    pub async fn reboot_device(&self, name: &str, action: &DeviceAction) -> Result<Device, Error> {
        self.send(Method::POST, &["devices", name, "actions", "reboot"], action).await
    }

    /// Takes a device out of service for good.
    ///
    /// # Errors
    /// As for every call.
    pub async fn decommission_device(&self, name: &str, asked: &Decommission) -> Result<Device, Error> {
        self.send(Method::PUT, &["devices", name, "decommission"], asked).await
    }

    /// Deletes a device and its enrolment request.
    ///
    /// # Errors
    /// As for every call.
    pub async fn delete_device(&self, name: &str) -> Result<Device, Error> {
        self.remove(&["devices", name]).await
    }

    /// One page of enrolment requests, in the order of their names.
    ///
    /// # Errors
    /// As for every call.
    pub async fn enrollment_requests(&self, query: &Query) -> Result<Page<EnrollmentRequest>, Error> {
        self.objects(&["enrollmentrequests"], query).await
    }

    /// One enrolment request.
    ///
    /// # Errors
    /// As for every call.
    pub async fn enrollment_request(&self, name: &str) -> Result<EnrollmentRequest, Error> {
        self.get(&["enrollmentrequests", name], &[]).await
    }

    /// Approves or denies an enrolment request.
    ///
    /// # Errors
    /// As for every call.
    pub async fn decide_enrollment(
        &self,
        name: &str,
        approval: &EnrollmentApproval,
    ) -> Result<EnrollmentRequest, Error> {
        self.send(Method::PUT, &["enrollmentrequests", name, "approval"], approval).await
    }

    /// Deletes an enrolment request.
    ///
    /// # Errors
    /// As for every call.
    pub async fn delete_enrollment_request(&self, name: &str) -> Result<EnrollmentRequest, Error> {
        self.remove(&["enrollmentrequests", name]).await
    }

    /// One page of enrolment tokens.
    ///
    /// # Errors
    /// As for every call.
    pub async fn enrollment_tokens(&self, query: &Query) -> Result<Page<EnrollmentToken>, Error> {
        self.page(&["enrollmenttokens"], query).await
    }

    /// One enrolment token, without its secret.
    ///
    /// # Errors
    /// As for every call.
    pub async fn enrollment_token(&self, name: &str) -> Result<EnrollmentToken, Error> {
        self.one(&["enrollmenttokens", name]).await
    }

    /// Creates an enrolment token.
    ///
    /// # Errors
    /// As for every call.
    pub async fn create_enrollment_token(
        &self,
        create: &EnrollmentTokenCreate,
    ) -> Result<NewEnrollmentToken, Error> {
        self.send(Method::POST, &["enrollmenttokens"], create).await
    }

    /// Deletes an enrolment token.
    ///
    /// # Errors
    /// As for every call.
    pub async fn delete_enrollment_token(&self, name: &str) -> Result<EnrollmentToken, Error> {
        self.remove::<Envelope<_>>(&["enrollmenttokens", name]).await.map(|answer| answer.data)
    }

    /// One page of a list of objects.
    pub(super) async fn objects<T: DeserializeOwned>(
        &self,
        segments: &[&str],
        query: &Query,
    ) -> Result<Page<T>, Error> {
        let limit = query.limit.map(|limit| limit.to_string());
        let query = [
            ("labelSelector", query.label_selector.as_deref()),
            ("deleted", query.deleted.then_some("true")),
            ("fieldSelector", query.field_selector.as_deref()),
            ("limit", limit.as_deref()),
            ("continue", query.cursor.as_deref()),
        ];
        let ObjectList { metadata, items, .. } = self.get(segments, &query).await?;
        Ok(Page { success: true, data: items, next: metadata.next })
    }

    pub(super) async fn remove<T: DeserializeOwned>(&self, segments: &[&str]) -> Result<T, Error> {
        self.answer(self.http.delete(self.url(segments, &[]))).await
    }
}
