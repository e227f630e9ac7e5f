//! Bodies as MAAS wants them: multipart forms, a list being the same name several times.

use std::fmt;

/// A text that is sent and never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The fields of a body.
#[derive(Default)]
pub(crate) struct Form {
    fields: Vec<(String, String)>,
    secrets: Vec<String>,
}

impl Form {
    pub(crate) fn set(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.fields.push((name.to_owned(), value.to_string()));
        self
    }

    /// Sets a field if there is a value; otherwise MAAS uses its default.
    pub(crate) fn maybe(self, name: &str, value: Option<impl fmt::Display>) -> Self {
        match value {
            Some(value) => self.set(name, value),
            None => self,
        }
    }

    pub(crate) fn all<T: fmt::Display>(self, name: &str, values: &[T]) -> Self {
        values.iter().fold(self, |form, value| form.set(name, value))
    }

    pub(crate) fn secret(mut self, name: &str, value: &Secret) -> Self {
        self.secrets.push(value.0.clone());
        self.set(name, &value.0)
    }

    /// Returns the secrets to remove from any text of MAAS.
    pub(crate) fn secrets(&self) -> &[String] {
        &self.secrets
    }

    /// The body between boundaries. The boundary is random, so that no value can contain it.
    pub(crate) fn body(&self, boundary: &str) -> String {
        let mut body = String::new();
        for (name, value) in &self.fields {
            body.push_str(&format!(
                "--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"\r\n\r\n{value}\r\n",
                quoted(name)
            ));
        }
        body.push_str(&format!("--{boundary}--\r\n"));
        body
    }
}

/// Quotes a name; characters that would end the quotes are encoded as browsers do.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_repeats_the_names_of_lists_and_leaves_out_what_is_not_set() {
        let form = Form::default().set("mode", "AUTO").maybe("mtu", None::<u32>).all("macs", &["a", "b"]);
        assert_eq!(
            form.body("X"),
            "--X\r\nContent-Disposition: form-data; name=\"mode\"\r\n\r\nAUTO\r\n\
             --X\r\nContent-Disposition: form-data; name=\"macs\"\r\n\r\na\r\n\
             --X\r\nContent-Disposition: form-data; name=\"macs\"\r\n\r\nb\r\n--X--\r\n"
        );
    }

    #[test]
    fn a_name_cannot_end_its_quotes() {
        let body = Form::default().set("a\"\r\nX: y", "v").body("B");
        assert!(body.contains("name=\"a%22%0D%0AX: y\""), "{body}");
    }
}
