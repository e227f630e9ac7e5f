//! API tokens.

use reqwest::Method;

use super::{Client, Error, Query};
use crate::{
    Page,
    token::{LoginLink, NewToken, Token, TokenCreate, Whoami},
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

    /// The identity behind the token of this client.
    ///
    /// # Errors
    /// As for every call.
    pub async fn whoami(&self) -> Result<Whoami, Error> {
        self.one(&["whoami"]).await
    }

    /// Makes a link that logs a person in to the console once.
    ///
    /// # Errors
    /// As for every call.
    pub async fn create_login_link(&self) -> Result<LoginLink, Error> {
        self.change(Method::POST, &["login-links"], &()).await
    }
}
