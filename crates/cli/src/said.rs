//! What a command has said already: evidence is shown once.

/// The evidence that was shown.
#[derive(Debug, Default)]
pub(crate) struct Said(Vec<String>);

impl Said {
    /// Notes what was shown.
    pub(crate) fn note(&mut self, text: &str) {
        self.0.push(text.to_owned());
    }

    /// Returns a text with what was shown before replaced by a pointer to it; short texts are no evidence.
    pub(crate) fn once(&mut self, text: &str) -> String {
        const SHORTEST: usize = 20;
        let evidence = text.split_once(" failed: ").map_or(text, |(_, evidence)| evidence);
        if evidence.len() >= SHORTEST && self.0.iter().any(|known| known.contains(evidence)) {
            return text.replace(evidence, "as above");
        }
        self.note(evidence);
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::Said;

    #[test]
    fn evidence_is_shown_once() {
        let mut said = Said::default();
        said.note("deploy failed 3 times: MAAS answers with status 503");
        assert_eq!(said.once("MAAS answers with status 503"), "as above");
        assert_eq!(said.once("deploy failed: MAAS answers with status 503"), "deploy failed: as above");
        assert_eq!(said.once("the agent does not answer"), "the agent does not answer");
        assert_eq!(said.once("the agent does not answer"), "as above");
        assert_eq!(said.once("<none>"), "<none>");
        assert_eq!(said.once("<none>"), "<none>");
    }
}
