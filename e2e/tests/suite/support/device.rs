//! Devices, as they and their operators see them: TLS with a certificate, over connections that are kept.

use std::{fs, sync::OnceLock, time::Duration};

use rcgen::{CertificateParams, KeyPair, PublicKeyData as _};
use reqwest::{Certificate, Client, Identity, Method};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::runtime::Runtime;

use super::{Reply, Site};

/// A device with a key, and with a certificate once it is enrolled.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) key: KeyPair,
    pub(crate) name: String,
    ca: Vec<u8>,
    client: Client,
}

impl Device {
    /// A device that is not enrolled.
    pub(crate) fn new(site: &Site) -> Self {
        let key = KeyPair::generate().unwrap();
        let name = name_of(&key);
        let ca = fs::read(site.data_dir(0).join("device-ca.pem")).unwrap();
        let client = client(&ca, None);
        Self { key, name, ca, client }
    }

    /// A device that was approved, without labels of its own.
    pub(crate) fn enrolled(site: &Site, token: &str) -> Self {
        Self::enrolled_with(site, token, &json!({}))
    }

    /// A device that was approved, with these labels.
    pub(crate) fn enrolled_with(site: &Site, token: &str, labels: &Value) -> Self {
        let mut device = Self::new(site);
        device.ask(site, 0, token, labels).expect(201);
        device.take_certificate(site, token);
        device
    }

    /// A certificate request.
    pub(crate) fn csr(&self) -> String {
        CertificateParams::new(Vec::new()).unwrap().serialize_request(&self.key).unwrap().pem().unwrap()
    }

    /// What it sends to be enrolled.
    pub(crate) fn request(&self, labels: &Value) -> Value {
        json!({"metadata": {"name": self.name}, "spec": {"csr": self.csr(), "labels": labels}})
    }

    /// Asks to be enrolled.
    pub(crate) fn ask(&self, site: &Site, index: usize, token: &str, labels: &Value) -> Reply {
        self.with_token(site, index, token, Method::POST, "enrollmentrequests", Some(&self.request(labels)))
    }

    /// A request with an enrolment token.
    pub(crate) fn with_token(
        &self,
        site: &Site,
        index: usize,
        token: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Reply {
        let client = client(&self.ca, None);
        let mut request = client.request(method, url(site, index, path)).bearer_auth(token);
        if let Some(body) = body {
            request = request.json(body);
        }
        send(request).unwrap()
    }

    /// Reads what became of its request, and uses the certificate from then on.
    pub(crate) fn take_certificate(&mut self, site: &Site, token: &str) {
        let path = format!("enrollmentrequests/{}", self.name);
        let found = self.with_token(site, 0, token, Method::GET, &path, None).expect(200);
        self.use_certificate(found["status"]["certificate"].as_str().expect("it was approved"));
    }

    /// Uses a certificate from then on.
    pub(crate) fn use_certificate(&mut self, pem: &str) {
        self.client = client(&self.ca, Some(&format!("{}{pem}", self.key.serialize_pem())));
    }

    /// The same device over a connection of its own.
    pub(crate) fn connected_anew(&self, pem: &str) -> Client {
        client(&self.ca, Some(&format!("{}{pem}", self.key.serialize_pem())))
    }

    /// A request below its own record, with its certificate.
    pub(crate) fn own(
        &self,
        site: &Site,
        index: usize,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Reply {
        self.of(site, index, method, &self.name, path, body)
    }

    /// A request below the record of a device, with the certificate of this one.
    pub(crate) fn of(
        &self,
        site: &Site,
        index: usize,
        method: Method,
        name: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Reply {
        self.try_of(site, index, method, name, path, body).unwrap()
    }

    /// The same, to a server that may refuse the connection.
    pub(crate) fn try_of(
        &self,
        site: &Site,
        index: usize,
        method: Method,
        name: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Reply, reqwest::Error> {
        let mut request = self.client.request(method, url(site, index, &format!("devices/{name}/{path}")));
        if let Some(body) = body {
            request = request.json(body);
        }
        send(request)
    }

    /// Polls for its spec; `known` is the version that it has.
    pub(crate) fn poll(&self, site: &Site, index: usize, known: Option<&str>) -> Reply {
        let query = known.map(|known| format!("?knownRenderedVersion={known}")).unwrap_or_default();
        self.own(site, index, Method::GET, &format!("rendered{query}"), None)
    }

    /// Reports.
    pub(crate) fn report(&self, site: &Site, index: usize, status: &Value) -> Reply {
        self.own(site, index, Method::PUT, "status", Some(&json!({"status": status})))
    }

    /// The four statuses, as an operator sees them: summary, updated, applications, lifecycle.
    pub(crate) fn statuses(&self, site: &Site) -> [String; 4] {
        statuses(&site.admin().get(&format!("/api/v1/devices/{}", self.name)).expect(200))
    }
}

/// The four statuses of a device in a record.
pub(crate) fn statuses(device: &Value) -> [String; 4] {
    ["summary", "updated", "applicationSummary", "lifecycle"]
        .map(|name| device["status"][name]["status"].as_str().unwrap().to_owned())
}

/// Creates an enrolment token.
pub(crate) fn token(site: &Site, create: &Value) -> String {
    let made = site.admin().post("/api/v1/enrollmenttokens", create).expect(201);
    made["token"].as_str().unwrap().to_owned()
}

/// Creates a token that approves many devices by itself.
pub(crate) fn open_token(site: &Site) -> String {
    token(site, &json!({"name": "open", "uses": 1000, "autoApprove": true}))
}

/// The name of the device with a key.
pub(crate) fn name_of(key: &KeyPair) -> String {
    let digest = Sha256::digest(key.subject_public_key_info());
    let bits: Vec<u8> = digest.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    let digit = |bits: &[u8]| {
        let value = (0..5).fold(0, |sum, at| sum << 1 | u32::from(bits.get(at).copied().unwrap_or(0)));
        char::from_digit(value, 32).unwrap()
    };
    bits.chunks(5).map(digit).collect()
}

fn url(site: &Site, index: usize, path: &str) -> String {
    format!("https://{}/api/v1/{path}", site.servers[index % site.servers.len()].device_address)
}

fn client(ca: &[u8], identity: Option<&str>) -> Client {
    let ca = Certificate::from_pem(ca).unwrap();
    let mut builder = Client::builder().tls_certs_only([ca]).no_proxy().timeout(Duration::from_secs(60));
    if let Some(identity) = identity {
        builder = builder.identity(Identity::from_pem(identity.as_bytes()).unwrap());
    }
    builder.build().unwrap()
}

/// Sends a request, and waits for its answer.
pub(crate) fn send(request: reqwest::RequestBuilder) -> Result<Reply, reqwest::Error> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| Runtime::new().unwrap());
    runtime.block_on(async {
        let response = request.send().await?;
        let status = response.status().as_u16();
        let headers = response.headers().iter();
        let headers =
            headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
        let body = response.bytes().await?.to_vec();
        Ok(Reply { status, headers, body })
    })
}
