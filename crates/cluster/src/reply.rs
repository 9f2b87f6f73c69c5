//! What an answer means.

use std::time::Duration;

use muster_api::port::{Object, Refusal};
use muster_tree::Tree;

/// The object in an answer, or why there is none.
///
/// # Errors
/// The refusal that the answer is.
pub fn read(code: u16, bytes: &[u8]) -> Result<Object, Refusal> {
    let tree = Tree::parse(bytes);
    if !(200..300).contains(&code) {
        return Err(refusal(
            code,
            &tree.unwrap_or_else(|_| Tree::from(String::from_utf8_lossy(bytes).as_ref())),
        ));
    }
    let tree = tree.map_err(|e| Refusal::Unknown(format!("the answer cannot be read: {e}")))?;
    Ok(Object::of_wire(&tree))
}

fn refusal(code: u16, status: &Tree) -> Refusal {
    let message = match status.str_at(&["message"]) {
        "" => format!("{code}: {}", status.to_json()),
        message => message.to_owned(),
    };
    let wait = status.int_at(&["details", "retryAfterSeconds"]).and_then(|secs| u64::try_from(secs).ok());
    Refusal::of(code, status.str_at(&["reason"]), message, wait.map(Duration::from_secs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let status = |reason: &str| format!(r#"{{"kind":"Status","reason":"{reason}","message":"m"}}"#);
        let m = || "m".to_owned();
        let second = Duration::from_secs(1);
        for (code, body, want) in [
            (404, status("NotFound"), Refusal::NotFound(m())),
            (409, status("AlreadyExists"), Refusal::AlreadyExists(m())),
            (409, status("Conflict"), Refusal::Conflict(m())),
            (403, status("Forbidden"), Refusal::Forbidden(m())),
            (422, status("Invalid"), Refusal::Invalid(m())),
            (429, status("TooManyRequests"), Refusal::Busy { retry_after: second }),
            (500, status("InternalError"), Refusal::Unknown(m())),
            (502, "bad gateway".to_owned(), Refusal::Unknown("502: \"bad gateway\"".to_owned())),
        ] {
            assert_eq!(read(code, body.as_bytes()), Err(want), "{code}");
        }
        assert!(matches!(read(200, b"{"), Err(Refusal::Unknown(_))), "cut off: it may have happened");
    }

    #[test]
    fn the_revision_stands_beside_the_object() {
        let body = br#"{"metadata":{"name":"a","resourceVersion":"12","managedFields":[{}]},"x":1}"#;
        let object = read(201, body).unwrap();
        assert_eq!(object.revision, 12);
        assert_eq!(object.tree.to_json(), r#"{"metadata":{"name":"a"},"x":1}"#);
    }
}
