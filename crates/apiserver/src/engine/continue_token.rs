//! Continue tokens: start and revision of the next page of a list.

use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use base64::{DecodeError, Engine as _};
use muster_schema::spelled::json_word;
use muster_tree::{Text, Tree, tree};

use crate::status::Status;

const TAG: &str = "muster/1";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContinueToken {
    /// The revision of the snapshot; `None` continues from the newest state, as an inconsistent list.
    pub revision: Option<u64>,
    /// The last (namespace, name) of the page before.
    pub after: (Text, Text),
}

impl ContinueToken {
    pub fn encode(&self) -> Text {
        let revision = self.revision.map_or(-1, |r| i64::try_from(r).unwrap_or(i64::MAX));
        let doc = tree!({"v": TAG, "rv": revision, "ns": &self.after.0, "name": &self.after.1});
        Text::from(BASE64_URL_SAFE_NO_PAD.encode(doc.to_json()))
    }

    /// Decodes a client's token.
    pub fn decode(text: &str) -> Result<ContinueToken, Status> {
        Self::read(text).map_err(|why| {
            Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        })
    }

    fn read(text: &str) -> Result<ContinueToken, String> {
        let text = text.trim_end_matches('=');
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|e| not_base64(text, &e))?;
        let doc = Tree::parse(&bytes).map_err(|e| e.to_string())?;
        if !doc.is_map() {
            let word = json_word(&doc);
            return Err(format!("json: cannot unmarshal {word} into Go value of type storage.continueToken"));
        }
        let version = doc.str_at(&["v"]);
        if version != TAG {
            return Err(format!("server does not recognize this encoded version {version}"));
        }
        let revision = doc
            .int_at(&["rv"])
            .ok_or_else(|| format!("incorrect encoded start resourceVersion (version {TAG})"))?;
        let part = |key: &str| doc.get(key).and_then(Tree::as_text).cloned();
        let after = part("ns").zip(part("name"));
        let after = after.ok_or_else(|| format!("encoded start key empty (version {TAG})"))?;
        Ok(ContinueToken { revision: u64::try_from(revision).ok(), after })
    }
}

/// Go's base64 error. A dangling character counts as illegal itself, where our decoder reports the length.
fn not_base64(text: &str, error: &DecodeError) -> String {
    let at = match error {
        DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => *at,
        DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => text.len().saturating_sub(1),
    };
    format!("illegal base64 data at input byte {at}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_round_trip_and_malformed_ones_are_rejected() {
        for revision in [Some(7), None] {
            let token = ContinueToken { revision, after: ("ns".into(), "a/b".into()) };
            assert_eq!(ContinueToken::decode(&token.encode()).unwrap(), token);
        }
        for (bad, why) in [
            ("x", "illegal base64 data at input byte 0"),
            ("%%%", "illegal base64 data at input byte 0"),
            ("nonsense", "invalid character '\\u009e' looking for beginning of value"),
            ("e30", "server does not recognize this encoded version "),
            ("W10", "json: cannot unmarshal array into Go value of type storage.continueToken"),
        ] {
            let status = ContinueToken::decode(bad).unwrap_err();
            let want = format!("invalid continue token: continue key is not valid: {why}");
            assert_eq!((status.code, status.message), (400, want), "{bad}");
        }
    }
}
