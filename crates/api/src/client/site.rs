//! Sites.

use reqwest::Method;

use super::{Client, Error, Query};
use crate::{
    Page,
    site::{Site, SiteSpec},
};

impl Client {
    /// One page of sites.
    ///
    /// # Errors
    /// As for every call.
    pub async fn sites(&self, query: &Query) -> Result<Page<Site>, Error> {
        self.page(&["sites"], query).await
    }

    /// One site.
    ///
    /// # Errors
    /// As for every call.
    pub async fn site(&self, name: &str) -> Result<Site, Error> {
        self.one(&["sites", name]).await
    }

    /// Makes a site.
    ///
    /// # Errors
    /// As for every call.
    pub async fn create_site(&self, spec: &SiteSpec) -> Result<Site, Error> {
        self.change(Method::POST, &["sites"], spec).await
    }

    /// Replaces the site of that name. Runs under way use the settings from their start.
    ///
    /// # Errors
    /// As for every call.
    pub async fn replace_site(&self, spec: &SiteSpec) -> Result<Site, Error> {
        self.change(Method::PUT, &["sites", &spec.name], spec).await
    }

    /// Deletes a site that manages no node.
    ///
    /// # Errors
    /// As for every call.
    pub async fn delete_site(&self, name: &str) -> Result<Site, Error> {
        self.delete(&["sites", name]).await
    }
}
