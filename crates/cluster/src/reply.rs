//! What an answer means.

use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;
use muster_api::port::{Object, Part, Refusal};
use muster_tree::Tree;

use crate::gate::Said;

/// How long a server asks to be left alone, in seconds: nobody sends the date that this may also be.
#[must_use]
pub fn patience(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

/// How a server is that answers so. An eviction may have to wait for reasons of its own.
pub(crate) fn of_server(code: u16, asked: Option<Duration>, part: Part) -> Said {
    match (code, asked) {
        (429, _) if part == Part::Eviction => Said::Well,
        (429 | 503, Some(wait)) => Said::Busy(wait),
        (429 | 502 | 503 | 504, _) => Said::Away,
        _ => Said::Well,
    }
}

/// How a server is that answered so when it was asked for a list.
pub(crate) fn of_list<T>(listed: &Result<T, Refusal>) -> Said {
    match listed {
        Err(Refusal::Unknown(_)) => Said::Away,
        Err(Refusal::Busy { retry_after }) => Said::Busy(*retry_after),
        _ => Said::Well,
    }
}

/// The object in an answer, or why there is none.
///
/// # Errors
/// The refusal that the answer is.
pub fn read(code: u16, asked: Option<Duration>, bytes: &[u8]) -> Result<Object, Refusal> {
    let tree = Tree::parse(bytes);
    if !(200..300).contains(&code) {
        return Err(refusal(
            code,
            asked,
            &tree.unwrap_or_else(|_| Tree::from(String::from_utf8_lossy(bytes).as_ref())),
        ));
    }
    let tree = tree.map_err(|e| Refusal::Unknown(format!("the answer cannot be read: {e}")))?;
    Ok(Object::of_wire(&tree))
}

fn refusal(code: u16, asked: Option<Duration>, status: &Tree) -> Refusal {
    let message = match status.str_at(&["message"]) {
        "" => format!("{code}: {}", status.to_json()),
        message => message.to_owned(),
    };
    let wait = status.int_at(&["details", "retryAfterSeconds"]).and_then(|secs| u64::try_from(secs).ok());
    Refusal::of(code, status.str_at(&["reason"]), message, wait.map(Duration::from_secs).or(asked))
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
            assert_eq!(read(code, None, body.as_bytes()), Err(want), "{code}");
        }
        assert!(matches!(read(200, None, b"{"), Err(Refusal::Unknown(_))), "cut off: it may have happened");
    }

    #[test]
    fn what_a_busy_server_asks_for() {
        let secs = Duration::from_secs;
        let told = br#"{"kind":"Status","reason":"TooManyRequests","details":{"retryAfterSeconds":7}}"#;
        let untold = br#"{"kind":"Status","reason":"TooManyRequests"}"#;
        for (header, body, want) in
            [(None, &untold[..], 1), (Some(3), &untold[..], 3), (None, &told[..], 7), (Some(3), &told[..], 7)]
        {
            let busy = Err(Refusal::Busy { retry_after: secs(want) });
            assert_eq!(read(429, header.map(secs), body), busy, "{header:?}");
        }
        for (text, want) in [("5", Some(secs(5))), ("Fri, 31 Dec 1999 23:59:59 GMT", None), ("-1", None)] {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
            assert_eq!(patience(&headers), want, "{text}");
        }
        for (code, part, want) in [
            (429, Part::Main, Said::Busy(secs(2))),
            (429, Part::Eviction, Said::Well),
            (502, Part::Main, Said::Away),
            (500, Part::Main, Said::Well),
            (201, Part::Main, Said::Well),
        ] {
            assert_eq!(of_server(code, Some(secs(2)), part), want, "{code}");
        }
    }

    #[test]
    fn the_revision_stands_beside_the_object() {
        let body = br#"{"metadata":{"name":"a","resourceVersion":"12","managedFields":[{}]},"x":1}"#;
        let object = read(201, None, body).unwrap();
        assert_eq!(object.revision, 12);
        assert_eq!(object.tree.to_json(), r#"{"metadata":{"name":"a"},"x":1}"#);
    }
}
