//! The fakes as programs, started as they are built.

#![expect(clippy::unwrap_used, reason = "a panic is how a test says no")]

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use reqwest::{Client, RequestBuilder};
use serde_json::Value;

#[cfg(feature = "kubernetes")]
mod kubernetes;
#[cfg(feature = "maas")]
mod maas;
mod upstreams;

/// A fake that runs, and the URL it printed first.
struct Program {
    child: Child,
    url: String,
    client: Client,
}

impl Drop for Program {
    /// As hard as a machine that loses power.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_wardroom-fakes"))
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, url: line.trim().to_owned(), client: Client::new() }
    }
}

/// The status of an answer and its JSON, or null.
async fn answer(request: RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    (status, serde_json::from_slice(&response.bytes().await.unwrap()).unwrap_or_default())
}
