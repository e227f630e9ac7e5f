//! The shapes around answers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One object.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Envelope<T> {
    /// Always true; a refusal is a problem, not an envelope.
    pub success: bool,
    /// The object.
    pub data: T,
    /// A message for people.
    pub message: Option<String>,
}

impl<T> Envelope<T> {
    /// An object without words.
    pub fn new(data: T) -> Self {
        Self { success: true, data, message: None }
    }

    /// An object and a message.
    pub fn said(data: T, message: impl Into<String>) -> Self {
        Self { success: true, data, message: Some(message.into()) }
    }
}

/// One page of a list.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// Always true.
    pub success: bool,
    /// The objects, oldest first.
    pub data: Vec<T>,
    /// Give this as `continue` to read the next page; absent on the last one. It never expires.
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none", default)]
    pub next: Option<String>,
}
