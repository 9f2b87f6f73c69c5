//! Continue tokens: where the next page of a list begins, and at which revision.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use muster_tree::{Text, Tree, tree};

use crate::status::Status;

const TAG: &str = "muster/1";

/// Where a list goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Continue {
    /// The revision of the snapshot; `None` goes on from the newest state, without consistency.
    pub revision: Option<u64>,
    /// The last (namespace, name) that was shown.
    pub after: (Text, Text),
}

impl Continue {
    /// The text for the client.
    pub fn encode(&self) -> Text {
        let revision = self.revision.map_or(-1, |r| i64::try_from(r).unwrap_or(i64::MAX));
        let doc = tree!({"v": TAG, "rv": revision, "ns": &self.after.0, "name": &self.after.1});
        Text::from(BASE64_URL_SAFE_NO_PAD.encode(doc.to_json()))
    }

    /// Reads a client's text.
    pub fn decode(text: &str) -> Result<Continue, Status> {
        Self::read(text)
            .ok_or_else(|| Status::bad_request("invalid continue token: continue key is not valid"))
    }

    fn read(text: &str) -> Option<Continue> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()?;
        let doc = Tree::parse(&bytes).ok()?;
        if doc.str_at(&["v"]) != TAG {
            return None;
        }
        let revision = u64::try_from(doc.int_at(&["rv"])?).ok();
        let after = (doc.get("ns")?.as_text()?.clone(), doc.get("name")?.as_text()?.clone());
        Some(Continue { revision, after })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_as_it_went() {
        for revision in [Some(7), None] {
            let token = Continue { revision, after: ("ns".into(), "a/b".into()) };
            assert_eq!(Continue::decode(&token.encode()).unwrap(), token);
        }
        for bad in ["", "x", "e30", "%%%"] {
            assert_eq!(Continue::decode(bad).unwrap_err().code, 400, "{bad}");
        }
    }
}
