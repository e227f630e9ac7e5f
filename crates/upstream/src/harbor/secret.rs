//! Secrets that the caller chooses.

use reqwest::Method;
use serde_json::json;

use super::Harbor;
use crate::{Failure, Secret};

impl Harbor {
    /// Gives a robot this secret at once; the old one is void, and the robot expires no later than before. It must have 8 to 128
    /// characters, with upper and lower case and digits. Repeating it changes nothing more.
    ///
    /// # Errors
    /// [`Failure::NotFound`] when there is no such robot; else see [`Failure`].
    pub async fn set_secret(&self, id: i64, secret: &Secret) -> Result<(), Failure> {
        let body = json!({"secret": secret.expose()});
        let path = ["robots", &id.to_string()];
        match self.call(Method::PATCH, &path, &[], Some(&body), &[200]).await {
            Ok(_) => Ok(()),
            // Harbor's text may repeat the request.
            Err(Failure::Refused { status, .. }) => {
                Err(Failure::Refused { status, detail: "the secret is not accepted".to_owned() })
            }
            Err(Failure::Failed { status, .. }) => {
                Err(Failure::Failed { status, detail: "the secret was perhaps not set".to_owned() })
            }
            Err(other) => Err(other),
        }
    }
}
