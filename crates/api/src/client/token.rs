//! API tokens.

use reqwest::Method;

use super::{Client, Error, Query};
use crate::{
    Page,
    token::{NewToken, Token, TokenCreate},
};

impl Client {
    /// One page of tokens, without their secrets.
    ///
    /// # Errors
    /// As for every call.
    pub async fn tokens(&self, query: &Query) -> Result<Page<Token>, Error> {
        self.page(&["tokens"], query).await
    }

    /// Creates a token; its secret is only in this answer.
    ///
    /// # Errors
    /// As for every call.
    pub async fn create_token(&self, create: &TokenCreate) -> Result<NewToken, Error> {
        self.change(Method::POST, &["tokens"], create).await
    }

    /// Revokes a token; it is refused from the next request on.
    ///
    /// # Errors
    /// As for every call.
    pub async fn revoke_token(&self, id: &str) -> Result<Token, Error> {
        self.delete(&["tokens", id]).await
    }
}
