//! Reads HTTP responses.

use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;
use muster_api::client::{ApiError, ApiObject, Subresource};
use muster_tree::Tree;

use crate::circuit_breaker::ServerHealth;

/// `Retry-After` in seconds; the date form is ignored, no API server sends it.
#[must_use]
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

/// The health of the server by its status code. A 429 to an eviction means a PodDisruptionBudget, not overload.
pub(crate) fn server_health(code: u16, asked: Option<Duration>, part: Subresource) -> ServerHealth {
    match (code, asked) {
        (429, _) if part == Subresource::Eviction => ServerHealth::Healthy,
        (429 | 503, Some(wait)) => ServerHealth::Overloaded(wait),
        (429 | 502 | 503 | 504, _) => ServerHealth::Unreachable,
        _ => ServerHealth::Healthy,
    }
}

/// The health of the server by the result of a list.
pub(crate) fn list_health<T>(listed: &Result<T, ApiError>) -> ServerHealth {
    match listed {
        Err(ApiError::Indeterminate(_)) => ServerHealth::Unreachable,
        Err(ApiError::TooManyRequests { retry_after }) => ServerHealth::Overloaded(*retry_after),
        _ => ServerHealth::Healthy,
    }
}

/// The object in a response.
///
/// # Errors
/// The response is a `Status`, or cannot be parsed.
pub fn read(code: u16, asked: Option<Duration>, bytes: &[u8]) -> Result<ApiObject, ApiError> {
    let tree = Tree::parse(bytes);
    if !(200..300).contains(&code) {
        return Err(error_from_status(
            code,
            asked,
            &tree.unwrap_or_else(|_| Tree::from(String::from_utf8_lossy(bytes).as_ref())),
        ));
    }
    let tree = tree.map_err(|e| ApiError::Indeterminate(format!("the answer cannot be read: {e}")))?;
    Ok(ApiObject::from_wire(&tree))
}

fn error_from_status(code: u16, asked: Option<Duration>, status: &Tree) -> ApiError {
    let message = match status.str_at(&["message"]) {
        "" => format!("{code}: {}", status.to_json()),
        message => message.to_owned(),
    };
    let wait = status.int_at(&["details", "retryAfterSeconds"]).and_then(|secs| u64::try_from(secs).ok());
    ApiError::from_status(code, status.str_at(&["reason"]), message, wait.map(Duration::from_secs).or(asked))
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
            (404, status("NotFound"), ApiError::NotFound(m())),
            (409, status("AlreadyExists"), ApiError::AlreadyExists(m())),
            (409, status("Conflict"), ApiError::Conflict(m())),
            (403, status("Forbidden"), ApiError::Forbidden(m())),
            (422, status("Invalid"), ApiError::Invalid(m())),
            (429, status("TooManyRequests"), ApiError::TooManyRequests { retry_after: second }),
            (500, status("InternalError"), ApiError::Indeterminate(m())),
            (502, "bad gateway".to_owned(), ApiError::Indeterminate("502: \"bad gateway\"".to_owned())),
        ] {
            assert_eq!(read(code, None, body.as_bytes()), Err(want), "{code}");
        }
        assert!(
            matches!(read(200, None, b"{"), Err(ApiError::Indeterminate(_))),
            "cut off: it may have happened"
        );
    }

    #[test]
    fn what_a_busy_server_asks_for() {
        let secs = Duration::from_secs;
        let told = br#"{"kind":"Status","reason":"TooManyRequests","details":{"retryAfterSeconds":7}}"#;
        let untold = br#"{"kind":"Status","reason":"TooManyRequests"}"#;
        for (header, body, want) in
            [(None, &untold[..], 1), (Some(3), &untold[..], 3), (None, &told[..], 7), (Some(3), &told[..], 7)]
        {
            let busy = Err(ApiError::TooManyRequests { retry_after: secs(want) });
            assert_eq!(read(429, header.map(secs), body), busy, "{header:?}");
        }
        for (text, want) in [("5", Some(secs(5))), ("Fri, 31 Dec 1999 23:59:59 GMT", None), ("-1", None)] {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
            assert_eq!(retry_after(&headers), want, "{text}");
        }
        for (code, part, want) in [
            (429, Subresource::Main, ServerHealth::Overloaded(secs(2))),
            (429, Subresource::Eviction, ServerHealth::Healthy),
            (502, Subresource::Main, ServerHealth::Unreachable),
            (500, Subresource::Main, ServerHealth::Healthy),
            (201, Subresource::Main, ServerHealth::Healthy),
        ] {
            assert_eq!(server_health(code, Some(secs(2)), part), want, "{code}");
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
